//! Conversion of I/O errors to S3 errors.

use std::io;

use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, StdError, s3_error};

/// Return a function for `map_err` that converts an I/O error to an S3 error.
///
/// The message names the operation, but never a path. A full disk becomes `InsufficientStorage`
/// (507), any other error `InternalError`.
pub fn failed(operation: &'static str) -> impl Fn(io::Error) -> S3Error {
    move |error| {
        let full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let mut answer = S3Error::with_message(
            if full {
                S3ErrorCode::Custom("InsufficientStorage".into())
            } else {
                S3ErrorCode::InternalError
            },
            format!("{operation} failed: {error}"),
        );
        if full {
            answer.set_status_code(StatusCode::INSUFFICIENT_STORAGE);
        }
        answer.set_source(Box::new(error));
        answer
    }
}

/// Convert the error of a request whose body could not be read completely to an S3 error.
///
/// s3s 0.14 keeps the types of these errors private (`AwsChunkedStreamError`, `UploadStreamError`),
/// so they cannot be downcast. They are recognised by the message, which begins with the names of
/// the wrapping layers, then the name of the variant.
pub fn broken_body(error: StdError) -> S3Error {
    let text = error.to_string();
    let own = text.trim_start_matches("AwsChunkedStreamError: Underlying: ");
    let is = |variant: &str| own.starts_with(variant);
    let code = if is("AwsChunkedStreamError: SignatureMismatch") {
        return s3_error!(SignatureDoesNotMatch, "{text}");
    } else if is("UploadStreamError: Sha256Mismatch") {
        S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into())
    } else if is("AwsChunkedStreamError: FormatError")
        || is("AwsChunkedStreamError: ChunkMetaTooLarge")
        || is("AwsChunkedStreamError: TrailersTooLarge")
        || is("AwsChunkedStreamError: TooManyTrailerHeaders")
    {
        S3ErrorCode::InvalidRequest
    } else {
        S3ErrorCode::IncompleteBody
    };
    let mut answer = S3Error::with_message(code, text);
    answer.set_status_code(StatusCode::BAD_REQUEST);
    answer.set_source(error);
    answer
}

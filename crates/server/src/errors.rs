//! What the file system refuses, as S3 errors.

use std::io;

use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, StdError, s3_error};

/// For `map_err`: an internal error that names the operation, never a path.
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
            format!("{operation}: {error}"),
        );
        if full {
            answer.set_status_code(StatusCode::INSUFFICIENT_STORAGE);
        }
        answer.set_source(Box::new(error));
        answer
    }
}

/// Why a request's body could not be read to its end.
///
/// The types of these errors are private to s3s, so that their text has to tell them apart.
pub fn broken_body(error: StdError) -> S3Error {
    let text = error.to_string();
    let code = if text.contains("SignatureMismatch") {
        return s3_error!(SignatureDoesNotMatch, "{text}");
    } else if text.contains("Sha256Mismatch") {
        S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into())
    } else if text.contains("FormatError") || text.contains("TooLarge") {
        S3ErrorCode::InvalidRequest
    } else {
        S3ErrorCode::IncompleteBody
    };
    let mut answer = S3Error::with_message(code, text);
    answer.set_status_code(StatusCode::BAD_REQUEST);
    answer.set_source(error);
    answer
}

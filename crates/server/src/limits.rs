//! What is not read at all.

use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Result, s3_error};

/// Orders in XML have at most this many bytes: 1,000 keys of 1,024 bytes, however they are escaped,
/// have 6 MB. s3s would answer what is larger as an error of its own.
pub const ORDER_BYTES: usize = 20 << 20;

/// Whom and what the server listens to: signed requests of a bounded size.
pub struct Limits;

#[async_trait::async_trait]
impl S3Access for Limits {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        if request.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "sign the request"));
        }
        if matches!(request.s3_op().name(), "PutObject" | "UploadPart") {
            return Ok(());
        }
        let headers = request.headers();
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        match length.map(str::parse::<usize>) {
            Some(Ok(length)) if length <= ORDER_BYTES => Ok(()),
            Some(_) => Err(s3_error!(
                MaxMessageLengthExceeded,
                "an order may have {ORDER_BYTES} bytes; split it"
            )),
            None if headers.contains_key(TRANSFER_ENCODING) => {
                Err(s3_error!(MissingContentLength, "say how long the order is"))
            }
            None => Ok(()),
        }
    }
}

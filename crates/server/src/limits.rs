//! Checks before a request is processed: signature, conditions and size.

use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, IF_MATCH, IF_NONE_MATCH, TRANSFER_ENCODING};
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Result, s3_error};

/// Maximum size in bytes of XML request bodies. 1,000 keys of 1,024 bytes take up to 6 MB with
/// escapes. For larger bodies, s3s would answer with a misleading error.
pub const ORDER_BYTES: usize = 20 << 20;

/// Access check for every request. It rejects requests that are unsigned, requests with conditions
/// that the operation does not support, and XML bodies that are too large.
pub struct Limits;

#[async_trait::async_trait]
impl S3Access for Limits {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        if request.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "the request is not signed"));
        }
        let (operation, headers) = (request.s3_op().name(), request.headers());
        if !headers.contains_key(AUTHORIZATION) {
            return Err(s3_error!(NotImplemented, "presigned URLs are not supported"));
        }
        let writes_on_condition = ["CompleteMultipartUpload", "DeleteObject"].contains(&operation)
            && [IF_MATCH, IF_NONE_MATCH].iter().any(|name| headers.contains_key(name));
        if writes_on_condition {
            return Err(s3_error!(
                NotImplemented,
                "If-Match and If-None-Match are supported by PUTs only"
            ));
        }
        if ["PutObject", "UploadPart"].contains(&operation) {
            return Ok(());
        }
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        match length.map(str::parse::<usize>) {
            Some(Ok(length)) if length <= ORDER_BYTES => Ok(()),
            Some(_) => Err(s3_error!(
                MaxMessageLengthExceeded,
                "the request body may have at most {ORDER_BYTES} bytes; send several requests"
            )),
            None if headers.contains_key(TRANSFER_ENCODING) => {
                Err(s3_error!(MissingContentLength, "the request has no Content-Length"))
            }
            None => Ok(()),
        }
    }
}

//! Access checks before a request is processed: signature, size and validity of presigned URLs.

use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

/// Maximum size of XML request bodies: 1,000 keys of 1,024 bytes take up to 6 MB with escapes. For
/// larger bodies, s3s would answer with a misleading error.
pub const ORDER_BYTES: usize = 20 << 20;

/// Maximum validity of a presigned URL in seconds: one week, as in S3.
const LONGEST_VALIDITY_S: u32 = 604_800;

/// Check that a presigned URL is valid for at most a week; s3s accepts any validity.
///
/// # Errors
/// `AuthorizationQueryParametersError` if it is valid for longer.
pub fn check_validity(uri: &Uri) -> S3Result<()> {
    let is = |text: &str, name: &str| percent_decode_str(text).eq(name.bytes());
    let seconds = |pair: &str| -> Option<u32> {
        let (name, value) = pair.split_once('=')?;
        let value = is(name, "X-Amz-Expires").then(|| percent_decode_str(value).decode_utf8())?;
        value.ok()?.parse().ok()
    };
    let pairs = uri.query().unwrap_or_default().split('&');
    if pairs.filter_map(seconds).all(|valid_s| valid_s <= LONGEST_VALIDITY_S) {
        return Ok(());
    }
    let mut refused = S3Error::with_message(
        S3ErrorCode::Custom("AuthorizationQueryParametersError".into()),
        format!("X-Amz-Expires is at most {LONGEST_VALIDITY_S} seconds, which is one week"),
    );
    refused.set_status_code(StatusCode::BAD_REQUEST);
    Err(refused)
}

/// Access check that accepts only signed requests of a bounded size.
pub struct Limits;

#[async_trait::async_trait]
impl S3Access for Limits {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        if request.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "sign the request"));
        }
        check_validity(request.uri())?;
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

//! The XML of S3: what a store answers, and the two bodies that are sent. Anything that is not what
//! S3 says is a [`Failure::Protocol`].

use bytes::Bytes;

use crate::s3::failure::Failure;

/// One key of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Whole, with its prefix.
    pub key: String,
    /// Bytes.
    pub size: u64,
}

/// One page of `ListObjectsV2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the order of the store.
    pub objects: Vec<Listed>,
    /// With a delimiter: what was rolled up.
    pub common_prefixes: Vec<String>,
    /// `continuation-token` of the next page; None: this was the last.
    pub next: Option<String>,
}

/// An `Error` body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBody {
    /// S3's word.
    pub code: Option<String>,
    /// For people.
    pub message: String,
    /// Where the bucket is, if the store says so.
    pub region: Option<String>,
}

/// One key that a multi-delete did not delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotDeleted {
    /// Which.
    pub key: String,
    /// S3's word.
    pub code: String,
    /// For people.
    pub message: String,
}

/// One upload of `ListMultipartUploads` that was begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Of the object to be.
    pub key: String,
    /// To abort it with.
    pub upload_id: String,
}

/// Of a `ListObjectsV2` answer.
///
/// # Errors
/// Protocol.
pub fn list(body: &[u8]) -> Result<Page, Failure> {
    let _ = body;
    todo!()
}

/// Of an answer with an error status; whatever it is, something can be said.
pub fn error(body: &[u8]) -> ErrorBody {
    let _ = body;
    todo!()
}

/// UploadId of an `InitiateMultipartUpload` answer.
///
/// # Errors
/// Protocol.
pub fn upload_id(body: &[u8]) -> Result<String, Failure> {
    let _ = body;
    todo!()
}

/// Of a `CompleteMultipartUpload` answer with status 200, which may still be an error.
///
/// # Errors
/// Http with status 200 and the code; Protocol.
pub fn completed(body: &[u8]) -> Result<(), Failure> {
    let _ = body;
    todo!()
}

/// Of a multi-delete's answer: what was not deleted.
///
/// # Errors
/// Protocol.
pub fn not_deleted(body: &[u8]) -> Result<Vec<NotDeleted>, Failure> {
    let _ = body;
    todo!()
}

/// Of a `ListMultipartUploads` answer (its first page).
///
/// # Errors
/// Protocol.
pub fn uploads(body: &[u8]) -> Result<Vec<Upload>, Failure> {
    let _ = body;
    todo!()
}

/// Body of `CompleteMultipartUpload`: part numbers (from 1, rising) and the ETags as they came.
pub fn complete_body(parts: &[(u32, &str)]) -> Bytes {
    let _ = parts;
    todo!()
}

/// Body of a quiet multi-delete. Send it with [`crate::s3::content_md5`] in `content-md5` and its
/// [`crate::s3::sha256`] as payload hash: some stores insist on one of the two.
pub fn delete_body<'a>(keys: impl IntoIterator<Item = &'a str>) -> Bytes {
    let _ = keys.into_iter().count();
    todo!()
}

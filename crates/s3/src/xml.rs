//! XML of the S3 protocol: parsers of answers, and the two request bodies that are XML.
//!
//! Any answer that does not follow the S3 schema is a [`Failure::Protocol`].

use bytes::Bytes;
use quick_xml::Reader;
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::Event;

use crate::checksum::crc32_base64;
use crate::failure::Failure;
use crate::uri;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
/// Length in characters to which error messages of the store are cut.
const MESSAGE_CHARS: usize = 200;
/// Maximum length in bytes of an error code. No code of S3 is longer.
const CODE_BYTES: usize = 64;

/// Object in a listing of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Full key, including the prefix.
    pub key: String,
    /// Size of the object in bytes.
    pub size: u64,
}

/// Page of the answer to `ListObjectsV2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects of the page, in the store's order.
    pub objects: Vec<Listed>,
    /// Common prefixes of the page. Empty unless the request has a delimiter.
    pub common_prefixes: Vec<String>,
    /// Value of `continuation-token` for the next page; None on the last page.
    pub next: Option<String>,
}

impl Page {
    /// Drop objects whose key does not begin with the requested `prefix`.
    ///
    /// This protects other users' objects from clean-up if a store ignores the prefix.
    #[must_use]
    pub fn below(mut self, prefix: &str) -> Self {
        self.objects.retain(|object| object.key.starts_with(prefix));
        self
    }
}

/// Content of an `Error` answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBody {
    /// S3 error code.
    pub code: Option<String>,
    /// Error message of the store; may be empty.
    pub message: String,
    /// Region of the bucket, if the answer contains it.
    pub region: Option<String>,
}

/// Object that a multi-delete could not delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotDeleted {
    /// Key of the object.
    pub key: String,
    /// S3 error code.
    pub code: String,
    /// Error message of the store.
    pub message: String,
}

/// Unfinished multipart upload, as `ListMultipartUploads` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Key of the object that the upload creates.
    pub key: String,
    /// ID of the upload, needed to abort it.
    pub upload_id: String,
}

/// Page of the answer to `ListMultipartUploads`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadPage {
    /// Uploads of the page, in the store's order.
    pub uploads: Vec<Upload>,
    /// Values of `key-marker` and `upload-id-marker` for the next page; None on the last page.
    pub next: Option<(String, String)>,
}

impl UploadPage {
    /// Drop uploads whose key does not begin with the requested `prefix`.
    #[must_use]
    pub fn below(mut self, prefix: &str) -> Self {
        self.uploads.retain(|upload| upload.key.starts_with(prefix));
        self
    }
}

/// Parse an answer to `ListObjectsV2`.
///
/// # Errors
/// [`Failure::Protocol`] if the body is not a valid answer.
pub fn list(body: &[u8]) -> Result<Page, Failure> {
    let mut page = Page::default();
    let (mut key, mut size) = (None, None);
    let (mut truncated, mut encoded) = (false, false);
    walk(body, "ListBucketResult", |path, text| {
        match path {
            "Contents/Key" => key = Some(text.to_owned()),
            "Contents/Size" => size = Some(number(text)?),
            "Contents" => {
                let key = key.take().ok_or_else(|| wrong("an object without a key"))?;
                let size = size.take().ok_or_else(|| wrong("an object without a size"))?;
                page.objects.push(Listed { key, size });
            }
            "CommonPrefixes/Prefix" => page.common_prefixes.push(text.to_owned()),
            "NextContinuationToken" => page.next = Some(text.to_owned()),
            "IsTruncated" => truncated = text == "true",
            "EncodingType" => encoded = text == "url",
            _ => {}
        }
        Ok(())
    })?;
    if encoded {
        let keys = page.objects.iter_mut().map(|object| &mut object.key);
        decode(keys.chain(&mut page.common_prefixes))?;
    }
    if truncated && page.next.is_none() {
        return Err(wrong("a truncated listing without a token for the next page"));
    }
    page.next = page.next.filter(|_| truncated);
    Ok(page)
}

fn decode<'k>(mut keys: impl Iterator<Item = &'k mut String>) -> Result<(), Failure> {
    keys.try_for_each(|key| {
        *key = uri::decode(key).ok_or_else(|| wrong("a key that is not URL-encoded"))?;
        Ok(())
    })
}

/// Parse the body of an answer with an error status. Never fails: a body that is not XML becomes
/// the error message.
pub fn error(body: &[u8]) -> ErrorBody {
    let mut error = ErrorBody::default();
    let read = walk(body, "Error", |path, text| {
        match path {
            "Code" => error.code = Some(text.to_owned()),
            "Message" => error.message = text.to_owned(),
            "Region" => error.region = Some(text.to_owned()),
            _ => {}
        }
        Ok(())
    });
    if read.is_err() && error == ErrorBody::default() {
        error.message = String::from_utf8_lossy(body).trim().to_owned();
    }
    error.message = cut(&error.message);
    error.code = error.code.filter(|code| is_code(code));
    error
}

fn cut(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS).collect()
}

/// Return whether the text can be an error code. Failures are counted by code, so free text that a
/// store sends as code must be rejected.
fn is_code(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=CODE_BYTES).contains(&text.len()) && text.bytes().all(is_part)
}

/// Parse the upload ID from the answer to `CreateMultipartUpload`.
///
/// # Errors
/// [`Failure::Protocol`] if the body is not a valid answer or has no upload ID.
pub fn upload_id(body: &[u8]) -> Result<String, Failure> {
    let mut upload = None;
    walk(body, "InitiateMultipartUploadResult", |path, text| {
        if path == "UploadId" {
            upload = Some(text.to_owned());
        }
        Ok(())
    })?;
    upload.filter(|id| !id.is_empty()).ok_or_else(|| wrong("no UploadId"))
}

/// Check an answer to `CompleteMultipartUpload` with status 200, because its body may still contain
/// an error.
///
/// # Errors
/// [`Failure::Http`] with status 200 and the error code if the body is an `Error`;
/// [`Failure::Protocol`] if the body is not a valid answer.
pub fn completed(body: &[u8]) -> Result<(), Failure> {
    let Err(other) = walk(body, "CompleteMultipartUploadResult", |_, _| Ok(())) else {
        return Ok(());
    };
    Err(refused(body).err().unwrap_or(other))
}

/// Check the body of an answer with status 200 for an error, because some stores send the status
/// before they find that the operation fails.
///
/// # Errors
/// [`Failure::Http`] with status 200 and the error code if the body is an `Error` with a code.
pub fn refused(body: &[u8]) -> Result<(), Failure> {
    if body.is_empty() || walk(body, "Error", |_, _| Ok(())).is_err() {
        return Ok(());
    }
    let ErrorBody { code, message, .. } = error(body);
    match code {
        None => Ok(()),
        code => Err(Failure::Http { status: 200, code, message }),
    }
}

/// Parse the answer to a multi-delete. Returns the objects that were not deleted.
///
/// # Errors
/// [`Failure::Protocol`] if the body is not a valid answer.
pub fn not_deleted(body: &[u8]) -> Result<Vec<NotDeleted>, Failure> {
    let mut refused = Vec::new();
    let nothing = || NotDeleted { key: String::new(), code: String::new(), message: String::new() };
    let mut next = nothing();
    walk(body, "DeleteResult", |path, text| {
        match path {
            "Error/Key" => next.key = text.to_owned(),
            "Error/Code" if is_code(text) => next.code = text.to_owned(),
            "Error/Message" => next.message = cut(text),
            "Error" => refused.push(std::mem::replace(&mut next, nothing())),
            _ => {}
        }
        Ok(())
    })?;
    Ok(refused)
}

/// Check that a listing advances: with a store that ignores the continuation token, the listing
/// would never end.
///
/// # Errors
/// [`Failure::Protocol`] if the token `next` equals the token `after` of the page just read.
pub fn goes_on<T: PartialEq + ?Sized>(after: Option<&T>, next: Option<&T>) -> Result<(), Failure> {
    if next.is_some() && next == after {
        return Err(wrong("a listing that repeats a page without end"));
    }
    Ok(())
}

/// Return the query parameters of `ListMultipartUploads` for the page that follows `after` (key and
/// upload ID).
pub fn uploads_query<'q>(
    prefix: &'q str,
    after: Option<&'q (String, String)>,
) -> Vec<(&'static str, &'q str)> {
    let mut query = vec![("uploads", ""), ("prefix", prefix), ("encoding-type", "url")];
    if let Some((key, upload_id)) = after {
        query.push(("key-marker", key));
        query.extend((!upload_id.is_empty()).then_some(("upload-id-marker", upload_id.as_str())));
    }
    query
}

/// Parse an answer to `ListMultipartUploads`.
///
/// # Errors
/// [`Failure::Protocol`] if the body is not a valid answer.
pub fn uploads(body: &[u8]) -> Result<UploadPage, Failure> {
    let mut page = UploadPage::default();
    let (mut key, mut upload_id) = (None, None);
    let (mut next_key, mut next_id) = (String::new(), String::new());
    let (mut truncated, mut encoded) = (false, false);
    walk(body, "ListMultipartUploadsResult", |path, text| {
        match path {
            "Upload/Key" => key = Some(text.to_owned()),
            "Upload/UploadId" => upload_id = Some(text.to_owned()),
            "Upload" => {
                let key = key.take().ok_or_else(|| wrong("an upload without a key"))?;
                let id = upload_id.take().ok_or_else(|| wrong("an upload without an id"))?;
                page.uploads.push(Upload { key, upload_id: id });
            }
            "NextKeyMarker" => text.clone_into(&mut next_key),
            "NextUploadIdMarker" => text.clone_into(&mut next_id),
            "IsTruncated" => truncated = text == "true",
            "EncodingType" => encoded = text == "url",
            _ => {}
        }
        Ok(())
    })?;
    if encoded {
        let keys = page.uploads.iter_mut().map(|upload| &mut upload.key);
        decode(keys.chain([&mut next_key]))?;
    }
    if truncated && next_key.is_empty() && next_id.is_empty() {
        return Err(wrong("a truncated listing of uploads without a marker for the next page"));
    }
    page.next = truncated.then_some((next_key, next_id));
    Ok(page)
}

/// Build the body of `CompleteMultipartUpload`.
///
/// `parts` are, in ascending order, the part's number (from 1), its ETag as received, and its CRC32
/// if it was sent with one. AWS requires the CRC32 if the upload was created with
/// `x-amz-checksum-algorithm: CRC32`.
pub(crate) fn complete<'a>(parts: impl Iterator<Item = (u32, &'a str, Option<u32>)>) -> Bytes {
    let mut out = format!("<CompleteMultipartUpload xmlns=\"{NAMESPACE}\">");
    for (number, etag, crc32) in parts {
        out.push_str("<Part>");
        push_element(&mut out, "PartNumber", &number.to_string());
        push_element(&mut out, "ETag", etag);
        if let Some(crc32) = crc32 {
            push_element(&mut out, "ChecksumCRC32", &crc32_base64(crc32));
        }
        out.push_str("</Part>");
    }
    out.push_str("</CompleteMultipartUpload>");
    out.into()
}

/// Build the body of a multi-delete in quiet mode, in which the answer lists only failures.
///
/// Send it with [`crate::content_md5`] as `content-md5` and [`crate::sha256`] as payload hash: some
/// stores require one of the two.
pub fn delete_body<'a>(keys: impl IntoIterator<Item = &'a str>) -> Bytes {
    let mut out = format!("<Delete xmlns=\"{NAMESPACE}\">");
    for key in keys {
        out.push_str("<Object>");
        push_element(&mut out, "Key", key);
        out.push_str("</Object>");
    }
    out.push_str("<Quiet>true</Quiet></Delete>");
    out.into()
}

fn push_element(into: &mut String, name: &str, text: &str) {
    for piece in ["<", name, ">", &escape(text), "</", name, ">"] {
        into.push_str(piece);
    }
}

/// Call `at` at the end of each XML element below the root element. It gets the element's path
/// below the root and, if the element has no children, its text.
fn walk(
    body: &[u8],
    root: &str,
    mut at: impl FnMut(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let text = std::str::from_utf8(body).map_err(|_| wrong("not UTF-8"))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let mut place = Position::default();
    loop {
        match reader.read_event().map_err(|e| wrong(&e.to_string()))? {
            Event::Start(start) => place.enter(start.local_name().as_ref(), root)?,
            Event::End(_) => {
                let path = place.path();
                if !path.is_empty() {
                    at(path, &place.text)?;
                }
                place.leave();
            }
            Event::Text(piece) => place.text.push_str(&piece.xml10_content()),
            Event::CData(piece) => place.text.push_str(&piece.xml10_content()),
            Event::GeneralRef(name) => place.text.push_str(&meant(&name)?),
            Event::Eof => break,
            Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Comment(_) => {}
            Event::Empty(_) => return Err(wrong("an empty element")),
        }
    }
    if place.depth > 0 || !place.seen {
        return Err(wrong("the XML is incomplete"));
    }
    Ok(())
}

/// Position of [`walk`] in the document.
#[derive(Default)]
struct Position {
    /// Names of the open elements below the root, without namespace, each preceded by a slash.
    names: String,
    depth: usize,
    seen: bool,
    text: String,
}

impl Position {
    fn enter(&mut self, name: &str, root: &str) -> Result<(), Failure> {
        if self.depth == 0 {
            if self.seen || name != root {
                return Err(wrong(&format!("XML root {name} instead of a single {root}")));
            }
            self.seen = true;
        } else {
            self.names.push('/');
            self.names.push_str(name);
        }
        self.depth += 1;
        self.text.clear();
        Ok(())
    }

    fn path(&self) -> &str {
        self.names.get(1..).unwrap_or_default()
    }

    fn leave(&mut self) {
        self.names.truncate(self.names.rfind('/').unwrap_or(0));
        self.depth = self.depth.saturating_sub(1);
        self.text.clear();
    }
}

/// Return the text that a character or entity reference stands for.
fn meant(name: &quick_xml::events::BytesRef<'_>) -> Result<String, Failure> {
    if let Some(character) = name.resolve_char_ref().map_err(|e| wrong(&e.to_string()))? {
        return Ok(character.to_string());
    }
    let known = resolve_predefined_entity(&name.xml10_content());
    known.map(str::to_owned).ok_or_else(|| wrong("an unknown entity"))
}

fn number(text: &str) -> Result<u64, Failure> {
    text.trim().parse().map_err(|_| wrong("a size that is not a number"))
}

fn wrong(what: &str) -> Failure {
    Failure::Protocol(format!("unexpected answer: {what}"))
}

#[cfg(test)]
mod tests;

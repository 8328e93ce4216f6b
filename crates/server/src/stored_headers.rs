//! Headers that are stored with an object and returned with it: content type, encoding, user
//! metadata.
//!
//! They are stored in an extended attribute of the object's file, so that headers and content
//! change atomically.

use std::fs::File;
use std::io;

use hyper::HeaderMap;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES,
    HeaderName, HeaderValue,
};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;
use s3s::{S3Result, s3_error};

use crate::errors::failed;

const ATTRIBUTE: &str = "user.storlab.headers";
const METADATA: &str = "x-amz-meta-";
/// Maximum size in bytes of the names and values of an object's user metadata, as in S3.
const METADATA_BYTES: usize = 2048;
/// Maximum size in bytes of an extended attribute in Linux.
const LARGEST: usize = 64 * 1024;
/// Headers that are stored in addition to user metadata.
const HEADERS: [HeaderName; 6] =
    [CONTENT_TYPE, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, EXPIRES];

/// Headers stored with an object, as the client sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredHeaders(pub HeaderMap);

impl StoredHeaders {
    /// Select the headers to store from a request that creates an object.
    ///
    /// # Errors
    /// `MetadataTooLarge` if the user metadata exceeds S3's limit.
    pub fn of(request: &HeaderMap) -> S3Result<Self> {
        let mut kept = HeaderMap::new();
        let mut bytes = 0;
        for (name, value) in request {
            let metadata = name.as_str().strip_prefix(METADATA);
            bytes += metadata.map_or(0, |name| name.len() + value.len());
            if metadata.is_some() || HEADERS.contains(name) {
                kept.append(name, value.clone());
            }
        }
        if bytes > METADATA_BYTES {
            return Err(s3_error!(
                MetadataTooLarge,
                "the user metadata is {bytes} bytes long; {METADATA_BYTES} are allowed"
            ));
        }
        if let Some(encoding) = kept.remove(CONTENT_ENCODING).and_then(|value| stored(&value)) {
            kept.insert(CONTENT_ENCODING, encoding);
        }
        Ok(Self(kept))
    }

    /// Read the headers stored with an object's file. Empty if it has none.
    pub fn read(file: &File) -> S3Result<Self> {
        let mut short = [0; 1024];
        match fgetxattr(file, ATTRIBUTE, &mut short[..]) {
            Ok(length) => Ok(Self::parse(&short[..length])),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Self::default()),
            Err(Errno::RANGE) => {
                let mut long = vec![0; LARGEST];
                let length = fgetxattr(file, ATTRIBUTE, &mut long[..])
                    .map_err(|errno| failed("read of an object's headers")(errno.into()))?;
                Ok(Self::parse(&long[..length]))
            }
            Err(errno) => Err(failed("read of an object's headers")(errno.into())),
        }
    }

    /// Store the headers with an object's new file.
    ///
    /// # Errors
    /// `MetadataTooLarge` if the file system's limit is exceeded; `NotImplemented` if the file
    /// system has no extended attributes, unless the content type is the only header.
    pub fn write(&self, file: &File) -> S3Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        match fsetxattr(file, ATTRIBUTE, &self.text(), XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) if self.0.keys().all(|name| name == CONTENT_TYPE) => Ok(()),
            Err(Errno::OPNOTSUPP) => Err(s3_error!(
                NotImplemented,
                "the server's file system cannot store metadata: it has no extended attributes"
            )),
            Err(Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => Err(s3_error!(
                MetadataTooLarge,
                "the headers are too long for an extended attribute of the server's file system"
            )),
            Err(errno) => Err(failed("write of an object's headers")(io::Error::from(errno))),
        }
    }

    /// Write the headers as text, one per line.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            text.extend_from_slice(name.as_str().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
            text.push(b'\n');
        }
        text
    }

    /// Parse text written by [`StoredHeaders::text`]. Invalid lines are skipped.
    pub fn parse(text: &[u8]) -> Self {
        let mut kept = HeaderMap::new();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let name = HeaderName::from_bytes(&line[..colon]);
            let value = HeaderValue::from_bytes(&line[colon + 1..]);
            if let (Ok(name), Ok(value)) = (name, value) {
                kept.append(name, value);
            }
        }
        Self(kept)
    }
}

/// Return the content encoding without `aws-chunked`, which describes only the transfer; None if
/// nothing is left.
fn stored(encoding: &HeaderValue) -> Option<HeaderValue> {
    let Ok(text) = encoding.to_str() else { return Some(encoding.clone()) };
    let kept: Vec<&str> = text.split(',').map(str::trim).filter(|e| *e != "aws-chunked").collect();
    HeaderValue::try_from(kept.join(",")).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_back_what_it_was_given() {
        let file = tempfile::tempfile_in(".").expect("a file");
        assert_eq!(StoredHeaders::read(&file).expect("read"), StoredHeaders::default());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let long = HeaderValue::try_from("x".repeat(2000)).expect("a value");
        headers.insert("x-amz-meta-long", long);
        headers.insert("x-amz-meta-empty", HeaderValue::from_static(""));
        headers.insert("host", HeaderValue::from_static("of the connection"));
        let kept = StoredHeaders::of(&headers).expect("allowed");
        assert_eq!(kept.0.len(), 3);
        kept.write(&file).expect("written");
        assert_eq!(StoredHeaders::read(&file).expect("read"), kept);
    }

    #[test]
    fn how_it_was_sent_is_not_how_it_is_encoded() {
        for (sent, there) in [
            ("aws-chunked", None),
            ("gzip", Some("gzip")),
            ("aws-chunked,gzip", Some("gzip")),
            ("gzip, aws-chunked", Some("gzip")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(sent));
            let kept = StoredHeaders::of(&headers).expect("allowed");
            let encoding = kept.0.get(CONTENT_ENCODING).map(|value| value.to_str().expect("text"));
            assert_eq!(encoding, there, "{sent}");
        }
    }
}

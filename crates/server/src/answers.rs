//! Checks of requests, and building blocks of answers, for several S3 operations.

use s3s::dto::{
    CommonPrefix, CommonPrefixList, DeletedObject, DeletedObjects, EncodingType, Errors,
    ObjectIdentifierList, ObjectList, ObjectStorageClass,
};
use s3s::{S3Result, s3_error};

use crate::bucket::Bucket;
use crate::listing::{PAGE, Page};
use crate::names::url_encode;
use crate::object::Object;

/// Reject a request for a part or a version of an object, because objects are stored whole and in
/// one version.
///
/// # Errors
/// `NotImplemented` if a part, or a version other than `null`, is requested.
pub fn whole_object(part: Option<i32>, version: Option<&str>) -> S3Result<()> {
    if part.is_some() {
        return Err(s3_error!(NotImplemented, "parts of an object cannot be requested"));
    }
    if version.is_some_and(|version| version != "null") {
        return Err(s3_error!(NotImplemented, "object versions are not supported"));
    }
    Ok(())
}

/// Reject a request for encryption, which is not supported.
///
/// # Errors
/// `NotImplemented` if encryption is requested.
pub fn in_the_clear(asked: bool) -> S3Result<()> {
    if asked {
        return Err(s3_error!(NotImplemented, "encryption is not supported"));
    }
    Ok(())
}

/// Return the maximum number of entries on a page of a listing: the requested number, or [`PAGE`]
/// if that is smaller or no number is requested.
///
/// # Errors
/// `InvalidArgument` if the request asks for a negative number.
pub fn page_size(asked: Option<i32>) -> S3Result<usize> {
    let asked = usize::try_from(asked.unwrap_or(PAGE as i32));
    let asked =
        asked.map_err(|_| s3_error!(InvalidArgument, "the page size must not be negative"))?;
    Ok(asked.min(PAGE))
}

/// Delete objects one by one. Returns the deleted objects, and an error for each of the others.
pub fn delete_each(bucket: &Bucket, objects: ObjectIdentifierList) -> (DeletedObjects, Errors) {
    let mut deleted = Vec::new();
    let mut errors = Vec::new();
    for object in objects {
        match bucket.delete(&object.key) {
            Ok(()) => {
                deleted.push(DeletedObject { key: Some(object.key), ..DeletedObject::default() });
            }
            Err(error) => errors.push(s3s::dto::Error {
                code: Some(error.code().as_str().to_owned()),
                key: Some(object.key),
                message: error.message().map(str::to_owned),
                version_id: None,
            }),
        }
    }
    (deleted, errors)
}

/// Encoding of the keys in a listing: plain or percent-encoded. XML cannot express every key in
/// plain form.
#[derive(Clone, Copy)]
pub struct Spelling {
    url: bool,
}

impl Spelling {
    /// Read from the request which encoding the client wants.
    ///
    /// # Errors
    /// `InvalidArgument` for an encoding other than `url`.
    pub fn asked(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self { url: false }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(_) => Err(s3_error!(InvalidArgument, "encoding-type must be url or absent")),
        }
    }

    /// Encode a key, or a part of one.
    pub fn text(self, text: &str) -> String {
        if self.url { url_encode(text) } else { text.to_owned() }
    }

    /// Convert the common prefixes of a page for the answer; None if there are none.
    pub fn prefixes(self, page: &Page) -> Option<CommonPrefixList> {
        let entry = |prefix: &String| CommonPrefix { prefix: Some(self.text(prefix)) };
        (!page.prefixes.is_empty()).then(|| page.prefixes.iter().map(entry).collect())
    }

    /// Convert the objects of a page for the answer; None if there are none.
    pub fn objects(self, page: &Page) -> Option<ObjectList> {
        let entry = |(key, object): &(String, Object)| s3s::dto::Object {
            key: Some(self.text(key)),
            size: Some(object.size as i64),
            e_tag: Some(object.etag()),
            last_modified: Some(object.modified().into()),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
            ..s3s::dto::Object::default()
        };
        (!page.objects.is_empty()).then(|| page.objects.iter().map(entry).collect())
    }
}

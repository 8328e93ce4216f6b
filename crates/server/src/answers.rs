//! Helpers for building answers, shared by several S3 operations.

use s3s::dto::{
    CommonPrefix, CommonPrefixList, DeletedObject, DeletedObjects, EncodingType, Errors,
    ObjectIdentifierList, ObjectList, ObjectStorageClass,
};
use s3s::{S3Result, s3_error};

use crate::bucket::Bucket;
use crate::listing::{PAGE, Page};
use crate::names::url_encode;
use crate::object::Object;

/// Check that a request asks for a whole object: part numbers and versions are not supported.
///
/// # Errors
/// `NotImplemented` if a part, or a version other than `null`, is requested.
pub fn whole_object(part: Option<i32>, version: Option<&str>) -> S3Result<()> {
    if part.is_some() {
        return Err(s3_error!(NotImplemented, "objects are not kept in parts"));
    }
    if version.is_some_and(|version| version != "null") {
        return Err(s3_error!(NotImplemented, "objects have one version only"));
    }
    Ok(())
}

/// Check that a request does not ask for encryption, which is not supported.
///
/// # Errors
/// `NotImplemented` if encryption is requested.
pub fn in_the_clear(asked: bool) -> S3Result<()> {
    if asked {
        return Err(s3_error!(NotImplemented, "objects are not encrypted"));
    }
    Ok(())
}

/// Return the maximum number of entries of a page; at most and by default [`PAGE`].
///
/// # Errors
/// `InvalidArgument` if the request asks for a negative number.
pub fn page_size(asked: Option<i32>) -> S3Result<usize> {
    let asked = usize::try_from(asked.unwrap_or(PAGE as i32));
    let asked = asked.map_err(|_| s3_error!(InvalidArgument, "a page cannot have fewer than 0"))?;
    Ok(asked.min(PAGE))
}

/// Delete objects one by one. Returns the deleted objects and the errors.
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

/// Encoding of keys in a listing: plain, or percent-encoded, because XML cannot express every key.
#[derive(Clone, Copy)]
pub struct Spelling {
    url: bool,
}

impl Spelling {
    /// Read the encoding from the request.
    ///
    /// # Errors
    /// `InvalidArgument` for an encoding other than `url`.
    pub fn asked(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self { url: false }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(_) => Err(s3_error!(InvalidArgument, "encoding-type is url or absent")),
        }
    }

    /// Encode a key or a part of one.
    pub fn text(self, text: &str) -> String {
        if self.url { url_encode(text) } else { text.to_owned() }
    }

    /// Build the list of common prefixes of a page, or None if there are none.
    pub fn prefixes(self, page: &Page) -> Option<CommonPrefixList> {
        let entry = |prefix: &String| CommonPrefix { prefix: Some(self.text(prefix)) };
        (!page.prefixes.is_empty()).then(|| page.prefixes.iter().map(entry).collect())
    }

    /// Build the list of objects of a page, or None if there are none.
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

//! Parts of answers that several operations share.

use std::sync::Arc;

use s3s::dto::{
    CommonPrefix, CommonPrefixList, DeletedObject, DeletedObjects, EncodingType, Errors,
    ObjectIdentifierList, ObjectList, ObjectStorageClass, Part,
};
use s3s::{S3Result, s3_error};

use crate::bucket::Bucket;
use crate::conditions::Conditions;
use crate::listing::{From as Begin, PAGE, Page, Query};
use crate::names::url_encode;
use crate::object::Object;

/// Refuses what would need more than one version or part of an object.
pub fn whole_object(part: Option<i32>, version: Option<&str>) -> S3Result<()> {
    if part.is_some() {
        return Err(s3_error!(NotImplemented, "objects are not kept in parts"));
    }
    if version.is_some_and(|version| version != "null") {
        return Err(s3_error!(NotImplemented, "objects have one version only"));
    }
    Ok(())
}

/// Refuses to store in the clear what is to be encrypted.
pub fn in_the_clear(asked: bool) -> S3Result<()> {
    if asked {
        return Err(s3_error!(NotImplemented, "objects are not encrypted"));
    }
    Ok(())
}

/// How many entries a page may have.
///
/// # Errors
/// `InvalidArgument` below zero.
pub fn page_size(asked: Option<i32>) -> S3Result<usize> {
    let asked = usize::try_from(asked.unwrap_or(PAGE as i32));
    let asked = asked.map_err(|_| s3_error!(InvalidArgument, "a page cannot have fewer than 0"))?;
    Ok(asked.min(PAGE))
}

/// A page of a listing, read on a thread that may wait.
pub async fn find(
    bucket: Arc<Bucket>,
    prefix: Option<&str>,
    delimiter: Option<&str>,
    from: Begin,
    limit: usize,
) -> S3Result<Page> {
    let query = Query {
        prefix: prefix.unwrap_or_default().to_owned(),
        delimiter: delimiter.unwrap_or_default().to_owned(),
        from,
        limit,
    };
    let page = tokio::task::spawn_blocking(move || bucket.list(&query)).await;
    page.map_err(s3s::S3Error::internal_error)
}

/// Removes objects one by one, and says for each how it went.
pub fn delete_each(bucket: &Bucket, objects: ObjectIdentifierList) -> (DeletedObjects, Errors) {
    let mut deleted = Vec::new();
    let mut errors = Vec::new();
    for object in objects {
        match bucket.delete(&object.key, &Conditions::default()) {
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

/// A part in the listing of its upload.
pub fn part_entry(number: i32, part: &Object) -> Part {
    Part {
        part_number: Some(number),
        size: Some(part.size as i64),
        e_tag: Some(part.etag()),
        last_modified: Some(part.modified().into()),
        ..Part::default()
    }
}

/// How keys are spelled in a listing: as they are, or percent-encoded for clients that want to
/// read any key from XML.
#[derive(Clone, Copy)]
pub struct Spelling {
    url: bool,
}

impl Spelling {
    /// As the request asks.
    ///
    /// # Errors
    /// `InvalidArgument` for an encoding that S3 does not have.
    pub fn asked(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self { url: false }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(_) => Err(s3_error!(InvalidArgument, "encoding-type is url or absent")),
        }
    }

    /// A key, or a part of one.
    pub fn text(self, text: &str) -> String {
        if self.url { url_encode(text) } else { text.to_owned() }
    }

    /// The common prefixes of a page.
    pub fn prefixes(self, page: &Page) -> Option<CommonPrefixList> {
        let entry = |prefix: &String| CommonPrefix { prefix: Some(self.text(prefix)) };
        (!page.prefixes.is_empty()).then(|| page.prefixes.iter().map(entry).collect())
    }

    /// The objects of a page.
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

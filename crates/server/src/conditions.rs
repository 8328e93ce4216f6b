//! Conditional writes: the headers `If-Match` and `If-None-Match` of a PUT.

use s3s::dto::{ETag, ETagCondition};
use s3s::{S3Result, s3_error};

use crate::object::Object;

/// Conditions that the existing object must meet for a PUT to be carried out.
#[derive(Debug, Default)]
pub struct Conditions {
    /// `If-Match`: the existing object must have this ETag.
    pub matches: Option<ETagCondition>,
    /// `If-None-Match`: no object with this ETag may exist; `*` stands for every ETag.
    pub differs: Option<ETagCondition>,
}

impl Conditions {
    /// Return whether the request has no conditions.
    pub fn is_empty(&self) -> bool {
        self.matches.is_none() && self.differs.is_none()
    }

    /// Check the conditions against the existing object, or against None if no object exists.
    ///
    /// # Errors
    /// `PreconditionFailed` if a condition is not met; `NoSuchKey` if `If-Match` is given but the
    /// object does not exist.
    pub fn check(&self, there: Option<&Object>) -> S3Result<()> {
        let etag = there.map(Object::etag);
        if let Some(wanted) = &self.matches {
            let Some(etag) = &etag else { return Err(s3_error!(NoSuchKey)) };
            if !names(wanted, etag) {
                return Err(s3_error!(PreconditionFailed));
            }
        }
        match (&self.differs, &etag) {
            (Some(known), Some(etag)) if names(known, etag) => Err(s3_error!(PreconditionFailed)),
            _ => Ok(()),
        }
    }
}

fn names(condition: &ETagCondition, etag: &ETag) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(wanted) => wanted.value() == etag.value(),
    }
}

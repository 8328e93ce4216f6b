//! Conditional requests: `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`.

use s3s::dto::{ETag, ETagCondition, Timestamp};
use s3s::{S3Result, s3_error};

use crate::object::Object;

/// Conditions of a request on the existing object.
#[derive(Debug, Default)]
pub struct Conditions {
    /// `If-Match`: the object must have this version.
    pub matches: Option<ETagCondition>,
    /// `If-None-Match`: the object must not exist with this version.
    pub differs: Option<ETagCondition>,
    /// `If-Modified-Since`: the object must have been written after this second.
    pub since: Option<Timestamp>,
    /// `If-Unmodified-Since`: the object must not have been written after this second.
    pub not_since: Option<Timestamp>,
}

impl Conditions {
    /// Return whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.matches.is_none()
            && self.differs.is_none()
            && self.since.is_none()
            && self.not_since.is_none()
    }

    /// Check the conditions of a GET or HEAD. ETag conditions override time conditions (RFC 9110).
    ///
    /// # Errors
    /// `PreconditionFailed` (412) or `NotModified` (304) if a condition is not met.
    pub fn check_read(&self, object: &Object) -> S3Result<()> {
        let etag = object.etag();
        let written_after = |time: &Timestamp| object.modified_ns / NS > seconds(time);
        if let Some(wanted) = &self.matches {
            if !names(wanted, &etag) {
                return Err(s3_error!(PreconditionFailed));
            }
        } else if self.not_since.as_ref().is_some_and(written_after) {
            return Err(s3_error!(PreconditionFailed));
        }
        if let Some(known) = &self.differs {
            if names(known, &etag) {
                return Err(s3_error!(NotModified));
            }
        } else if self.since.as_ref().is_some_and(|time| !written_after(time)) {
            return Err(s3_error!(NotModified));
        }
        Ok(())
    }

    /// Check the conditions of a PUT or DELETE against the existing object, if there is one.
    ///
    /// # Errors
    /// `PreconditionFailed` if a condition is not met; `NoSuchKey` if a version is required but the
    /// object does not exist.
    pub fn check_write(&self, there: Option<&Object>) -> S3Result<()> {
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

const NS: i64 = 1_000_000_000;

fn seconds(time: &Timestamp) -> i64 {
    let mut text = Vec::new();
    let written = time.format(s3s::dto::TimestampFormat::EpochSeconds, &mut text);
    debug_assert!(written.is_ok(), "a timestamp is written to memory");
    let text = String::from_utf8_lossy(&text);
    text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
}

fn names(condition: &ETagCondition, etag: &ETag) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(wanted) => wanted.value() == etag.value(),
    }
}

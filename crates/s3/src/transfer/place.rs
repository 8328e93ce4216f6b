//! Directory or bucket in which a workload keeps its own files (`storlab/model/place.py`).

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{Error, Result};

use super::bucket::{RequestPolicy, RetryLog};
use crate::{RetryPolicy, StoreSpec};

/// Directory, or prefix in a bucket, in which a workload keeps its own files or objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceSpec {
    /// Existing directory reserved for storlab.
    pub directory: Option<PathBuf>,
    /// Whether files are opened with O_DIRECT, bypassing the page cache.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Bucket.
    #[serde(default)]
    pub store: Option<StoreSpec>,
    /// Prefix of the keys in the bucket; it ends with a slash.
    #[serde(default)]
    pub prefix: String,
    /// Time-out in nanoseconds of a request to the bucket.
    #[serde(default = "minute")]
    pub request_timeout_ns: u64,
    /// Maximum number of retries of a failed request.
    #[serde(default)]
    pub retries: u32,
    /// Pause in nanoseconds before the first retry; it doubles with each further one.
    #[serde(default)]
    pub backoff_ns: u64,
    /// Log of retries; shared by all clones.
    #[serde(skip)]
    pub log: RetryLog,
}

fn yes() -> bool {
    true
}

fn minute() -> u64 {
    60_000_000_000
}

impl PlaceSpec {
    /// Return the policy for requests to the bucket.
    pub fn request_policy(&self) -> RequestPolicy {
        let retry = RetryPolicy { retries: self.retries, backoff_ns: self.backoff_ns };
        RequestPolicy::new(self.request_timeout_ns, retry, &self.log)
    }

    /// Check that exactly one of directory and store is set, and that the other fields are valid.
    ///
    /// # Errors
    /// [`Error::Spec`] naming the invalid field.
    pub fn check(&self) -> Result<()> {
        if self.directory.is_some() == self.store.is_some() {
            let what = "needs a directory or a store";
            return Err(Error::spec("place", what, "give one of the two"));
        }
        if self.store.is_some() && !self.prefix.ends_with('/') {
            return Err(Error::spec("place.prefix", "does not end with a slash", "add one"));
        }
        if self.request_timeout_ns == 0 {
            return Err(Error::spec("place.request_timeout_ns", "is 0", "use more"));
        }
        Ok(())
    }
}

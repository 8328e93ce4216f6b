//! Directory or bucket in which a workload keeps its own files. Mirrors `storlab/model/place.py`.

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{Error, Result};

use super::bucket::{RequestPolicy, RetryLog};
use crate::{RetryPolicy, StoreSpec};

/// Directory, or prefix in a bucket, in which a workload keeps its own files or objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceSpec {
    /// Existing directory that is reserved for storlab. None if a bucket is used.
    pub directory: Option<PathBuf>,
    /// Whether files are opened with O_DIRECT, which bypasses the page cache.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Bucket and how to connect to it. None if a directory is used.
    #[serde(default)]
    pub store: Option<StoreSpec>,
    /// Prefix of the keys in the bucket. It must end with a slash.
    #[serde(default)]
    pub prefix: String,
    /// Time-out of a request to the bucket, in ns.
    #[serde(default = "minute")]
    pub request_timeout_ns: u64,
    /// Maximum number of retries of a failed request.
    #[serde(default)]
    pub retries: u32,
    /// Pause before the first retry, in ns. It doubles with each further retry.
    #[serde(default)]
    pub backoff_ns: u64,
    /// Counts of retries, shared by all clones.
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
    /// Return time-out and retry policy for requests to the bucket.
    pub fn request_policy(&self) -> RequestPolicy {
        let retry = RetryPolicy { retries: self.retries, backoff_ns: self.backoff_ns };
        RequestPolicy::new(self.request_timeout_ns, retry, &self.log)
    }

    /// Check that exactly one of directory and store is set, and that the other fields are valid.
    ///
    /// # Errors
    /// [`Error::Spec`] that names the invalid field.
    pub fn check(&self) -> Result<()> {
        if self.directory.is_some() == self.store.is_some() {
            let what = "needs either a directory or a store";
            return Err(Error::spec("place", what, "set exactly one of them"));
        }
        if self.store.is_some() && !self.prefix.ends_with('/') {
            let what = format!("{:?} does not end with a slash", self.prefix);
            return Err(Error::spec("place.prefix", what, "add a slash"));
        }
        if self.request_timeout_ns == 0 {
            return Err(Error::spec("place.request_timeout_ns", "is 0", "use a value above 0"));
        }
        Ok(())
    }
}

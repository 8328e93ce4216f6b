//! Where a family keeps files or objects of its own (`storlab/model/place.py`).

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{Error, Result};

use super::bucket::{Patience, RetryLog};
use crate::StoreSpec;

/// A directory, or a prefix of a bucket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceSpec {
    /// Exists, and is storlab's own.
    pub directory: Option<PathBuf>,
    /// Past the page cache.
    #[serde(default = "yes")]
    pub direct: bool,
    /// A bucket.
    #[serde(default)]
    pub store: Option<StoreSpec>,
    /// Ends with a slash.
    #[serde(default)]
    pub prefix: String,
    /// A request to the bucket without its answer after this time has failed.
    #[serde(default = "minute")]
    pub request_timeout_ns: u64,
    /// Further attempts of a request that failed.
    #[serde(default)]
    pub retries: u32,
    /// Before the first of them, doubled for each further one.
    #[serde(default)]
    pub backoff_ns: u64,
    /// What its requests met. Shared by all clones.
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
    /// How requests to the bucket are made, with what they met until now.
    pub fn patience(&self) -> Patience {
        Patience::new(self.request_timeout_ns, self.retries, self.backoff_ns, &self.log)
    }

    /// It is one of the two.
    ///
    /// # Errors
    /// [`Error::Spec`] where it is none or both.
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

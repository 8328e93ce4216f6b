//! Where a family keeps files or objects of its own (`storlab/model/place.py`).

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{Error, Result};
use storlab_io::s3::StoreSpec;

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
}

fn yes() -> bool {
    true
}

impl PlaceSpec {
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
        Ok(())
    }
}

//! Store of the S3 server: a directory of buckets.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use s3s::validation::{AwsNameValidation, NameValidation as _};
use s3s::{S3Result, s3_error};
use storlab_base::{Error, Result, try_lock_file};

use crate::bucket::{Bucket, Flush};
use crate::errors::failed;
use crate::object::Stamps;

/// Store of the S3 server: a directory with one subdirectory per bucket.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    flush: Option<Flush>,
    stamps: Arc<Stamps>,
    buckets: RwLock<BTreeMap<String, Arc<Bucket>>>,
    /// Lock on the directory. No other server may change the store, because its keys are cached in
    /// this process.
    _lock: File,
}

impl Store {
    /// Open all buckets in a directory. Creates the directory and the bucket `bucket` if they do
    /// not exist.
    ///
    /// Writes are flushed by `flush` before their requests are answered. With None, the kernel
    /// decides when to write them to the device.
    ///
    /// # Errors
    /// [`Error::Spec`] if S3 does not allow the bucket's name, or if another server uses the
    /// directory; [`Error::Io`] if the directory cannot be read or created.
    pub fn open(directory: &Path, bucket: &str, flush: Option<Flush>) -> Result<Self> {
        if !AwsNameValidation::new().validate_bucket_name(bucket) {
            return Err(Error::spec(
                "bucket",
                format!("S3 does not allow the name {bucket}"),
                "use 3 to 63 lower-case letters, digits, dots and hyphens",
            ));
        }
        let refused = |operation: &'static str| {
            move |error| Error::io(operation, directory.display().to_string(), 0, error)
        };
        fs::create_dir_all(directory).map_err(refused("mkdir"))?;
        let store = Self {
            directory: directory.to_path_buf(),
            flush,
            stamps: Arc::default(),
            buckets: RwLock::default(),
            _lock: lock(directory)?,
        };
        let mut buckets = store.find().map_err(refused("scan"))?;
        if !buckets.contains_key(bucket) {
            let made = store.make(bucket).map_err(refused("mkdir"))?;
            buckets.insert(bucket.to_owned(), Arc::new(made));
        }
        Ok(Self { buckets: RwLock::new(buckets), ..store })
    }

    /// Treat the file system as a remote one, for tests.
    #[cfg(test)]
    pub fn set_remote(&mut self) {
        let buckets = self.buckets.get_mut().unwrap_or_else(PoisonError::into_inner);
        buckets.values_mut().filter_map(Arc::get_mut).for_each(Bucket::set_remote);
    }

    /// Return the bucket with this name.
    ///
    /// # Errors
    /// `NoSuchBucket` if it does not exist.
    pub fn bucket(&self, name: &str) -> S3Result<Arc<Bucket>> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(name).cloned().ok_or_else(|| s3_error!(NoSuchBucket))
    }

    /// Return all buckets with their names, sorted by name.
    pub fn buckets(&self) -> Vec<(String, Arc<Bucket>)> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.iter().map(|(name, bucket)| (name.clone(), bucket.clone())).collect()
    }

    /// Create a bucket. s3s has already checked its name.
    ///
    /// # Errors
    /// `BucketAlreadyOwnedByYou` if the bucket exists.
    pub fn create(&self, name: &str) -> S3Result<()> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.contains_key(name) {
            return Err(s3_error!(BucketAlreadyOwnedByYou));
        }
        let made = self.make(name).map_err(failed("creation of a bucket"))?;
        buckets.insert(name.to_owned(), Arc::new(made));
        Ok(())
    }

    /// Remove an empty bucket.
    ///
    /// # Errors
    /// `NoSuchBucket` if the bucket does not exist, `BucketNotEmpty` if it contains objects.
    pub fn remove(&self, name: &str) -> S3Result<()> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.get(name).ok_or_else(|| s3_error!(NoSuchBucket))?.remove()?;
        buckets.remove(name);
        Ok(())
    }

    fn make(&self, name: &str) -> io::Result<Bucket> {
        Bucket::create(&self.directory.join(name), self.flush, self.stamps.clone())
    }

    fn find(&self) -> io::Result<BTreeMap<String, Arc<Bucket>>> {
        let mut buckets = BTreeMap::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = entry.path();
            if AwsNameValidation::new().validate_bucket_name(&name) && Bucket::is_at(&path) {
                let bucket = Bucket::open(&path, self.flush, self.stamps.clone())?;
                buckets.insert(name, Arc::new(bucket));
            }
        }
        Ok(buckets)
    }
}

fn lock(directory: &Path) -> Result<File> {
    let path = directory.display().to_string();
    let file = File::open(directory).map_err(|error| Error::io("open", &path, 0, error))?;
    match try_lock_file(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::spec(
            "directory",
            format!("another server is using {path}"),
            "wait until it has ended, or use another directory",
        )),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path, 0, error)),
    }
}

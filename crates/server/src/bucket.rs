//! Bucket: a directory of object files, and the sorted set of their keys in memory.
//!
//! An object is written to a temporary file, which is then renamed, so that a reader sees either
//! the old or the new object. The keys are kept in memory because no file system lists a directory
//! in order. The cost of a page of a listing therefore depends only on its length, not on the
//! number of objects.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags, openat2, renameat_with};
use s3s::{S3Result, s3_error};
use storlab_base::lock;

use crate::conditions::Conditions;
use crate::errors::failed;
use crate::names::{SHARDS, key_of, path_of, shard, shard_name};
use crate::object::{Object, Stamps};

/// Subdirectory of a bucket that contains its objects, with one directory per shard.
const OBJECTS: &str = "objects";
/// Subdirectory of a bucket that contains its unfinished multipart uploads.
pub const UPLOADS: &str = "uploads";

/// Magic numbers of ext2 to ext4, XFS, Btrfs, tmpfs and overlayfs (linux/magic.h). On these file
/// systems, opening a file whose name is cached involves neither a network nor a user-space file
/// system.
const LOCAL: [rustix::fs::FsWord; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630];

/// Function that flushes a file or directory to the device. Tests replace it.
pub type Flush = fn(&File) -> io::Result<()>;

/// Bucket with its objects.
#[derive(Debug)]
pub struct Bucket {
    root: PathBuf,
    /// Function that flushes writes before their requests are answered; None if writes are not
    /// flushed.
    flush: Option<Flush>,
    /// Whether the file system is local, so that the kernel can open a file whose name is cached
    /// without waiting.
    is_local: bool,
    stamps: Arc<Stamps>,
    created: SystemTime,
    /// Locks, one per shard. Held while a file's name and the set of keys change together.
    shards: Vec<Mutex<()>>,
    keys: RwLock<BTreeSet<Box<str>>>,
    aside: AtomicU64,
    removed: AtomicBool,
}

/// Temporary file. It is removed when dropped, unless it has been renamed to its final name.
#[derive(Debug)]
pub struct TempFile {
    /// The open file, for writing.
    pub file: File,
    path: PathBuf,
    named: bool,
}

impl TempFile {
    /// Create a new, empty file. No other request may use its path.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let create = || File::options().read(true).write(true).create_new(true).open(&path);
        let file = match create() {
            // An earlier server that was killed left this file: every server numbers its files from
            // 0.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&path)?;
                create()?
            }
            created => created?,
        };
        Ok(Self { file, path, named: false })
    }

    /// Wrap an existing file that is to be renamed. It is not removed when dropped.
    pub fn adopt(file: File, path: PathBuf) -> Self {
        Self { file, path, named: true }
    }

    /// Set the file's modification time, which serves as the object's version, and flush the file
    /// if `flush` is given.
    pub fn seal(&self, stamps: &Stamps, flush: Option<Flush>) -> io::Result<Object> {
        self.file.set_modified(stamps.next(self.file.metadata()?.modified()?))?;
        let object = Object::of(&self.file.metadata()?)?;
        if let Some(flush) = flush {
            flush(&self.file)?;
        }
        Ok(object)
    }

    /// Rename the file to `to`, replacing any existing file. The directory is not flushed.
    ///
    /// Set `replaces` if a file with that name probably exists.
    pub fn name(&mut self, to: &Path, replaces: bool) -> io::Result<()> {
        // If a file is renamed over another one, ext4 writes it to the device, which costs ten
        // times as much as a small PUT. Exchanging the two names avoids that.
        if replaces && renameat_with(CWD, &self.path, CWD, to, RenameFlags::EXCHANGE).is_ok() {
            fs::remove_file(&self.path)?;
        } else {
            fs::rename(&self.path, to)?;
        }
        self.named = true;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.named {
            // The request has already failed for another reason, so an error is ignored.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Bucket {
    /// Create a bucket in the directory `root`.
    ///
    /// # Errors
    /// `AlreadyExists` if the bucket exists.
    pub fn create(root: &Path, flush: Option<Flush>, stamps: Arc<Stamps>) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        fs::create_dir(root.join(OBJECTS))?;
        for shard in 0..SHARDS {
            fs::create_dir(root.join(OBJECTS).join(shard_name(shard)))?;
        }
        fs::create_dir(root.join(UPLOADS))?;
        Self::open(root, flush, stamps)
    }

    /// Return whether the directory `root` contains a bucket.
    pub fn is_at(root: &Path) -> bool {
        root.join(OBJECTS).is_dir()
    }

    /// Open a bucket: read its keys, and remove temporary files that an earlier server left.
    pub fn open(root: &Path, flush: Option<Flush>, stamps: Arc<Stamps>) -> io::Result<Self> {
        let mut keys = BTreeSet::new();
        for shard in 0..SHARDS {
            let directory = root.join(OBJECTS).join(shard_name(shard));
            fs::create_dir_all(&directory)?;
            scan(&directory, &directory, &mut keys)?;
        }
        let uploads = root.join(UPLOADS);
        fs::create_dir_all(&uploads)?;
        for entry in fs::read_dir(&uploads)? {
            let entry = entry?;
            if is_reserved(&entry.file_name()) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Self {
            root: root.to_path_buf(),
            flush,
            is_local: LOCAL.contains(&rustix::fs::statfs(root)?.f_type),
            stamps,
            created: fs::metadata(root.join(OBJECTS))?.modified()?,
            shards: (0..SHARDS).map(|_| Mutex::new(())).collect(),
            keys: RwLock::new(keys),
            aside: AtomicU64::new(0),
            removed: AtomicBool::new(false),
        })
    }

    /// Return the time at which the bucket was created or last opened by a server.
    pub fn created(&self) -> SystemTime {
        self.created
    }

    /// Return whether a write may wait for a flush, the network or a user-space file system.
    pub fn waits(&self) -> bool {
        self.flush.is_some() || !self.is_local
    }

    /// Treat the file system as a remote one, for tests.
    #[cfg(test)]
    pub fn set_remote(&mut self) {
        self.is_local = false;
    }

    /// Return the function that flushes writes before their requests are answered; None if writes
    /// are not flushed.
    pub fn flush(&self) -> Option<Flush> {
        self.flush
    }

    /// Return the source of the unique modification times that serve as object versions.
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Return the directory of unfinished multipart uploads.
    pub fn uploads(&self) -> PathBuf {
        self.root.join(UPLOADS)
    }

    /// Return a new, unique name for a temporary file. Listings skip such names.
    pub fn aside_name(&self) -> String {
        format!(".aside-{:x}", self.aside.fetch_add(1, Ordering::Relaxed))
    }

    /// Open an object for reading without waiting: only if its name is cached and its file system
    /// is local.
    ///
    /// Returns `None` if opening would wait or has failed. Use [`Bucket::read`] then.
    pub fn read_cached(&self, key: &str) -> Option<(File, Object)> {
        if !self.is_local {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let place = self.place(key);
        let file = openat2(CWD, place, flags, Mode::empty(), ResolveFlags::CACHED).ok()?;
        let file = File::from(file);
        let metadata = file.metadata().ok().filter(Metadata::is_file)?;
        Some((file, Object::of(&metadata).ok()?))
    }

    /// Open an object for reading.
    ///
    /// # Errors
    /// `NoSuchKey` if the object does not exist.
    pub fn read(&self, key: &str) -> S3Result<(File, Object)> {
        let file = File::open(self.place(key)).map_err(missing)?;
        let metadata = file.metadata().map_err(failed("stat of an object"))?;
        if metadata.is_dir() {
            return Err(s3_error!(NoSuchKey));
        }
        Ok((file, Object::of(&metadata).map_err(failed("stat of an object"))?))
    }

    /// Return size and version of an object without opening it.
    ///
    /// # Errors
    /// `NoSuchKey` if the object does not exist.
    pub fn stat(&self, key: &str) -> S3Result<Object> {
        let metadata = fs::metadata(self.place(key)).map_err(missing)?;
        Object::of(&metadata).map_err(failed("stat of an object"))
    }

    /// Create a temporary file for an object. Pass it to [`Bucket::put`] when it is written.
    pub fn aside(&self, key: &str) -> S3Result<TempFile> {
        let path = self.shard_path(shard(key)).join(self.aside_name());
        TempFile::create(path).map_err(failed("creation of an object"))
    }

    /// Store a temporary file as the object with this key.
    ///
    /// Files and directories are flushed without holding the shard's lock, so that durable writes
    /// to one shard do not wait for each other's flushes. A reader may see the object before its
    /// name is durable, but the request is answered only afterwards.
    ///
    /// # Errors
    /// `PreconditionFailed` if a condition is not met; `NoSuchBucket` if the bucket has been
    /// removed.
    pub fn put(&self, key: &str, mut aside: TempFile, conditions: &Conditions) -> S3Result<Object> {
        let path = self.place(key);
        let object =
            aside.seal(&self.stamps, self.flush).map_err(failed("completion of an object"))?;
        self.name_object(key, &path, &mut aside, conditions)?;
        if let Some(flush) = self.flush {
            flush_names(&path, &self.shard_path(shard(key)), flush)
                .map_err(failed("sync of an object's name"))?;
        }
        Ok(object)
    }

    /// Rename a temporary file to the name of its object and insert the key, while holding the
    /// shard's lock.
    fn name_object(
        &self,
        key: &str,
        path: &Path,
        aside: &mut TempFile,
        conditions: &Conditions,
    ) -> S3Result<()> {
        let _held = self.hold(key);
        if self.removed.load(Ordering::Relaxed) {
            return Err(s3_error!(NoSuchBucket));
        }
        if !conditions.is_empty() {
            conditions.check(self.stat(key).ok().as_ref())?;
        }
        let parent = path.parent().unwrap_or(&self.root);
        let known = self.keys().contains(key);
        match aside.name(path, known) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(parent).and_then(|()| aside.name(path, known))
            }
            done => done,
        }
        .map_err(failed("renaming of an object's file"))?;
        if !known {
            self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(key.into());
        }
        Ok(())
    }

    /// Delete an object. As in S3, it is not an error if the object does not exist.
    pub fn delete(&self, key: &str) -> S3Result<()> {
        let path = self.place(key);
        let top = self.shard_path(shard(key));
        self.remove_name(key, &path, &top)?;
        if let Some(flush) = self.flush {
            flush_names(&path, &top, flush).map_err(failed("sync of a removal"))?;
        }
        Ok(())
    }

    /// Remove the file and the key of an object, while holding the shard's lock.
    fn remove_name(&self, key: &str, path: &Path, top: &Path) -> S3Result<()> {
        let _held = self.hold(key);
        match fs::remove_file(path) {
            Err(error) if !is_missing(&error) => {
                return Err(failed("removal of an object")(error));
            }
            _ => {}
        }
        self.keys.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        for link in directories_of(path, top).filter(|at| *at != top) {
            if fs::remove_dir(link).is_err() {
                break; // other keys use the directory, or it does not exist
            }
        }
        Ok(())
    }

    /// Return the keys of all objects, sorted by their bytes.
    pub fn keys(&self) -> RwLockReadGuard<'_, BTreeSet<Box<str>>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remove an empty bucket, including its unfinished uploads.
    ///
    /// # Errors
    /// `BucketNotEmpty` if the bucket contains objects.
    pub fn remove(&self) -> S3Result<()> {
        let _all: Vec<MutexGuard<()>> = self.shards.iter().map(lock).collect();
        if !self.keys().is_empty() {
            return Err(s3_error!(BucketNotEmpty, "the bucket still contains objects"));
        }
        self.removed.store(true, Ordering::Relaxed);
        let remove = |path: PathBuf| {
            fs::remove_dir_all(path).map_err(failed("removal of the bucket's directory"))
        };
        remove(self.root.join(UPLOADS))?;
        remove(self.root.join(OBJECTS))?;
        // Fails if the directory contains other files, which must not be removed.
        let _ = fs::remove_dir(&self.root);
        Ok(())
    }

    fn place(&self, key: &str) -> PathBuf {
        self.shard_path(shard(key)).join(path_of(key))
    }

    fn shard_path(&self, shard: usize) -> PathBuf {
        self.root.join(OBJECTS).join(shard_name(shard))
    }

    /// Lock the shard to which a key belongs.
    pub fn hold(&self, key: &str) -> MutexGuard<'_, ()> {
        lock(&self.shards[shard(key)])
    }
}

/// Add the keys of all objects below a shard's directory to `keys`, and remove temporary files.
fn scan(top: &Path, directory: &Path, keys: &mut BTreeSet<Box<str>>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            scan(top, &path, keys)?;
        } else if is_reserved(&entry.file_name()) {
            fs::remove_file(&path)?;
        } else if let Some(key) = path.strip_prefix(top).ok().and_then(key_of) {
            keys.insert(key.into());
        }
    }
    Ok(())
}

fn is_reserved(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Return the directories that contain a path, from the innermost to `top`. Files of long keys are
/// in several nested directories.
fn directories_of<'a>(path: &'a Path, top: &'a Path) -> impl Iterator<Item = &'a Path> {
    path.ancestors().skip(1).take_while(move |at| at.starts_with(top))
}

/// Make the name of a file durable by flushing its directory and all parents up to `top`, because
/// any of them may be new.
pub fn flush_names(path: &Path, top: &Path, flush: Flush) -> io::Result<()> {
    for directory in directories_of(path, top) {
        match File::open(directory) {
            // The directory was removed because the last object in it was deleted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => flush(&opened?)?,
        }
    }
    Ok(())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn missing(error: io::Error) -> s3s::S3Error {
    if is_missing(&error) {
        s3_error!(NoSuchKey, "no object has this key")
    } else {
        failed("opening of an object")(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_lies_in_every_directory_of_its_chain() {
        let top = Path::new("/objects/ab");
        let of = |path: &str| directories_of(Path::new(path), top).count();
        assert_eq!(of("/objects/ab/k"), 1);
        assert_eq!(of("/objects/ab/long+/+er+/+key"), 3);
        let path = Path::new("/objects/ab/long+/+key");
        let all: Vec<&Path> = directories_of(path, top).collect();
        assert_eq!(all, [Path::new("/objects/ab/long+"), top]);
    }
}

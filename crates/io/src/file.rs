//! Files and block devices that are open for I/O. Only [`File::create`] creates files.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use storlab_base::{Error, Result};

/// Mode of fallocate(2) that frees a range of a file (a trim) and keeps the file's length.
pub(crate) const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// Kind of access to a file that a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether the run reads.
    pub read: bool,
    /// Whether the run writes or trims. A flush requires neither read nor write access.
    pub write: bool,
    /// Whether I/O bypasses the page cache (O_DIRECT).
    pub direct: bool,
}

/// File or block device that is open for I/O.
#[derive(Debug)]
pub struct File {
    inner: std::fs::File,
    name: String,
    block_device: bool,
    direct: bool,
}

impl File {
    /// Open an existing file or device. `name` is its name in messages.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `open`, or `open with O_DIRECT` if the file system does not
    /// support direct I/O.
    pub fn open(path: &Path, name: &str, access: Access) -> Result<Self> {
        let flags = libc::O_CLOEXEC | if access.write { 0 } else { libc::O_NOATIME };
        let direct = if access.direct { libc::O_DIRECT } else { 0 };
        let open = |flags: i32| {
            OpenOptions::new()
                .read(access.read || !access.write)
                .write(access.write)
                .custom_flags(flags)
                .open(path)
        };
        // O_NOATIME is allowed only for the file's owner, so others open the file without it.
        let opened = open(flags | direct).or_else(|e| match e.raw_os_error() {
            Some(libc::EPERM) => open(libc::O_CLOEXEC | direct),
            _ => Err(e),
        });
        let inner = opened.map_err(|e| match e.raw_os_error() {
            Some(libc::EINVAL) if access.direct => Error::Io {
                operation: "open with O_DIRECT",
                path: name.to_owned(),
                offset: 0,
                source: io::Error::from_raw_os_error(libc::EINVAL),
            },
            _ => Error::io("open", name, 0, e),
        })?;
        let metadata = inner.metadata().map_err(|e| Error::io("stat", name, 0, e))?;
        let block_device = metadata.file_type().is_block_device();
        Ok(File { inner, name: name.to_owned(), block_device, direct: access.direct })
    }

    /// Create a new file for reading and writing. `name` is its name in messages.
    ///
    /// If `direct` is set but the file system does not support O_DIRECT, the file is opened without
    /// it; see [`File::is_direct`].
    ///
    /// # Errors
    /// [`Error::Io`] with operation `create`, also if the file already exists.
    pub fn create(path: &Path, name: &str, direct: bool) -> Result<Self> {
        let open = |direct: bool| {
            let flags = libc::O_CLOEXEC | if direct { libc::O_DIRECT } else { 0 };
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create_new(true)
                .custom_flags(flags)
                .mode(0o600)
                .open(path)
        };
        let refused = |e: &io::Error| direct && e.raw_os_error() == Some(libc::EINVAL);
        let (opened, direct) = match open(direct) {
            Err(e) if refused(&e) => {
                // Some kernels create the file before they reject O_DIRECT.
                let _ = std::fs::remove_file(path);
                (open(false), false)
            }
            opened => (opened, direct),
        };
        let inner = opened.map_err(|e| Error::io("create", name, 0, e))?;
        Ok(File { inner, name: name.to_owned(), block_device: false, direct })
    }

    /// Return whether I/O bypasses the page cache (O_DIRECT).
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Return the length of the file in bytes.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `stat`.
    pub fn len(&self) -> Result<u64> {
        let metadata = self.inner.metadata().map_err(|e| Error::io("stat", &self.name, 0, e))?;
        Ok(metadata.len())
    }

    /// Return whether the file's length is 0.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `stat`.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Set the length of the file in bytes.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `truncate`.
    pub fn truncate(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes).map_err(|e| Error::io("truncate", &self.name, bytes, e))
    }

    /// Allocate storage for the file's first `bytes` bytes, and set its length to that.
    ///
    /// Later writes then do not change the file's size, so the kernel can process them in parallel.
    /// Returns false if the file system does not support this.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `preallocate`, for example if the disk is full.
    pub fn preallocate(&self, bytes: u64) -> Result<bool> {
        if bytes == 0 {
            return Ok(true);
        }
        let made = retry_on_intr(|| fallocate(&self.inner, FallocateFlags::empty(), 0, bytes));
        match made {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(Error::io("preallocate", &self.name, bytes, error.into())),
        }
    }

    /// Write all of `data` at byte `offset` of the file, with blocking calls.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `write`.
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.inner.write_all_at(data, offset).map_err(|e| Error::io("write", &self.name, offset, e))
    }

    /// Return the file's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Return whether this is a block device, not a regular file.
    pub fn is_block_device(&self) -> bool {
        self.block_device
    }

    /// Return the file descriptor, which the backends need.
    pub(crate) fn fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }

    /// Flush the file's data and metadata to the device.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `sync`.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync_all().map_err(|e| Error::io("sync", &self.name, 0, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Access = Access { read: true, write: false, direct: false };

    #[test]
    fn a_missing_file_is_named_and_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent");
        let error = File::open(&path, "my disk", Access { write: true, ..READ }).unwrap_err();
        assert!(error.to_string().contains("my disk"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn what_is_preallocated_is_as_long_and_has_its_blocks() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("f");
        let file = File::create(&path, "f", false).unwrap();
        assert!(file.preallocate(0).unwrap());
        if file.preallocate(1_000_001).unwrap() {
            assert_eq!(file.len().unwrap(), 1_000_001);
            assert!(
                std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap()) * 512 > 1_000_000
            );
        }
        let no_room = file.preallocate(1 << 62).unwrap_err().to_string();
        assert!(no_room.starts_with("preallocate of f"), "{no_room}");
    }

    #[test]
    fn reading_opens_read_only() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = File::open(file.path(), "f", READ).unwrap();
        // The standard library has no fcntl, so the flags are read from /proc.
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.fd())).unwrap();
        let flags = info.lines().find_map(|l| l.strip_prefix("flags:")).unwrap().trim().to_owned();
        let mode = i32::from_str_radix(&flags, 8).unwrap() & libc::O_ACCMODE;
        assert_eq!(mode, libc::O_RDONLY);
    }
}

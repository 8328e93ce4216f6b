//! Evidence of whether I/O reached the device: byte counters of the block device under a file, and
//! the number of the file's bytes in the page cache. Also discards (trims) ranges of block devices.
//!
//! Source: Documentation/admin-guide/iostats.rst of the kernel; mincore(2); linux/fs.h and
//! linux/blkdev.h.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use memmap2::MmapOptions;
use rustix::fs::{Advice, fadvise};
use storlab_base::page_bytes;

const SECTOR_BYTES: u64 = 512;
/// Bytes of a file that are mapped and inspected at a time. mincore(2) needs one byte per page.
const WINDOW_BYTES: u64 = 1 << 30;

/// Request number of ioctl(2) for discard: `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = 0x1277;
/// Command of `io_uring` that discards a range of a block device, since Linux 6.12: `_IO(0x12, 0)`.
pub(crate) const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

/// I/O counters of the block device that a path is stored on.
#[derive(Clone, Debug)]
pub struct DeviceCounters {
    stat: PathBuf,
}

/// Bytes that a block device has read and written since it appeared in the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl DeviceBytes {
    /// Return the bytes read and written between `earlier` and this reading.
    #[must_use]
    pub fn since(self, earlier: DeviceBytes) -> DeviceBytes {
        DeviceBytes {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }
}

impl DeviceCounters {
    /// Find the I/O counters of the block device that stores `path`, or of `path` itself if it is a
    /// block device.
    ///
    /// Returns `None` if there is no block device, as on tmpfs and on network and layered file
    /// systems.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let itself = metadata.file_type().is_block_device();
        let number = if itself { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (libc::major(number), libc::minor(number));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        stat.exists().then_some(DeviceCounters { stat })
    }

    /// Return the kernel's name of the device, such as `nvme0n1`.
    pub fn name(&self) -> Option<String> {
        let place = fs::canonicalize(self.stat.parent()?).ok()?;
        Some(place.file_name()?.to_string_lossy().into_owned())
    }

    /// Read the current counters; `None` if the device has been removed.
    pub fn now(&self) -> Option<DeviceBytes> {
        parse(&fs::read_to_string(&self.stat).ok()?)
    }
}

fn parse(stat: &str) -> Option<DeviceBytes> {
    let fields: Vec<u64> = stat.split_whitespace().map_while(|f| f.parse().ok()).collect();
    Some(DeviceBytes {
        read: fields.get(2)? * SECTOR_BYTES,
        written: fields.get(6)? * SECTOR_BYTES,
    })
}

/// Return how many bytes of a file are in the page cache.
///
/// # Errors
/// The system's error if the file cannot be opened or mapped.
pub fn resident_bytes(path: &Path) -> io::Result<u64> {
    let file = fs::File::open(path)?;
    let len = file.metadata()?.len();
    let (page, mut pages, mut at) = (page_bytes(), 0, 0);
    while at < len {
        let part = (len - at).min(WINDOW_BYTES) as usize;
        pages += resident_pages(&file, at, part, page)?;
        at += part as u64;
    }
    Ok((pages * page as u64).min(len))
}

/// Count the pages of `len` bytes of a file, from offset `at`, that are in the page cache. `page`
/// is the kernel's page size in bytes.
fn resident_pages(file: &fs::File, at: u64, len: usize, page: usize) -> io::Result<u64> {
    let mapping = MmapOptions::new().offset(at).len(len).map_raw_read_only(file)?;
    let mut map = vec![0u8; len.div_ceil(page)];
    // Uses libc, because no safe library offers mincore(2) yet.
    // SAFETY: the mapping has `len` bytes, and `map` has one byte for each of its pages.
    if unsafe { libc::mincore(mapping.as_mut_ptr().cast(), len, map.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(map.iter().map(|page| u64::from(page & 1)).sum())
}

/// Drop a file from the page cache, after dirty pages are written back.
///
/// # Errors
/// The system's error if the file cannot be opened or written back.
pub fn drop_cache(path: &Path) -> io::Result<()> {
    let file = fs::File::open(path)?;
    forget_clean_pages(&file)?;
    if resident_bytes(path)? > 0 {
        file.sync_data()?;
        forget_clean_pages(&file)?;
    }
    Ok(())
}

fn forget_clean_pages(file: &fs::File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Discard (trim) a range of a block device. Returns 0 or a negative errno.
///
/// Punching a hole, as is done for files, would zero the range: a device that does not guarantee
/// zeros after a discard would have to write them.
pub(crate) fn discard(fd: RawFd, offset: u64, len: u64) -> i32 {
    let range = [offset, len];
    // SAFETY: the kernel only reads the two numbers of `range`, which outlives the call.
    if unsafe { libc::ioctl(fd, BLKDISCARD, range.as_ptr()) } == 0 {
        0
    } else {
        -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
    }
}

/// Return whether `io_uring` can discard, which needs Linux 6.12. On older kernels only a blocking
/// call can.
pub(crate) fn ring_discards() -> bool {
    fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|name| at_least(&name, (6, 12)))
}

fn at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
    (next(), next()) >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        for newer in ["6.12.0", "6.18.44-fc-v657\n", "7.0-rc1", "10.1"] {
            assert!(at_least(newer, (6, 12)), "{newer}");
        }
        for older in ["6.8.0-45-generic", "5.14.0-503.el9", "", "unknown"] {
            assert!(!at_least(older, (6, 12)), "{older}");
        }
    }

    #[test]
    fn sectors_are_512_bytes() {
        let stat = "  100 1 2048 30 200 2 4096 40 0 50 60 0 0 0 0 0 0\n";
        let bytes = parse(stat).unwrap();
        assert_eq!(bytes, DeviceBytes { read: 1 << 20, written: 2 << 20 });
        assert_eq!(parse("1 2"), None);
        let bytes = parse("  8 0 100 5 9 0 7 0 0 0 0").unwrap();
        assert_eq!(bytes, DeviceBytes { read: 51_200, written: 3_584 });
        assert_eq!(parse("8 0"), None);
    }

    #[test]
    fn what_was_just_written_is_in_memory_until_it_is_dropped() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("f");
        fs::write(&path, vec![7; 1_000_000]).unwrap();
        assert_eq!(resident_bytes(&path).unwrap(), 1_000_000);
        fs::File::open(&path).unwrap().sync_all().unwrap();
        drop_cache(&path).unwrap();
        assert!(resident_bytes(&path).unwrap() < 1_000_000);
    }

    #[test]
    fn what_is_not_written_back_yet_is_dropped_too() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("f");
        fs::write(&path, vec![7; 1_000_000]).unwrap();
        drop_cache(&path).unwrap();
        assert!(resident_bytes(&path).unwrap() < 1_000_000);
    }

    #[test]
    fn memory_is_no_device() {
        assert!(DeviceCounters::of(Path::new("/proc")).is_none());
    }
}

//! What the device behind a file did, and what of a file lies in memory: proof of where reads came
//! from. And the one operation that devices have and files do not: discard.
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
/// Looked at in one mapping: the map of pages takes a byte for each.
const WINDOW_BYTES: u64 = 1 << 30;

/// Of ioctl(2): `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = 0x1277;
/// Of `io_uring`, since Linux 6.12: `_IO(0x12, 0)`.
pub(crate) const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

/// Counters of the block device that a path lies on.
#[derive(Clone, Debug)]
pub struct DeviceCounters {
    stat: PathBuf,
}

/// Since the device was there, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Read from it.
    pub read: u64,
    /// Written to it.
    pub written: u64,
}

impl DeviceBytes {
    /// What was moved since `earlier`.
    #[must_use]
    pub fn since(self, earlier: DeviceBytes) -> DeviceBytes {
        DeviceBytes {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }
}

impl DeviceCounters {
    /// Of the device behind `path`, or that is it; `None` where no block device is (memory, a
    /// network, a layered file system).
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let itself = metadata.file_type().is_block_device();
        let number = if itself { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (libc::major(number), libc::minor(number));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        stat.exists().then_some(DeviceCounters { stat })
    }

    /// The kernel's name of the device.
    pub fn name(&self) -> Option<String> {
        let place = fs::canonicalize(self.stat.parent()?).ok()?;
        Some(place.file_name()?.to_string_lossy().into_owned())
    }

    /// Until now; `None` when the device has gone.
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

/// How many bytes of a file lie in the page cache.
///
/// # Errors
/// The kernel's, for a file that cannot be opened or mapped.
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

/// Pages are the kernel's: it fills in as many bytes as there are of those.
fn resident_pages(file: &fs::File, at: u64, len: usize, page: usize) -> io::Result<u64> {
    let mapping = MmapOptions::new().offset(at).len(len).map_raw_read_only(file)?;
    let mut map = vec![0u8; len.div_ceil(page)];
    // In no library yet.
    // SAFETY: the mapping is `len` bytes, and the map has a byte for each of its pages.
    if unsafe { libc::mincore(mapping.as_mut_ptr().cast(), len, map.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(map.iter().map(|page| u64::from(page & 1)).sum())
}

/// Ask the kernel to drop what it holds of a file, written back first where it is not yet.
///
/// # Errors
/// The kernel's, for a file that cannot be opened or written back.
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

/// Tell a block device that the bytes are not needed any more. 0, or a negative errno.
///
/// The punching of a hole, which is what a file wants, would be a zero-out here: a write of zeros
/// where the device cannot promise them.
pub(crate) fn discard(fd: RawFd, offset: u64, len: u64) -> i32 {
    let range = [offset, len];
    // SAFETY: the kernel reads the two numbers, which outlive the call.
    if unsafe { libc::ioctl(fd, BLKDISCARD, range.as_ptr()) } == 0 {
        0
    } else {
        -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
    }
}

/// `io_uring` can discard; where it cannot, only a call that waits for the device does.
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

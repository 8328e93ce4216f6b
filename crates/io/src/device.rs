//! What the device behind a file did, and what of a file lies in memory: proof of where reads came
//! from. And the one operation that devices have and files do not: discard.
//!
//! Source: Documentation/admin-guide/iostats.rst of the kernel; mincore(2); linux/fs.h and
//! linux/blkdev.h.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SECTOR_BYTES: u64 = 512;
const PAGE_BYTES: usize = 4096;
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
    /// Of the device behind `path`; `None` where no block device is (memory, a network, a layered
    /// file system).
    pub fn of(path: &Path) -> Option<Self> {
        let number = fs::metadata(path).ok()?.dev();
        let (major, minor) = (libc::major(number), libc::minor(number));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        stat.exists().then_some(DeviceCounters { stat })
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
    let mut pages = 0;
    let mut at = 0;
    while at < len {
        let part = (len - at).min(WINDOW_BYTES) as usize;
        pages += resident_pages(&file, at, part)?;
        at += part as u64;
    }
    Ok((pages * PAGE_BYTES as u64).min(len))
}

fn resident_pages(file: &fs::File, at: u64, len: usize) -> io::Result<u64> {
    // SAFETY: a mapping of the kernel's choice, which touches no existing memory and is unmapped
    // below; nothing reads it.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_NONE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            at as libc::off_t,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut map = vec![0u8; len.div_ceil(PAGE_BYTES)];
    // SAFETY: the mapping is `len` bytes, and the map has a byte for each of its pages.
    let result = unsafe { libc::mincore(start, len, map.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: mapped above, and used no more.
    unsafe { libc::munmap(start, len) };
    if result != 0 {
        return Err(error);
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
    // SAFETY: advice; no memory is involved.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
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

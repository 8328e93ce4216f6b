//! Zones of host-managed zoned devices: ZNS and SMR drives.
//!
//! Source: linux/blkzoned.h.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use storlab_base::{Error, Result};

use crate::file::File;

const SECTOR_BYTES: u64 = 512;
/// Maximum number of zones that one call reports.
const REPORTED: usize = 256;
/// Request numbers of ioctl(2). Their type is the report's header, and the range of a reset.
const BLKREPORTZONE: libc::Ioctl = libc::_IOWR::<[u64; 2]>(0x12, 130);
const BLKRESETZONE: libc::Ioctl = libc::_IOW::<[u64; 2]>(0x12, 131);
/// Flag of a report: zones have capacities (since Linux 5.9).
const HAS_CAPACITY: u32 = 1;
/// Type of a zone that accepts only sequential writes.
const SEQUENTIAL_REQUIRED: u8 = 2;
/// Conditions of zones: empty, opened by a write, opened by a command, closed, full.
const EMPTY: u8 = 1;
const OPEN: [u8; 3] = [2, 3, 4];
const FULL: u8 = 14;

/// Zone that must be written from its start to its end; positions are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Start on the device.
    pub start: u64,
    /// Distance to the start of the next zone.
    pub len: u64,
    /// Number of bytes that can be written.
    pub capacity: u64,
    /// Number of bytes below the write pointer.
    pub written: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ReportedZone {
    start: u64,
    len: u64,
    write_pointer: u64,
    kind: u8,
    condition: u8,
    _unused: [u8; 6],
    capacity: u64,
    _reserved: [u8; 24],
}

#[repr(C)]
struct Report {
    sector: u64,
    count: u32,
    flags: u32,
    zones: [ReportedZone; REPORTED],
}

/// Return the usable zones of a device that accept only sequential writes; `None` if it has none.
///
/// Zones that are read-only or offline are left out.
///
/// # Errors
/// The system's error if the device cannot be opened or does not report its zones.
pub fn zones(path: &Path) -> io::Result<Option<Vec<Zone>>> {
    let device = std::fs::File::open(path)?;
    let (mut found, mut sector) = (Vec::new(), 0);
    loop {
        // SAFETY: zeros are valid in all fields.
        let mut report: Report = unsafe { std::mem::zeroed() };
        (report.sector, report.count) = (sector, REPORTED as u32);
        // SAFETY: the kernel writes at most `count` zones, for which `report` has room.
        if unsafe { libc::ioctl(device.as_raw_fd(), BLKREPORTZONE, &raw mut report) } != 0 {
            let error = io::Error::last_os_error();
            let not_zoned = matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EOPNOTSUPP));
            return if not_zoned { Ok(None) } else { Err(error) };
        }
        let reported = &report.zones[..REPORTED.min(report.count as usize)];
        let Some(last) = reported.last() else { break };
        sector = last.start + last.len;
        let sized = report.flags & HAS_CAPACITY != 0;
        found.extend(reported.iter().filter_map(|zone| zone.usable(sized)));
    }
    Ok(Some(found).filter(|found| !found.is_empty()))
}

impl ReportedZone {
    fn usable(&self, sized: bool) -> Option<Zone> {
        let capacity = if sized { self.capacity } else { self.len };
        let written = match self.condition {
            EMPTY => 0,
            FULL => capacity,
            condition if OPEN.contains(&condition) => self.write_pointer - self.start,
            _ => return None,
        };
        (self.kind == SEQUENTIAL_REQUIRED).then_some(Zone {
            start: self.start * SECTOR_BYTES,
            len: self.len * SECTOR_BYTES,
            capacity: capacity * SECTOR_BYTES,
            written: written * SECTOR_BYTES,
        })
    }
}

impl File {
    /// Reset a zone of the device, which erases its data and moves its write pointer to its start.
    ///
    /// # Errors
    /// [`Error::Io`] with operation `zone reset`.
    pub fn reset_zone(&self, start: u64, len: u64) -> Result<()> {
        let range = [start / SECTOR_BYTES, len / SECTOR_BYTES];
        // SAFETY: the kernel only reads the two numbers of `range`, which outlives the call.
        if unsafe { libc::ioctl(self.fd(), BLKRESETZONE, range.as_ptr()) } == 0 {
            return Ok(());
        }
        Err(Error::io("zone reset", self.name(), start, io::Error::last_os_error()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORTED_ZONE: ReportedZone = ReportedZone {
        start: 4096,
        len: 2048,
        write_pointer: 4096 + 100,
        kind: SEQUENTIAL_REQUIRED,
        condition: OPEN[0],
        _unused: [0; 6],
        capacity: 1500,
        _reserved: [0; 24],
    };

    #[test]
    fn records_are_as_long_as_the_kernels() {
        assert_eq!((size_of::<ReportedZone>(), std::mem::offset_of!(Report, zones)), (64, 16));
    }

    #[test]
    fn a_zone_is_written_up_to_its_pointer_or_its_capacity() {
        let written = |condition, sized| {
            let zone = ReportedZone { condition, ..REPORTED_ZONE }.usable(sized).unwrap();
            (zone.written, zone.capacity)
        };
        assert_eq!(written(OPEN[2], true), (51_200, 768_000));
        assert_eq!(written(EMPTY, true), (0, 768_000));
        assert_eq!(written(FULL, true), (768_000, 768_000));
        assert_eq!(written(FULL, false), (1 << 20, 1 << 20));
        for condition in [0, 13, 15] {
            assert_eq!(ReportedZone { condition, ..REPORTED_ZONE }.usable(true), None);
        }
        assert_eq!(ReportedZone { kind: 1, ..REPORTED_ZONE }.usable(true), None);
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(zones(file.path()).unwrap(), None);
        let opened = File::open(
            file.path(),
            "my disk",
            crate::Access { read: true, write: true, direct: false },
        );
        let error = opened.unwrap().reset_zone(0, 4096).unwrap_err().to_string();
        assert!(error.starts_with("zone reset of my disk"), "{error}");
    }
}

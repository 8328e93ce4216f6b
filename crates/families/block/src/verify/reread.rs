//! Verification after the load: reads back every block that was ever written, bypassing the page
//! cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::Ordering;

use memmap2::MmapMut;
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use storlab_base::{Error, Result};

use super::report::{BadKind, VerifyReport};
use super::{Range, Verifier};

/// Size of one read in bytes.
const WINDOW_BYTES: u64 = 1 << 20;
/// Alignment that every device accepts for `O_DIRECT`: logical blocks have 512 or 4,096 bytes.
const DIRECT_ALIGNMENT: u64 = 4096;

impl Verifier {
    /// Read and check every granule (verification block) that was ever written. No load may run
    /// meanwhile.
    ///
    /// With `direct`, reads use `O_DIRECT` if the target supports it; otherwise, cached pages are
    /// synced and dropped first. An unreadable granule is reported, and the pass continues.
    ///
    /// # Errors
    /// [`Error::Io`] if a file or device cannot be opened.
    pub fn pass(&self, direct: bool) -> Result<VerifyReport> {
        self.pass_while(direct, &|| true)
    }

    /// Like [`Verifier::pass`], but stop early, with a note in the report, once `keep_going`
    /// returns false.
    ///
    /// `keep_going` is called once per 1 MiB, so that a pass over terabytes can be cancelled.
    ///
    /// # Errors
    /// As [`Verifier::pass`].
    pub fn pass_while(&self, direct: bool, keep_going: &dyn Fn() -> bool) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        for (index, range) in self.ranges.iter().enumerate() {
            let mut reader = Reader::open(range, self.granule, direct, &mut report)?;
            let step = (WINDOW_BYTES / self.granule).max(1) as usize;
            for first in (0..range.count).step_by(step) {
                if !keep_going() {
                    report.note(
                        "verification was stopped early, so some blocks are unchecked".to_owned(),
                    );
                    return Ok(report);
                }
                let last = (first + step).min(range.count);
                self.check_window(index, first..last, &mut reader, &mut report);
            }
        }
        Ok(report)
    }

    fn check_window(
        &self,
        member: usize,
        window: std::ops::Range<usize>,
        reader: &mut Reader,
        report: &mut VerifyReport,
    ) {
        let range = &self.ranges[member];
        let written =
            |granule: &usize| self.state.issued(range.first + granule).load(Ordering::Acquire) > 0;
        let Some(first) = window.clone().find(written) else { return };
        let last = window.rev().find(written).unwrap_or(first);
        let len = (last - first + 1) as u64 * self.granule;
        if let Ok(data) = reader.read(range.place(first, self.granule), len, report) {
            for (granule, bytes) in (first..=last).zip(pieces(data, self.granule)) {
                self.check_granule(member, granule, bytes, report);
            }
            return;
        }
        for granule in (first..=last).filter(written) {
            let offset = range.place(granule, self.granule);
            match reader.read(offset, self.granule, report) {
                Ok(data) => self.check_granule(member, granule, data, report),
                Err(error) => {
                    report.checked_blocks += 1;
                    report.bad(BadKind::Unreadable, || {
                        self.describe(member, granule, BadKind::Unreadable, error.to_string())
                    });
                }
            }
        }
    }
}

/// Split `data` into granules (verification blocks). After the last one, yield empty slices without
/// end, for granules beyond the end of the file.
fn pieces(data: &[u8], granule: u64) -> impl Iterator<Item = &[u8]> {
    data.chunks(granule as usize).chain(std::iter::repeat(&[][..]))
}

struct Reader {
    file: File,
    name: String,
    direct: bool,
    buffer: MmapMut,
}

impl Reader {
    fn open(range: &Range, granule: u64, direct: bool, report: &mut VerifyReport) -> Result<Self> {
        let refused = |source| Error::io("open", range.name.clone(), 0, source);
        let bytes = WINDOW_BYTES.max(granule) + 2 * DIRECT_ALIGNMENT;
        let buffer = MmapMut::map_anon(bytes as usize).map_err(refused)?;
        let open = |flags| OpenOptions::new().read(true).custom_flags(flags).open(&range.path);
        let name = range.name.clone();
        if direct {
            match open(libc::O_DIRECT) {
                Ok(file) => return Ok(Reader { file, name, direct, buffer }),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(refused(error)),
            }
        }
        let file = open(0).map_err(refused)?;
        let mut reader = Reader { file, name, direct, buffer };
        reader.leave_direct(report);
        Ok(reader)
    }

    /// Switch to reads through the page cache. Cached pages are synced and dropped first.
    fn leave_direct(&mut self, report: &mut VerifyReport) {
        if std::mem::take(&mut self.direct) {
            report.note(format!(
                "{} does not allow O_DIRECT, so it was verified through the page cache, after \
                 cached pages had been synced and dropped",
                self.name
            ));
        }
        if let Err(error) = self.file.sync_data() {
            report.note(format!("{} could not be synced before verification: {error}", self.name));
        }
        // Ignore errors: pages that remain in the cache have the same content as the device,
        // because they were synced.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
    }

    /// Read `len` bytes from `offset`, or fewer at the end of the file.
    fn read(&mut self, offset: u64, len: u64, report: &mut VerifyReport) -> io::Result<&[u8]> {
        let mut filled = self.fill(offset, len);
        if self.direct && matches!(&filled, Err(e) if e.raw_os_error() == Some(libc::EINVAL)) {
            fcntl_setfl(&self.file, fcntl_getfl(&self.file)? - OFlags::DIRECT)?;
            self.leave_direct(report);
            filled = self.fill(offset, len);
        }
        let (skip, got) = filled?;
        let end = got.min(skip + len as usize).max(skip);
        Ok(&self.buffer[skip..end])
    }

    /// Read at least the `len` bytes at `offset`, aligned for `O_DIRECT`. Return where they start
    /// in the buffer, and the number of bytes read.
    fn fill(&mut self, offset: u64, len: u64) -> io::Result<(usize, usize)> {
        let alignment = if self.direct { DIRECT_ALIGNMENT } else { 1 };
        let start = offset / alignment * alignment;
        let bytes = ((offset + len).next_multiple_of(alignment) - start) as usize;
        let buffer = &mut self.buffer[..bytes];
        let mut got = 0;
        while got < bytes {
            match self.file.read_at(&mut buffer[got..], start + got as u64) {
                Ok(0) => break,
                Ok(moved) => got += moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.direct && !got.is_multiple_of(512) {
                break;
            }
        }
        Ok(((offset - start) as usize, got))
    }
}

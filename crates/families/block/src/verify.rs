//! Verify mode: detects lost, torn, stale and misplaced writes.
//!
//! A granule (`verify.block` bytes) is the unit of verification. It starts with a header: id of the
//! state file, index of the file or device, offset, generation (a counter that each write raises)
//! and a checksum of the whole granule. A state file records the last issued and the last
//! acknowledged generation of each granule. The granule may hold any generation between the two,
//! because a write that was in flight when the load was killed may or may not have arrived.

#[cfg(test)]
mod crash_tests;
mod header;
mod mapping;
mod report;
mod reread;
mod state;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use storlab_base::{Error, Result};
use storlab_run::order::{Member, MemberKind};

use crate::spec::VerifySpec;
use header::{Found, Header};
use mapping::Mapping;
pub use report::{BadBlock, BadKind, VerifyReport};
use state::State;

/// Unit that every device writes atomically, in bytes.
const SECTOR_BYTES: u64 = 512;
const GRANULE_MAX: u64 = 1 << 30;

/// Writes verification headers into blocks, and checks blocks that were read; shared by all jobs of
/// a run.
///
/// All I/O must cover whole granules (verification blocks), counted from the start of the region
/// under test; a granule that is written in part is no longer checked. In verify mode, the header
/// and 8 bytes of each 512-byte sector replace payload.
///
/// # Durability
/// *Process killed*: no record is lost, because the state file is a shared mapping. *Power cut*:
/// the records are those of the last [`Verifier::flush`] or later. Keep the state file on other
/// media than the target, preferably on another machine. Records that are older than the data on
/// the target make the check less strict, but never wrong. Generations newer than the recorded ones
/// are accepted and recorded. After a restart of the machine, a torn block with a newer generation
/// counts as a write that was in flight. *Acknowledged* means completed, not flushed: writes that a
/// volatile cache acknowledged (the page cache, or that of a drive without power-loss protection)
/// may be lost or stale after a power cut, and are reported.
#[derive(Debug)]
pub struct Verifier {
    state: State,
    granule: u64,
    ranges: Vec<Range>,
    /// One bit per granule (verification block), set while an operation in flight uses the granule.
    claims: Mapping,
}

/// Granules (verification blocks) of one file or device.
#[derive(Debug)]
struct Range {
    name: String,
    path: PathBuf,
    offset: u64,
    /// Number of the first granule; granules are numbered across all files and devices.
    first: usize,
    count: usize,
}

impl Range {
    /// Return the offset in the file or device of granule number `granule`; `bytes` is the size of
    /// a granule.
    fn place(&self, granule: usize, bytes: u64) -> u64 {
        self.offset + granule as u64 * bytes
    }
}

impl Verifier {
    /// Open the state file, or create it.
    ///
    /// # Errors
    /// [`Error::Spec`] if the block size is invalid, or the state file is in use, belongs to other
    /// files, devices or block sizes, or is not a state file. [`Error::Io`] if it cannot be opened
    /// or created.
    pub fn open(spec: &VerifySpec, members: &[Member], seed: u64) -> Result<Verifier> {
        let granule = spec.block;
        if granule == 0 || granule > GRANULE_MAX || !granule.is_multiple_of(SECTOR_BYTES) {
            let fix = "give a multiple of 512 bytes, up to 1 GiB, that divides every block size";
            return Err(Error::spec("verify.block", format!("{granule} bytes is invalid"), fix));
        }
        let mut first = 0;
        let mut ranges = Vec::with_capacity(members.len());
        for member in members {
            let count = (member.size / granule) as usize;
            check_member(member, count)?;
            let (name, path) = (member.name.clone(), member.path.clone());
            ranges.push(Range { name, path, offset: member.offset, first, count });
            first += count;
        }
        let state = State::open(&spec.state, granule, members, seed)?;
        let claims = Mapping::anonymous(first.div_ceil(64).max(1) * 8)
            .map_err(|source| Error::io("map", spec.state.display().to_string(), 0, source))?;
        Ok(Verifier { state, granule, ranges, claims })
    }

    /// Claim every granule (verification block) of a byte range for one operation. Return false if
    /// another operation in flight has claimed one of them. `offset` is in the file or device.
    pub fn try_claim(&self, member: usize, offset: u64, len: u64) -> bool {
        for (done, (word, mask)) in self.claim_words(member, offset, len).enumerate() {
            let taken = word.fetch_or(mask, Ordering::Acquire) & mask;
            if taken != 0 {
                word.fetch_and(!(mask & !taken), Ordering::Release);
                for (word, mask) in self.claim_words(member, offset, len).take(done) {
                    word.fetch_and(!mask, Ordering::Release);
                }
                return false;
            }
        }
        true
    }

    /// Release a range that was claimed with [`Verifier::try_claim`].
    pub fn release(&self, member: usize, offset: u64, len: u64) {
        for (word, mask) in self.claim_words(member, offset, len) {
            word.fetch_and(!mask, Ordering::Release);
        }
    }

    /// Prepare a write: put a header with the next generation (write counter) into each granule of
    /// `buf`, which is about to be written at `offset`, and record that generation as issued. The
    /// caller must hold the range by [`Verifier::try_claim`].
    pub fn before_write(&self, member: usize, offset: u64, buf: &mut [u8]) {
        let range = &self.ranges[member];
        let whole = self.whole(range, offset, buf.len() as u64);
        let touched = self.touched(range, offset, buf.len() as u64);
        for granule in touched.filter(|granule| !whole.contains(granule)) {
            self.state.acknowledged(range.first + granule).store(0, Ordering::Relaxed);
        }
        for granule in whole {
            let issued = self.state.issued(range.first + granule);
            let last = issued.load(Ordering::Relaxed).max(self.state.generation_floor());
            let generation = last.saturating_add(1);
            issued.store(generation, Ordering::Release);
            let place = range.place(granule, self.granule);
            let header = Header {
                state: self.state.id(),
                offset: place,
                member: member as u32,
                generation,
                length: self.granule as u32,
            };
            let at = (place - offset) as usize;
            header.write(&mut buf[at..at + self.granule as usize]);
        }
    }

    /// Record that a write completed: the last issued generation (write counter) of each granule
    /// becomes the acknowledged one. The caller must still hold the range by
    /// [`Verifier::try_claim`].
    pub fn after_write(&self, member: usize, offset: u64, len: u64) {
        let range = &self.ranges[member];
        for granule in self.whole(range, offset, len) {
            let issued = self.state.issued(range.first + granule).load(Ordering::Relaxed);
            self.state.acknowledged(range.first + granule).store(issued, Ordering::Release);
        }
    }

    /// Check the data that was read from `offset`, in a range that the caller holds by
    /// [`Verifier::try_claim`]. Granules (verification blocks) for which the state file records no
    /// write are neither checked nor counted.
    pub fn check_read(&self, member: usize, offset: u64, buf: &[u8], report: &mut VerifyReport) {
        let range = &self.ranges[member];
        for granule in self.whole(range, offset, buf.len() as u64) {
            let at = (range.place(granule, self.granule) - offset) as usize;
            self.check_granule(member, granule, &buf[at..at + self.granule as usize], report);
        }
    }

    /// Write the state file to its media, and wait until that is done.
    ///
    /// # Errors
    /// [`Error::Io`] if the kernel cannot write it.
    pub fn flush(&self) -> Result<()> {
        self.state.flush()
    }

    fn check_granule(
        &self,
        member: usize,
        granule: usize,
        bytes: &[u8],
        report: &mut VerifyReport,
    ) {
        let number = self.ranges[member].first + granule;
        if self.state.issued(number).load(Ordering::Acquire) == 0 {
            return;
        }
        report.checked_blocks += 1;
        match self.judge(member, granule, bytes) {
            Verdict::Good => {}
            Verdict::Newer(generation) => {
                self.state.issued(number).fetch_max(generation, Ordering::Relaxed);
            }
            Verdict::TornInFlight => report.torn_in_flight += 1,
            Verdict::Bad(kind) => report
                .bad(kind, || self.describe(member, granule, kind, self.found_text(member, bytes))),
        }
    }

    fn judge(&self, member: usize, granule: usize, bytes: &[u8]) -> Verdict {
        let range = &self.ranges[member];
        let number = range.first + granule;
        let issued = self.state.issued(number).load(Ordering::Acquire);
        let acknowledged = self.state.acknowledged(number).load(Ordering::Acquire);
        let (header, sound, intact) = match Header::read(bytes) {
            Found::Header { header, sound, intact }
                if header.state == self.state.id() && bytes.len() as u64 == self.granule =>
            {
                (header, sound, intact)
            }
            _ if acknowledged > 0 => return Verdict::Bad(BadKind::Lost),
            _ => return Verdict::Good,
        };
        let here =
            header.member as usize == member && header.offset == range.place(granule, self.granule);
        let generation = header.generation;
        if sound && !here {
            Verdict::Bad(BadKind::Misplaced)
        } else if !intact {
            let in_flight = acknowledged < issued && (acknowledged..=issued).contains(&generation);
            let unrecorded = generation > issued && self.state.outlived_restart();
            if sound && (in_flight || unrecorded) {
                Verdict::TornInFlight
            } else {
                Verdict::Bad(BadKind::Torn)
            }
        } else if generation < acknowledged {
            Verdict::Bad(BadKind::Stale)
        } else if generation > issued {
            Verdict::Newer(generation)
        } else {
            Verdict::Good
        }
    }

    fn describe(&self, member: usize, granule: usize, kind: BadKind, found: String) -> BadBlock {
        let range = &self.ranges[member];
        let offset = range.place(granule, self.granule);
        let issued = self.state.issued(range.first + granule).load(Ordering::Acquire);
        let expected = match self.state.acknowledged(range.first + granule).load(Ordering::Acquire)
        {
            0 => format!("any generation up to {issued} at offset {offset}"),
            acknowledged if acknowledged == issued => {
                format!("generation {issued} at offset {offset}")
            }
            acknowledged => format!("generation {acknowledged} to {issued} at offset {offset}"),
        };
        BadBlock { kind, path: range.name.clone(), offset, expected, found }
    }

    fn found_text(&self, member: usize, bytes: &[u8]) -> String {
        let (header, sound, intact) = match Header::read(bytes) {
            _ if bytes.len() < self.granule as usize => return "the end of the file".to_owned(),
            Found::Zeros => return "zeros".to_owned(),
            Found::Foreign => return "data without a header".to_owned(),
            Found::Header { header, .. } if header.state != self.state.id() => {
                return "data of another verify state".to_owned();
            }
            Found::Header { header, sound, intact } => (header, sound, intact),
        };
        let Header { generation, offset, .. } = header;
        if !sound {
            return "a damaged header".to_owned();
        }
        let damage = if intact { "" } else { ", with a wrong checksum" };
        if header.member as usize == member {
            return format!("generation {generation} of offset {offset}{damage}");
        }
        let name = self.ranges.get(header.member as usize).map_or("another member", |r| &r.name);
        format!("generation {generation} of {name}, offset {offset}{damage}")
    }

    /// Return the granules (verification blocks) that lie completely within `len` bytes at
    /// `offset`.
    fn whole(&self, range: &Range, offset: u64, len: u64) -> std::ops::Range<usize> {
        let start = offset.saturating_sub(range.offset);
        let end = offset.saturating_add(len).saturating_sub(range.offset);
        let last = ((end / self.granule) as usize).min(range.count);
        (start.div_ceil(self.granule) as usize).min(last)..last
    }

    /// Return the granules (verification blocks) that overlap `len` bytes at `offset`.
    fn touched(&self, range: &Range, offset: u64, len: u64) -> std::ops::Range<usize> {
        let start = offset.saturating_sub(range.offset);
        let end = offset.saturating_add(len).saturating_sub(range.offset);
        let last = (end.div_ceil(self.granule) as usize).min(range.count);
        ((start / self.granule) as usize).min(last)..last
    }

    fn claim_words(
        &self,
        member: usize,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let range = &self.ranges[member];
        let touched = self.touched(range, offset, len);
        let granules = range.first + touched.start..range.first + touched.end;
        let end = if granules.is_empty() { 0 } else { granules.end.div_ceil(64) };
        let words = granules.start / 64..end;
        words.map(move |word| {
            let low = granules.start.max(word * 64) - word * 64;
            let high = granules.end.min(word * 64 + 64) - word * 64;
            let mask = (u64::MAX >> (64 - (high - low))) << low;
            (&self.claims.words64()[word], mask)
        })
    }
}

/// Result of checking one granule (verification block).
enum Verdict {
    Good,
    /// The block is intact, and its generation is newer than recorded: the state file lost its last
    /// records in a crash.
    Newer(u32),
    TornInFlight,
    Bad(BadKind),
}

fn check_member(member: &Member, granules: usize) -> Result<()> {
    if member.kind == MemberKind::Null {
        let what = format!("{} is a null target, which stores no data", member.name);
        return Err(Error::spec("verify", what, "verify a file or a device"));
    }
    if granules == 0 {
        let what = format!("is larger than {} ({} bytes)", member.name, member.size);
        return Err(Error::spec("verify.block", what, "use a smaller block or a larger target"));
    }
    Ok(())
}

//! First pass before the load: check that the data path delivers the right bytes.
//!
//! The beginning of each file is read over the data path of the load, and the data in GPU (or host)
//! memory is compared with the data that the kernel reads. This is necessary: a library was seen to
//! report success for operations that moved wrong data.
//!
//! Before each read, the destination is filled with a pattern that no file contains, so data that
//! never arrived is always detected. Each file is checked once per campaign, unless it changes.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use storlab_base::{Content, Error, OpKind, monotonic_ns};
use storlab_run::order::Member;

use crate::checked::line_of;
use crate::figures::Compared;
use crate::files;
use crate::paths::{Completion, Io, Mover};
use crate::shared::Shared;
use crate::spec::GpuDirectJob;

const LOOK: Duration = Duration::from_millis(100);

/// Failure of the first pass (the check of the data path), after which the load does not begin.
pub struct Failed {
    /// Error to report to the user.
    pub error: Error,
    /// Whether I/O is still in flight, so that kernel and driver may still use the data path's
    /// memory.
    pub stuck: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed { error, stuck: false }
    }
}

/// Check that the data path reads the worker's file correctly, if the job requests the check and
/// this worker is the first one of the file.
///
/// # Errors
/// [`Error::Io`] with operation `verify` if data differs; errors of reads and of copies to or from
/// the GPU.
pub fn check(shared: &Shared, worker: usize, mover: &mut impl Mover) -> Result<(), Failed> {
    let job = &shared.job;
    let (file, share) = job.place_of(worker);
    if job.verify_bytes == 0 || !job.reads() || share.index != 0 {
        return Ok(());
    }
    let line = line_of(job, worker, &job.members[file]);
    if line.as_deref().is_some_and(|line| shared.checked.knows(line)) {
        shared.add_first_pass(&Compared { earlier: 1, ..Compared::default() });
        return Ok(());
    }
    let begun_ns = monotonic_ns();
    let (mut compared, mut first_wrong) = (Compared { files: 1, ..Compared::default() }, None);
    let passed = compare(shared, file, mover, &mut compared, &mut first_wrong);
    compared.ns = monotonic_ns() - begun_ns;
    shared.add_first_pass(&compared);
    passed?;
    match first_wrong {
        None if shared.timed.control.stopping() => Ok(()),
        None => {
            if let Some(line) = &line {
                shared.checked.add(line);
            }
            Ok(())
        }
        Some(offset) => {
            let what = format!(
                "data read over path {} differs from the file's content ({} of the {} bytes \
                 compared are in blocks that differ)",
                job.path.name(),
                compared.wrong,
                compared.bytes
            );
            Err(wrong(&job.members[file].name, offset, what).into())
        }
    }
}

/// Build the error for data in file `name` that differs from the expected data.
pub fn wrong(name: &str, offset: u64, what: String) -> Error {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    Error::io("verify", name, offset, source)
}

fn compare(
    shared: &Shared,
    file: usize,
    mover: &mut impl Mover,
    compared: &mut Compared,
    first_wrong: &mut Option<u64>,
) -> Result<(), Failed> {
    let (job, member) = (&shared.job, &shared.job.members[file]);
    let longest = job.longest_block() as usize;
    let plain = files::open_to_compare(job, member)?;
    let mut expected = files::pages(longest)?;
    let mut came = files::pages(longest)?;
    let foreign = Content::new(!job.seed, 1, longest);
    let mut places = places(job, job.verify_bytes.next_multiple_of(longest as u64), member);
    while !shared.timed.control.stopping() {
        let turn: Vec<Io> = places.by_ref().take(job.queue_depth).collect();
        if turn.is_empty() {
            break;
        }
        for io in &turn {
            let spoilt = mover
                .landing(io.slot)
                .and_then(|mut memory| memory.write(&foreign.pattern(0)[..io.len as usize]));
            spoilt.map_err(|fault| fault.of("copying to the GPU"))?;
            mover.push(*io);
        }
        fetch(shared, file, mover, &turn)?;
        for &Io { slot, offset, len, .. } in &turn {
            let (came, expected) = (&mut came[..len as usize], &mut expected[..len as usize]);
            let copied = mover.landing(slot).and_then(|memory| memory.read(came));
            copied.map_err(|fault| fault.of("copying from the GPU"))?;
            let whole = plain.read_exact_at(expected, offset);
            whole.map_err(|e| Error::io("read", &member.name, offset, e))?;
            compared.bytes += u64::from(len);
            if came != expected {
                compared.wrong += u64::from(len);
                first_wrong.get_or_insert(offset);
            }
        }
    }
    Ok(())
}

/// Yield reads from the beginning of a file, of all block sizes in turn, up to `wanted` bytes in
/// total.
fn places<'j>(
    job: &'j GpuDirectJob,
    wanted: u64,
    member: &Member,
) -> impl Iterator<Item = Io> + 'j {
    let (space, begin) = (wanted.min(job.space_of(member)), member.offset);
    let lengths = job.block_sizes.iter().map(|size| size.bytes).cycle();
    let slots = (0..job.queue_depth as u16).cycle();
    let mut next = 0;
    lengths.zip(slots).map_while(move |(len, slot)| {
        let at = next;
        next += len;
        let io = Io { slot, kind: OpKind::Read, offset: begin + at, len: len as u32 };
        (next <= space).then_some(io)
    })
}

/// Call the data path until all I/Os in `turn`, which were queued together, have ended.
fn fetch(shared: &Shared, file: usize, mover: &mut impl Mover, turn: &[Io]) -> Result<(), Failed> {
    let (job, member) = (&shared.job, &shared.job.members[file]);
    let give_up_ns = monotonic_ns().saturating_add(job.drain_timeout_ns);
    let mut left = turn.len();
    let (mut ended, mut bad) = (Vec::with_capacity(left), None);
    while left > 0 {
        if let Err(fault) = mover.turn(LOOK, &mut ended) {
            let error = fault.of(&format!("the first pass of {}", member.name));
            shared.note_fault(fault);
            return Err(Failed { error, stuck: true });
        }
        if !ended.is_empty() {
            shared.timed.goes_on();
        }
        left = left.saturating_sub(ended.len());
        for Completion { slot, result } in ended.drain(..) {
            let Some(io) = turn.iter().find(|io| io.slot == slot) else { continue };
            let (offset, wanted) = (io.offset, u64::from(io.len));
            if result != Ok(wanted) {
                bad.get_or_insert(match result {
                    Ok(moved) => {
                        let (operation, path) = ("read", member.name.clone());
                        Error::Short { operation, path, offset, moved, wanted }
                    }
                    Err(fault) => {
                        shared.note_fault(fault);
                        fault.of_io("read", &member.name, offset)
                    }
                });
            }
        }
        if left > 0 && monotonic_ns() >= give_up_ns {
            let waited_ms = job.drain_timeout_ns / 1_000_000;
            let error = Error::Hung { place: member.name.clone(), outstanding: left, waited_ms };
            return Err(Failed { error, stuck: true });
        }
    }
    bad.map_or(Ok(()), |error| Err(error.into()))
}

//! Before the load: the beginning of each file goes the very way of the load, and what came to the
//! GPU's memory is compared with what the kernel reads. A library was seen to call an operation
//! complete whose data was wrong.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use storlab_base::{Error, OpKind, monotonic_ns};

use crate::figures::Compared;
use crate::files;
use crate::paths::{Completion, Io, Mover};
use crate::shared::Shared;

const LOOK: Duration = Duration::from_millis(100);

/// Why the load does not begin.
pub struct Failed {
    /// For people.
    pub error: Error,
    /// I/O is in flight still: kernel and driver may use the mover's memory.
    pub stuck: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed { error, stuck: false }
    }
}

/// Where the worker is the first of its file, and the job says so.
///
/// # Errors
/// [`Error::Io`] with operation `verify` where something differs; what I/O and copies say.
pub fn check(shared: &Shared, worker: usize, mover: &mut impl Mover) -> Result<(), Failed> {
    let job = &shared.job;
    let (file, share) = job.place_of(worker);
    if job.verify_bytes == 0 || !job.reads() || share.index != 0 {
        return Ok(());
    }
    let begun_ns = monotonic_ns();
    let (mut found, mut first_wrong) = (Compared { files: 1, ..Compared::default() }, None);
    let passed = compare(shared, file, mover, &mut found, &mut first_wrong);
    found.ns = monotonic_ns() - begun_ns;
    shared.add_first_pass(&found);
    passed?;
    match first_wrong {
        None => Ok(()),
        Some(offset) => {
            let what = format!(
                "what came by way of {} is not what the file holds ({} of {} bytes compared are in \
                 blocks that differ)",
                job.path.name(),
                found.wrong * job.block_size,
                found.bytes
            );
            Err(wrong(&job.members[file].name, offset, what).into())
        }
    }
}

/// Data is not what it should be.
pub fn wrong(name: &str, offset: u64, what: String) -> Error {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    Error::io("verify", name, offset, source)
}

fn compare(
    shared: &Shared,
    file: usize,
    mover: &mut impl Mover,
    found: &mut Compared,
    first_wrong: &mut Option<u64>,
) -> Result<(), Failed> {
    let (job, member) = (&shared.job, &shared.job.members[file]);
    let block = job.block_size;
    let plain = files::open_to_compare(job, member)?;
    let mut expected = files::pages(block as usize)?;
    let mut came = files::pages(block as usize)?;
    let blocks = job.verify_bytes.div_ceil(block).min(job.space_of(member) / block);
    let mut next = 0;
    while next < blocks && !shared.control.stopping() {
        let upto = blocks.min(next + job.queue_depth as u64);
        let place = |number: u64| member.offset + number * block;
        for (slot, number) in (next..upto).enumerate() {
            mover.push(Io { slot: slot as u16, kind: OpKind::Read, offset: place(number) });
        }
        fetch(shared, file, mover, next..upto)?;
        for (slot, number) in (next..upto).enumerate() {
            let offset = place(number);
            let copied = mover.copy_back(slot as u16, &mut came);
            copied.map_err(|fault| fault.of("copying from the GPU"))?;
            let whole = plain.read_exact_at(&mut expected, offset);
            whole.map_err(|e| Error::io("read", &member.name, offset, e))?;
            found.bytes += block;
            if came[..] != expected[..] {
                found.wrong += 1;
                first_wrong.get_or_insert(offset);
            }
        }
        next = upto;
    }
    Ok(())
}

/// Until all that was pushed has ended.
fn fetch(
    shared: &Shared,
    file: usize,
    mover: &mut impl Mover,
    numbers: std::ops::Range<u64>,
) -> Result<(), Failed> {
    let (job, member) = (&shared.job, &shared.job.members[file]);
    let give_up_ns = monotonic_ns().saturating_add(job.drain_timeout_ns);
    let mut left = (numbers.end - numbers.start) as usize;
    let (mut ended, mut bad) = (Vec::with_capacity(left), None);
    while left > 0 {
        if let Err(fault) = mover.turn(LOOK, &mut ended) {
            let error = fault.of(&format!("the first pass of {}", member.name));
            shared.note_fault(fault);
            return Err(Failed { error, stuck: true });
        }
        if !ended.is_empty() {
            shared.goes_on();
        }
        left = left.saturating_sub(ended.len());
        for Completion { slot, result } in ended.drain(..) {
            let offset = member.offset + (numbers.start + u64::from(slot)) * job.block_size;
            if result != Ok(job.block_size) {
                let wanted = job.block_size;
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
            let error = Error::Hung { job: file, outstanding: left, waited_ms };
            return Err(Failed { error, stuck: true });
        }
    }
    bad.map_or(Ok(()), |error| Err(error.into()))
}

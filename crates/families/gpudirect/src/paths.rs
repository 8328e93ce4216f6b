//! The ways that data can go. Each is a [`Mover`], which belongs to one worker.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use storlab_base::{Error, OpKind, Result};
use storlab_run::order::Member;

use crate::content::place_of;
use crate::cuda::{Cuda, DeviceBuffer};
use crate::cufile::{CuFile, CuHandle, Driver, IoBuffer};
use crate::errors::{Done, Fault};
use crate::figures::{Registration, timed};
use crate::files;
use crate::shared::Shared;
use crate::spec::GpuDirectJob;
use crate::stack::Stack;

mod bounce;
mod direct_async;
mod direct_batch;
mod direct_sync;
mod host;
mod overlapped;

pub use bounce::Bounce;
pub use direct_async::DirectAsync;
pub use direct_batch::DirectBatch;
pub use direct_sync::DirectSync;
pub use host::Host;
pub use overlapped::{Overlapped, Use, begin as begin_overlapped};

/// Of the time that work takes, between two looks at it; and their bounds.
const LOOKS: u64 = 8;
const LOOK_MIN_NS: u64 = 5_000;
const LOOK_MAX_NS: u64 = 5_000_000;

/// Work that takes less than this as a rule may have ended as soon as other threads have had their
/// turn: so often a turn is passed on before a timer is set. A timer costs more, above all in a
/// guest, which leaves for its hypervisor to set one; passing a turn on costs next to nothing where
/// no other thread waits.
const SHORT_NS: u64 = 50_000;
const YIELDS: u32 = 2;

/// An operation.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Of the buffer.
    pub slot: u16,
    /// Read or write.
    pub kind: OpKind,
    /// In the file.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl Io {
    #[inline]
    fn bytes(&self) -> usize {
        self.len as usize
    }
}

/// Where a read brings its data.
pub enum Landing<'m> {
    /// At this place in memory of a GPU.
    Gpu(&'m DeviceBuffer, usize),
    /// In memory of the host.
    Host(&'m mut [u8]),
}

impl Landing<'_> {
    /// What lies there.
    ///
    /// # Errors
    /// Of the copy.
    pub fn read(&self, into: &mut [u8]) -> Done<()> {
        match self {
            Landing::Gpu(buffer, at) => buffer.read(*at, into),
            Landing::Host(memory) => {
                into.copy_from_slice(&memory[..into.len()]);
                Ok(())
            }
        }
    }

    /// Put something there.
    ///
    /// # Errors
    /// Of the copy.
    pub fn write(&mut self, from: &[u8]) -> Done<()> {
        match self {
            Landing::Gpu(buffer, at) => buffer.put(*at, from),
            Landing::Host(memory) => {
                memory[..from.len()].copy_from_slice(from);
                Ok(())
            }
        }
    }
}

/// An operation that has ended: its data is where it should be, or not.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Of the buffer.
    pub slot: u16,
    /// Bytes moved, or why not.
    pub result: Done<u64>,
}

/// Moves the data of one worker between its file and its buffers.
pub trait Mover {
    /// An operation can be pushed, where a slot is free.
    fn takes(&self) -> bool {
        true
    }

    /// Add an operation to the next turn.
    fn push(&mut self, io: Io);

    /// Start what was pushed, and append what has ended. Waits for something to end, no longer than
    /// `limit`; ways that do one operation at a time wait for that.
    ///
    /// # Errors
    /// What ends the run; errors of operations come with them.
    fn turn(&mut self, limit: Duration, ended: &mut Vec<Completion>) -> Done<()>;

    /// Where reads of a slot bring their data.
    ///
    /// # Errors
    /// Where there is no such memory.
    fn landing(&mut self, slot: u16) -> Done<Landing<'_>>;

    /// Ask for what is in flight to be given up.
    fn cancel(&mut self) {}

    /// What of the kernel and the driver it uses.
    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// A way that does one operation at a time.
pub trait OneByOne {
    /// Do it. Returns the bytes moved.
    ///
    /// # Errors
    /// Why not.
    fn move_now(&mut self, io: &Io) -> Done<u64>;

    /// As [`Mover::landing`].
    ///
    /// # Errors
    /// Where there is no such memory.
    fn landing(&mut self, slot: u16) -> Done<Landing<'_>>;
}

/// The mover of such a way.
pub struct InTurn<W> {
    way: W,
    next: Option<Io>,
}

impl<W: OneByOne> InTurn<W> {
    /// With nothing pushed.
    pub fn new(way: W) -> Self {
        InTurn { way, next: None }
    }
}

impl<W: OneByOne> Mover for InTurn<W> {
    #[inline]
    fn push(&mut self, io: Io) {
        self.next = Some(io);
    }

    #[inline]
    fn turn(&mut self, _: Duration, ended: &mut Vec<Completion>) -> Done<()> {
        if let Some(io) = self.next.take() {
            ended.push(Completion { slot: io.slot, result: self.way.move_now(&io) });
        }
        Ok(())
    }

    fn landing(&mut self, slot: u16) -> Done<Landing<'_>> {
        self.way.landing(slot)
    }
}

/// Where a worker is.
pub struct Seat {
    /// Number of its member.
    pub file: usize,
    /// Bytes of the longest of its operations.
    pub longest: usize,
    stride: usize,
    gpu: usize,
    /// Where the content of its file begins.
    begin: u64,
    stack: Arc<Stack>,
}

impl Seat {
    /// Of a worker, whose thread is on its GPU from now on.
    ///
    /// # Errors
    /// By name.
    pub fn take(job: &GpuDirectJob, worker: usize, stack: &Arc<Stack>) -> Result<Self> {
        let (file, _) = job.place_of(worker);
        let gpu = job.gpu_of(worker);
        if let Some(gpu) = stack.gpus.get(gpu) {
            gpu.enter()?;
        }
        Ok(Seat {
            file,
            longest: job.longest_block() as usize,
            stride: job.stride(),
            gpu,
            begin: stack.source.as_ref().map_or(0, |source| source.begin_of(file)),
            stack: stack.clone(),
        })
    }

    #[inline]
    fn at(&self, slot: u16) -> usize {
        usize::from(slot) * self.stride
    }

    /// The GPU's memory that a write of this place is sent from.
    #[inline]
    fn source(&self, offset: u64) -> Done<(&DeviceBuffer, usize)> {
        let pool = self.stack.pools.get(self.gpu).ok_or(Fault::Errno(libc::ENOBUFS))?;
        Ok((pool.memory(), place_of(self.begin, offset)))
    }

    fn cuda(&self) -> Result<&'static Cuda> {
        let gpu = self.stack.gpus.get(self.gpu);
        gpu.map(|gpu| gpu.cuda).ok_or_else(|| Error::spec("gpu", "there is none", "name one"))
    }

    fn cufile(&self) -> Result<&'static CuFile> {
        let driver = self.stack.driver.as_ref();
        driver.map(Driver::cufile).ok_or_else(|| Fault::CuFile(5001, 0).of("cuFile"))
    }

    /// Where in these buffers reads of a slot bring their data.
    fn landing<'b>(&self, buffer: Option<&'b DeviceBuffer>, slot: u16) -> Done<Landing<'b>> {
        let buffer = buffer.ok_or(Fault::Errno(libc::ENOBUFS))?;
        Ok(Landing::Gpu(buffer, self.at(slot)))
    }

    /// Buffers for reads, in the GPU.
    fn read_buffers(&self, job: &GpuDirectJob) -> Result<Option<DeviceBuffer>> {
        let bytes = job.gpu_bytes_of_worker();
        (bytes > 0).then(|| DeviceBuffer::new(self.cuda()?, bytes)).transpose()
    }
}

/// What the calls of cuFile need of a worker: its file, and its buffers.
pub struct Registered {
    /// One for all slots of the worker, or one for each.
    buffers: Vec<IoBuffer>,
    handle: CuHandle,
}

impl Registered {
    fn new(shared: &Shared, seat: &Seat) -> Result<Self> {
        let (job, cufile) = (&shared.job, seat.cufile()?);
        let member: &Member = &job.members[seat.file];
        let file = files::open(job, member)?;
        let (handle, handles_ns) = timed(|| CuHandle::new(cufile, file, &member.name));
        let handle = handle?;
        let mut cost = Registration { handles: 1, handles_ns, ..Registration::default() };
        let mut buffers = Vec::new();
        let count = job.own_buffers();
        for _ in 0..count {
            let memory = DeviceBuffer::new(seat.cuda()?, job.gpu_bytes_of_worker() / count)?;
            if !job.register {
                buffers.push(IoBuffer::unregistered(memory));
                continue;
            }
            cost.buffers += 1;
            cost.bytes += memory.len() as u64;
            let (registered, ns) = timed(|| IoBuffer::registered(cufile, memory));
            cost.ns += ns;
            buffers.push(registered?);
        }
        shared.add_registration(&cost);
        Ok(Registered { buffers, handle })
    }

    /// What a slot has of them.
    #[inline]
    fn of_slot(&self, seat: &Seat, slot: u16) -> Done<(&DeviceBuffer, usize)> {
        match &self.buffers[..] {
            [] => Err(Fault::Errno(libc::ENOBUFS)),
            [only] => Ok((only.memory(), seat.at(slot))),
            buffers => Ok((buffers[usize::from(slot)].memory(), 0)),
        }
    }

    /// Where the data of an operation lies in the GPU.
    #[inline]
    fn place<'p>(&'p self, seat: &'p Seat, io: &Io) -> Done<(&'p DeviceBuffer, usize)> {
        match io.kind {
            OpKind::Read => self.of_slot(seat, io.slot),
            _ => seat.source(io.offset),
        }
    }

    fn landing(&self, seat: &Seat, slot: u16) -> Done<Landing<'_>> {
        self.of_slot(seat, slot).map(|(buffer, at)| Landing::Gpu(buffer, at))
    }
}

/// When to look again at work that began then and takes so long as a rule: not before, and from
/// then on ever more seldom, so that a thousand workers who wait for one engine leave it the
/// processors.
#[inline]
fn next_look_ns(begun_ns: u64, usual_ns: u64, now: u64) -> u64 {
    let waited_ns = now.saturating_sub(begun_ns);
    let step_ns = (usual_ns.max(waited_ns) / LOOKS).clamp(LOOK_MIN_NS, LOOK_MAX_NS);
    begun_ns.saturating_add(usual_ns).max(now + step_ns)
}

/// How long work takes as a rule, after some that took so long. What was held up once must not make
/// the next looks late: that time would count as latency.
#[inline]
fn usual_after(usual_ns: u64, took_ns: u64) -> u64 {
    let counted_ns = took_ns.min(2 * usual_ns + LOOK_MIN_NS);
    if usual_ns == 0 { took_ns } else { (7 * usual_ns + counted_ns) / 8 }
}

/// Yields before the first timer of a wait.
#[derive(Default)]
struct Patience {
    yields: u32,
}

impl Patience {
    /// Let other threads run, where work of this length may have ended then. False: set a timer.
    #[inline]
    fn yields(&mut self, usual_ns: u64) -> bool {
        let yields = usual_ns < SHORT_NS && self.yields < YIELDS;
        if yields {
            self.yields += 1;
            std::thread::yield_now();
        }
        yields
    }
}

/// A read or write by the kernel.
#[inline]
fn result_of(result: std::io::Result<usize>) -> Done<u64> {
    match result {
        Ok(moved) => Ok(moved as u64),
        Err(error) => Err(Fault::Errno(error.raw_os_error().unwrap_or(libc::EIO))),
    }
}

#[inline]
fn read_at(file: &File, into: &mut [u8], offset: u64) -> Done<u64> {
    result_of(file.read_at(into, offset))
}

#[inline]
fn write_at(file: &File, from: &[u8], offset: u64) -> Done<u64> {
    result_of(file.write_at(from, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_seldom_the_longer_they_are_in_vain() {
        assert_eq!(next_look_ns(1000, 80_000, 2000), 81_000); // not before it is due
        assert_eq!(next_look_ns(1000, 80_000, 81_000), 91_000);
        assert_eq!(next_look_ns(1000, 0, 1000), 6000); // nothing is known yet
        assert_eq!(next_look_ns(0, 1000, 8_000_000), 9_000_000);
        assert_eq!(next_look_ns(0, 1000, 1_000_000_000), 1_005_000_000);
    }

    #[test]
    fn work_that_was_held_up_once_does_not_make_the_next_looks_late() {
        assert_eq!(usual_after(0, 80_000), 80_000);
        assert!(usual_after(80_000, 5_000_000) < 100_000);
        let mut usual_ns = 3;
        for _ in 0..100 {
            usual_ns = usual_after(usual_ns, 80_000); // it is slower for good
        }
        assert!((79_000..=80_000).contains(&usual_ns), "{usual_ns}");
    }

    #[test]
    fn turns_are_passed_on_before_the_first_timer_of_short_work_only() {
        let mut patience = Patience::default();
        assert!(patience.yields(5_000) && patience.yields(0)); // 0: nothing is known yet
        assert!(!patience.yields(5_000));
        assert!(!Patience::default().yields(SHORT_NS));
    }
}

//! Data paths between storage and memory. Each implements [`Mover`] and belongs to one worker.

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

/// Number of polls during the usual duration of an operation, and bounds of the time between two
/// polls.
const LOOKS: u64 = 8;
const LOOK_MIN_NS: u64 = 5_000;
const LOOK_MAX_NS: u64 = 5_000_000;

/// Thresholds for yielding before a wait with a timer. Operations that usually take less than
/// `SHORT_NS` may complete while other threads run, so yield `YIELDS` times before setting a timer.
/// A timer costs more, above all in a virtual machine, which must exit to its hypervisor to set
/// one. A yield costs almost nothing if no other thread waits.
const SHORT_NS: u64 = 50_000;
const YIELDS: u32 = 2;

/// I/O that a worker passes to its data path.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Number of the worker's buffer that the I/O uses.
    pub slot: u16,
    /// Kind of the I/O: read or write.
    pub kind: OpKind,
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

impl Io {
    #[inline]
    fn bytes(&self) -> usize {
        self.len as usize
    }
}

/// Memory in which the data of a read arrives: of a GPU or of the host.
pub enum Landing<'m> {
    /// GPU buffer and an offset in it.
    Gpu(&'m DeviceBuffer, usize),
    /// Buffer in host memory.
    Host(&'m mut [u8]),
}

impl Landing<'_> {
    /// Copy the data that has arrived into `into`.
    ///
    /// # Errors
    /// If the copy from the GPU fails.
    pub fn read(&self, into: &mut [u8]) -> Done<()> {
        match self {
            Landing::Gpu(buffer, at) => buffer.read(*at, into),
            Landing::Host(memory) => {
                into.copy_from_slice(&memory[..into.len()]);
                Ok(())
            }
        }
    }

    /// Overwrite the memory with `from`.
    ///
    /// # Errors
    /// If the copy to the GPU fails.
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

/// Result of an I/O that has ended, successfully or not.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Number of the buffer that the I/O used.
    pub slot: u16,
    /// Bytes moved, or the reason for the failure.
    pub result: Done<u64>,
}

/// Data path of one worker: moves data between the worker's file and its buffers.
pub trait Mover {
    /// Return whether the path can accept another operation now, provided that a buffer is free.
    fn takes(&self) -> bool {
        true
    }

    /// Queue an operation; the next call of [`Mover::turn`] starts it.
    fn push(&mut self, io: Io);

    /// Start the queued operations, and append the completions of operations that have ended to
    /// `ended`.
    ///
    /// Waits at most `limit` until one ends. Data paths that run one operation at a time wait until
    /// that operation has ended.
    ///
    /// # Errors
    /// If the run cannot continue. Failures of single operations are reported in their completions.
    fn turn(&mut self, limit: Duration, ended: &mut Vec<Completion>) -> Done<()>;

    /// Return the memory in which reads of buffer number `slot` arrive.
    ///
    /// # Errors
    /// If the worker has no buffer for reads.
    fn landing(&mut self, slot: u16) -> Done<Landing<'_>>;

    /// Request the cancellation of all operations in flight; does nothing by default.
    fn cancel(&mut self) {}

    /// Return the names of the features of kernel and libraries that the data path uses.
    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Data path that runs one blocking operation at a time.
pub trait OneByOne {
    /// Execute the operation. Return the number of bytes moved.
    ///
    /// # Errors
    /// If the operation fails.
    fn move_now(&mut self, io: &Io) -> Done<u64>;

    /// Return the memory in which reads of buffer number `slot` arrive, like [`Mover::landing`].
    ///
    /// # Errors
    /// If the worker has no buffer for reads.
    fn landing(&mut self, slot: u16) -> Done<Landing<'_>>;
}

/// Adapter that turns a data path with blocking operations into a [`Mover`].
pub struct InTurn<W> {
    way: W,
    next: Option<Io>,
}

impl<W: OneByOne> InTurn<W> {
    /// Create the adapter, with no operation queued.
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

/// Resources of one worker: its file, its GPU and the layout of its buffers.
pub struct WorkerResources {
    /// Index of the worker's file in the job's `members`.
    pub file: usize,
    /// Largest block size in bytes.
    pub longest: usize,
    stride: usize,
    gpu: usize,
    /// Position in the pool of content, in bytes, at which the content of the worker's file begins.
    begin: u64,
    stack: Arc<Stack>,
}

impl WorkerResources {
    /// Assign a file and a GPU to a worker, and make the GPU current on this thread.
    ///
    /// # Errors
    /// If the GPU's context cannot be made current.
    pub fn take(job: &GpuDirectJob, worker: usize, stack: &Arc<Stack>) -> Result<Self> {
        let (file, _) = job.place_of(worker);
        let gpu = job.gpu_of(worker);
        if let Some(gpu) = stack.gpus.get(gpu) {
            gpu.enter()?;
        }
        Ok(WorkerResources {
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

    /// Return the GPU memory from which a write to `offset` is sent: a buffer and an offset in it.
    #[inline]
    fn source(&self, offset: u64) -> Done<(&DeviceBuffer, usize)> {
        let pool = self.stack.pools.get(self.gpu).ok_or(Fault::Errno(libc::ENOBUFS))?;
        Ok((pool.memory(), place_of(self.begin, offset)))
    }

    fn cuda(&self) -> Result<&'static Cuda> {
        let gpu = self.stack.gpus.get(self.gpu);
        gpu.map(|gpu| gpu.cuda).ok_or_else(|| {
            Error::spec(
                "gpu",
                "this data path needs a GPU, but none is given",
                "list GPUs, such as [0]",
            )
        })
    }

    fn cufile(&self) -> Result<&'static CuFile> {
        let driver = self.stack.driver.as_ref();
        driver.map(Driver::cufile).ok_or_else(|| Fault::CuFile(5001, 0).of("cuFile"))
    }

    /// Return the part of `buffer` in which reads of buffer number `slot` arrive.
    fn landing<'b>(&self, buffer: Option<&'b DeviceBuffer>, slot: u16) -> Done<Landing<'b>> {
        let buffer = buffer.ok_or(Fault::Errno(libc::ENOBUFS))?;
        Ok(Landing::Gpu(buffer, self.at(slot)))
    }

    /// Allocate GPU memory for reads; `None` if the worker does not read.
    fn read_buffers(&self, job: &GpuDirectJob) -> Result<Option<DeviceBuffer>> {
        let bytes = job.gpu_bytes_of_worker();
        (bytes > 0).then(|| DeviceBuffer::new(self.cuda()?, bytes)).transpose()
    }
}

/// File and buffers of a worker that are registered with cuFile.
pub struct Registered {
    /// One GPU buffer for all slots, or one per slot.
    buffers: Vec<IoBuffer>,
    handle: CuHandle,
}

impl Registered {
    fn new(shared: &Shared, resources: &WorkerResources) -> Result<Self> {
        let (job, cufile) = (&shared.job, resources.cufile()?);
        let member: &Member = &job.members[resources.file];
        let file = files::open(job, member)?;
        let (handle, handles_ns) = timed(|| CuHandle::new(cufile, file, &member.name));
        let handle = handle?;
        let mut cost = Registration { handles: 1, handles_ns, ..Registration::default() };
        let mut buffers = Vec::new();
        let count = job.own_buffers();
        for _ in 0..count {
            let memory = DeviceBuffer::new(resources.cuda()?, job.gpu_bytes_of_worker() / count)?;
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

    /// Return the GPU buffer of a slot and the slot's offset in it.
    #[inline]
    fn of_slot(&self, resources: &WorkerResources, slot: u16) -> Done<(&DeviceBuffer, usize)> {
        match &self.buffers[..] {
            [] => Err(Fault::Errno(libc::ENOBUFS)),
            [only] => Ok((only.memory(), resources.at(slot))),
            buffers => Ok((buffers[usize::from(slot)].memory(), 0)),
        }
    }

    /// Return the GPU memory that an operation reads into or writes from: a buffer and an offset in
    /// it.
    #[inline]
    fn place<'p>(
        &'p self,
        resources: &'p WorkerResources,
        io: &Io,
    ) -> Done<(&'p DeviceBuffer, usize)> {
        match io.kind {
            OpKind::Read => self.of_slot(resources, io.slot),
            _ => resources.source(io.offset),
        }
    }

    fn landing(&self, resources: &WorkerResources, slot: u16) -> Done<Landing<'_>> {
        self.of_slot(resources, slot).map(|(buffer, at)| Landing::Gpu(buffer, at))
    }
}

/// Return the time of the next poll for an operation that began at `begun_ns` and usually takes
/// `usual_ns`.
///
/// The first poll is not before the usual time. After that, polls become less frequent, so that a
/// thousand workers that wait for one engine do not use up the CPUs.
#[inline]
fn next_look_ns(begun_ns: u64, usual_ns: u64, now: u64) -> u64 {
    let waited_ns = now.saturating_sub(begun_ns);
    let step_ns = (usual_ns.max(waited_ns) / LOOKS).clamp(LOOK_MIN_NS, LOOK_MAX_NS);
    begun_ns.saturating_add(usual_ns).max(now + step_ns)
}

/// Update the smoothed duration `usual_ns` by an operation that took `took_ns`. Return the new
/// value.
///
/// Outliers are capped: after one stalled operation, the next polls must not be late, because that
/// delay would count as latency.
#[inline]
fn usual_after(usual_ns: u64, took_ns: u64) -> u64 {
    let counted_ns = took_ns.min(2 * usual_ns + LOOK_MIN_NS);
    if usual_ns == 0 { took_ns } else { (7 * usual_ns + counted_ns) / 8 }
}

/// Counts how often a waiting worker has yielded the CPU; after a set number it waits on a timer
/// instead.
#[derive(Default)]
struct YieldBudget {
    yields: u32,
}

impl YieldBudget {
    /// Yield the CPU if operations that usually take `usual_ns` may complete meanwhile. Return
    /// false if the caller should wait with a timer instead.
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

/// Convert the result of a system call that reads or writes to bytes moved or a [`Fault`].
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
        assert_eq!(next_look_ns(1000, 80_000, 2000), 81_000); // not before the usual time
        assert_eq!(next_look_ns(1000, 80_000, 81_000), 91_000);
        assert_eq!(next_look_ns(1000, 0, 1000), 6000); // no duration measured yet
        assert_eq!(next_look_ns(0, 1000, 8_000_000), 9_000_000);
        assert_eq!(next_look_ns(0, 1000, 1_000_000_000), 1_005_000_000);
    }

    #[test]
    fn work_that_was_held_up_once_does_not_make_the_next_looks_late() {
        assert_eq!(usual_after(0, 80_000), 80_000);
        assert!(usual_after(80_000, 5_000_000) < 100_000);
        let mut usual_ns = 3;
        for _ in 0..100 {
            usual_ns = usual_after(usual_ns, 80_000); // permanently slower
        }
        assert!((79_000..=80_000).contains(&usual_ns), "{usual_ns}");
    }

    #[test]
    fn turns_are_passed_on_before_the_first_timer_of_short_work_only() {
        let mut timeout = YieldBudget::default();
        assert!(timeout.yields(5_000) && timeout.yields(0)); // 0: no duration measured yet
        assert!(!timeout.yields(5_000));
        assert!(!YieldBudget::default().yields(SHORT_NS));
    }
}

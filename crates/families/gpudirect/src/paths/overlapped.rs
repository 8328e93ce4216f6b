//! Overlapped bounce path, as an experienced engineer would write it: `io_uring` (or threads, if it
//! is unavailable) reads into pinned host memory, while the CUDA driver copies the data of other
//! operations on a stream.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use storlab_base::{Error, OpKind, Result, monotonic_ns};
use storlab_io::{
    Access, Arena, Backend, BackendKind, Completion as Ended, File, Op, Queue, UseBackend, Wake,
};

use super::{
    Completion, Io, Landing, Mover, WorkerResources, YieldBudget, next_look_ns, usual_after,
};
use crate::cuda::{DeviceBuffer, Event, PinnedArena, Stream};
use crate::errors::{Done, Fault};
use crate::shared::Shared;

/// Indices of the `lanes`: copies to the GPU after reads, and copies from the GPU before writes.
const READS: usize = 0;
const WRITES: usize = 1;

/// Copies between host and GPU in one direction, which complete in the order in which they were
/// started.
struct Lane {
    stream: Stream,
    queue: VecDeque<(u16, u64)>,
    /// Smoothed duration of a copy, in nanoseconds.
    usual_ns: u64,
}

impl Lane {
    fn new(resources: &WorkerResources, depth: usize) -> Result<Self> {
        let stream = Stream::new(resources.cuda()?).map_err(|fault| fault.of("cuStreamCreate"))?;
        Ok(Lane { stream, queue: VecDeque::with_capacity(depth), usual_ns: 0 })
    }

    /// Return the time of the next poll for the oldest copy; `u64::MAX` if there is no copy.
    #[inline]
    fn look_at_ns(&self, now: u64) -> u64 {
        let Some(&(_, begun_ns)) = self.queue.front() else { return u64::MAX };
        next_look_ns(begun_ns, self.usual_ns, now)
    }

    /// Return the usual duration of a copy in nanoseconds if one is in flight; `None` otherwise.
    #[inline]
    fn wait_ns(&self) -> Option<u64> {
        (!self.queue.is_empty()).then_some(self.usual_ns)
    }

    /// Return the slot of the oldest copy if it has ended; `None` otherwise.
    #[inline]
    fn ended(&mut self, events: &[Event]) -> Done<Option<u16>> {
        let Some(&(slot, begun_ns)) = self.queue.front() else { return Ok(None) };
        if !events[usize::from(slot)].has_passed()? {
            return Ok(None);
        }
        self.queue.pop_front();
        let took_ns = monotonic_ns().saturating_sub(begun_ns);
        self.usual_ns = usual_after(self.usual_ns, took_ns);
        if let Some((_, next_ns)) = self.queue.front_mut() {
            *next_ns = monotonic_ns(); // the next copy began when this one ended
        }
        Ok(Some(slot))
    }
}

#[derive(Clone, Copy)]
struct Slot {
    kind: OpKind,
    offset: u64,
    len: u32,
    moved: u64,
}

/// Data path that overlaps I/O by a backend with copies to and from the GPU.
pub struct Overlapped<B> {
    lanes: [Lane; 2],
    events: Vec<Event>,
    /// Dropped before `backend`, whose memory it has pinned.
    pinned: PinnedArena,
    buffer: Option<DeviceBuffer>,
    backend: B,
    resources: WorkerResources,
    slots: Vec<Slot>,
    pushed: Vec<u16>,
    reaped: Vec<Ended>,
    /// Whether operations were queued since the last submission to the kernel.
    unsent: bool,
}

/// Function that works with the data path, whatever the type of its backend.
pub trait Use {
    /// Type of the function's result.
    type Output;

    /// Do the work with the data path and the waker of its backend.
    ///
    /// # Errors
    /// The errors of the implementation, such as a failed read or copy.
    fn with<B: Backend>(self, mover: Overlapped<B>, waker: Arc<dyn Wake>) -> Result<Self::Output>;
}

/// Open the worker's file, allocate its buffers, create the data path and pass it to `then`.
///
/// # Errors
/// If the file cannot be opened, memory cannot be allocated or pinned, or the backend cannot start;
/// errors of `then`.
pub fn begin<U: Use>(shared: &Shared, resources: WorkerResources, then: U) -> Result<U::Output> {
    let job = &shared.job;
    let member = &job.members[resources.file];
    let access = Access { read: true, write: job.writes(), direct: job.direct };
    let files = Arc::new(vec![File::open(&member.path, &member.name, access)?]);
    let depth = job.queue_depth;
    let arena = Arena::new(depth, resources.longest)
        .map_err(|e| Error::io("allocation", "buffers", 0, e))?;
    let work = OnBackend { shared, resources, then };
    BackendKind::fastest().open(files, arena, Queue::of_depth(depth), work)
}

/// Rest of [`begin`] once the backend is open: builds the data path and passes it to `then`.
struct OnBackend<'s, U> {
    shared: &'s Shared,
    resources: WorkerResources,
    then: U,
}

impl<U: Use> UseBackend for OnBackend<'_, U> {
    type Output = U::Output;

    fn with<B: Backend>(self, backend: B) -> Result<U::Output> {
        let waker = backend.waker();
        self.then.with(Overlapped::new(self.shared, self.resources, backend)?, waker)
    }
}

impl<B: Backend> Overlapped<B> {
    fn new(shared: &Shared, resources: WorkerResources, backend: B) -> Result<Self> {
        let (cuda, depth) = (resources.cuda()?, shared.job.queue_depth);
        // SAFETY: fields are dropped in their order, so `pinned` before `backend`.
        let pinned = unsafe { PinnedArena::new(cuda, backend.arena()) }?;
        let buffer = resources.read_buffers(&shared.job)?;
        let lanes = [Lane::new(&resources, depth)?, Lane::new(&resources, depth)?];
        let event = |_| Event::new(cuda).map_err(|fault| fault.of("cuEventCreate"));
        Ok(Overlapped {
            lanes,
            events: (0..depth).map(event).collect::<Result<Vec<_>>>()?,
            pinned,
            buffer,
            backend,
            resources,
            slots: vec![Slot { kind: OpKind::Read, offset: 0, len: 0, moved: 0 }; depth],
            pushed: Vec::with_capacity(depth),
            reaped: Vec::with_capacity(depth),
            unsent: false,
        })
    }

    #[inline]
    fn ask_kernel(&mut self, slot: u16) {
        let Slot { kind, offset, len, .. } = self.slots[usize::from(slot)];
        self.backend.push(&Op {
            kind,
            file: 0,
            data_only: false,
            slot: u32::from(slot),
            slot_offset: 0,
            len,
            offset,
            tag: u64::from(slot),
        });
        self.unsent = true;
    }

    /// Start the copy of a slot: to the GPU after its read, or from the GPU before its write.
    #[inline]
    fn copy(&mut self, slot: u16) -> Done<()> {
        let Slot { kind, offset, len, moved } = self.slots[usize::from(slot)];
        let (arena, number) = (self.backend.arena(), u32::from(slot));
        let lane = &mut self.lanes[if kind == OpKind::Read { READS } else { WRITES }];
        if kind == OpKind::Read {
            let buffer = self.buffer.as_ref().ok_or(Fault::Errno(libc::ENOBUFS))?;
            let place = (buffer, self.resources.at(slot));
            let len = moved as usize;
            // SAFETY: the slot is not reused before its event has passed, and `drop` waits for the
            // stream before the buffers are dropped.
            unsafe { self.pinned.start_to_device(arena, number, len, place, &lane.stream) }?;
        } else {
            let place = self.resources.source(offset)?;
            let len = len as usize;
            // SAFETY: as for reads; the pool with the content outlives all workers.
            unsafe { self.pinned.start_to_host(arena, number, len, place, &lane.stream) }?;
        }
        self.events[usize::from(slot)].mark(&lane.stream)?;
        lane.queue.push_back((slot, monotonic_ns()));
        Ok(())
    }

    /// Start the copy of a slot. If the driver refuses it, complete the operation with the fault.
    #[inline]
    fn copy_or_end(&mut self, slot: u16, ended: &mut Vec<Completion>) {
        if let Err(fault) = self.copy(slot) {
            ended.push(Completion { slot, result: Err(fault) });
        }
    }

    /// Collect I/Os from the backend: start the copies of reads, and complete writes.
    #[inline]
    fn take_from_kernel(&mut self, ended: &mut Vec<Completion>) {
        let mut reaped = std::mem::take(&mut self.reaped);
        self.backend.reap(&mut reaped, usize::MAX);
        for Ended { tag, result } in reaped.drain(..) {
            let slot = tag as u16;
            if result < 0 && matches!(-result, libc::EAGAIN | libc::EINTR) {
                self.ask_kernel(slot);
            } else if result > 0 && self.slots[usize::from(slot)].kind == OpKind::Read {
                self.slots[usize::from(slot)].moved = result as u64;
                self.copy_or_end(slot, ended);
            } else {
                let result =
                    if result < 0 { Err(Fault::Errno(-result)) } else { Ok(result as u64) };
                ended.push(Completion { slot, result });
            }
        }
        self.reaped = reaped;
    }

    /// Collect copies that have ended: complete reads, and submit writes.
    #[inline]
    fn take_from_driver(&mut self, ended: &mut Vec<Completion>) {
        for lane in 0..self.lanes.len() {
            loop {
                match self.lanes[lane].ended(&self.events) {
                    Ok(None) => break,
                    Ok(Some(slot)) if lane == READS => {
                        let moved = self.slots[usize::from(slot)].moved;
                        ended.push(Completion { slot, result: Ok(moved) });
                    }
                    Ok(Some(slot)) => self.ask_kernel(slot),
                    Err(fault) => {
                        // The GPU's context is lost, so the remaining copies will not end: complete
                        // them all with the fault.
                        let all = self.lanes[lane].queue.drain(..);
                        ended.extend(all.map(|(slot, _)| Completion { slot, result: Err(fault) }));
                    }
                }
            }
        }
    }

    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> Done<()> {
        self.unsent = false;
        let submitted = self.backend.submit(wait, timeout);
        submitted.map_err(|e| Fault::Errno(e.raw_os_error().unwrap_or(libc::EIO)))
    }
}

impl<B: Backend> Mover for Overlapped<B> {
    #[inline]
    fn push(&mut self, io: Io) {
        let slot = &mut self.slots[usize::from(io.slot)];
        *slot = Slot { kind: io.kind, offset: io.offset, len: io.len, moved: 0 };
        self.pushed.push(io.slot);
    }

    fn turn(&mut self, limit: Duration, ended: &mut Vec<Completion>) -> Done<()> {
        for number in 0..self.pushed.len() {
            let slot = self.pushed[number];
            match self.slots[usize::from(slot)].kind {
                OpKind::Read => self.ask_kernel(slot),
                _ => self.copy_or_end(slot, ended),
            }
        }
        self.pushed.clear();
        let until_ns = monotonic_ns().saturating_add(limit.as_nanos() as u64);
        let mut timeout = YieldBudget::default();
        loop {
            self.take_from_kernel(ended);
            self.take_from_driver(ended);
            let now = monotonic_ns();
            if !ended.is_empty() || now >= until_ns {
                // Submit the I/Os that were queued since the last submission.
                return if self.unsent { self.submit(false, None) } else { Ok(()) };
            }
            let wait_ns = self.lanes.iter().filter_map(Lane::wait_ns).min();
            if !self.unsent && wait_ns.is_some_and(|wait_ns| timeout.yields(wait_ns)) {
                continue;
            }
            let look_ns = self.lanes.iter().map(|lane| lane.look_at_ns(now)).min();
            let until_ns = look_ns.unwrap_or(u64::MAX).min(until_ns);
            self.submit(true, Some(Duration::from_nanos(until_ns - now)))?;
        }
    }

    fn landing(&mut self, slot: u16) -> Done<Landing<'_>> {
        self.resources.landing(self.buffer.as_ref(), slot)
    }

    fn cancel(&mut self) {
        self.backend.cancel_all();
    }

    fn features(&self) -> Vec<&'static str> {
        let mut features = self.backend.features();
        features.push(self.backend.name());
        features.extend(self.pinned.is_pinned().then_some("pinned_buffers"));
        features
    }
}

impl<B> Drop for Overlapped<B> {
    fn drop(&mut self) {
        for lane in &self.lanes {
            // Ignore errors: they mean that the driver has failed, so no copy is running.
            let _ = lane.stream.wait();
        }
    }
}

//! Async path: cuFile I/O on CUDA streams.
//!
//! Each operation in flight has its own stream, so that none waits for another. Before a write, the
//! stream copies the content to write into the operation's own buffer.

#![allow(unsafe_code)]

use std::time::Duration;

use storlab_base::{OpKind, Result, monotonic_ns};

use super::{
    Completion, Io, Landing, Mover, Registered, WorkerResources, YieldBudget, next_look_ns,
    usual_after,
};
use crate::cuda::{Event, Stream};
use crate::cufile::{IoStream, Opcode};
use crate::errors::Done;
use crate::shared::Shared;

struct Lane {
    stream: IoStream,
    busy: bool,
    begun_ns: u64,
}

/// Data path between storage and GPU memory by cuFile's async API.
pub struct DirectAsync {
    /// One stream per operation in flight. `drop` waits until all streams are idle, before the
    /// buffers are dropped.
    lanes: Vec<Lane>,
    /// Event to wait for the only operation at queue depth 1; `None` at other depths.
    end: Option<Event>,
    registered: Registered,
    resources: WorkerResources,
    pushed: Vec<Io>,
    in_flight: usize,
    /// Smoothed duration of an operation, in nanoseconds.
    usual_ns: u64,
}

impl DirectAsync {
    /// Register the worker's file and buffers, and create the streams.
    ///
    /// # Errors
    /// If the file cannot be opened or registered, memory cannot be allocated, or cuFile has no
    /// async API.
    pub fn new(shared: &Shared, resources: WorkerResources) -> Result<Self> {
        let (depth, cuda, cufile) =
            (shared.job.queue_depth, resources.cuda()?, resources.cufile()?);
        let in_whole_pages = shared.job.in_whole_pages();
        let registered = Registered::new(shared, &resources)?;
        let lane = |_| {
            let stream = Stream::new(cuda).map_err(|fault| fault.of("cuStreamCreate"))?;
            let stream = IoStream::new(cufile, stream, in_whole_pages)?;
            Ok(Lane { stream, busy: false, begun_ns: 0 })
        };
        let lanes = (0..depth).map(lane).collect::<Result<Vec<_>>>()?;
        let event = || Event::new(cuda).map_err(|fault| fault.of("cuEventCreate"));
        let end = (depth == 1).then(event).transpose()?;
        let pushed = Vec::with_capacity(depth);
        Ok(DirectAsync { lanes, end, registered, resources, pushed, in_flight: 0, usual_ns: 0 })
    }

    #[inline]
    fn start(&mut self, io: &Io, now: u64) -> Done<()> {
        let opcode = if io.kind == OpKind::Read { Opcode::Read } else { Opcode::Write };
        let place = self.registered.of_slot(&self.resources, io.slot)?;
        let (handle, len) = (&self.registered.handle, io.bytes());
        let lane = &mut self.lanes[usize::from(io.slot)];
        if opcode == Opcode::Write {
            let source = self.resources.source(io.offset)?;
            // SAFETY: `drop` waits for the stream before the buffers are dropped; the pool with the
            // content outlives all workers.
            unsafe { place.0.start_copy(source, len, lane.stream.stream()) }?;
        }
        // SAFETY: `drop` waits for the stream before the buffers and the file are dropped.
        if let Err(fault) = unsafe { lane.stream.start(opcode, handle, io.offset, len, place) } {
            // Wait, because the copy started above must have ended before the buffers are dropped.
            let _ = lane.stream.stream().wait();
            return Err(fault);
        }
        (lane.busy, lane.begun_ns) = (true, now);
        self.in_flight += 1;
        Ok(())
    }

    /// Collect the operations that have ended. Return the start time of the oldest one still in
    /// flight; `u64::MAX` if there is none.
    #[inline]
    fn sweep(&mut self, ended: &mut Vec<Completion>) -> u64 {
        let mut oldest_ns = u64::MAX;
        for (slot, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.busy) {
            let result = match lane.stream.poll() {
                Ok(Some(moved)) => Ok(moved),
                Ok(None) => {
                    oldest_ns = oldest_ns.min(lane.begun_ns);
                    continue;
                }
                Err(fault) => Err(fault),
            };
            lane.busy = false;
            self.in_flight -= 1;
            ended.push(Completion { slot: slot as u16, result });
        }
        oldest_ns
    }

    fn learn(&mut self, begun_ns: u64) {
        let took_ns = monotonic_ns().saturating_sub(begun_ns);
        self.usual_ns = usual_after(self.usual_ns, took_ns);
    }
}

impl Mover for DirectAsync {
    #[inline]
    fn push(&mut self, io: Io) {
        self.pushed.push(io);
    }

    fn turn(&mut self, limit: Duration, ended: &mut Vec<Completion>) -> Done<()> {
        let begun_ns = monotonic_ns();
        for number in 0..self.pushed.len() {
            let io = self.pushed[number];
            if let Err(fault) = self.start(&io, begun_ns) {
                ended.push(Completion { slot: io.slot, result: Err(fault) });
            }
        }
        self.pushed.clear();
        if let (Some(end), 1) = (&self.end, self.in_flight) {
            // An error of the wait is ignored here, because `sweep` reports it too.
            let _ = end.mark(self.lanes[0].stream.stream()).and_then(|()| end.wait());
        }
        let until_ns = begun_ns.saturating_add(limit.as_nanos() as u64);
        let mut timeout = YieldBudget::default();
        loop {
            let oldest_ns = self.sweep(ended);
            let now = monotonic_ns();
            if !ended.is_empty() {
                let first = usize::from(ended[0].slot);
                self.learn(self.lanes[first].begun_ns);
                return Ok(());
            }
            if self.in_flight == 0 || now >= until_ns {
                return Ok(());
            }
            if timeout.yields(self.usual_ns) {
                continue;
            }
            // Poll from 3/4 of the usual duration on: operations other than the oldest may end
            // first.
            let look_ns = next_look_ns(oldest_ns, self.usual_ns / 4 * 3, now).min(until_ns);
            std::thread::sleep(Duration::from_nanos(look_ns - now));
        }
    }

    fn landing(&mut self, slot: u16) -> Done<Landing<'_>> {
        self.registered.landing(&self.resources, slot)
    }

    fn features(&self) -> Vec<&'static str> {
        vec!["cufile_async"]
    }
}

impl Drop for DirectAsync {
    fn drop(&mut self) {
        for lane in self.lanes.iter().filter(|lane| lane.busy) {
            // Ignore errors: they mean that the GPU's context is lost, so no I/O is running in it.
            let _ = lane.stream.stream().wait();
        }
    }
}

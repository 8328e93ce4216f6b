//! Worker: draws operations, passes them to its data path when they are due, and measures them.
//!
//! Latency runs from just before an operation is passed to the data path until its data has
//! arrived: in GPU memory for reads, on storage for writes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use storlab_base::{Clock, Error, OpKind, Result, Signal, TimeSource, lock};
use storlab_run::batch_worker::{self, BatchWorker, Schedule, Sent};
use storlab_run::pacing::Pacing;
use storlab_run::recorder::{Reading, Recorder, Success};
use storlab_run::sampling::empty_table;
use storlab_run::timed::{Timed, WorkerEnd};
use storlab_run::window::Window;

use crate::draw::Draw;
use crate::errors::Fault;
use crate::paths::{Completion, Io, Mover};
use crate::shared::Shared;

/// Longest wait before the worker checks the clock and the stop flag again, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// Maximum number of consecutive failures of the data path during the drain. After that the worker
/// gives up, because the path no longer reports its I/O in flight.
const REFUSALS_MAX: usize = 10;

#[derive(Clone, Copy)]
struct Flight {
    kind: OpKind,
    offset: u64,
    len: u32,
    sent: Sent,
}

const NO_FLIGHT: Flight =
    Flight { kind: OpKind::Read, offset: 0, len: 0, sent: Sent { at_ns: 0, due_ns: 0 } };

/// Ring buffer of a worker's last writes, as (offset, length) pairs.
struct Places {
    all: Vec<(u64, u32)>,
    room: usize,
    next: usize,
}

impl Places {
    fn new(room: usize) -> Self {
        Places { all: Vec::with_capacity(room), room, next: 0 }
    }

    #[inline]
    fn add(&mut self, place: (u64, u32)) {
        if self.all.len() < self.room {
            self.all.push(place);
        } else if self.room > 0 {
            self.all[self.next] = place;
            self.next = if self.next + 1 == self.room { 0 } else { self.next + 1 };
        }
    }
}

/// Worker of a run, generic over its data path.
pub struct Worker<'r, M: Mover> {
    shared: &'r Shared,
    index: usize,
    file: usize,
    mover: M,
    clock: Clock,
    nap: Arc<Signal<bool>>,
    schedule: Schedule,
    draw: Draw,
    recorder: Recorder,
    flights: Vec<Flight>,
    free: Vec<u16>,
    fresh: Vec<u16>,
    ended: Vec<Completion>,
    written: Places,
    /// Whether the last call of [`Mover::turn`] failed.
    refused: bool,
    moved_bytes: u64,
}

impl<'r, M: Mover> Worker<'r, M> {
    /// Create a worker and allocate everything that it needs.
    ///
    /// # Errors
    /// If the file is too small for the workers that share it.
    pub fn new(shared: &'r Shared, index: usize, mover: M, nap: Arc<Signal<bool>>) -> Result<Self> {
        let (job, open_loop) = (&shared.job, shared.job.arrival.open_loop());
        let (file, share) = job.place_of(index);
        let depth = job.queue_depth;
        let remembered = job.verify_bytes.div_ceil(job.longest_block()).div_ceil(share.count);
        let room = if job.writes() { remembered as usize } else { 0 };
        Ok(Worker {
            shared,
            index,
            file,
            mover,
            clock: Clock::new(),
            nap,
            schedule: Schedule::new(open_loop, job.drain_timeout_ns, job.window_bytes_of(index)),
            draw: Draw::new(job, index)?,
            recorder: Recorder::new(
                index,
                job.interval_ns,
                open_loop,
                empty_table(&job.mix.kinds(false), open_loop),
            ),
            flights: vec![NO_FLIGHT; depth],
            free: (0..depth as u16).rev().collect(),
            fresh: Vec::with_capacity(depth),
            ended: Vec::with_capacity(depth),
            written: Places::new(room),
            refused: false,
            moved_bytes: 0,
        })
    }

    /// Generate the load, measure it, and wait for the last operations.
    ///
    /// # Errors
    /// Only if the loop itself fails. Errors of single operations are stored in the shared state
    /// instead.
    pub fn run(mut self, window: Window) -> Result<WorkerEnd> {
        let job = &self.shared.job;
        let (load_start_ns, workers) = (window.load_start_ns, job.workers);
        let pacing = Pacing::new(&job.arrival, self.index, workers, load_start_ns, job.seed);
        let now = self.schedule.begin(window, pacing, &self.clock);
        let reading = Reading { at_ns: now, ..Reading::of_this_thread() };
        self.recorder.begin(window, 1, reading);
        self.shared.timed.cpu.pass(&window, now);
        let now = batch_worker::load(&mut self, now)?;
        Ok(self.drain(now))
    }

    /// Sleep while no operation is in flight and none is due. Return the time after the sleep.
    fn rest(&mut self, now: u64) -> u64 {
        if self.schedule.issuing() {
            let due_ns = self.schedule.next_due_ns().unwrap_or(now);
            let until_ns = due_ns.min(self.recorder.boundary_ns()).min(now + LOOK_NS);
            let limit = Duration::from_nanos(until_ns.saturating_sub(now));
            self.nap.wait_for(limit, |woken| std::mem::take(woken).then_some(()));
        }
        let now = self.clock.now_ns();
        self.look_at_boundary(now);
        now
    }

    #[inline]
    fn limit_ns(&self, now: u64) -> u64 {
        if self.free.is_empty() || !self.schedule.issuing() || !self.mover.takes() {
            return LOOK_NS;
        }
        let due_ns = self.schedule.next_due_ns().unwrap_or(0);
        due_ns.min(self.recorder.boundary_ns()).saturating_sub(now).min(LOOK_NS)
    }

    #[inline]
    fn hand_in(&mut self, limit_ns: u64) -> u64 {
        let begun_ns = self.clock.now_ns();
        for slot in self.fresh.drain(..) {
            self.flights[usize::from(slot)].sent.at_ns = begun_ns;
        }
        let mut ended = std::mem::take(&mut self.ended);
        let turned = self.mover.turn(Duration::from_nanos(limit_ns), &mut ended);
        let now = self.clock.now_ns();
        self.look_at_boundary(now);
        for completion in ended.drain(..) {
            self.complete(completion, now);
        }
        self.ended = ended;
        if let Err(fault) = turned {
            self.mover_failed(fault);
        }
        now
    }

    /// If an interval has ended, hand its statistics to the coordinator.
    #[inline]
    fn look_at_boundary(&mut self, now: u64) {
        if now >= self.recorder.boundary_ns() {
            self.schedule.cross(
                &mut self.recorder,
                &self.shared.timed,
                now,
                Reading::of_this_thread,
            );
            self.clock.follow();
        }
    }

    #[inline]
    fn complete(&mut self, Completion { slot, result }: Completion, now: u64) {
        let flight = self.flights[usize::from(slot)];
        self.free.push(slot);
        let bytes = u64::from(flight.len);
        if result != Ok(bytes) {
            self.failed(&flight, result);
            return;
        }
        self.moved_bytes += bytes;
        if flight.kind == OpKind::Write {
            self.written.add((flight.offset, flight.len));
        }
        let done = Success {
            place: flight.kind as usize,
            start_ns: flight.sent.at_ns,
            due_ns: flight.sent.due_ns,
            first_byte_ns: None,
            bytes,
        };
        self.recorder.succeed(&done, now);
    }

    #[cold]
    fn failed(&self, flight: &Flight, result: std::result::Result<u64, Fault>) {
        let name = &self.shared.job.members[self.file].name;
        let (operation, offset) = (flight.kind.name(), flight.offset);
        match result {
            Ok(moved) => self.shared.timed.fail(Error::Short {
                operation,
                path: name.clone(),
                offset,
                moved,
                wanted: u64::from(flight.len),
            }),
            // Do not report an error: operations that a stop cancelled end with one of these two
            // faults.
            Err(Fault::Errno(libc::ECANCELED) | Fault::Batch(0x08))
                if self.shared.timed.control.stopping() => {}
            Err(fault) => self.shared.fail_by(fault, fault.of_io(operation, name, offset)),
        }
    }

    #[cold]
    fn mover_failed(&mut self, fault: Fault) {
        self.schedule.stop();
        self.refused = true;
        let name = &self.shared.job.members[self.file].name;
        self.shared.fail_by(fault, fault.of(&format!("I/O on {name}")));
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Start no more operations, and wait for those in flight.
    fn drain(mut self, mut now: u64) -> WorkerEnd {
        let load_end_ns = now;
        self.schedule.stop();
        let give_up_ns = now.saturating_add(self.shared.job.drain_timeout_ns);
        let (mut asked, mut refusals) = (false, 0);
        while self.in_flight() > 0 && now < give_up_ns && refusals < REFUSALS_MAX {
            if self.shared.timed.control.stopping() && !asked {
                self.mover.cancel();
                asked = true;
            }
            let left_ns = give_up_ns - now;
            self.refused = false;
            now = self.hand_in(left_ns.min(LOOK_NS));
            refusals = if self.refused { refusals + 1 } else { 0 };
        }
        let (recorder, draw) = (&mut self.recorder, &mut self.draw);
        self.schedule.end(recorder, &self.shared.timed, load_end_ns, || draw.kind() as usize);
        self.recorder.finish(&self.shared.timed, Reading::of_this_thread);
        self.shared.moved_bytes.fetch_add(self.moved_bytes, Relaxed);
        let places = std::mem::take(&mut self.written.all);
        if !places.is_empty() {
            lock(&self.shared.written).push((self.file, places));
        }
        lock(&self.shared.features).extend(self.mover.features());
        let end = self.schedule.worker_end(&self.recorder);
        if self.in_flight() > 0 {
            self.shared.timed.fail_as_hung(self.index, self.in_flight());
            // Leak the data path, because kernel and driver may still use its memory.
            std::mem::forget(self.mover);
        }
        end
    }
}

impl<M: Mover> BatchWorker for Worker<'_, M> {
    fn timed(&self) -> &Timed {
        &self.shared.timed
    }

    #[inline]
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Start as many operations as free buffers and the schedule allow.
    #[inline]
    fn issue(&mut self, now: u64) {
        if !self.mover.takes() {
            return;
        }
        while !self.free.is_empty() {
            let Some(due_ns) = self.schedule.due(now) else { return };
            let Some(slot) = self.free.pop() else { return };
            let (kind, len) = (self.draw.kind(), self.draw.len());
            self.schedule.spend(u64::from(len), now);
            let offset = self.draw.offset(len);
            let sent = Sent { at_ns: 0, due_ns };
            self.flights[usize::from(slot)] = Flight { kind, offset, len, sent };
            self.mover.push(Io { slot, kind, offset, len });
            self.fresh.push(slot);
            self.schedule.advance();
        }
    }

    #[inline]
    fn first(&self) -> Option<u16> {
        self.fresh.first().copied()
    }

    fn sent(&self, number: u16) -> Sent {
        self.flights[usize::from(number)].sent
    }

    /// Pass the new operations to the data path, wait, and collect those that have ended. Return
    /// the time after that.
    #[inline]
    fn turn(&mut self, now: u64) -> Result<u64> {
        if self.free.len() == self.flights.len() {
            return Ok(self.rest(now));
        }
        let limit_ns = self.limit_ns(now);
        Ok(self.hand_in(limit_ns))
    }
}

#[cfg(test)]
mod tests;

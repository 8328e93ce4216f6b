//! Worker of a block run, one per job. It owns its ring, buffers, histograms and random state.
//!
//! Each iteration submits up to `batch` operations with one system call, and reaps completions. The
//! clock is read once before the call and once after it: all operations of a batch are submitted by
//! that call, and none of its completions can be seen before it returns. At most `batch`
//! completions are reaped per iteration. Operations that wait in the completion queue still count
//! as outstanding, as in any program that handles its I/O one by one.

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod behind;
mod ops;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
mod verifying;
mod zoned;

use std::time::Duration;

use storlab_base::{Error, OpKind, Payload, Result, TimeSource, lock, thread_cpu_ns};
use storlab_io::{Backend, Completion, Op};
use storlab_run::batch_worker::{self, BatchWorker, Schedule, Sent};
use storlab_run::cpu::available_cores;
use storlab_run::groups::place_of_worker;
use storlab_run::pacing::Pacing;
use storlab_run::recorder::{Reading, Recorder, Success};
use storlab_run::sampling::empty_table;
use storlab_run::timed::{Timed, WorkerEnd};
use storlab_run::window::Window;

use crate::draw::Draw;
use crate::layout::Layout;
use crate::shared::Shared;
use crate::slots::Slots;
use crate::spec::{BlockJob, SyncKind};
use crate::verify::VerifyReport;
use crate::zones::ZoneWriter;
use ops::{part_op, tag};

/// Time that operations in flight have to complete after the load was stopped early. Operations
/// that take longer are cancelled.
const GRACE_NS: u64 = 100_000_000;
/// Polling interval of a worker while other jobs have claimed all blocks (verify mode). The worker
/// must poll, because completions of other jobs do not wake it.
const BLOCKED_NS: u64 = 50_000;

/// State of an operation in flight.
#[derive(Clone, Copy)]
struct Flight {
    kind: OpKind,
    failed: bool,
    pending: u16,
    slot: u32,
    len: u32,
    offset: u64,
    intended_ns: u64,
    submitted_ns: u64,
}

impl Flight {
    fn moves_nothing(&self) -> bool {
        matches!(self.kind, OpKind::Trim | OpKind::Sync)
    }
}

const NO_FLIGHT: Flight = Flight {
    kind: OpKind::Read,
    failed: false,
    pending: 0,
    slot: 0,
    len: 0,
    offset: 0,
    intended_ns: 0,
    submitted_ns: 0,
};

/// Result of [`Worker::start`].
enum Started {
    Operation,
    /// A flush that must precede the due operation was started; the operation itself is not started
    /// yet.
    Flush,
    /// No operation was started: every drawn offset has blocks that other operations use (verify
    /// mode), or no buffer is free.
    Nothing,
}

/// Worker that executes one job: submits its operations and records their latencies.
pub struct Worker<'r, B: Backend, T: TimeSource> {
    shared: &'r Shared,
    job: &'r BlockJob,
    /// Index among all workers of the run, and among those of the worker's group.
    index: usize,
    own: usize,
    /// Place of the counters of the first kind of operation in a report.
    first_place: usize,
    backend: B,
    clock: T,
    schedule: Schedule,
    layout: &'r Layout,
    draw: Draw,
    payload: Payload,
    slots: Slots,
    flights: Vec<Flight>,
    free: Vec<u16>,
    fresh: Vec<u16>,
    completions: Vec<Completion>,
    verify_report: Option<VerifyReport>,
    /// Zones that the job writes; `None` if it writes no zoned device.
    zones: Option<ZoneWriter>,
    /// Whether offsets are used as drawn: no verify mode, and no writes of zoned devices.
    plain: bool,
    recorder: Recorder,
    blocked: bool,
    serial: u64,
    writes_since_sync: u64,
}

impl<'r, B: Backend, T: TimeSource> Worker<'r, B, T> {
    /// Create the worker and fill its payload pool.
    pub fn new(shared: &'r Shared, index: usize, backend: B, clock: T) -> Result<Self> {
        let (number, own) = place_of_worker(&shared.groups, index);
        let group = &shared.groups[number];
        let (job, layout) = (&group.job, &shared.layouts[index]);
        let (depth, open_loop) = (job.queue_depth, group.open_loop);
        let empty = empty_table(&group.kinds, open_loop);
        if layout.space < job.longest_block() {
            return Err(nothing_written(job));
        }
        let zones = layout.zones.as_ref().map(ZoneWriter::new);
        let mut worker = Worker {
            draw: Draw::new(job, own, layout)?,
            payload: Payload::new(&job.payload, job.seed, own as u64)?,
            slots: Slots::new(job.read_slots(), job.write_slots()),
            flights: vec![NO_FLIGHT; depth],
            free: (0..depth as u16).rev().collect(),
            fresh: Vec::with_capacity(job.batch.min(depth)),
            completions: Vec::with_capacity(depth),
            verify_report: shared.verifier.is_some().then(VerifyReport::default),
            plain: shared.verifier.is_none() && zones.is_none(),
            zones,
            recorder: Recorder::new(index, job.interval_ns, open_loop, empty),
            schedule: Schedule::new(open_loop, job.drain_timeout_ns, job.window_bytes_of(own)),
            blocked: false,
            serial: 0,
            writes_since_sync: 0,
            shared,
            job,
            index,
            own,
            first_place: group.first_place,
            backend,
            clock,
            layout,
        };
        worker.fill_payload();
        Ok(worker)
    }

    fn fill_payload(&mut self) {
        let slots: Vec<u32> = self.slots.write_slots().collect();
        for slot in slots {
            // SAFETY: nothing is in flight yet.
            #[allow(unsafe_code)]
            let buffer = unsafe { self.backend.arena().slot_mut(slot) };
            self.payload.fill(self.slots.payload_index(slot), buffer);
        }
    }

    /// Generate the load, measure it, and wait for the last operations.
    ///
    /// # Errors
    /// If the backend itself fails. Errors of single operations are stored in the shared state
    /// instead.
    pub fn run(mut self, window: Window) -> Result<WorkerEnd> {
        let (job, load_start_ns) = (self.job, window.load_start_ns);
        let pacing = Pacing::new(&job.arrival, self.own, job.jobs, load_start_ns, job.seed);
        let now = self.schedule.begin(window, pacing, &self.clock);
        let reading = Reading { at_ns: now, ..self.reading() };
        // Helper threads are pinned to the same cores as the worker, so all of them together can
        // use only the cores that this thread may use.
        let cores = available_cores().min(1 + self.backend.helpers());
        self.recorder.begin(window, cores, reading);
        self.shared.timed.cpu.pass(&window, now);
        let now = batch_worker::load(&mut self, now)?;
        self.drain(now)
    }

    /// Submit the newly started operations and reap at most `limit` completions. Return the time
    /// after the system call.
    #[inline]
    fn hand_in(&mut self, wait: bool, timeout: Option<Duration>, limit: usize) -> Result<u64> {
        let submitted = self.clock.now_ns();
        for flight in self.fresh.drain(..) {
            self.flights[flight as usize].submitted_ns = submitted;
        }
        self.backend
            .submit(wait, timeout)
            .map_err(|e| Error::io("submit", self.job.members[0].name.clone(), 0, e))?;
        let now = self.clock.now_ns();
        if now >= self.recorder.boundary_ns() {
            self.cross(now);
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.backend.reap(&mut completions, limit);
        for &completion in &completions {
            self.complete(completion, now);
        }
        completions.clear();
        self.completions = completions;
        Ok(now)
    }

    /// Return whether the next submission waits for a completion, and the timeout of this wait.
    #[inline]
    fn waiting(&self, now: u64) -> (bool, Option<Duration>) {
        if self.free.is_empty() {
            return (true, None);
        }
        if self.fresh.len() >= self.job.batch || !self.schedule.issuing() {
            return (false, None);
        }
        if self.blocked {
            return (true, Some(Duration::from_nanos(BLOCKED_NS)));
        }
        let until = self.schedule.next_due_ns().map(|due| due.min(self.recorder.boundary_ns()));
        (true, until.map(|until| Duration::from_nanos(until.saturating_sub(now))))
    }

    /// Start the due operation, or the flush that must precede it. In flight, it is identified by
    /// `number`, which must be the last entry of `free`.
    #[inline]
    fn start(&mut self, number: u16, intended_ns: u64, now: u64) -> Started {
        let sync = &self.job.sync;
        if sync.kind != SyncKind::None
            && sync.every_writes > 0
            && self.writes_since_sync >= sync.every_writes
        {
            self.writes_since_sync = 0;
            self.start_sync(number, intended_ns);
            return Started::Flush;
        }
        let kind = self.draw.kind();
        let mut len = u64::from(self.draw.len()).min(self.schedule.bytes_left()) as u32;
        let Some(slot) = self.slots.take(kind) else { return Started::Nothing };
        let Some(offset) = self.place(&mut len) else {
            self.slots.give_back(kind, slot);
            return Started::Nothing;
        };
        self.schedule.spend(u64::from(len), now);
        if kind == OpKind::Write {
            self.writes_since_sync += 1;
            self.prepare_write(slot, offset, len);
        }
        let flight = Flight { kind, slot, len, offset, intended_ns, ..NO_FLIGHT };
        self.launch(number, flight);
        Started::Operation
    }

    #[inline]
    fn launch(&mut self, number: u16, flight: Flight) {
        self.free.pop();
        let whole = self.layout.whole(flight.offset, flight.len);
        if let Some(part) = whole {
            self.backend.push(&part_op(flight.kind, flight.slot, (number, 0), 0, part));
        }
        self.flights[usize::from(number)] = Flight { pending: 1, ..flight };
        if whole.is_none() {
            self.push_parts(number);
        }
        self.fresh.push(number);
    }

    /// Submit one part per file or device of an operation that spans several. Not inlined, because
    /// an operation on one file or device needs no loop.
    #[inline(never)]
    fn push_parts(&mut self, number: u16) {
        let flight = &mut self.flights[usize::from(number)];
        flight.pending = 0;
        for (at, part) in self.layout.parts(flight.offset, flight.len) {
            let number = (number, flight.pending);
            self.backend.push(&part_op(flight.kind, flight.slot, number, at, part));
            flight.pending += 1;
        }
    }

    /// Start one flush of each file or device that the job uses. Together they count as one
    /// operation, which ends with the last of them.
    fn start_sync(&mut self, number: u16, intended_ns: u64) {
        self.free.pop();
        let members: Vec<u16> = self.layout.members().collect();
        for (part, &member) in members.iter().enumerate() {
            let op = self.sync_op(member, tag(number, part as u16, 0));
            self.backend.push(&op);
        }
        let pending = members.len() as u16;
        self.flights[number as usize] =
            Flight { kind: OpKind::Sync, pending, intended_ns, ..NO_FLIGHT };
        self.fresh.push(number);
    }

    fn sync_op(&self, member: u16, tag: u64) -> Op {
        Op {
            kind: OpKind::Sync,
            file: member,
            data_only: self.job.sync.kind == SyncKind::Fdatasync,
            slot: 0,
            slot_offset: 0,
            len: 0,
            offset: 0,
            tag,
        }
    }

    /// Make the payload of a write unique, and in verify mode add the block headers.
    #[inline]
    fn prepare_write(&mut self, slot: u32, offset: u64, len: u32) {
        self.serial += 1;
        // SAFETY: the slot was free, so no I/O in flight uses it.
        #[allow(unsafe_code)]
        let buffer = unsafe { &mut self.backend.arena().slot_mut(slot)[..len as usize] };
        self.payload.stamp(self.slots.payload_index(slot), buffer, self.serial);
        if let Some(verifier) = &self.shared.verifier {
            for (at, part) in self.layout.parts(offset, len) {
                let piece = &mut buffer[at as usize..(at + part.len) as usize];
                verifier.before_write(usize::from(part.member), part.offset, piece);
            }
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion, now: u64) {
        let number = completion.tag as u16;
        let part_len = (completion.tag >> 32) as u32;
        let whole = completion.result == part_len as i32
            || (completion.result >= 0 && self.flights[number as usize].moves_nothing());
        if !whole && self.part_failed(number, completion) {
            return;
        }
        let flight = &mut self.flights[number as usize];
        if flight.pending > 1 {
            flight.pending -= 1;
            return;
        }
        self.finish(number, now);
        self.free.push(number);
    }

    /// Handle a part of an operation that failed or moved too few bytes. Return true if it was
    /// submitted again.
    #[cold]
    fn part_failed(&mut self, number: u16, completion: Completion) -> bool {
        let part_number = (completion.tag >> 16) as u16;
        let Some(op) = self.part_of(number, part_number, completion.tag) else {
            self.flights[number as usize].failed = true;
            let backend = self.backend.name();
            let what = format!(
                "part {part_number} of operation {number} of job {} completed, but the operation \
                 has no such part; this is a defect in storlab, please report it",
                self.index
            );
            self.shared.timed.fail(Error::Backend { backend, what });
            return false;
        };
        let errno = -completion.result;
        let stopping = self.shared.timed.control.stopping();
        let passing = matches!(errno, libc::EAGAIN | libc::EINTR);
        if passing && !stopping {
            self.backend.push(&op);
            return true;
        }
        self.flights[number as usize].failed = true;
        // After a stop, EAGAIN, EINTR and ECANCELED mean that the operation was cancelled, not that
        // it failed.
        if !(stopping && (passing || errno == libc::ECANCELED)) {
            let path = self.job.members[usize::from(op.file)].name.clone();
            let operation = op.kind.name();
            self.shared.timed.fail(if completion.result < 0 {
                Error::io(operation, path, op.offset, std::io::Error::from_raw_os_error(errno))
            } else {
                Error::Short {
                    operation,
                    path,
                    offset: op.offset,
                    moved: completion.result as u64,
                    wanted: u64::from(op.len),
                }
            });
        }
        false
    }

    /// Build the backend operation for one part of operation `number`; `None` if there is no such
    /// part.
    fn part_of(&self, number: u16, part_number: u16, tag: u64) -> Option<Op> {
        let flight = &self.flights[usize::from(number)];
        if flight.kind == OpKind::Sync {
            let member = self.layout.members().nth(usize::from(part_number))?;
            return Some(self.sync_op(member, tag));
        }
        let (at, part) =
            self.layout.parts(flight.offset, flight.len).nth(usize::from(part_number))?;
        Some(part_op(flight.kind, flight.slot, (number, part_number), at, part))
    }

    #[inline]
    fn finish(&mut self, number: u16, now: u64) {
        if !self.plain {
            self.placed_finished(number);
        }
        // Copy field by field: copying the whole struct would use wide loads that overlap a
        // narrower, recent store, which stalls store forwarding.
        let Flight { kind, failed, slot, len, intended_ns, submitted_ns, .. } =
            self.flights[usize::from(number)];
        if !failed {
            let done = Success {
                place: self.first_place + kind as usize,
                start_ns: submitted_ns,
                due_ns: intended_ns,
                first_byte_ns: None,
                bytes: u64::from(len),
            };
            self.recorder.succeed(&done, now);
        }
        self.slots.give_back(kind, slot);
    }

    /// Hand the statistics of the interval that ended to the coordinator.
    #[cold]
    fn cross(&mut self, now: u64) {
        let (backend, clock) = (&self.backend, &self.clock);
        let read = || reading(backend, clock);
        self.schedule.cross(&mut self.recorder, &self.shared.timed, now, read);
        self.clock.follow();
    }

    fn reading(&self) -> Reading {
        reading(&self.backend, &self.clock)
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Start no more operations, and wait for those in flight.
    ///
    /// After an early stop, operations in flight are cancelled. If some operations do not end
    /// within the drain timeout, the run fails, and their buffers are leaked because the kernel may
    /// still write to them.
    fn drain(mut self, mut now: u64) -> Result<WorkerEnd> {
        let load_end_ns = now;
        self.schedule.stop();
        let give_up = now + self.job.drain_timeout_ns;
        let mut ask_at =
            if self.shared.timed.control.stopping() { now + GRACE_NS } else { give_up };
        let mut hung = false;
        while self.in_flight() > 0 && now < give_up + GRACE_NS {
            if now >= give_up && !hung {
                self.fail_as_hung();
                hung = true;
            }
            if self.shared.timed.control.stopping() {
                ask_at = ask_at.min(now + GRACE_NS);
            }
            if now >= ask_at {
                self.backend.cancel_all();
                ask_at = u64::MAX;
            }
            let until = ask_at.min(give_up + GRACE_NS).min(now + GRACE_NS);
            let limit = Duration::from_nanos(until.saturating_sub(now).max(1));
            now = self.hand_in(true, Some(limit), usize::MAX)?;
        }
        let (recorder, draw) = (&mut self.recorder, &mut self.draw);
        let place = || self.first_place + draw.kind() as usize;
        self.schedule.end(recorder, &self.shared.timed, load_end_ns, place);
        let (backend, clock) = (&self.backend, &self.clock);
        self.recorder.finish(&self.shared.timed, || reading(backend, clock));
        if let Some(zones) = &self.zones {
            lock(&self.shared.resets).add(zones.resets);
        }
        if let Some(report) = self.verify_report.take() {
            lock(&self.shared.verified).get_or_insert_default().merge(report);
        }
        let end = self.schedule.worker_end(&self.recorder);
        if self.in_flight() > 0 {
            self.fail_as_hung();
            self.backend.abandon();
        }
        Ok(end)
    }

    fn fail_as_hung(&self) {
        self.shared.timed.fail_as_hung(self.index, self.in_flight());
    }
}

impl<B: Backend, T: TimeSource> BatchWorker for Worker<'_, B, T> {
    fn timed(&self) -> &Timed {
        &self.shared.timed
    }

    #[inline]
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Start as many operations as batch size, queue depth and schedule allow.
    #[inline]
    fn issue(&mut self, now: u64) {
        self.blocked = false;
        while self.fresh.len() < self.job.batch
            && let Some(&number) = self.free.last()
        {
            let Some(intended) = self.schedule.due(now) else { return };
            match self.start(number, intended, now) {
                Started::Operation => self.schedule.advance(),
                Started::Flush => {} // flushes do not count toward the rate, nor consume a due time
                Started::Nothing => {
                    self.blocked = true;
                    return;
                }
            }
        }
    }

    #[inline]
    fn first(&self) -> Option<u16> {
        self.fresh.first().copied()
    }

    fn sent(&self, number: u16) -> Sent {
        let Flight { submitted_ns, intended_ns, .. } = self.flights[usize::from(number)];
        Sent { at_ns: submitted_ns, due_ns: intended_ns }
    }

    /// Submit the started operations with one system call, and reap completions.
    #[inline]
    fn turn(&mut self, now: u64) -> Result<u64> {
        let (wait, timeout) = self.waiting(now);
        self.hand_in(wait, timeout, self.job.batch)
    }
}

/// Return the error of a job that reads zoned devices on which nothing was written.
fn nothing_written(job: &BlockJob) -> Error {
    let what = format!(
        "the zones of {} have no block of {} bytes below their write pointers, so there is nothing \
         to read",
        job.members[0].name,
        job.longest_block()
    );
    let fix =
        "write it first: by a workload with sequential writes above this one, or precondition";
    Error::spec("target", what, fix)
}

fn reading(backend: &impl Backend, clock: &impl TimeSource) -> Reading {
    let helpers_ns = backend.helper_cpu_ns();
    Reading { used_ns: thread_cpu_ns(), helpers_ns, at_ns: clock.now_ns() }
}

//! Worker: a thread with its own async runtime, request slots, histograms and random state.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use storlab_base::{Clock, Error, Histogram, Result, TimeSource};
use storlab_run::groups::{Group, place_of_worker};
use storlab_run::pacing::Pacing;
use storlab_run::recorder::{Reading, Recorder, Success};
use storlab_run::sampling::empty_table;
use storlab_run::window::Window;
use storlab_s3::Failure;
use tokio::sync::Mutex;

use super::draw::Draw;
use super::endpoints::EndpointTable;
use super::kind::ObjectKind;
use super::pool::{Object, Objects};
use super::shared::{Routed, Shared};
use super::spec::ObjectJob;
use super::timer::Timer;

/// Timeout for aborting a multipart upload. The worker's other slots continue with the load
/// meanwhile.
pub const ABORT: Duration = Duration::from_secs(5);
/// Longest delay with which a timer of the async runtime is assumed to fire.
const TIMERS: Duration = Duration::from_millis(100);

/// Schedule of an open loop. The slot that holds its lock waits for the next due time; the other
/// slots wait for the lock.
struct Pacer {
    pacing: Pacing,
    timer: Timer,
}

/// State shared by the slots of one worker.
pub struct Worker {
    /// State shared with the other workers.
    pub shared: Arc<Shared>,
    /// Generator of the worker's requests.
    pub draw: RefCell<Draw>,
    /// Index among all workers of the run.
    pub(super) index: usize,
    /// Number of the worker's group, and index among the workers of that group.
    group: usize,
    own: usize,
    clock: Cell<Clock>,
    pub(super) window: Window,
    pub(super) recorder: RefCell<Recorder>,
    /// Counters of single HTTP requests during the measure window, by endpoint.
    pub(super) endpoints: RefCell<EndpointTable>,
    /// True while parts of a failed upload are cancelled, which must not count as failures.
    pub(super) gives_up: Cell<bool>,
    pacer: Option<Mutex<Pacer>>,
    /// Open loop only: time at which sending ended; 0 while more requests are to be sent.
    issued_until_ns: Cell<u64>,
    /// Open loop only: number of requests that were due in the window and never sent.
    unserved: Cell<u64>,
    in_flight: Cell<usize>,
    /// Due time of the first request, in an open loop once it is known; `None` otherwise.
    first_due_ns: Cell<Option<u64>>,
    begun: Cell<bool>,
    succeeded: Cell<bool>,
    serial: Cell<u64>,
    turn: Cell<usize>,
}

impl Worker {
    /// Create the worker of a run whose window is already fixed.
    pub fn new(
        shared: &Arc<Shared>,
        index: usize,
        clock: Clock,
        draw: Draw,
        window: Window,
    ) -> Result<Self> {
        let (number, own) = place_of_worker(&shared.groups, index);
        let Group { job, workers, open_loop, kinds, first_place, .. } = &shared.groups[number];
        let no = |e| Error::io("start", format!("a timer for worker {index}"), 0, e);
        let pacer = if *open_loop {
            let start_ns = window.load_start_ns;
            let pacing = Pacing::new(&job.arrival, own, *workers, start_ns, job.seed);
            Some(Mutex::new(Pacer { pacing, timer: Timer::new().map_err(no)? }))
        } else {
            None
        };
        let mut empty = empty_table(kinds, *open_loop);
        if let Some(Some(gets)) = empty.get_mut(first_place + ObjectKind::Get as usize) {
            gets.ttfb = Some(Histogram::new());
        }
        let mut recorder = Recorder::new(index, job.interval_ns, *open_loop, empty);
        recorder.begin(window, 1, Reading::of_this_thread());
        Ok(Worker {
            recorder: RefCell::new(recorder),
            endpoints: RefCell::default(),
            gives_up: Cell::new(false),
            draw: RefCell::new(draw),
            shared: shared.clone(),
            index,
            group: number,
            own,
            clock: Cell::new(clock),
            window,
            pacer,
            issued_until_ns: Cell::new(0),
            unserved: Cell::new(0),
            in_flight: Cell::new(0),
            first_due_ns: Cell::new(None),
            begun: Cell::new(false),
            succeeded: Cell::new(false),
            serial: Cell::new(0),
            // Each worker starts its round robin at a different endpoint.
            turn: Cell::new(index),
        })
    }

    /// Return the order of the worker's group.
    pub fn job(&self) -> &ObjectJob {
        &self.shared.groups[self.group].job
    }

    /// Return the record of the objects that the worker's group uses.
    pub fn objects(&self) -> &Objects {
        &self.shared.objects[self.group]
    }

    /// Return whether the request slot with this number in the group is one of this worker's.
    pub fn has_slot(&self, number: usize) -> bool {
        number % self.shared.groups[self.group].workers == self.own
    }

    /// Return the place of the counters of requests of this kind.
    #[inline]
    pub fn place(&self, kind: ObjectKind) -> usize {
        self.shared.groups[self.group].first_place + kind as usize
    }

    /// Return the time at which requests still in flight are abandoned. By then, each of them would
    /// have timed out.
    pub fn give_up_ns(&self) -> u64 {
        let job = self.job();
        let abort = if job.part_size.is_some() { ABORT } else { Duration::ZERO };
        let drain_ns = job.drain_timeout_ns + (abort + TIMERS).as_nanos() as u64;
        let end_ns = self.window.end_ns;
        match (&self.pacer, self.issued_until_ns.get()) {
            (None, _) => end_ns.saturating_add(drain_ns),
            // A backlog may be sent during one drain timeout; its requests may take another to end.
            (Some(_), 0) => end_ns.saturating_add(2 * drain_ns),
            (Some(_), issued) => issued.max(end_ns).saturating_add(drain_ns),
        }
    }

    /// Return whether a request sent after `pause_ns` would end, at the latest by its timeout,
    /// before requests in flight are abandoned.
    pub fn has_time_after(&self, pause_ns: u64) -> bool {
        let limit_ns = self.job().request_timeout_ns + TIMERS.as_nanos() as u64;
        let ended_ns = self.now().saturating_add(pause_ns).saturating_add(limit_ns);
        ended_ns <= self.give_up_ns()
    }

    /// Fail the run because requests in flight had to be abandoned.
    pub fn fail_as_hung(&self) {
        self.shared.timed.fail_as_hung(self.index, self.in_flight.get());
    }

    /// Return the number of requests that were due and never sent, because no slot was free or no
    /// object existed for them.
    pub async fn count_unserved(&self) -> u64 {
        let Some(pacer) = self.pacer.as_ref().filter(|_| !self.shared.timed.control.stopping())
        else {
            return 0;
        };
        let mut pacer = pacer.lock().await;
        // If slots waited for objects until the end, the time at which sending ended is not
        // recorded.
        let now = match self.issued_until_ns.get() {
            0 => self.now(),
            issued => issued,
        };
        for (due, count) in pacer.pacing.rest(self.window.end_ns) {
            self.leave_unserved(due, now, count);
        }
        self.unserved.get()
    }

    /// Count a due request of an open loop that is not sent, because no object exists for it.
    pub fn drop_due(&self, due_ns: u64) {
        if self.pacer.is_some() && !self.shared.timed.control.stopping() {
            self.leave_unserved(due_ns, self.now(), 1);
        }
    }

    fn leave_unserved(&self, due_ns: u64, now: u64, count: u64) {
        if due_ns >= self.window.start_ns {
            self.unserved.set(self.unserved.get() + count);
            let kind = self.draw.borrow_mut().kind();
            self.recorder.borrow_mut().unserved(self.place(kind), due_ns, now, count);
        }
    }

    /// Wait until the next request may be sent. Return its due time (0 in a closed loop), or `None`
    /// after the last one.
    pub async fn next_due(&self) -> Option<u64> {
        let Some(pacer) = &self.pacer else {
            return (!self.over()).then_some(0);
        };
        let mut pacer = pacer.lock().await;
        loop {
            let now = self.now();
            // Requests due in the window are still sent after its end, within the drain timeout.
            let over = self.over();
            let due = pacer.pacing.due_ns().filter(|&due| due < self.window.end_ns);
            let Some(due) = due.filter(|_| !over) else {
                if self.issued_until_ns.get() == 0 {
                    self.issued_until_ns.set(now);
                }
                return None;
            };
            if due <= now {
                pacer.pacing.advance();
                if self.first_due_ns.get().is_none() {
                    self.first_due_ns.set(Some(due));
                }
                return Some(due);
            }
            if let Err(error) = pacer.timer.sleep_until(due).await {
                self.shared.timed.fail(Error::io("wait", "a timer", 0, error));
            }
        }
    }

    /// Return whether no more requests may be sent.
    pub fn over(&self) -> bool {
        let more_ns = self.pacer.as_ref().map_or(0, |_| self.job().drain_timeout_ns);
        let end_ns = self.window.end_ns.saturating_add(more_ns);
        self.shared.timed.control.stopping() || self.now() >= end_ns
    }

    /// Sleep for `rest_ns`, but not beyond the end of the window.
    pub async fn rest(&self, rest_ns: u64) {
        let left_ns = self.window.end_ns.saturating_sub(self.now());
        tokio::time::sleep(Duration::from_nanos(rest_ns.min(left_ns))).await;
    }

    /// Return the time on the run's clock.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.get().now_ns()
    }

    /// If an interval has ended, hand its statistics to the coordinator. Return the current time.
    #[inline]
    pub fn tick(&self) -> u64 {
        let now = self.now();
        let mut recorder = self.recorder.borrow_mut();
        if now >= recorder.boundary_ns() {
            recorder.cross(&self.shared.timed, now, Reading::of_this_thread);
            let mut clock = self.clock.get();
            clock.follow();
            self.clock.set(clock);
        }
        now
    }

    /// Choose the endpoint of the next request.
    pub fn route(&self) -> Routed<'_> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        self.shared.route(turn)
    }

    /// Return the identifier of a new object to write.
    pub fn next_object(&self) -> Object {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        Object::Written { worker: self.index as u32, serial }
    }

    /// Count a request as in flight until the returned value is dropped.
    pub fn in_flight_guard(&self) -> InFlightGuard<'_> {
        self.in_flight.set(self.in_flight.get() + 1);
        InFlightGuard(&self.in_flight)
    }

    /// Record that a request is being sent; the first one is reported to the run.
    pub fn sent(&self, at_ns: u64) {
        if !self.begun.replace(true) {
            let load_start_ns = self.window.load_start_ns;
            let due_ns = self.first_due_ns.get().unwrap_or(load_start_ns).max(load_start_ns);
            self.shared.timed.first_io.submitted(at_ns, due_ns);
        }
    }

    /// Record a successful request that ended now, or at `ended_ns` if given.
    pub fn succeed(&self, done: &Success, ended_ns: Option<u64>) {
        if !self.succeeded.replace(true) {
            self.count(|counts| &counts.workers_served, 1);
        }
        let now = self.tick();
        self.recorder.borrow_mut().succeed(done, ended_ns.unwrap_or(now));
    }

    /// Record an attempt at a request on `what` that failed now.
    pub fn fail(&self, kind: ObjectKind, what: &str, failure: &Failure, due_ns: u64) {
        let word = self.shared.note_failure(kind, what, failure);
        let now = self.tick();
        self.recorder.borrow_mut().fail(self.place(kind), &word, due_ns, now);
    }

    /// Record a request that timed out and is not retried.
    pub fn time_out(&self, kind: ObjectKind, due_ns: u64) {
        let now = self.tick();
        self.recorder.borrow_mut().time_out(self.place(kind), due_ns, now);
    }

    /// Record a request that failed and is not retried. Its first attempt was sent at `start_ns`.
    pub fn give_up(&self, kind: ObjectKind, start_ns: u64) {
        let now = self.tick();
        self.recorder.borrow_mut().give_up(self.place(kind), start_ns, now);
    }

    /// Add `more` to one of the run's counters, which `which` selects.
    pub fn count(&self, which: impl Fn(&super::shared::Counts) -> &AtomicU64, more: u64) {
        which(&self.shared.counts).fetch_add(more, Relaxed);
    }
}

/// Request in flight. It counts until this value is dropped.
pub struct InFlightGuard<'w>(&'w Cell<usize>);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

//! One worker: a thread with its own runtime, request slots, histograms and random state.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use storlab_base::{Clock, Error, Result, TimeSource};
use storlab_io::Wake;
use storlab_run::cpu::sharpen_timers;
use storlab_run::pacing::Pacing;
use storlab_run::window::Window;
use storlab_s3::Failure;
use tokio::sync::{Mutex, Notify};
use tokio::task::{JoinSet, LocalSet};

use super::draw::Draw;
use super::kind::ObjectKind;
use super::pool::Object;
use super::recorder::{Recorder, Success};
use super::shared::{Message, Routed, Shared, WorkerEnd};
use super::slot::Slot;
use super::spec::Task;
use super::tasks;
use super::timer::Timer;

/// Wakes a worker's runtime from any thread.
#[derive(Default)]
struct Nudge(Notify);

impl Wake for Nudge {
    fn wake(&self) {
        self.0.notify_one();
    }
}

/// The schedule of an open loop. Whoever holds it waits for the next due time; the others wait for
/// it, in order.
struct Pacer {
    pacing: Pacing,
    timer: Timer,
}

/// What the slots of one worker share.
pub struct Worker {
    /// With the other workers.
    pub shared: Arc<Shared>,
    /// Draws requests.
    pub draw: RefCell<Draw>,
    index: usize,
    clock: Clock,
    window: Window,
    recorder: RefCell<Recorder>,
    pacer: Option<Mutex<Pacer>>,
    /// Open loop: since when nothing is sent any more; 0 for not yet.
    issued_until_ns: Cell<u64>,
    /// Open loop: requests that were due inside the window and never sent.
    unserved: Cell<u64>,
    in_flight: Cell<usize>,
    serial: Cell<u64>,
    turn: Cell<usize>,
}

/// The work of worker `index`'s thread.
///
/// # Errors
/// [`Error::Spec`] of the draws; [`Error::Io`] for a runtime or timer that cannot be had.
pub fn work(shared: &Arc<Shared>, index: usize) -> Result<WorkerEnd> {
    let no = |e| Error::io("start a runtime for", format!("worker {index}"), 0, e);
    if shared.job.open_loop() {
        sharpen_timers();
    }
    let clock = Clock::new();
    let draw = Draw::new(&shared.job, index)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no)?;
    let nudge = Arc::new(Nudge::default());
    shared.control.add_waker(nudge.clone());
    shared.send(Message::Ready);
    let window = shared.wait_at_gate();
    let now = clock.now_ns();
    std::thread::sleep(Duration::from_nanos(window.load_start_ns.saturating_sub(now)));
    LocalSet::new().block_on(&runtime, async {
        let worker = Rc::new(Worker::new(shared, index, clock, draw, window)?);
        worker.drive(&nudge).await
    })
}

impl Worker {
    fn new(
        shared: &Arc<Shared>,
        index: usize,
        clock: Clock,
        draw: Draw,
        window: Window,
    ) -> Result<Self> {
        let job = &shared.job;
        let no = |e| Error::io("make a timer for", format!("worker {index}"), 0, e);
        let pacer = if job.open_loop() {
            let start_ns = window.load_start_ns;
            let pacing = Pacing::new(&job.arrival, index, shared.threads, start_ns, job.seed);
            Some(Mutex::new(Pacer { pacing, timer: Timer::new().map_err(no)? }))
        } else {
            None
        };
        Ok(Worker {
            recorder: RefCell::new(Recorder::new(shared, index, window)),
            draw: RefCell::new(draw),
            shared: shared.clone(),
            index,
            clock,
            window,
            pacer,
            issued_until_ns: Cell::new(0),
            unserved: Cell::new(0),
            in_flight: Cell::new(0),
            serial: Cell::new(0),
            // Workers begin at different endpoints.
            turn: Cell::new(index),
        })
    }

    /// Load, measure, drain.
    async fn drive(self: Rc<Self>, nudge: &Nudge) -> Result<WorkerEnd> {
        let mut slots = JoinSet::new();
        let job = &self.shared.job;
        let mine = job.slots().into_iter().enumerate();
        for (number, lane) in mine.filter(|(n, _)| n % self.shared.threads == self.index) {
            let slot = Slot::new(self.clone(), lane);
            match job.task {
                Task::Run => slots.spawn_local(slot.run()),
                Task::Fill => slots.spawn_local(tasks::fill(slot)),
                Task::Clean => slots.spawn_local(tasks::clean(slot, number == 0)),
            };
        }
        while !self.shared.control.stopping() {
            let now = self.now();
            self.recorder.borrow_mut().tick(now);
            let give_up = self.give_up_ns();
            if now >= give_up {
                self.fail_as_hung();
                break;
            }
            let until = self.recorder.borrow().boundary_ns().min(give_up);
            tokio::select! {
                ended = slots.join_next() => match ended {
                    None => break,
                    Some(Ok(())) => {}
                    Some(Err(_)) => return Err(self.mistake()),
                },
                () = nudge.0.notified() => {}
                () = tokio::time::sleep(Duration::from_nanos(until - now)) => {}
            }
        }
        self.wait_for_the_end(nudge).await;
        let unserved = self.count_unserved().await;
        let mut recorder = self.recorder.borrow_mut();
        recorder.finish();
        Ok(WorkerEnd { last_completion_ns: recorder.last_completion_ns(), unserved })
    }

    /// An open loop may have sent its last request long before the window ends.
    async fn wait_for_the_end(&self, nudge: &Nudge) {
        let end_ns = self.window.end_ns;
        while end_ns != u64::MAX && !self.shared.control.stopping() {
            let now = self.now();
            self.recorder.borrow_mut().tick(now);
            if now >= end_ns {
                return;
            }
            let until = self.recorder.borrow().boundary_ns().min(end_ns);
            tokio::select! {
                () = nudge.0.notified() => {}
                () = tokio::time::sleep(Duration::from_nanos(until - now)) => {}
            }
        }
    }

    fn mistake(&self) -> Error {
        let what =
            format!("worker {} ended by a mistake in storlab: see standard error", self.index);
        Error::Backend { backend: "s3", what }
    }

    /// When requests in flight are given up.
    fn give_up_ns(&self) -> u64 {
        let drain_ns = self.shared.job.drain_timeout_ns;
        let end_ns = self.window.end_ns;
        match (&self.pacer, self.issued_until_ns.get()) {
            (None, _) => end_ns.saturating_add(drain_ns),
            // A backlog may be sent for one time-out, and drain for another.
            (Some(_), 0) => end_ns.saturating_add(2 * drain_ns),
            (Some(_), issued) => issued.max(end_ns).saturating_add(drain_ns),
        }
    }

    fn fail_as_hung(&self) {
        let waited_ms = self.shared.job.drain_timeout_ns / 1_000_000;
        let outstanding = self.in_flight.get();
        self.shared.fail(Error::Hung { job: self.index, outstanding, waited_ms });
    }

    /// Those that nobody took, and those that somebody took and could not send.
    async fn count_unserved(&self) -> u64 {
        let Some(pacer) = self.pacer.as_ref().filter(|_| !self.shared.control.stopping()) else {
            return 0;
        };
        let mut pacer = pacer.lock().await;
        // Slots that waited for objects until the end have not seen that nothing is sent any more.
        let now = match self.issued_until_ns.get() {
            0 => self.now(),
            issued => issued,
        };
        while let Some(due) = pacer.pacing.due_ns().filter(|&due| due < self.window.end_ns) {
            pacer.pacing.advance();
            self.leave_unserved(due, now);
        }
        self.unserved.get()
    }

    /// Open loop: a request that was due and taken is never sent, for want of an object.
    pub fn drop_due(&self, due_ns: u64) {
        if self.pacer.is_some() && !self.shared.control.stopping() {
            self.leave_unserved(due_ns, self.now());
        }
    }

    fn leave_unserved(&self, due_ns: u64, now: u64) {
        if due_ns >= self.window.start_ns {
            self.unserved.set(self.unserved.get() + 1);
            let kind = self.draw.borrow_mut().kind();
            self.recorder.borrow_mut().unserved(kind, due_ns, now);
        }
    }

    /// When the next request of a slot may be sent, in open loop when it was due; `None` when there
    /// is none any more.
    pub async fn next_due(&self) -> Option<u64> {
        let Some(pacer) = &self.pacer else {
            return (!self.over()).then_some(0);
        };
        let mut pacer = pacer.lock().await;
        loop {
            let now = self.now();
            // What was due in the window is still sent after it, but not for ever.
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
                return Some(due);
            }
            if let Err(error) = pacer.timer.sleep_until(due).await {
                self.shared.fail(Error::io("wait with", "a timer", 0, error));
            }
        }
    }

    /// Nothing more is to be sent.
    pub fn over(&self) -> bool {
        let more_ns = self.pacer.as_ref().map_or(0, |_| self.shared.job.drain_timeout_ns);
        let end_ns = self.window.end_ns.saturating_add(more_ns);
        self.shared.control.stopping() || self.now() >= end_ns
    }

    /// A pause, which ends with the window.
    pub async fn rest(&self, rest_ns: u64) {
        let left_ns = self.window.end_ns.saturating_sub(self.now());
        tokio::time::sleep(Duration::from_nanos(rest_ns.min(left_ns))).await;
    }

    /// The run's clock.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The endpoint of the next request.
    pub fn route(&self) -> Routed<'_> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        self.shared.route(turn)
    }

    /// A new object to write.
    pub fn next_object(&self) -> Object {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        Object::Written { worker: self.index as u32, serial }
    }

    /// A request is in flight as long as what is returned lives.
    pub fn fly(&self) -> Flying<'_> {
        self.in_flight.set(self.in_flight.get() + 1);
        Flying(&self.in_flight)
    }

    /// A request ended well, just now.
    pub fn succeed(&self, done: &Success) {
        self.count(|counts| &counts.succeeded, 1);
        self.recorder.borrow_mut().succeed(done, self.now());
    }

    /// An attempt at a request failed, just now.
    pub fn fail(&self, kind: ObjectKind, what: &str, failure: &Failure, due_ns: u64) {
        self.shared.heard(kind, what, failure);
        self.recorder.borrow_mut().fail(kind, &failure.kind(), due_ns, self.now());
    }

    /// Add to one of the run's counters.
    pub fn count(&self, which: impl Fn(&super::shared::Counts) -> &AtomicU64, more: u64) {
        which(&self.shared.counts).fetch_add(more, Relaxed);
    }
}

/// A request in flight.
pub struct Flying<'w>(&'w Cell<usize>);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

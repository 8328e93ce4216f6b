//! Main loop of a worker that submits operations in batches, and the rules of when it may send
//! them.

use storlab_base::{Result, TimeSource};

use crate::pacing::Pacing;
use crate::recorder::{Reading, Recorder};
use crate::timed::{Timed, WorkerEnd};
use crate::window::Window;

/// Rules of when a worker may send operations: due times, and the time or number of bytes at which
/// the window ends.
pub struct Schedule {
    window: Window,
    pacing: Pacing,
    open_loop: bool,
    drain_timeout_ns: u64,
    by_bytes: bool,
    bytes_left: u64,
    issuing: bool,
    unserved: u64,
}

impl Schedule {
    /// Create the schedule of a worker before its window is known. `window_bytes` is the number of
    /// bytes after which the worker's window ends; `None` if the window ends at a set time.
    pub fn new(open_loop: bool, drain_timeout_ns: u64, window_bytes: Option<u64>) -> Self {
        Schedule {
            window: Window::default(),
            pacing: Pacing::Closed,
            open_loop,
            drain_timeout_ns,
            by_bytes: window_bytes.is_some(),
            bytes_left: window_bytes.unwrap_or(u64::MAX),
            issuing: true,
            unserved: 0,
        }
    }

    /// Set the window and the due times, and wait until the load starts, which all workers do at
    /// the same time. Return the current time after the wait.
    pub fn begin(&mut self, window: Window, pacing: Pacing, clock: &impl TimeSource) -> u64 {
        (self.window, self.pacing) = (window, pacing);
        window.wait_for_start(clock)
    }

    /// Return whether the worker may send more operations.
    #[inline]
    pub fn issuing(&self) -> bool {
        self.issuing
    }

    /// Stop sending operations.
    pub fn stop(&mut self) {
        self.issuing = false;
    }

    /// Return the due time of an operation that may be sent now, or 0 in a closed loop; `None` if
    /// none may be sent now.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<u64> {
        let mut due_ns = 0;
        if let Some(due) = self.pacing.due_ns() {
            if due >= self.window.end_ns {
                // Do not stop before the window has ended: it must last as long as ordered.
                self.issuing = now < self.window.end_ns;
                return None;
            }
            if due > now {
                return None;
            }
            due_ns = due;
        }
        if self.bytes_left == 0 {
            self.issuing = false;
            return None;
        }
        Some(due_ns)
    }

    /// Return the due time of the next operation, which may be past or future; `None` in a closed
    /// loop.
    #[inline]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.pacing.due_ns()
    }

    /// Return how many bytes are left of a window that ends after a number of bytes; `u64::MAX` if
    /// it ends at a time.
    #[inline]
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// Subtract the bytes of an operation that is sent at `now` from the bytes left of the window.
    /// Operations sent in the ramp are not subtracted.
    #[inline]
    pub fn spend(&mut self, bytes: u64, now: u64) {
        if self.by_bytes && now >= self.window.start_ns {
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
        }
    }

    /// Advance the schedule by one operation.
    #[inline]
    pub fn advance(&mut self) {
        self.pacing.advance();
    }

    /// Hand over the counters of the interval that ended before `now` to the coordinator.
    #[cold]
    pub fn cross(
        &mut self,
        recorder: &mut Recorder,
        timed: &Timed,
        now: u64,
        read: impl Fn() -> Reading,
    ) {
        let over = recorder.cross(timed, now, read);
        // In an open loop, operations that were due in the window are still sent after its end,
        // until the drain time-out.
        let give_up_ns = self.window.end_ns.saturating_add(self.drain_timeout_ns);
        self.issuing &= !over || (self.open_loop && now < give_up_ns);
        if over && self.issuing {
            recorder.look_again_at(give_up_ns);
        }
    }

    /// Record the operations of an open loop that were due in the window but never sent, with the
    /// time that they had waited by `now`. Call this when the load has ended and nothing is in
    /// flight. `place` draws the kind of an operation and returns its index in a `KindTable`.
    pub fn end(
        &mut self,
        recorder: &mut Recorder,
        timed: &Timed,
        now: u64,
        mut place: impl FnMut() -> usize,
    ) {
        self.issuing = false;
        let endless = self.window.end_ns == u64::MAX;
        if !self.open_loop || endless || timed.control.stopping() {
            return;
        }
        for (due_ns, count) in self.pacing.rest(self.window.end_ns) {
            if due_ns >= self.window.start_ns {
                self.unserved += count;
                recorder.unserved(place(), due_ns, now, count);
            }
        }
    }

    /// Return the worker's final results for the coordinator.
    pub fn worker_end(&self, recorder: &Recorder) -> WorkerEnd {
        let last_completion_ns = recorder.last_completion_ns();
        let unfinished = recorder.unfinished().to_vec();
        WorkerEnd { last_completion_ns, unserved: self.unserved, unfinished }
    }
}

/// Time at which an operation was sent, and its due time.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time just before submission, in ns on the run's clock.
    pub at_ns: u64,
    /// Due time, in ns on the run's clock; 0 in a closed loop.
    pub due_ns: u64,
}

/// Worker that submits operations in batches and reaps their completions.
pub trait BatchWorker {
    /// Return the shared state of the worker's run.
    fn timed(&self) -> &Timed;

    /// Return the worker's schedule: which operations it may send, and until when.
    fn schedule(&self) -> &Schedule;

    /// Start as many operations as the schedule and the queue depth allow at time `now`.
    fn issue(&mut self, now: u64);

    /// Return the slot number of the first operation that is started but not submitted yet, if any.
    fn first(&self) -> Option<u16>;

    /// Return when the operation with this slot number was submitted, and when it was due.
    fn sent(&self, number: u16) -> Sent;

    /// Submit the started operations, wait for completions, and reap them. Return the time of the
    /// completions.
    ///
    /// # Errors
    /// Any error ends the worker.
    fn turn(&mut self, now: u64) -> Result<u64>;
}

/// Submit operations and reap completions until the load has ended. Return the time at which this
/// worker saw that the load had ended.
///
/// # Errors
/// Any error ends the worker.
#[inline]
pub fn load<W: BatchWorker>(worker: &mut W, mut now: u64) -> Result<u64> {
    // A separate loop measures the delay of the first operation, so that later batches do not have
    // to check for it.
    while goes_on(worker) {
        worker.issue(now);
        let first = worker.first();
        now = worker.turn(now)?;
        if let Some(number) = first {
            let Sent { at_ns, due_ns } = worker.sent(number);
            let due_ns = due_ns.max(worker.schedule().window.load_start_ns);
            worker.timed().first_io.submitted(at_ns, due_ns);
            break;
        }
    }
    while goes_on(worker) {
        worker.issue(now);
        now = worker.turn(now)?;
    }
    Ok(now)
}

#[inline]
fn goes_on(worker: &impl BatchWorker) -> bool {
    worker.schedule().issuing && !worker.timed().control.stopping()
}

//! The loop of a worker that hands its operations over turn by turn: what it may send, and until
//! when.

use storlab_base::{Result, TimeSource};

use crate::pacing::Pacing;
use crate::recorder::{Reading, Recorder};
use crate::timed::{Timed, WorkerEnd};
use crate::window::Window;

/// What a worker may send, by time and by bytes.
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
    /// Of a worker whose window is not known yet; `window_bytes`: its part of a window by bytes.
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

    /// The window is known. Returns the time when the load starts: all workers begin together.
    pub fn begin(&mut self, window: Window, pacing: Pacing, clock: &impl TimeSource) -> u64 {
        (self.window, self.pacing) = (window, pacing);
        window.wait_for_start(clock)
    }

    /// More may be sent.
    #[inline]
    pub fn issuing(&self) -> bool {
        self.issuing
    }

    /// Nothing more is sent.
    pub fn stop(&mut self) {
        self.issuing = false;
    }

    /// When the next operation was due, where it is: 0 in closed loop.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<u64> {
        let mut due_ns = 0;
        if let Some(due) = self.pacing.due_ns() {
            if due >= self.window.end_ns {
                // Not before it: the window lasts as long as it was ordered to.
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

    /// When the next operation is due, later than now or not; `None` in closed loop.
    #[inline]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.pacing.due_ns()
    }

    /// Of a window by bytes; without bound in one by time.
    #[inline]
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// So many bytes are moved by the operation that was due: in the ramp they do not count.
    #[inline]
    pub fn spend(&mut self, bytes: u64, now: u64) {
        if self.by_bytes && now >= self.window.start_ns {
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
        }
    }

    /// The operation that was due has been taken.
    #[inline]
    pub fn advance(&mut self) {
        self.pacing.advance();
    }

    /// A boundary has passed: hand over the interval that ended.
    #[cold]
    pub fn cross(
        &mut self,
        recorder: &mut Recorder,
        timed: &Timed,
        now: u64,
        read: impl Fn() -> Reading,
    ) {
        let over = recorder.cross(timed, now, read);
        // What was due in an open loop's window is still sent after it, but not for ever.
        let give_up_ns = self.window.end_ns.saturating_add(self.drain_timeout_ns);
        self.issuing &= !over || (self.open_loop && now < give_up_ns);
        if over && self.issuing {
            recorder.look_again_at(give_up_ns);
        }
    }

    /// Nothing is started any more, and nothing is in flight: what was due in the window and was
    /// not sent counts as unserved, with the time that it had waited at `now`, when the load ended.
    /// `place` draws the place of its kind in tables.
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

    /// What the coordinator is told.
    pub fn worker_end(&self, recorder: &Recorder) -> WorkerEnd {
        let last_completion_ns = recorder.last_completion_ns();
        let unfinished = recorder.unfinished().to_vec();
        WorkerEnd { last_completion_ns, unserved: self.unserved, unfinished }
    }
}

/// When an operation was handed over, and when it was due.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Just before it was handed over.
    pub at_ns: u64,
    /// 0 in closed loop.
    pub due_ns: u64,
}

/// A worker that hands operations over turn by turn.
pub trait Turns {
    /// Of its run.
    fn timed(&self) -> &Timed;

    /// What it may send.
    fn schedule(&self) -> &Schedule;

    /// Start operations, as many as it may.
    fn issue(&mut self, now: u64);

    /// The first of those that were started and are not handed over yet.
    fn first(&self) -> Option<u16>;

    /// When this operation, which was handed over, was.
    fn sent(&self, number: u16) -> Sent;

    /// Hand over what was started, wait, and take what has ended. Returns the time of the latter.
    ///
    /// # Errors
    /// What ends the worker.
    fn turn(&mut self, now: u64) -> Result<u64>;
}

/// Turn by turn until the load is over. Returns when that was seen.
///
/// # Errors
/// What ends the worker.
#[inline]
pub fn load<W: Turns>(worker: &mut W, mut now: u64) -> Result<u64> {
    // How late the first operation was is not looked for later, where it would cost each of them
    // something.
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
fn goes_on(worker: &impl Turns) -> bool {
    worker.schedule().issuing && !worker.timed().control.stopping()
}

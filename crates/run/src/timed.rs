//! Coordinator of runs that have a ramp and then a window, which ends at a set time or when all
//! workers have ended.
//!
//! The coordinator opens the window when every worker is ready, follows its progress, and sums up
//! the results. The workload family defines the load itself.

mod giving_up;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};
use storlab_base::{Error, Result, Signal, lock, monotonic_ns};

use crate::board::Board;
use crate::control::Control;
use crate::cpu::{CpuMark, CpuUse, WindowCpu};
use crate::first_io::FirstIo;
use crate::handle::Run;
use crate::outcome::{EngineInfo, Failure, Outcome, Status, Summary, Totals};
use crate::sampling::{Collector, Kind, LoadGroup, Report, Unfinished};
use crate::threads::{guarded, spawn};
use crate::window::Window;
use giving_up::Idle;

/// Time in ns between setting the window and the first operation, in which all workers wake up.
const START_DELAY_NS: u64 = 500_000;
/// Time in ns before a held run's start time at which its window is set. It is long enough that no
/// worker starts late if the kernel schedules the coordinator late.
const LEAD_NS: u64 = 50_000_000;
/// Time in ns between two wake-ups of workers after the window's end. The workers then check their
/// time-outs.
const NUDGE_NS: u64 = 100_000_000;
/// Longest sleep of the coordinator. A cancellation does not wake it.
const LONG: Duration = Duration::from_secs(1);

/// Capacity of the channel to the coordinator, in messages: a fixed number, plus a number per
/// worker. A worker that sends to a full channel waits.
const MESSAGES: usize = 4096;
const MESSAGES_OF_EACH: usize = 16;

/// Parameters of a timed run that its coordinator needs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of worker threads.
    pub workers: usize,
    /// Length of the ramp before the window, in ns.
    pub ramp_ns: u64,
    /// Length of the window in ns; `None` if it lasts until the workers end.
    pub window_ns: Option<u64>,
    /// Length of a sample interval, in ns.
    pub interval_ns: u64,
    /// Time-out in ns for operations that are in flight when the load ends.
    pub drain_timeout_ns: u64,
    /// Time-out in ns for workers that prepare without progress.
    pub arm_timeout_ns: u64,
    /// Whether operations start by a schedule (open loop); with groups, whether those of any do.
    pub open_loop: bool,
    /// Kinds of operation in the load.
    pub kinds: Vec<Kind>,
    /// Groups of workers that are counted apart, in the order of [`Kind::group`]; empty without
    /// groups.
    pub groups: Vec<LoadGroup>,
    /// Whether the run only prepares data. It then has one phase only, `prepare`.
    pub prepares: bool,
}

/// Message from a worker to the coordinator.
pub enum Message {
    /// The worker is ready and waits for the window to be set.
    Ready,
    /// The worker has passed the end of an interval. Contains its counters.
    Interval(Box<Report>),
    /// The worker has ended.
    Done {
        /// Index of the worker.
        job: usize,
        /// Results of the worker, or the error that ended it.
        ended: Box<Result<WorkerEnd>>,
    },
}

/// Final results of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerEnd {
    /// Time at which the worker's last operation succeeded, in ns on the run's clock.
    pub last_completion_ns: u64,
    /// Open loop: number of operations that were due inside the window but never sent.
    pub unserved: u64,
    /// Closed loop: operations in flight at the window's end, by [`Kind::place`].
    pub unfinished: Vec<Unfinished>,
}

/// State that the threads of a timed run share.
pub struct Timed {
    /// Signals that start, stop and cancel the run.
    pub control: Arc<Control>,
    /// CPU time of the process at the start and end of the window.
    pub cpu: WindowCpu,
    /// Delays of the workers' first operations. Each worker records its own once.
    pub first_io: FirstIo,
    plan: Plan,
    failure: Mutex<Option<Error>>,
    /// The window; `None` until all workers are ready.
    gate: Signal<Option<Window>>,
    gave_up: AtomicBool,
    sender: SyncSender<Message>,
}

impl Timed {
    /// Create the shared state of a run, and the channel by which its workers send messages.
    pub fn new(plan: Plan) -> (Self, Receiver<Message>) {
        // `channel` is not used, because it allocates memory in the sending thread.
        let room = MESSAGES + plan.workers * MESSAGES_OF_EACH;
        let (sender, receiver) = sync_channel(room);
        let timed = Timed {
            control: Arc::default(),
            cpu: WindowCpu::default(),
            first_io: FirstIo::default(),
            plan,
            failure: Mutex::new(None),
            gate: Signal::default(),
            gave_up: AtomicBool::new(false),
            sender,
        };
        (timed, receiver)
    }

    /// End the run as failed. Only the first failure is reported.
    pub fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.control.end_soon();
    }

    /// End the run as failed, because operations of worker `job` are still in flight although the
    /// drain time-out has passed.
    pub fn fail_as_hung(&self, job: usize, outstanding: usize) {
        let waited_ms = self.plan.drain_timeout_ns / 1_000_000;
        self.fail(Error::Hung { place: format!("job {job}"), outstanding, waited_ms });
    }

    /// Take the first failure, if there was one.
    pub fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    /// Send a message to the coordinator.
    pub fn send(&self, message: Message) {
        // If the receiver is gone, the coordinator has abandoned this worker.
        let _ = self.sender.send(message);
    }

    /// Record that a worker that takes long to prepare has made progress.
    pub fn goes_on(&self) {
        self.control.goes_on();
    }

    /// Return whether workers were abandoned in calls that never return. Resources that these calls
    /// use, such as a lock of a library, stay in use.
    pub fn gave_up(&self) -> bool {
        self.gave_up.load(Relaxed)
    }

    /// Wait until the window is set, and return it.
    pub fn wait_at_gate(&self) -> Window {
        self.gate.wait(|window| *window)
    }
}

/// Results and notes that a workload family adds when a timed run has ended.
#[derive(Default)]
pub struct Ending {
    /// Kernel features that were used.
    pub features: Vec<&'static str>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Duration of the flush at the end of the run, in ns; `None` if there was none.
    pub final_sync_ns: Option<u64>,
    /// Results of verification; `None` if no data was verified.
    pub verify: Option<Value>,
    /// Further results of the workload family.
    pub details: Map<String, Value>,
    /// Error that makes the run fail, unless it failed before or was cancelled.
    pub failure: Option<Error>,
}

/// Load of a workload family. Each worker executes it in its own thread. It is dropped at the end
/// of the run, which closes its files.
pub trait Load: Send + Sync + 'static {
    /// Word for a worker in messages and thread names, `job` or `worker`.
    const WORKER: &'static str;

    /// Return the state that this load shares with the coordinator.
    fn timed(&self) -> &Timed;

    /// Return the name of the I/O backend, as in results.
    fn backend(&self) -> &'static str;

    /// Return the number of cores that the workers can use.
    fn cores(&self) -> usize;

    /// Execute the work of worker number `index`, in its thread.
    ///
    /// # Errors
    /// Any error ends the run.
    fn work(self: &Arc<Self>, index: usize) -> Result<WorkerEnd>;

    /// Do periodic work of the family. The coordinator calls this each time it wakes after the
    /// window is set.
    fn look(&self, _window: &Window, _now_ns: u64) {}

    /// Return the expected length of the current phase in ns, if known. Called after each interval.
    fn expected_ns(&self, _window: &Window) -> Option<u64> {
        None
    }

    /// Return the family's results after all workers have ended or been abandoned. `unserved` is
    /// the number of operations that were due but never sent.
    fn end(&self, totals: &BTreeMap<&'static str, Totals>, unserved: u64) -> Ending;
}

/// Return a note on operations that were due but never sent; `None` if all were sent.
pub fn unserved_note(unserved: u64, operations: &str) -> Option<String> {
    (unserved > 0).then(|| {
        format!(
            "{unserved} {operations} were due in the window and never sent: the time that they \
             waited counts as their latency, which is a lower bound"
        )
    })
}

/// Start a run. The load begins when all workers are ready. If `held` is set, it begins at the time
/// that `Run::open_at` sets.
///
/// # Errors
/// [`Error::Io`] if the coordinator's thread cannot be started.
pub fn begin<L: Load>(load: L, receiver: Receiver<Message>, held: bool) -> Result<Run> {
    if held {
        load.timed().control.hold();
    }
    let load = Arc::new(load);
    Run::begin(load.timed().control.clone(), move |board| coordinate(&load, board, &receiver))
}

fn coordinate<L: Load>(load: &Arc<L>, board: &Board, receiver: &Receiver<Message>) -> Outcome {
    let timed = load.timed();
    for index in 0..timed.plan.workers {
        if let Err(error) = spawn_worker(load, index) {
            timed.fail(error);
            let ended = Box::new(Ok(WorkerEnd::default()));
            timed.send(Message::Done { job: index, ended });
        }
    }
    let mut coordinator = Coordinator::new(&**load, board);
    while let Some(limit) = coordinator.next_wait() {
        match receiver.recv_timeout(limit) {
            Ok(message) => coordinator.take(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        coordinator.look_at_clock();
    }
    coordinator.finish()
}

fn spawn_worker<L: Load>(load: &Arc<L>, index: usize) -> Result<()> {
    let name = L::WORKER;
    let worker_load = load.clone();
    let work = move || {
        let who = format!("{name} {index}");
        let ended = guarded(worker_load.backend(), who, || worker_load.work(index));
        let sender = worker_load.timed().sender.clone();
        drop(worker_load);
        // If the receiver is gone, the coordinator has abandoned this worker.
        let _ = sender.send(Message::Done { job: index, ended: Box::new(ended) });
    };
    spawn(format!("storlab-{name}{index}"), &format!("{name} {index}"), work)
}

struct Coordinator<'r, L> {
    load: &'r L,
    timed: &'r Timed,
    board: &'r Board,
    collector: Collector,
    window: Window,
    /// How much later than planned the load started, in ns.
    opened_late_ns: u64,
    ready: usize,
    done: usize,
    cpu_start: Option<CpuMark>,
    cpu_end: Option<CpuMark>,
    next_nudge_ns: u64,
    /// Time at which the coordinator noticed that the load was ending, as planned or early; `None`
    /// before.
    ending_since_ns: Option<u64>,
    idle: Idle,
    last_completion_ns: u64,
    unserved: u64,
}

impl<'r, L: Load> Coordinator<'r, L> {
    fn new(load: &'r L, board: &'r Board) -> Self {
        let timed = load.timed();
        let Plan { workers, interval_ns, open_loop, kinds, groups, .. } = timed.plan.clone();
        Coordinator {
            load,
            timed,
            board,
            collector: Collector::new(workers, interval_ns, open_loop, kinds).with_groups(groups),
            window: Window::default(),
            opened_late_ns: 0,
            ready: 0,
            done: 0,
            cpu_start: None,
            cpu_end: None,
            next_nudge_ns: 0,
            ending_since_ns: None,
            idle: Idle::default(),
            last_completion_ns: 0,
            unserved: 0,
        }
    }

    fn gate_is_open(&self) -> bool {
        self.window.load_start_ns > 0
    }

    fn stopping(&self) -> bool {
        self.timed.control.stopping()
    }

    /// Return how long to wait for the next message; `None` if the run is over.
    fn next_wait(&self) -> Option<Duration> {
        // An abandoned worker may still end, so `done` may exceed the number of workers.
        if self.done >= self.timed.plan.workers {
            return None;
        }
        if !self.gate_is_open() {
            return Some(LONG.min(Duration::from_nanos(self.timed.plan.arm_timeout_ns)));
        }
        let now = monotonic_ns();
        let next = match (self.cpu_start, self.cpu_end) {
            (None, _) => self.window.start_ns,
            (_, None) => self.window.end_ns,
            _ => self.next_nudge_ns,
        };
        let next = if self.stopping() { next.min(now + NUDGE_NS) } else { next };
        Some(Duration::from_nanos(next.saturating_sub(now)).min(LONG))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Ready => self.ready += 1,
            Message::Interval(report) => {
                if self.says_something(&report) {
                    self.idle.end();
                }
                self.collector.add(&report, self.window.start_ns);
                report.recycle();
                self.board.show(self.collector.live());
                if let Some(length_ns) = self.load.expected_ns(&self.window) {
                    self.board.expect(length_ns);
                }
            }
            Message::Done { job, ended } => {
                self.done += 1;
                self.idle.end();
                self.collector.end_job(job, self.window.start_ns);
                match *ended {
                    Ok(end) => {
                        self.last_completion_ns =
                            self.last_completion_ns.max(end.last_completion_ns);
                        self.unserved += end.unserved;
                        self.collector.add_unfinished(&end.unfinished);
                    }
                    Err(error) => self.timed.fail(error),
                }
            }
        }
        if !self.gate_is_open() {
            self.timed.goes_on();
            if self.ready + self.done >= self.timed.plan.workers {
                self.open_window();
            }
        }
    }

    fn open_window(&mut self) {
        let Plan { ramp_ns, window_ns, prepares, .. } = self.timed.plan;
        let opening =
            self.timed.control.wait_for_start(LEAD_NS, || self.board.enter("armed", None));
        self.opened_late_ns = opening.map_or(0, |opening| opening.late_ns());
        let load_start_ns = match opening {
            Some(opening) => opening.start_ns,
            None => monotonic_ns() + START_DELAY_NS,
        };
        let start_ns = load_start_ns + ramp_ns;
        let end_ns = window_ns.map_or(u64::MAX, |length| start_ns + length);
        self.window = Window { load_start_ns, start_ns, end_ns };
        if prepares {
            self.board.enter("prepare", None);
        } else {
            self.board.enter("ramp", Some(ramp_ns));
        }
        self.timed.gate.change(|gate| *gate = Some(self.window));
    }

    /// Do everything that is due at the current time: change phases, wake workers, check time-outs.
    fn look_at_clock(&mut self) {
        let now = monotonic_ns();
        if !self.gate_is_open() {
            self.give_up_on_the_unready(now);
            return;
        }
        if self.cpu_start.is_none() && now >= self.window.start_ns {
            self.cpu_start = Some(self.timed.cpu.start());
            if !self.timed.plan.prepares {
                self.board.enter("measure", self.timed.plan.window_ns);
            }
        }
        if self.cpu_end.is_none() && now >= self.window.end_ns {
            self.cpu_end = Some(self.timed.cpu.end());
            self.board.enter("drain", None);
        }
        self.load.look(&self.window, now);
        self.give_up_on_the_idle(now);
        let ending = now >= self.window.end_ns || self.stopping();
        if ending && now >= self.next_nudge_ns {
            let since_ns = *self.ending_since_ns.get_or_insert(now);
            self.timed.control.wake_all();
            self.next_nudge_ns = now + NUDGE_NS;
            self.give_up_on_the_silent(now, since_ns);
        }
    }

    /// Build the outcome after all workers have ended.
    fn finish(mut self) -> Outcome {
        let drained_ns = monotonic_ns();
        let start_ns = self.window.start_ns;
        let end_ns = match self.timed.plan.window_ns.map(|length| start_ns + length) {
            Some(end) if drained_ns >= end || !self.stopping() => end,
            Some(_) => drained_ns.max(start_ns),
            None => self.last_completion_ns.max(start_ns),
        };
        // A window that ends after a number of bytes, or early, ends here. Later work of the family
        // is not part of it.
        self.cpu_end.get_or_insert_with(|| CpuMark::of_the_end(end_ns));
        self.collector.finish(start_ns, end_ns);
        let totals = Totals::of(&self.collector);
        let ending = self.load.end(&totals, self.unserved);
        let cancelled = self.timed.control.cancelled();
        let failure = self.timed.take_failure().or(ending.failure.filter(|_| !cancelled));
        let engine = EngineInfo::native(Some(self.load.backend()), ending.features);
        let Timed { first_io, plan, .. } = self.timed;
        let from_plan = |late_ns: u64| late_ns.saturating_add(self.opened_late_ns);
        let own_work = !plan.prepares;
        let summary = Summary {
            status: Status::of(failure.is_some(), cancelled),
            totals,
            groups: Totals::by_group(&self.collector),
            by_worker: own_work.then(|| self.collector.by_worker().clone()),
            cpu: self.cpu_use(end_ns),
            failure: failure.as_ref().map(Failure::from),
            notes: ending.notes,
            final_sync_ns: ending.final_sync_ns,
            drain_ns: drained_ns.saturating_sub(end_ns),
            first_io_late_ns: first_io.earliest_ns().map(from_plan),
            last_worker_late_ns: first_io.latest_ns().filter(|_| own_work).map(from_plan),
            verify: ending.verify,
            details: ending.details,
            ..Summary::new(engine, start_ns, end_ns)
        };
        Outcome { summary, rows: self.collector.into_rows() }
    }

    fn cpu_use(&self, end_ns: u64) -> Option<CpuUse> {
        let (begin, end) = (self.cpu_start?, self.cpu_end?);
        let length_ns = end_ns.saturating_sub(self.window.start_ns);
        Some(begin.until(end, length_ns, self.collector.workers(), self.load.cores()))
    }
}

//! Counters of workloads with a fixed amount of work: one ledger per worker, and the sum over all
//! workers.
//!
//! Fixed work has no ramp, and its window ends when the work does. As in block I/O, each worker
//! counts on its own and hands over whole intervals.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use storlab_base::{Error, Result, Signal, monotonic_ns};

use crate::board::Board;
use crate::control::Control;
use crate::cpu::{CpuMark, Reading, Spent, WorkerCpu, available_cores};
use crate::first_io::FirstIo;
use crate::outcome::{EngineInfo, Failure, Outcome, Span, Status, Summary, Totals};
use crate::sampling::{Collector, Kind, Report, Tables, empty_table};
use crate::threads::Silence;
use crate::window::Window;

/// Interval at which a thread that waits for workers checks whether the run is ending.
const LOOK: Duration = Duration::from_millis(50);

/// State shared by the workers and their tally.
#[derive(Default)]
struct Common {
    /// Start time of the window, once it is set.
    gate: Signal<Option<u64>>,
    first_io: FirstIo,
}

/// Factory of ledgers, the counters of the workers of a run of fixed work.
#[derive(Clone)]
pub struct RecorderFactory {
    interval_ns: u64,
    kinds: Vec<Kind>,
    sender: Sender<Box<Report>>,
    common: Arc<Common>,
}

impl RecorderFactory {
    /// Create the factory for a load with these kinds of operations, and the channel on which
    /// workers hand over their intervals.
    pub fn new(interval_ns: u64, kinds: &[Kind]) -> (Self, Receiver<Box<Report>>) {
        let (sender, receiver) = channel();
        let (kinds, common) = (kinds.to_vec(), Arc::default());
        (RecorderFactory { interval_ns, kinds, sender, common }, receiver)
    }

    /// Return the ledger (the counters) of a worker that is ready. Blocks until the window begins.
    pub fn ledger(&self, worker: usize) -> WorkerRecorder {
        self.ledger_of(worker, &self.kinds)
    }

    /// Like [`RecorderFactory::ledger`], for a worker that performs only these kinds of operations.
    pub fn ledger_of(&self, worker: usize, kinds: &[Kind]) -> WorkerRecorder {
        let start_ns = self.common.gate.wait(|start_ns| *start_ns);
        let common = self.common.clone();
        WorkerRecorder::new(worker, kinds, self.interval_ns, start_ns, self.sender.clone(), common)
    }
}

/// Counters of one worker, owned by the worker's thread.
pub struct WorkerRecorder {
    interval_ns: u64,
    start_ns: u64,
    interval: i64,
    tables: Tables,
    /// CPU accounting of the thread that the worker runs on.
    cpu: Option<WorkerCpu>,
    /// CPU time used in threads that the worker has left.
    carried: Spent,
    sender: Sender<Box<Report>>,
    common: Arc<Common>,
    /// Whether the first operation has been recorded.
    begun: bool,
}

impl WorkerRecorder {
    fn new(
        worker: usize,
        kinds: &[Kind],
        interval_ns: u64,
        start_ns: u64,
        sender: Sender<Box<Report>>,
        common: Arc<Common>,
    ) -> Self {
        WorkerRecorder {
            interval_ns,
            start_ns,
            interval: 0,
            tables: Tables::new(worker, empty_table(kinds, false)),
            cpu: Some(cpu_since(start_ns)),
            carried: Spent::default(),
            sender,
            common,
            begun: false,
        }
    }

    /// Record one operation of kind `place` that ended at `now_ns`.
    pub fn record(&mut self, place: usize, bytes: u64, latency_ns: u64, now_ns: u64) {
        self.cross(now_ns);
        // An operation without bytes is no I/O.
        if !self.begun && bytes > 0 {
            self.begun = true;
            self.common.first_io.submitted(now_ns.saturating_sub(latency_ns), self.start_ns);
        }
        if let Some(stats) = self.tables.current()[place].as_deref_mut() {
            stats.operations += 1;
            stats.bytes += bytes;
            stats.latency.record(latency_ns);
        }
    }

    /// Hand over the interval that ended before `now_ns`, if one did.
    pub fn cross(&mut self, now_ns: u64) {
        let interval = (now_ns.saturating_sub(self.start_ns) / self.interval_ns) as i64;
        if interval > self.interval {
            self.hand_over();
            self.interval = interval;
        }
    }

    /// Continue in the calling thread, whose CPU time counts from now on.
    pub fn on_this_thread(&mut self) {
        self.cpu = Some(cpu_since(self.start_ns));
    }

    /// Leave the current thread; the CPU time that it used so far counts.
    pub fn leave_thread(&mut self) {
        if let Some(mut cpu) = self.cpu.take() {
            self.carried.add(cpu.take(Reading::of_this_thread()));
        }
    }

    fn hand_over(&mut self) {
        let mut spent = std::mem::take(&mut self.carried);
        // After `leave_thread`, the calling thread is not the worker's: its CPU time must not
        // count.
        if let Some(cpu) = &mut self.cpu {
            spent.add(cpu.take(Reading::of_this_thread()));
        }
        // If the receiver is gone, the coordinator has given up on this worker.
        let _ = self.sender.send(self.tables.take(self.interval, spent));
    }
}

/// Start CPU accounting of the calling thread for a window that ends when the work does.
fn cpu_since(start_ns: u64) -> WorkerCpu {
    let window = Window { load_start_ns: start_ns, start_ns, end_ns: u64::MAX };
    WorkerCpu::begin(&window, 1, Reading::of_this_thread())
}

impl Drop for WorkerRecorder {
    /// Hand over the last interval, however the worker ends.
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Sum over all workers of a run of fixed work.
pub struct FixedTotals {
    collector: Collector,
    common: Arc<Common>,
    start_ns: u64,
    /// Delay of the window's start relative to the plan, in ns.
    opened_late_ns: u64,
    cpu: CpuMark,
    cpu_end: Option<CpuMark>,
    workers: usize,
}

/// Results and notes that a workload family adds to a run's summary.
#[derive(Default)]
pub struct Extras {
    /// I/O backend, `uring` or `posix`; `None` for the network.
    pub backend: Option<&'static str>,
    /// Features of the backend in use.
    pub features: Vec<&'static str>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Named parts of the window in time order.
    pub spans: Vec<Span>,
    /// Further results of the family.
    pub details: serde_json::Map<String, serde_json::Value>,
    /// Error that made the run fail, if any.
    pub failure: Option<Error>,
    /// Whether workers take tasks from a shared queue: then a worker that begins late means
    /// nothing.
    pub takes_tasks: bool,
}

impl FixedTotals {
    /// Begin the window: all workers are ready. A held run waits for its start time.
    ///
    /// Anything that must not wait for the start time has to be done before.
    pub fn begin(
        workers: usize,
        books: &RecorderFactory,
        control: &Control,
        board: &Board,
    ) -> Self {
        let held = control.wait_for_start(0, || board.enter("armed", None));
        let start_ns = held.map_or_else(monotonic_ns, |held| held.start_ns);
        board.enter("measure", None);
        let RecorderFactory { interval_ns, kinds, common, .. } = books.clone();
        let tally = FixedTotals {
            collector: Collector::new(workers, interval_ns, false, kinds),
            common,
            start_ns,
            opened_late_ns: held.map_or(0, |held| held.late_ns()),
            cpu: CpuMark::now(),
            cpu_end: None,
            workers,
        };
        tally.common.gate.change(|gate| *gate = Some(start_ns));
        tally
    }

    /// Return the start of the window.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Add one interval of a worker.
    pub fn add(&mut self, report: Box<Report>, board: &Board) {
        self.collector.add(&report, self.start_ns);
        report.recycle();
        board.show(self.collector.live());
    }

    /// Add intervals until all workers have closed their channel. Workers stuck in the kernel are
    /// abandoned when the run is ending.
    ///
    /// # Errors
    /// [`Error::Silent`] if the run is ending and its workers have not ended within the time-out.
    pub fn follow(
        &mut self,
        reports: &Receiver<Box<Report>>,
        board: &Board,
        control: &Control,
        drain_ns: u64,
    ) -> Result<()> {
        let mut silence = Silence::default();
        loop {
            match reports.recv_timeout(LOOK) {
                Ok(report) => self.add(report, board),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => silence.bear(control, drain_ns, 1)?,
            }
        }
    }

    /// Mark a worker as ended.
    pub fn end(&mut self, worker: usize) {
        self.collector.end_job(worker, self.start_ns);
    }

    /// Close CPU accounting and return the current time, the end of the window. Both are read
    /// together, so that a late coordinator cannot separate them.
    pub fn close(&mut self) -> u64 {
        let end_ns = monotonic_ns().max(self.start_ns + 1);
        self.cpu_end = Some(CpuMark::now());
        end_ns
    }

    /// Build the outcome after all workers have ended; the window ended at `end_ns`.
    pub fn finish(mut self, end_ns: u64, control: &Control, extras: Extras) -> Outcome {
        let cpu_end = self.cpu_end.unwrap_or_else(CpuMark::now);
        self.collector.finish(self.start_ns, end_ns);
        let cores = self.workers.min(available_cores());
        let workers = self.collector.workers();
        let engine = EngineInfo::native(extras.backend, extras.features);
        let first_io = &self.common.first_io;
        let from_plan = |late_ns: u64| late_ns.saturating_add(self.opened_late_ns);
        let own_work = !extras.takes_tasks;
        let summary = Summary {
            status: Status::of(extras.failure.is_some(), control.cancelled()),
            totals: Totals::of(&self.collector),
            cpu: Some(self.cpu.until(cpu_end, end_ns - self.start_ns, workers, cores)),
            failure: extras.failure.as_ref().map(Failure::from),
            notes: extras.notes,
            first_io_late_ns: first_io.earliest_ns().map(from_plan),
            last_worker_late_ns: first_io.latest_ns().filter(|_| own_work).map(from_plan),
            spans: extras.spans,
            details: extras.details,
            ..Summary::new(engine, self.start_ns, end_ns)
        };
        Outcome { summary, rows: self.collector.into_rows() }
    }
}

/// Run work that has no counters, such as removing the data of a run, and return its outcome.
pub fn chore(
    interval_ns: u64,
    kinds: &[Kind],
    control: &Control,
    board: &Board,
    work: impl FnOnce() -> Result<()>,
) -> Outcome {
    let (books, _) = RecorderFactory::new(interval_ns, kinds);
    let tally = FixedTotals::begin(0, &books, control, board);
    let failure = work().err();
    let end_ns = monotonic_ns().max(tally.start_ns() + 1);
    tally.finish(end_ns, control, Extras { failure, ..Extras::default() })
}

#[cfg(test)]
mod tests;

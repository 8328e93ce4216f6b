//! Counters of workloads that do a fixed amount of work: one recorder per worker, and the sum over
//! all workers.
//!
//! A run of fixed work has no ramp, and its window ends when the work is done. As in block I/O,
//! each worker counts on its own and hands over its counters at the end of each interval.

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

/// Time between two checks of a waiting thread for whether the run is ending.
const LOOK: Duration = Duration::from_millis(50);

/// State that the workers' recorders and `FixedTotals` share.
#[derive(Default)]
struct Common {
    /// Start time of the window, once it is known.
    gate: Signal<Option<u64>>,
    first_io: FirstIo,
}

/// Creates the recorders of the workers of a run with a fixed amount of work.
#[derive(Clone)]
pub struct RecorderFactory {
    interval_ns: u64,
    kinds: Vec<Kind>,
    sender: Sender<Box<Report>>,
    common: Arc<Common>,
}

impl RecorderFactory {
    /// Create the factory of the workers' recorders for a load with the operation kinds `kinds`,
    /// and the channel on which workers hand over their counters.
    pub fn new(interval_ns: u64, kinds: &[Kind]) -> (Self, Receiver<Box<Report>>) {
        let (sender, receiver) = channel();
        let (kinds, common) = (kinds.to_vec(), Arc::default());
        (RecorderFactory { interval_ns, kinds, sender, common }, receiver)
    }

    /// Return the recorder of a worker that is ready. Blocks until the window begins.
    pub fn recorder(&self, worker: usize) -> WorkerRecorder {
        self.recorder_of(worker, &self.kinds)
    }

    /// Return the recorder of a worker that performs only operations of `kinds`. Otherwise like
    /// [`RecorderFactory::recorder`].
    pub fn recorder_of(&self, worker: usize, kinds: &[Kind]) -> WorkerRecorder {
        let start_ns = self.common.gate.wait(|start_ns| *start_ns);
        let common = self.common.clone();
        WorkerRecorder::new(worker, kinds, self.interval_ns, start_ns, self.sender.clone(), common)
    }
}

/// Counters of one worker, used by the worker's thread only.
pub struct WorkerRecorder {
    interval_ns: u64,
    start_ns: u64,
    interval: i64,
    tables: Tables,
    /// CPU accounting of the thread that the worker currently runs on.
    cpu: Option<WorkerCpu>,
    /// CPU time used in threads that the worker ran on before.
    carried: Spent,
    sender: Sender<Box<Report>>,
    common: Arc<Common>,
    /// Whether the first operation with data has been recorded.
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

    /// Record an operation that ended at `now_ns`. `place` is the index of its kind in a
    /// `KindTable`.
    pub fn record(&mut self, place: usize, bytes: u64, latency_ns: u64, now_ns: u64) {
        self.cross(now_ns);
        // An operation without bytes does not count as the first I/O.
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

    /// Hand over the counters of the interval that ended before `now_ns`, if there is one.
    pub fn cross(&mut self, now_ns: u64) {
        let interval = (now_ns.saturating_sub(self.start_ns) / self.interval_ns) as i64;
        if interval > self.interval {
            self.hand_over();
            self.interval = interval;
        }
    }

    /// Continue the worker in the calling thread. The thread's CPU time counts from now on.
    pub fn on_this_thread(&mut self) {
        self.cpu = Some(cpu_since(self.start_ns));
    }

    /// Stop counting the CPU time of the current thread. CPU time that it used before this call
    /// still counts.
    pub fn leave_thread(&mut self) {
        if let Some(mut cpu) = self.cpu.take() {
            self.carried.add(cpu.take(Reading::of_this_thread()));
        }
    }

    fn hand_over(&mut self) {
        let mut spent = std::mem::take(&mut self.carried);
        // After `leave_thread` the worker no longer runs on this thread, so its CPU time must not
        // count.
        if let Some(cpu) = &mut self.cpu {
            spent.add(cpu.take(Reading::of_this_thread()));
        }
        // If the receiver is gone, the coordinator has abandoned this worker.
        let _ = self.sender.send(self.tables.take(self.interval, spent));
    }
}

/// Start CPU accounting of the calling thread for a window whose end is not known yet.
fn cpu_since(start_ns: u64) -> WorkerCpu {
    let window = Window { load_start_ns: start_ns, start_ns, end_ns: u64::MAX };
    WorkerCpu::begin(&window, 1, Reading::of_this_thread())
}

impl Drop for WorkerRecorder {
    /// Hand over the counters of the last interval to the sum, however the worker ends.
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Sum of the counters of all workers of a run with a fixed amount of work.
pub struct FixedTotals {
    collector: Collector,
    common: Arc<Common>,
    start_ns: u64,
    /// How much later than planned the window started, in ns.
    opened_late_ns: u64,
    cpu: CpuMark,
    cpu_end: Option<CpuMark>,
    workers: usize,
}

/// Results and notes that a workload family adds to the summary of a run.
#[derive(Default)]
pub struct Extras {
    /// I/O backend, `uring` or `posix`; `None` if the load uses the network.
    pub backend: Option<&'static str>,
    /// Features of the backend in use.
    pub features: Vec<&'static str>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Named parts of the window, such as epochs, in order of time.
    pub spans: Vec<Span>,
    /// Further results of the workload family.
    pub details: serde_json::Map<String, serde_json::Value>,
    /// Error that made the run fail; `None` if it succeeded.
    pub failure: Option<Error>,
    /// Whether workers take tasks from a shared queue. The delay of the worker that begins last is
    /// then meaningless and not reported.
    pub takes_tasks: bool,
}

impl FixedTotals {
    /// Start the window, after all workers have become ready. In a held run, this waits for the
    /// start time first.
    ///
    /// Work that must not wait for the start time has to be done before this call.
    pub fn begin(
        workers: usize,
        factory: &RecorderFactory,
        control: &Control,
        board: &Board,
    ) -> Self {
        let held = control.wait_for_start(0, || board.enter("armed", None));
        let start_ns = held.map_or_else(monotonic_ns, |held| held.start_ns);
        board.enter("measure", None);
        let RecorderFactory { interval_ns, kinds, common, .. } = factory.clone();
        let totals = FixedTotals {
            collector: Collector::new(workers, interval_ns, false, kinds),
            common,
            start_ns,
            opened_late_ns: held.map_or(0, |held| held.late_ns()),
            cpu: CpuMark::now(),
            cpu_end: None,
            workers,
        };
        totals.common.gate.change(|gate| *gate = Some(start_ns));
        totals
    }

    /// Return the start of the window, in ns on the run's clock.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Add the counters of one worker for one interval.
    pub fn add(&mut self, report: Box<Report>, board: &Board) {
        self.collector.add(&report, self.start_ns);
        report.recycle();
        board.show(self.collector.live());
    }

    /// Add workers' counters until all workers have ended. If the run is ending and workers are
    /// stuck in the kernel, they are abandoned.
    ///
    /// # Errors
    /// [`Error::Silent`] if workers have not ended within the time-out after the run was asked to
    /// end.
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

    /// Record that a worker has ended.
    pub fn end(&mut self, worker: usize) {
        self.collector.end_job(worker, self.start_ns);
    }

    /// End the window: read the CPU counters, and return the current time as the window's end. Both
    /// are read together, so that no delay of the coordinator lies between them.
    pub fn close(&mut self) -> u64 {
        let end_ns = monotonic_ns().max(self.start_ns + 1);
        self.cpu_end = Some(CpuMark::now());
        end_ns
    }

    /// Build the outcome after all workers have ended. The window ended at `end_ns`.
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

/// Execute work that has no counters, such as removing the data of a run, and return its outcome.
pub fn chore(
    interval_ns: u64,
    kinds: &[Kind],
    control: &Control,
    board: &Board,
    work: impl FnOnce() -> Result<()>,
) -> Outcome {
    let (factory, _) = RecorderFactory::new(interval_ns, kinds);
    let totals = FixedTotals::begin(0, &factory, control, board);
    let failure = work().err();
    let end_ns = monotonic_ns().max(totals.start_ns() + 1);
    totals.finish(end_ns, control, Extras { failure, ..Extras::default() })
}

#[cfg(test)]
mod tests;

//! What families of fixed work share: a worker's own counters, and the sum over all workers.
//!
//! Fixed work has no ramp, and its window ends when the work does. Workers count for themselves and
//! hand over whole intervals, as block I/O does.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use storlab_base::{Error, Result, monotonic_ns};

use crate::board::Board;
use crate::control::Control;
use crate::cpu::{CpuMark, Reading, Spent, WorkerCpu, available_cores};
use crate::first_io::FirstIo;
use crate::gate::Gate;
use crate::outcome::{EngineInfo, Failure, Outcome, Span, Status, Summary, Totals};
use crate::sampling::{Collector, Kind, Report, Tables, empty_table};
use crate::threads::Silence;
use crate::window::Window;

/// Whoever waits for workers looks this often whether the run is to end.
const LOOK: Duration = Duration::from_millis(50);

/// What workers and the sum over them have in common.
#[derive(Default)]
struct Common {
    /// When the window began.
    gate: Gate<u64>,
    first_io: FirstIo,
}

/// Gives every worker its counters.
#[derive(Clone)]
pub struct Books {
    interval_ns: u64,
    kinds: Vec<Kind>,
    sender: Sender<Box<Report>>,
    common: Arc<Common>,
}

impl Books {
    /// For a load with these kinds of operations, and the intervals that its workers will hand
    /// over.
    pub fn new(interval_ns: u64, kinds: &[Kind]) -> (Self, Receiver<Box<Report>>) {
        let (sender, receiver) = channel();
        let (kinds, common) = (kinds.to_vec(), Arc::default());
        (Books { interval_ns, kinds, sender, common }, receiver)
    }

    /// For a worker that is ready. Waits until the window has begun.
    pub fn ledger(&self, worker: usize) -> Ledger {
        self.ledger_of(worker, &self.kinds)
    }

    /// For one that does only these kinds.
    pub fn ledger_of(&self, worker: usize, kinds: &[Kind]) -> Ledger {
        let start_ns = self.common.gate.wait();
        let common = self.common.clone();
        Ledger::new(worker, kinds, self.interval_ns, start_ns, self.sender.clone(), common)
    }
}

/// One worker's counters. It belongs to the worker's thread.
pub struct Ledger {
    interval_ns: u64,
    start_ns: u64,
    interval: i64,
    tables: Tables,
    /// Of the thread that the worker is on.
    cpu: Option<WorkerCpu>,
    /// In threads that it has left.
    carried: Spent,
    sender: Sender<Box<Report>>,
    common: Arc<Common>,
    /// Its first operation was seen.
    begun: bool,
}

impl Ledger {
    fn new(
        worker: usize,
        kinds: &[Kind],
        interval_ns: u64,
        start_ns: u64,
        sender: Sender<Box<Report>>,
        common: Arc<Common>,
    ) -> Self {
        Ledger {
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

    /// One operation ended at `now_ns`.
    pub fn record(&mut self, place: usize, bytes: u64, latency_ns: u64, now_ns: u64) {
        self.cross(now_ns);
        // What moves nothing is no I/O.
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

    /// Time has passed: hand over the interval that ended, if one did.
    pub fn cross(&mut self, now_ns: u64) {
        let interval = (now_ns.saturating_sub(self.start_ns) / self.interval_ns) as i64;
        if interval > self.interval {
            self.hand_over();
            self.interval = interval;
        }
    }

    /// The worker goes on in another thread, whose CPU counts from here on.
    pub fn on_this_thread(&mut self) {
        self.cpu = Some(cpu_since(self.start_ns));
    }

    /// The worker leaves its thread: what that used so far counts.
    pub fn leave_thread(&mut self) {
        if let Some(mut cpu) = self.cpu.take() {
            self.carried.add(cpu.take(Reading::of_this_thread()));
        }
    }

    fn hand_over(&mut self) {
        let mut spent = std::mem::take(&mut self.carried);
        // Where the worker has left its thread, the one that is asked here is not its own.
        if let Some(cpu) = &mut self.cpu {
            spent.add(cpu.take(Reading::of_this_thread()));
        }
        // A receiver that is gone has given up on this worker.
        let _ = self.sender.send(self.tables.take(self.interval, spent));
    }
}

/// Of the calling thread, in a window that ends when the work does.
fn cpu_since(start_ns: u64) -> WorkerCpu {
    let window = Window { load_start_ns: start_ns, start_ns, end_ns: u64::MAX };
    WorkerCpu::begin(&window, 1, Reading::of_this_thread())
}

impl Drop for Ledger {
    /// What the last interval holds counts, however the worker ends.
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// The sum over all workers.
pub struct Tally {
    collector: Collector,
    common: Arc<Common>,
    start_ns: u64,
    /// The window began so long after it was to.
    opened_late_ns: u64,
    cpu: CpuMark,
    cpu_end: Option<CpuMark>,
    workers: usize,
}

/// What only the family knows of its run.
#[derive(Default)]
pub struct Extras {
    /// `uring` or `posix`; `None` for the network.
    pub backend: Option<&'static str>,
    /// Of the backend.
    pub features: Vec<&'static str>,
    /// For people.
    pub notes: Vec<String>,
    /// In order of time.
    pub spans: Vec<Span>,
    /// The rest.
    pub details: serde_json::Map<String, serde_json::Value>,
    /// Why the run failed.
    pub failure: Option<Error>,
    /// Workers take tasks as they come: that one of them began late says nothing.
    pub takes_tasks: bool,
}

impl Tally {
    /// All of so many workers are ready: the window begins, now or, where the run is held, when it
    /// is told to. What must not wait for that has ended the run before.
    pub fn begin(workers: usize, books: &Books, control: &Control, board: &Board) -> Self {
        let held = control.wait_for_start(0, || board.enter("armed", None));
        let start_ns = held.map_or_else(monotonic_ns, |held| held.start_ns);
        board.enter("measure", None);
        let Books { interval_ns, kinds, common, .. } = books.clone();
        let tally = Tally {
            collector: Collector::new(workers, interval_ns, false, kinds),
            common,
            start_ns,
            opened_late_ns: held.map_or(0, |held| held.late_ns()),
            cpu: CpuMark::now(),
            cpu_end: None,
            workers,
        };
        tally.common.gate.open(start_ns);
        tally
    }

    /// When the window began.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Take an interval of a worker.
    pub fn add(&mut self, report: Box<Report>, board: &Board) {
        self.collector.add(&report, self.start_ns);
        report.recycle();
        board.show(self.collector.live());
    }

    /// Take intervals until those that report have all ended. A run that is to end leaves them
    /// behind where they are stuck in the kernel.
    ///
    /// # Errors
    /// [`Error::Silent`] of those.
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

    /// A worker has ended.
    pub fn end(&mut self, worker: usize) {
        self.collector.end_job(worker, self.start_ns);
    }

    /// What the process does from now on is no longer the run's. Returns now: the window's end,
    /// which no coordinator's lateness parts from what was used until then.
    pub fn close(&mut self) -> u64 {
        let end_ns = monotonic_ns().max(self.start_ns + 1);
        self.cpu_end = Some(CpuMark::now());
        end_ns
    }

    /// All workers have ended; the window ended at `end_ns`.
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

/// Work that nothing is counted of, such as removing what a run left: it is done, or has failed.
pub fn chore(
    interval_ns: u64,
    kinds: &[Kind],
    control: &Control,
    board: &Board,
    work: impl FnOnce() -> Result<()>,
) -> Outcome {
    let (books, _) = Books::new(interval_ns, kinds);
    let tally = Tally::begin(0, &books, control, board);
    let failure = work().err();
    let end_ns = monotonic_ns().max(tally.start_ns() + 1);
    tally.finish(end_ns, control, Extras { failure, ..Extras::default() })
}

#[cfg(test)]
mod tests;

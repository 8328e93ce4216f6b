//! What families of fixed work share: a worker's own counters, and the sum over all workers.
//!
//! Fixed work has no ramp, and its window ends when the work does. Workers count for themselves and
//! hand over whole intervals, as block I/O does.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use storlab_base::{Error, monotonic_ns, thread_cpu_ns};

use crate::control::Control;
use crate::cpu::{CpuMark, Spent, WorkerCpu, available_cores};
use crate::handle::Board;
use crate::outcome::{EngineInfo, Failure, Outcome, Span, Status, Summary, Totals};
use crate::sampling::{Collector, Kind, KindStats, KindTable, Report};
use crate::window::Window;

/// One worker's counters. It belongs to the worker's thread.
pub struct Ledger {
    worker: usize,
    kinds: Vec<Kind>,
    interval_ns: u64,
    start_ns: u64,
    interval: i64,
    table: KindTable,
    /// Of the thread that the worker is on.
    cpu: Option<WorkerCpu>,
    /// In threads that it has left.
    carried: Spent,
    sender: Sender<Report>,
}

impl Ledger {
    /// For a worker of a load with these kinds of operations, whose window began at `start_ns`.
    pub fn new(
        worker: usize,
        kinds: &[Kind],
        interval_ns: u64,
        start_ns: u64,
        sender: Sender<Report>,
    ) -> Self {
        let mut ledger = Ledger {
            worker,
            kinds: kinds.to_vec(),
            interval_ns,
            start_ns,
            interval: 0,
            table: KindTable::new(),
            cpu: Some(cpu_since(start_ns)),
            carried: Spent::default(),
            sender,
        };
        ledger.table = ledger.empty();
        ledger
    }

    fn empty(&self) -> KindTable {
        let places = self.kinds.iter().map(|kind| kind.place + 1).max().unwrap_or(0);
        let mut table: KindTable = (0..places).map(|_| None).collect();
        for kind in &self.kinds {
            table[kind.place] = Some(Box::new(KindStats::new(false)));
        }
        table
    }

    /// One operation ended at `now_ns`.
    pub fn record(&mut self, place: usize, bytes: u64, latency_ns: u64, now_ns: u64) {
        self.cross(now_ns);
        if let Some(stats) = self.table[place].as_deref_mut() {
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
            self.carried.add(cpu.take(thread_cpu_ns(), monotonic_ns()));
        }
    }

    fn hand_over(&mut self) {
        let fresh = self.empty();
        let kinds = std::mem::replace(&mut self.table, fresh);
        let mut spent = std::mem::take(&mut self.carried);
        // Where the worker has left its thread, the one that is asked here is not its own.
        if let Some(cpu) = &mut self.cpu {
            spent.add(cpu.take(thread_cpu_ns(), monotonic_ns()));
        }
        // A receiver that is gone has given up on this worker.
        let _ =
            self.sender.send(Report { job: self.worker, interval: self.interval, spent, kinds });
    }
}

/// Of the calling thread, in a window that ends when the work does.
fn cpu_since(start_ns: u64) -> WorkerCpu {
    let window = Window { load_start_ns: start_ns, start_ns, end_ns: u64::MAX };
    WorkerCpu::begin(&window, 1, thread_cpu_ns(), monotonic_ns())
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
    start_ns: u64,
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
}

impl Tally {
    /// For so many workers. The window begins now.
    pub fn begin(workers: usize, interval_ns: u64, kinds: &[Kind], board: &Board) -> Self {
        board.enter("measure", None);
        Tally {
            collector: Collector::new(workers, interval_ns, false, kinds.to_vec()),
            start_ns: monotonic_ns(),
            cpu: CpuMark::now(),
            cpu_end: None,
            workers,
        }
    }

    /// When the window began.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Take an interval of a worker.
    pub fn add(&mut self, report: &Report, board: &Board) {
        self.collector.add(report, self.start_ns);
        board.show(self.collector.live());
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
        let status = match (&extras.failure, control.cancelled()) {
            (Some(_), _) => Status::Failed,
            (None, true) => Status::Cancelled,
            (None, false) => Status::Finished,
        };
        let cores = self.workers.min(available_cores());
        let workers = self.collector.workers();
        let summary = Summary {
            status,
            engine: EngineInfo::native(extras.backend, extras.features),
            window_start_ns: self.start_ns,
            window_end_ns: end_ns,
            totals: self
                .collector
                .totals()
                .map(|(kind, stats)| (kind, Totals::from(stats)))
                .collect::<BTreeMap<_, _>>(),
            cpu: Some(self.cpu.until(cpu_end, end_ns - self.start_ns, workers, cores)),
            failure: extras.failure.as_ref().map(Failure::from),
            notes: extras.notes,
            final_sync_ns: None,
            drain_ns: 0,
            verify: None,
            spans: extras.spans,
            details: extras.details,
        };
        Outcome { summary, rows: self.collector.into_rows() }
    }
}

//! The coordinator's side of a run: opens the window, follows it, and sums up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use storlab_base::{monotonic_ns, Error};
use storlab_run::cpu::{available_cores, CpuMark, CpuUse};
use storlab_run::handle::Board;
use storlab_run::outcome::{EngineInfo, Failure, Outcome, Status, Summary, Totals};
use storlab_run::sampling::Collector;
use storlab_run::window::Window;

use crate::run::{Message, Shared};
use crate::spec::BackendKind;
use crate::verify::VerifyReport;

/// Between opening the gate and the first operation: all workers have woken by then.
const START_DELAY_NS: u64 = 500_000;
/// Past the window's end, workers are woken this often, to look at their time-outs.
const NUDGE_NS: u64 = 100_000_000;
/// Beyond the drain time-out, before a worker that says nothing is given up.
const SILENCE_NS: u64 = 5_000_000_000;
/// Nobody wakes the coordinator when the run is cancelled: it looks this often.
const LONG: Duration = Duration::from_secs(1);

/// See the module.
pub struct Gatherer<'r> {
    shared: &'r Arc<Shared>,
    board: &'r Board,
    collector: Collector,
    window: Window,
    ready: usize,
    done: usize,
    features: Vec<&'static str>,
    cpu_start: Option<CpuMark>,
    cpu_end: Option<CpuMark>,
    next_nudge_ns: u64,
    /// When the load was seen to end, by time or early.
    ending_since_ns: Option<u64>,
    last_completion_ns: u64,
    unserved: u64,
    verify: Option<VerifyReport>,
    notes: Vec<String>,
}

impl<'r> Gatherer<'r> {
    /// For a run whose workers have been spawned.
    pub fn new(shared: &'r Arc<Shared>, board: &'r Board, note: Option<String>) -> Self {
        let job = &shared.job;
        let collector = Collector::new(job.jobs, job.interval_ns, job.open_loop(), job.kinds());
        Gatherer {
            shared,
            board,
            collector,
            window: Window::default(),
            ready: 0,
            done: 0,
            features: Vec::new(),
            cpu_start: None,
            cpu_end: None,
            next_nudge_ns: 0,
            ending_since_ns: None,
            last_completion_ns: 0,
            unserved: 0,
            verify: None,
            notes: note.into_iter().collect(),
        }
    }

    fn gate_is_open(&self) -> bool {
        self.window.load_start_ns > 0
    }

    /// How long to wait for the next message; `None` when all is over.
    pub fn next_wait(&self) -> Option<Duration> {
        if self.done == self.shared.job.jobs {
            return None;
        }
        if !self.gate_is_open() {
            return Some(LONG);
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

    /// Take what a worker says.
    pub fn take(&mut self, message: Message) {
        match message {
            Message::Ready { features } => {
                self.ready += 1;
                self.features = features;
            }
            Message::Interval(report) => {
                self.collector.add(&report, self.window.start_ns);
                self.board.show(self.collector.live());
            }
            Message::Done { job, ended } => {
                self.done += 1;
                self.collector.end_job(job, self.window.start_ns);
                match *ended {
                    Ok(end) => {
                        self.last_completion_ns =
                            self.last_completion_ns.max(end.last_completion_ns);
                        self.unserved += end.unserved;
                        if let Some(report) = end.verify {
                            self.verify.get_or_insert_default().merge(report);
                        }
                    }
                    Err(error) => self.shared.fail(error),
                }
            }
        }
        if !self.gate_is_open() && self.ready + self.done >= self.shared.job.jobs {
            self.open_window();
        }
    }

    fn open_window(&mut self) {
        let job = &self.shared.job;
        let load_start_ns = monotonic_ns() + START_DELAY_NS;
        let start_ns = load_start_ns + job.ramp_ns;
        let end_ns = job.window_ns.map_or(u64::MAX, |length| start_ns + length);
        self.window = Window { load_start_ns, start_ns, end_ns };
        self.board.enter("ramp", Some(job.ramp_ns));
        self.shared.open_gate(self.window);
    }

    /// Do what is due.
    pub fn look_at_clock(&mut self) {
        if !self.gate_is_open() {
            return;
        }
        let now = monotonic_ns();
        if self.cpu_start.is_none() && now >= self.window.start_ns {
            self.cpu_start = Some(self.shared.cpu.start());
            self.board.enter("measure", self.shared.job.window_ns);
        }
        if self.cpu_end.is_none() && now >= self.window.end_ns {
            self.cpu_end = Some(self.shared.cpu.end());
            self.board.enter("drain", None);
        }
        let ending = now >= self.window.end_ns || self.stopping();
        if ending && now >= self.next_nudge_ns {
            let since_ns = *self.ending_since_ns.get_or_insert(now);
            self.shared.control.wake_all();
            self.next_nudge_ns = now + NUDGE_NS;
            self.give_up_on_the_silent(now, since_ns);
        }
    }

    fn stopping(&self) -> bool {
        self.shared.control.stopping()
    }

    /// Threads that are stuck in the kernel cannot be joined: they are left behind, and the run
    /// says so.
    fn give_up_on_the_silent(&mut self, now: u64, since_ns: u64) {
        let job = &self.shared.job;
        // Twice: an open loop may send its backlog for one time-out, and drain for another.
        if now < since_ns.saturating_add(2 * job.drain_timeout_ns + SILENCE_NS) {
            return;
        }
        let outstanding = job.jobs - self.done;
        self.shared.fail(Error::Hung {
            job: 0,
            outstanding,
            waited_ms: job.drain_timeout_ns / 1_000_000,
        });
        self.done = job.jobs;
    }

    /// All workers have ended.
    pub fn finish(mut self) -> Outcome {
        let job = &self.shared.job;
        let drained_ns = monotonic_ns();
        let planned_end = job.window_ns.map(|length| self.window.start_ns + length);
        let end_ns = match planned_end {
            Some(end) if drained_ns >= end || !self.stopping() => end,
            Some(_) => drained_ns.max(self.window.start_ns),
            None => self.last_completion_ns.max(self.window.start_ns),
        };
        // A window by bytes, or one cut short, ends here: the final sync is no part of it.
        self.cpu_end.get_or_insert_with(|| CpuMark::of_the_end(end_ns));
        let final_sync_ns = self.final_sync();
        self.collector.finish(self.window.start_ns, end_ns);
        let failure = self.shared.take_failure();
        let status = match (&failure, self.shared.control.cancelled()) {
            (Some(_), _) => Status::Failed,
            (None, true) => Status::Cancelled,
            (None, false) => Status::Finished,
        };
        self.add_notes();
        let summary = Summary {
            status,
            engine: EngineInfo::native(
                Some(self.shared.backend.name()),
                std::mem::take(&mut self.features),
            ),
            window_start_ns: self.window.start_ns,
            window_end_ns: end_ns,
            totals: self
                .collector
                .totals()
                .map(|(kind, stats)| (kind, Totals::from(stats)))
                .collect::<BTreeMap<_, _>>(),
            cpu: self.cpu_use(end_ns),
            failure: failure.as_ref().map(Failure::from),
            notes: std::mem::take(&mut self.notes),
            final_sync_ns,
            drain_ns: drained_ns.saturating_sub(end_ns),
            verify: self.verify.take().and_then(|report| serde_json::to_value(report).ok()),
            spans: Vec::new(),
            details: serde_json::Map::new(),
        };
        Outcome { summary, rows: self.collector.into_rows() }
    }

    fn final_sync(&self) -> Option<u64> {
        if !self.shared.job.sync.at_end || self.stopping() {
            return None;
        }
        let begin = monotonic_ns();
        for file in self.shared.files.iter() {
            if let Err(error) = file.sync() {
                self.shared.fail(error);
                return None;
            }
        }
        Some(monotonic_ns() - begin)
    }

    fn cpu_use(&self, end_ns: u64) -> Option<CpuUse> {
        let (begin, end) = (self.cpu_start?, self.cpu_end?);
        let workers = self.collector.workers();
        let job = &self.shared.job;
        let threads = match self.shared.backend {
            BackendKind::Posix => job.jobs * job.queue_depth,
            _ => job.jobs,
        };
        let allowed = job.cpus.as_ref().map_or_else(available_cores, |cpus| {
            let mut cpus = cpus.clone();
            cpus.sort_unstable();
            cpus.dedup();
            cpus.len().max(1)
        });
        let length_ns = end_ns.saturating_sub(self.window.start_ns);
        Some(begin.until(end, length_ns, workers, threads.min(allowed)))
    }

    fn add_notes(&mut self) {
        if self.unserved > 0 {
            self.notes.push(format!(
                "{} operations were due in the window and never sent: their waiting time until \
                 the end counts as their latency, which is a lower bound",
                self.unserved
            ));
        }
        if let Some(report) = &self.verify {
            self.notes.extend(report.notes.iter().cloned());
        }
        let registered = self.features.contains(&"registered_buffers");
        let buffers = self.shared.job.read_slots() + self.shared.job.write_slots() > 0;
        let uring = self.shared.backend.name() == "uring" && !self.features.is_empty();
        if uring && buffers && !registered {
            self.notes.push(
                "buffers could not be registered with the kernel (memlock limit?): more CPU for \
                 each operation"
                    .to_owned(),
            );
        }
    }
}

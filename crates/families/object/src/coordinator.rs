//! The coordinator's side of a run: opens the window, follows it, and sums up.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Map, Value};
use storlab_base::{monotonic_ns, Error};
use storlab_run::cpu::{available_cores, CpuMark};
use storlab_run::handle::Board;
use storlab_run::outcome::{EngineInfo, Failure, Outcome, Status, Summary, Totals};
use storlab_run::sampling::Collector;
use storlab_run::window::Window;
use storlab_s3::advice;

use super::kind::ObjectKind;
use super::shared::{Message, Said, Shared, WorkerEnd};
use super::spec::Task;
use super::worker::work;

/// Between opening the gate and the first request: all workers have woken by then.
const START_DELAY_NS: u64 = 500_000;
/// Past the window's end, workers are looked at this often.
const NUDGE_NS: u64 = 100_000_000;
/// Beyond the drain time-out, before a worker that says nothing is given up.
const SILENCE_NS: u64 = 5_000_000_000;
/// Nobody wakes the coordinator when the run is cancelled: it looks this often.
const LONG: Duration = Duration::from_secs(1);
/// Where nothing has succeeded for so long, and so many attempts have failed, nothing will: the
/// store is not asked for hours what it refuses.
const HOPELESS_NS: u64 = 30_000_000_000;
const HOPELESS_ERRORS: u64 = 1_000;
/// So many pauses say the same: attempts that nobody hears are spaced.
const HOPELESS_RESTS: u64 = 100;

/// Start the workers, follow the run, and say how it ended.
pub fn coordinate(shared: &Arc<Shared>, board: &Board, receiver: &Receiver<Message>) -> Outcome {
    for index in 0..shared.threads {
        if let Err(error) = spawn_worker(shared, index) {
            shared.fail(error);
            let ended = Box::new(Ok(WorkerEnd::default()));
            shared.send(Message::Done { job: index, ended });
        }
    }
    let mut gatherer = Gatherer::new(shared, board);
    while let Some(limit) = gatherer.next_wait() {
        match receiver.recv_timeout(limit) {
            Ok(message) => gatherer.take(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        gatherer.look_at_clock();
    }
    gatherer.finish()
}

fn spawn_worker(shared: &Arc<Shared>, index: usize) -> Result<(), Error> {
    let mine = shared.clone();
    let work = move || {
        // A run must end, whatever becomes of one of its threads.
        let ended = catch_unwind(AssertUnwindSafe(|| work(&mine, index)));
        let ended = Box::new(ended.unwrap_or_else(|_| {
            let what = format!("worker {index} ended by a mistake in storlab: see standard error");
            Err(Error::Backend { backend: "s3", what })
        }));
        mine.send(Message::Done { job: index, ended });
    };
    std::thread::Builder::new()
        .name(format!("storlab-s3-{index}"))
        .spawn(work)
        .map(|_| ())
        .map_err(|e| Error::io("start a thread for", format!("worker {index}"), 0, e))
}

/// See the module.
struct Gatherer<'r> {
    shared: &'r Arc<Shared>,
    board: &'r Board,
    collector: Collector,
    window: Window,
    ready: usize,
    done: usize,
    cpu_start: Option<CpuMark>,
    cpu_end: Option<CpuMark>,
    next_nudge_ns: u64,
    /// When the load was seen to end, by time or early.
    ending_since_ns: Option<u64>,
    last_completion_ns: u64,
    unserved: u64,
}

impl<'r> Gatherer<'r> {
    fn new(shared: &'r Arc<Shared>, board: &'r Board) -> Self {
        let job = &shared.job;
        let kinds = job.kinds().into_iter().map(ObjectKind::entry).collect();
        let open_loop = job.open_loop();
        Gatherer {
            shared,
            board,
            collector: Collector::new(shared.threads, job.interval_ns, open_loop, kinds),
            window: Window::default(),
            ready: 0,
            done: 0,
            cpu_start: None,
            cpu_end: None,
            next_nudge_ns: 0,
            ending_since_ns: None,
            last_completion_ns: 0,
            unserved: 0,
        }
    }

    fn gate_is_open(&self) -> bool {
        self.window.load_start_ns > 0
    }

    fn stopping(&self) -> bool {
        self.shared.control.stopping()
    }

    /// The length that was ordered; a fill or clean ends when it is done.
    fn window_ns(&self) -> Option<u64> {
        self.shared.job.window_ns.filter(|_| self.shared.job.task == Task::Run)
    }

    /// How long to wait for the next message; `None` when all is over.
    fn next_wait(&self) -> Option<Duration> {
        if self.done == self.shared.threads {
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

    fn take(&mut self, message: Message) {
        match message {
            Message::Ready => self.ready += 1,
            Message::Interval(report) => {
                self.collector.add(&report, self.window.start_ns);
                self.board.show(self.collector.live());
                self.expect();
            }
            Message::Done { job, ended } => {
                self.done += 1;
                self.collector.end_job(job, self.window.start_ns);
                match *ended {
                    Ok(end) => {
                        self.last_completion_ns =
                            self.last_completion_ns.max(end.last_completion_ns);
                        self.unserved += end.unserved;
                    }
                    Err(error) => self.shared.fail(error),
                }
            }
        }
        if !self.gate_is_open() && self.ready + self.done >= self.shared.threads {
            self.open_window();
        }
    }

    /// How long a fill takes in all, by what it has done until now.
    fn expect(&self) {
        let (done, all) = self.shared.progress.bytes();
        if done > 0 && self.gate_is_open() {
            let passed = monotonic_ns().saturating_sub(self.window.start_ns);
            self.board.expect((passed as f64 * all as f64 / done as f64) as u64);
        }
    }

    fn open_window(&mut self) {
        let job = &self.shared.job;
        let ramp_ns = if job.task == Task::Run { job.ramp_ns } else { 0 };
        let load_start_ns = monotonic_ns() + START_DELAY_NS;
        let start_ns = load_start_ns + ramp_ns;
        let end_ns = self.window_ns().map_or(u64::MAX, |length| start_ns + length);
        self.window = Window { load_start_ns, start_ns, end_ns };
        match job.task {
            Task::Run => self.board.enter("ramp", Some(ramp_ns)),
            Task::Fill | Task::Clean => self.board.enter("prepare", None),
        }
        self.shared.open_gate(self.window);
    }

    /// Do what is due.
    fn look_at_clock(&mut self) {
        if !self.gate_is_open() {
            return;
        }
        let now = monotonic_ns();
        if self.cpu_start.is_none() && now >= self.window.start_ns {
            self.cpu_start = Some(self.shared.cpu.start());
            if self.shared.job.task == Task::Run {
                self.board.enter("measure", self.window_ns());
            }
        }
        if self.cpu_end.is_none() && now >= self.window.end_ns {
            self.cpu_end = Some(self.shared.cpu.end());
            self.board.enter("drain", None);
        }
        self.give_up_the_hopeless(now);
        let ending = now >= self.window.end_ns || self.stopping();
        if ending && now >= self.next_nudge_ns {
            let since_ns = *self.ending_since_ns.get_or_insert(now);
            self.shared.control.wake_all();
            self.next_nudge_ns = now + NUDGE_NS;
            self.give_up_on_the_silent(now, since_ns);
        }
    }

    fn give_up_the_hopeless(&self, now: u64) {
        let counts = &self.shared.counts;
        let long = now > self.window.load_start_ns.saturating_add(HOPELESS_NS);
        let nothing = counts.succeeded.load(Relaxed) == 0;
        let many = counts.failed.load(Relaxed) > HOPELESS_ERRORS
            || counts.rests.load(Relaxed) > HOPELESS_RESTS;
        if long && nothing && many {
            self.shared.control.end_soon();
        }
    }

    fn give_up_on_the_silent(&mut self, now: u64, since_ns: u64) {
        let job = &self.shared.job;
        // Twice: an open loop may send its backlog for one time-out, and drain for another.
        if now < since_ns.saturating_add(2 * job.drain_timeout_ns + SILENCE_NS) {
            return;
        }
        let waited_ms = job.drain_timeout_ns / 1_000_000;
        let outstanding = self.shared.threads - self.done;
        self.shared.fail(Error::Hung { job: 0, outstanding, waited_ms });
        self.done = self.shared.threads;
    }

    /// All workers have ended.
    fn finish(mut self) -> Outcome {
        let drained_ns = monotonic_ns();
        let start_ns = self.window.start_ns;
        let end_ns = match self.window_ns().map(|length| start_ns + length) {
            Some(end) if drained_ns >= end || !self.stopping() => end,
            Some(_) => drained_ns.max(start_ns),
            None => self.last_completion_ns.max(start_ns),
        };
        self.cpu_end.get_or_insert_with(|| CpuMark::of_the_end(end_ns));
        self.collector.finish(start_ns, end_ns);
        let totals: BTreeMap<_, _> =
            self.collector.totals().map(|(kind, stats)| (kind, Totals::from(stats))).collect();
        let said = self.shared.take_said();
        let cancelled = self.shared.control.cancelled();
        let failure = self.shared.take_failure();
        let failure =
            failure.or_else(|| if cancelled { None } else { nothing_done(&totals, &said) });
        let status = match (&failure, cancelled) {
            (Some(_), _) => Status::Failed,
            (None, true) => Status::Cancelled,
            (None, false) => Status::Finished,
        };
        let cores = self.shared.threads.min(available_cores());
        let length_ns = end_ns.saturating_sub(start_ns);
        let workers = self.collector.workers();
        let marks = self.cpu_start.zip(self.cpu_end);
        let summary = Summary {
            status,
            engine: EngineInfo::native(Some("s3"), Vec::new()),
            window_start_ns: start_ns,
            window_end_ns: end_ns,
            totals,
            cpu: marks.map(|(begin, end)| begin.until(end, length_ns, workers, cores)),
            failure: failure.as_ref().map(Failure::from),
            notes: self.notes(&said),
            final_sync_ns: None,
            drain_ns: drained_ns.saturating_sub(end_ns),
            verify: None,
            spans: Vec::new(),
            details: self.details(&said),
        };
        Outcome { summary, rows: self.collector.into_rows() }
    }

    fn notes(&self, said: &Said) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unserved > 0 {
            notes.push(format!(
                "{} requests were due in the window and never sent: their waiting time until the \
                 end counts as their latency, which is a lower bound",
                self.unserved
            ));
        }
        for (bodies, what) in [
            (&said.wrong, "were not what was stored"),
            (&said.short, "were cut short with their connection"),
        ] {
            if bodies.count > 0 {
                let examples = bodies.examples.join("; ");
                notes.push(format!("{} bodies {what}, such as {examples}", bodies.count));
            }
        }
        let counts = &self.shared.counts;
        let rests = counts.rests.load(Relaxed);
        if rests > 0 {
            notes.push(format!(
                "connections were refused or broken one after the other: storlab paused {rests} \
                 times before it asked again, for up to 1,000 such requests a second; the errors \
                 are those that were tried, and no rate of the store"
            ));
        }
        for (count, what) in [
            (&counts.repeated_draws, "draws were repeated: there was no object for the request"),
            (&counts.aborts_failed, "multipart uploads failed and could not be given up"),
        ] {
            match count.load(Relaxed) {
                0 => {}
                count => notes.push(format!("{count} {what}")),
            }
        }
        notes
    }

    fn details(&self, said: &Said) -> Map<String, Value> {
        let counts = &self.shared.counts;
        let mut details = Map::new();
        for (name, count) in [
            ("connections", &counts.connections),
            ("retries", &counts.retries),
            ("deleted_keys", &counts.deleted_keys),
            ("repeated_draws", &counts.repeated_draws),
        ] {
            details.insert(name.to_owned(), json!(count.load(Relaxed)));
        }
        details.insert("threads".to_owned(), json!(self.shared.threads));
        details.insert("error_examples".to_owned(), json!(said.errors));
        details
    }
}

/// A run in which nothing succeeded has measured nothing, and says why.
fn nothing_done(totals: &BTreeMap<&'static str, Totals>, said: &Said) -> Option<Error> {
    if totals.values().any(|t| t.operations + t.late_operations > 0) {
        return None;
    }
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in totals.values().flat_map(|totals| &totals.errors) {
        *errors.entry(kind).or_default() += count;
    }
    let (kind, count) = errors.into_iter().max_by_key(|&(_, count)| count)?;
    let example = said.errors.get(kind).map_or(kind, String::as_str);
    let what = format!("no request succeeded; {count} ended with {kind}, such as: {example}");
    Some(Error::Store { what, fix: advice(kind).to_owned() })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use storlab_s3::Store;

    use super::*;
    use crate::pool::Objects;
    use crate::spec::tests::job_with;
    use storlab_run::handle::Run;

    /// A run of one hour whose load began so long ago: is it given up?
    fn is_given_up(since_ns: u64, succeeded: u64, failed: u64, rests: u64) -> bool {
        let job = job_with(|j| {
            j["window_ns"] = json!(3_600_000_000_000u64);
            j["interval_ns"] = json!(600_000_000_000u64); // rows of an hour are many
        });
        let store = Store::new(&job.store, None).unwrap();
        let objects = Objects::new(&job, false).unwrap();
        let (sender, _receiver) = channel();
        let shared = Arc::new(Shared::new(job, store, objects, 0, sender));
        shared.counts.succeeded.store(succeeded, Relaxed);
        shared.counts.failed.store(failed, Relaxed);
        shared.counts.rests.store(rests, Relaxed);
        let seen = shared.clone();
        let run = Run::begin(shared.control.clone(), move |board| {
            let mut gatherer = Gatherer::new(&shared, board);
            let start_ns = monotonic_ns() - since_ns;
            gatherer.window = Window { load_start_ns: start_ns, start_ns, end_ns: u64::MAX };
            gatherer.look_at_clock();
            gatherer.finish()
        });
        assert!(run.unwrap().wait(None));
        seen.control.stopping()
    }

    #[test]
    fn a_store_that_answers_nothing_but_errors_is_not_asked_for_ever() {
        let long = HOPELESS_NS + 1_000_000_000;
        assert!(is_given_up(long, 0, HOPELESS_ERRORS + 1, 0));
        assert!(!is_given_up(long, 1, HOPELESS_ERRORS + 1, 0));
        assert!(!is_given_up(long, 0, HOPELESS_ERRORS, 0));
        assert!(!is_given_up(1_000_000_000, 0, HOPELESS_ERRORS + 1, 0));
        // Attempts that no server hears are few, because they are spaced.
        assert!(is_given_up(long, 0, 200, HOPELESS_RESTS + 1));
        assert!(!is_given_up(long, 1, 200, HOPELESS_RESTS + 1));
    }
}

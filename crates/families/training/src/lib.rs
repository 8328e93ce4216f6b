//! Training reads: emulated accelerators consume batches at their cadence, readers load them from
//! storage.

mod accelerator;
mod cadence;
mod format;
mod generate;
mod lane;
mod order;
mod parse;
mod reader;
mod shared;
mod spec;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde_json::json;
use storlab_base::{Clock, Error, Result, monotonic_ns};
use storlab_io::{DeviceCounters, drop_cache};
use storlab_run::Secrets;
use storlab_run::control::Control;
use storlab_run::cpu::pin_to;
use storlab_run::fixed::{Extras, Ledger, Tally};
use storlab_run::handle::{Board, Run};
use storlab_run::order::Order as _;
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::{Kind, Report};
use storlab_s3::{Credentials, Store};

use accelerator::EpochTimes;
use cadence::{give_precedence, precedence_to_be_had};
use lane::{LOOK, Lane, Meeting};
use reader::Reader;
use shared::{Home, Shared};
use spec::{Task, TrainingJob};

static KINDS: [Kind; 3] = [
    Kind { place: 0, name: "read" },
    Kind { place: 1, name: "step" },
    Kind { place: 2, name: "wake" },
];
const SILENCE_NS: u64 = 5_000_000_000;

/// Start epochs, or the making of a data set.
///
/// # Errors
/// [`Error::Spec`] for an order that cannot be.
pub fn start(order: &str, secrets: &Secrets) -> Result<Run> {
    begin(TrainingJob::from_json(order)?, Credentials::from_map(secrets)?)
}

fn begin(job: TrainingJob, credentials: Option<Credentials>) -> Result<Run> {
    Clock::prepare();
    let home = match (&job.place.directory, &job.place.store) {
        (Some(directory), _) => Home::Directory(directory.clone()),
        (None, Some(spec)) => Home::Store(Store::new(spec, credentials)?, job.place.prefix.clone()),
        (None, None) => return Err(Error::spec("place", "is empty", "give a directory")),
    };
    let control = Arc::new(Control::default());
    let mine = control.clone();
    Run::begin(control, move |board| match job.task {
        Task::Generate => generate::run(job, home, &mine, board),
        Task::Run => Coordinator::run(job, home, &mine, board),
    })
}

struct Coordinator<'b> {
    shared: Arc<Shared>,
    board: &'b Board,
    tally: Tally,
    reports: Receiver<Report>,
    times: Receiver<EpochTimes>,
    device: Option<DeviceCounters>,
    extras: Extras,
    epochs: Vec<serde_json::Value>,
}

impl<'b> Coordinator<'b> {
    fn run(job: TrainingJob, home: Home, control: &Arc<Control>, board: &'b Board) -> Outcome {
        let lane = || Lane::new(job.reader_threads, job.ahead(), job.steps());
        let shared = Arc::new(Shared {
            lanes: (0..job.accelerators).map(|_| lane()).collect(),
            meeting: Meeting::new(job.accelerators),
            control: control.clone(),
            failure: Mutex::new(None),
            open: (Mutex::new(0), Condvar::new()),
            backend: Mutex::default(),
            precedence: precedence_to_be_had(),
            home,
            job,
        });
        let job = &shared.job;
        let workers = job.accelerators * (job.reader_threads + 1);
        let tally = Tally::begin(workers, job.interval_ns, &KINDS, board);
        let (report, reports) = channel();
        let (time, times) = channel();
        let spawned = spawn_all(&shared, tally.start_ns(), &report, &time);
        drop((report, time));
        let mut run = Coordinator {
            device: shared.home.device(),
            board,
            tally,
            reports,
            times,
            extras: Extras::default(),
            epochs: Vec::new(),
            shared,
        };
        if let Err(error) = spawned {
            run.shared.fail(error);
        }
        let hung = run.all_epochs();
        run.finish(hung, control)
    }

    /// An error only where threads do not end.
    fn all_epochs(&mut self) -> Result<()> {
        for number in 0..self.shared.job.epochs {
            if self.shared.control.stopping() {
                break;
            }
            if self.shared.job.drop_caches {
                self.drop_caches();
            }
            if !self.one_epoch(number)? {
                break;
            }
        }
        for lane in &self.shared.lanes {
            lane.end();
        }
        Ok(())
    }

    fn drop_caches(&self) {
        let records = &self.shared.job.records;
        // Nothing on this machine caches objects.
        let Home::Directory(home) = &self.shared.home else { return };
        for number in 0..records.files {
            let path = home.join(records.file(number).path);
            if let Err(e) = drop_cache(&path) {
                let name = path.display().to_string();
                self.shared.fail(Error::io("drop the cache of", name, 0, e));
                return;
            }
        }
    }

    fn one_epoch(&mut self, number: u32) -> Result<bool> {
        let before = self.device.as_ref().and_then(DeviceCounters::now);
        self.shared.open_epoch(number);
        let mut all: Vec<EpochTimes> = Vec::new();
        let mut stopping_since = None;
        while all.len() < self.shared.job.accelerators {
            match self.times.recv_timeout(LOOK) {
                Ok(times) => all.push(times),
                Err(RecvTimeoutError::Timeout) => {
                    self.take_reports();
                    self.give_up(&mut stopping_since)?;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        if all.iter().any(|times| times.stopped) {
            return Ok(false);
        }
        all.sort_by_key(|times| times.accelerator);
        let after = self.device.as_ref().and_then(DeviceCounters::now);
        let read = after.zip(before).map(|(now, then)| now.since(then).read);
        let start_ns = all.iter().map(|times| times.start_ns).min().unwrap_or(0);
        let end_ns = all.iter().map(|times| times.end_ns).max().unwrap_or(0);
        let bytes = all.iter().map(|times| times.bytes).sum();
        let name = format!("epoch {}", number + 1);
        self.extras.spans.push(Span { kind: "epoch", name, start_ns, end_ns, bytes });
        let steps: u64 = all.iter().map(|times| times.steps).sum();
        self.epochs.push(json!({
            "number": number + 1,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "bytes": bytes,
            "samples": steps * self.shared.job.batch,
            "device_read_bytes": read,
            "accelerators": all,
        }));
        Ok(true)
    }

    fn give_up(&self, since: &mut Option<u64>) -> Result<()> {
        if !self.shared.control.stopping() {
            return Ok(());
        }
        let now = monotonic_ns();
        let waited = now - *since.get_or_insert(now);
        if waited < self.shared.job.drain_timeout_ns + SILENCE_NS {
            return Ok(());
        }
        Err(Error::Hung { job: 0, outstanding: 1, waited_ms: waited / 1_000_000 })
    }

    fn take_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.tally.add(&report, self.board);
        }
    }

    fn finish(mut self, hung: Result<()>, control: &Control) -> Outcome {
        let end_ns = self.tally.close();
        let is_hung = hung.is_err();
        if let Err(error) = hung {
            self.shared.fail(error);
        }
        if is_hung {
            self.take_reports();
        } else {
            while let Ok(report) = self.reports.recv() {
                self.tally.add(&report, self.board);
            }
        }
        let job = &self.shared.job;
        for worker in 0..job.accelerators * (job.reader_threads + 1) {
            self.tally.end(worker);
        }
        let mut extras = self.extras;
        let failure = &self.shared.failure;
        extras.failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let backend = self.shared.backend.lock().unwrap_or_else(PoisonError::into_inner).clone();
        extras.backend = (!backend.0.is_empty()).then_some(backend.0);
        extras.features = backend.1;
        extras.details.insert("accelerator_precedence".into(), self.shared.precedence.into());
        extras.notes.extend(job.place.patience().notes());
        extras.details.insert("retries".into(), job.place.patience().retries().into());
        extras.details.insert("epochs".into(), self.epochs.into());
        extras.details.insert("steps".into(), job.steps().into());
        extras.details.insert("device_counters".into(), self.device.is_some().into());
        self.tally.finish(end_ns, control, extras)
    }
}

fn spawn_all(
    shared: &Arc<Shared>,
    start_ns: u64,
    report: &Sender<Report>,
    time: &Sender<EpochTimes>,
) -> Result<()> {
    let (accelerators, readers) = (shared.job.accelerators, shared.job.reader_threads);
    let interval_ns = shared.job.interval_ns;
    let ledger = |worker: usize, kinds: &'static [Kind]| {
        let report = report.clone();
        move || Ledger::new(worker, kinds, interval_ns, start_ns, report)
    };
    let (reads, waits) = KINDS.split_at(1);
    for index in 0..accelerators {
        for turn in 0..readers {
            let mine = shared.clone();
            let made = ledger(accelerators + index * readers + turn, reads);
            spawn(format!("storlab-read{index}.{turn}"), move || {
                guarded(&mine, "a reader", || read_all(&mine, index, turn, made()));
            })?;
        }
        let (mine, made, time) = (shared.clone(), ledger(index, waits), time.clone());
        spawn(format!("storlab-accel{index}"), move || {
            guarded(&mine, "an accelerator", || {
                accelerator::run(&mine, index, made(), &time);
                Ok(())
            });
        })?;
    }
    Ok(())
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name)
        .spawn(work)
        .map(|_| ())
        .map_err(|e| Error::io("start a thread for", "training", 0, e))
}

/// A run must end, whatever becomes of one of its threads.
fn guarded(shared: &Shared, who: &str, work: impl FnOnce() -> Result<()>) {
    let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let what = format!("{who} ended by a mistake in storlab: see standard error");
        Err(Error::Backend { backend: "training", what })
    });
    if let Err(error) = ended {
        shared.fail(error);
    }
}

fn read_all(shared: &Arc<Shared>, index: usize, turn: usize, ledger: Ledger) -> Result<()> {
    let job = &shared.job;
    if let Some(cpus) = job.cpus.as_ref().filter(|cpus| !cpus.is_empty()) {
        let cpu = cpus[(index * job.reader_threads + turn) % cpus.len()];
        pin_to(cpu).map_err(|e| {
            let what = format!("a reader cannot run on CPU {cpu}: {e}");
            Error::spec("cpus", what, "name CPUs that this process may use")
        })?;
    }
    give_precedence();
    let mut reader = Reader::new(shared.clone(), index * job.reader_threads + turn, ledger)?;
    *shared.backend.lock().unwrap_or_else(PoisonError::into_inner) = reader.backend();
    let lane = &shared.lanes[index];
    let stopping = || shared.control.stopping();
    for epoch in 0..job.epochs {
        for batch in lane.turns(turn) {
            let Some(order) = lane.may_load(epoch, batch, &stopping) else { return Ok(()) };
            let loaded = reader.load(&order.batch(batch))?;
            lane.deliver(batch, loaded);
        }
    }
    Ok(())
}

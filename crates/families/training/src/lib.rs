//! Workload family `training`: emulated accelerators compute on batches for a fixed time, and
//! reader threads load the batches from storage.

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

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::json;
use storlab_base::{Clock, Error, Result, Signal, failed, lock};
use storlab_io::{DeviceCounters, drop_cache};
use storlab_run::Secrets;
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, FixedTotals, RecorderFactory, WorkerRecorder};
use storlab_run::handle::Run;
use storlab_run::order::Order as _;
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::{Kind, Report};
use storlab_run::threads::{Silence, guarded, pin_in_turn, spawn};
use storlab_s3::{Credentials, Store};

use accelerator::EpochTimes;
use cadence::{give_precedence, precedence_to_be_had};
use lane::{LOOK, Lane, Meeting};
use reader::Reader;
use shared::{Home, Shared};
use spec::{Task, TrainingJob};

static KINDS: [Kind; 3] = [Kind::new(0, "read"), Kind::apart(1, "step"), Kind::apart(2, "wake")];

/// Start a run of training epochs, or the generation of a data set. If `held`, the work begins only
/// when the caller releases the run.
///
/// # Errors
/// [`Error::Spec`] for an invalid job description or store.
pub fn start(order: &str, secrets: &Secrets, held: bool) -> Result<Run> {
    begin(TrainingJob::from_json(order)?, Credentials::from_map(secrets)?, held)
}

fn begin(job: TrainingJob, credentials: Option<Credentials>, held: bool) -> Result<Run> {
    Clock::prepare();
    let home = match (&job.place.directory, &job.place.store) {
        (Some(directory), _) => Home::Directory(directory.clone()),
        (None, Some(spec)) => Home::Store(Store::new(spec, credentials)?, job.place.prefix.clone()),
        (None, None) => {
            let what = "names neither a directory nor an object store";
            return Err(Error::spec("place", what, "give one of them"));
        }
    };
    let control = Arc::new(Control::new(held));
    let run_control = control.clone();
    Run::begin(control, move |board| match job.task {
        Task::Generate => generate::run(job, home, &run_control, board),
        Task::Run => Coordinator::run(job, home, &run_control, board),
    })
}

struct Coordinator<'b> {
    shared: Arc<Shared>,
    board: &'b Board,
    totals: FixedTotals,
    reports: Receiver<Box<Report>>,
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
            open: Signal::default(),
            backend: Mutex::default(),
            precedence: precedence_to_be_had(),
            home,
            job,
        });
        let job = &shared.job;
        let workers = job.accelerators * (job.reader_threads + 1);
        let (factory, reports) = RecorderFactory::new(job.interval_ns, &KINDS);
        let (time, times) = channel();
        if let Err(error) = arm(&shared, &factory, &time) {
            shared.fail(error);
        }
        drop(time);
        if job.drop_caches && !control.stopping() {
            drop_caches(&shared);
        }
        let totals = FixedTotals::begin(workers, &factory, control, board);
        drop(factory);
        let mut run = Coordinator {
            device: shared.home.device(),
            board,
            totals,
            reports,
            times,
            extras: Extras::default(),
            epochs: Vec::new(),
            shared,
        };
        let hung = run.all_epochs();
        run.finish(hung, control)
    }

    /// Run all epochs.
    ///
    /// # Errors
    /// If threads hang. Other errors are stored in the shared state.
    fn all_epochs(&mut self) -> Result<()> {
        for number in 0..self.shared.job.epochs {
            if self.shared.control.stopping() {
                break;
            }
            // For the first epoch, the page cache was already dropped before the window.
            if self.shared.job.drop_caches && number > 0 {
                drop_caches(&self.shared);
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

    fn one_epoch(&mut self, number: u32) -> Result<bool> {
        let before = self.device.as_ref().and_then(DeviceCounters::now);
        self.shared.open_epoch(number);
        let mut epoch: Vec<EpochTimes> = Vec::new();
        let mut silence = Silence::default();
        while epoch.len() < self.shared.job.accelerators {
            match self.times.recv_timeout(LOOK) {
                Ok(times) => epoch.push(times),
                Err(RecvTimeoutError::Timeout) => {
                    self.take_reports();
                    let drain_ns = self.shared.job.drain_timeout_ns;
                    silence.bear(&self.shared.control, drain_ns, 1)?;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        if epoch.iter().any(|times| times.stopped) {
            return Ok(false);
        }
        epoch.sort_by_key(|times| times.accelerator);
        let after = self.device.as_ref().and_then(DeviceCounters::now);
        let read = after.zip(before).map(|(now, then)| now.since(then).read);
        let start_ns = epoch.iter().map(|times| times.start_ns).min().unwrap_or(0);
        let end_ns = epoch.iter().map(|times| times.end_ns).max().unwrap_or(0);
        let bytes = epoch.iter().map(|times| times.bytes).sum();
        let name = format!("epoch {}", number + 1);
        self.extras.spans.push(Span { kind: "epoch", name, start_ns, end_ns, bytes });
        let steps: u64 = epoch.iter().map(|times| times.steps).sum();
        self.epochs.push(json!({
            "number": number + 1,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "bytes": bytes,
            "samples": steps * self.shared.job.batch,
            "device_read_bytes": read,
            "accelerators": epoch,
        }));
        Ok(true)
    }

    fn take_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.totals.add(report, self.board);
        }
    }

    fn finish(mut self, hung: Result<()>, control: &Control) -> Outcome {
        let end_ns = self.totals.close();
        let drain_ns = self.shared.job.drain_timeout_ns;
        let ended =
            hung.and_then(|()| self.totals.follow(&self.reports, self.board, control, drain_ns));
        if let Err(error) = ended {
            self.shared.fail(error);
            self.take_reports();
        }
        let job = &self.shared.job;
        for worker in 0..job.accelerators * (job.reader_threads + 1) {
            self.totals.end(worker);
        }
        let mut extras = self.extras;
        extras.failure = lock(&self.shared.failure).take();
        let backend = lock(&self.shared.backend).clone();
        extras.backend = (!backend.0.is_empty()).then_some(backend.0);
        extras.features = backend.1;
        extras.details.insert("accelerator_precedence".into(), self.shared.precedence.into());
        extras.notes.extend(job.place.request_policy().notes());
        extras.details.insert("retries".into(), job.place.request_policy().retries().into());
        extras.details.insert("epochs".into(), self.epochs.into());
        extras.details.insert("steps".into(), job.steps().into());
        extras.details.insert("device_counters".into(), self.device.is_some().into());
        self.totals.finish(end_ns, control, extras)
    }
}

fn drop_caches(shared: &Shared) {
    let records = &shared.job.records;
    // Objects of a store are not in this machine's page cache, so nothing is dropped.
    let Home::Directory(home) = &shared.home else { return };
    for number in (0..records.files).take_while(|_| !shared.control.stopping()) {
        let path = home.join(records.file(number).path);
        if let Err(error) = drop_cache(&path).map_err(failed("drop the cache", &path)) {
            return shared.fail(error);
        }
        shared.control.goes_on();
    }
}

/// Start all threads, and wait until all are ready or the run is stopping.
fn arm(shared: &Arc<Shared>, factory: &RecorderFactory, time: &Sender<EpochTimes>) -> Result<()> {
    // The channel carries no messages: a thread drops its sender when it is ready or has failed.
    let (ready, none_left) = channel::<()>();
    spawn_all(shared, factory, &ready, time)?;
    drop(ready);
    let waits = |left| left == Err(RecvTimeoutError::Timeout) && !shared.control.stopping();
    while waits(none_left.recv_timeout(LOOK)) {}
    Ok(())
}

fn spawn_all(
    shared: &Arc<Shared>,
    factory: &RecorderFactory,
    ready: &Sender<()>,
    time: &Sender<EpochTimes>,
) -> Result<()> {
    let (accelerators, readers) = (shared.job.accelerators, shared.job.reader_threads);
    let recorder = |worker: usize, kinds: &'static [Kind]| {
        let (factory, ready) = (factory.clone(), ready.clone());
        move || {
            drop(ready);
            factory.recorder_of(worker, kinds)
        }
    };
    let (reads, waits) = KINDS.split_at(1);
    for index in 0..accelerators {
        for turn in 0..readers {
            let reader_shared = shared.clone();
            let made = recorder(accelerators + index * readers + turn, reads);
            spawn(format!("storlab-read{index}.{turn}"), "training", move || {
                work(&reader_shared, "a reader", || read_all(&reader_shared, index, turn, made));
            })?;
        }
        let (accelerator_shared, made, time) =
            (shared.clone(), recorder(index, waits), time.clone());
        spawn(format!("storlab-accel{index}"), "training", move || {
            work(&accelerator_shared, "an accelerator", || {
                accelerator::run(&accelerator_shared, index, made(), &time);
                Ok(())
            });
        })?;
    }
    Ok(())
}

fn work(shared: &Shared, who: &str, work: impl FnOnce() -> Result<()>) {
    if let Err(error) = guarded("training", who, work) {
        shared.fail(error);
    }
}

/// Run one reader thread through all epochs. `begin` opens its counters: it signals that the reader
/// is ready, and waits for the window.
fn read_all(
    shared: &Arc<Shared>,
    index: usize,
    turn: usize,
    begin: impl FnOnce() -> WorkerRecorder,
) -> Result<()> {
    let job = &shared.job;
    pin_in_turn(job.cpus.as_deref(), index * job.reader_threads + turn, "a reader")?;
    give_precedence();
    let mut reader = Reader::new(shared.clone(), index * job.reader_threads + turn, begin)?;
    *lock(&shared.backend) = reader.backend();
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

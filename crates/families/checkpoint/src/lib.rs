//! Checkpoints: parallel ranks write one after the other, made durable and published as trainers
//! do, and read the newest one back.

mod clean;
mod objects;
mod publish;
mod rank;
mod safetensors;
mod spec;
#[cfg(test)]
mod tests;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use storlab_base::{monotonic_ns, Clock, Content, Error, Result};
use storlab_io::{drop_cache, resident_bytes, DeviceBytes, DeviceCounters};
use storlab_run::control::Control;
use storlab_run::cpu::pin_to;
use storlab_run::fixed::{Extras, Ledger, Tally};
use storlab_run::handle::{Board, Run};
use storlab_run::order::Order as _;
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::Report;
use storlab_run::Secrets;
use storlab_s3::Credentials;

use publish::{Manifest, Shelf};
use rank::{slots, Crew, Order, Rank, RankTimes, KINDS};
use spec::{CheckpointJob, Cold, Task};

const LOOK: Duration = Duration::from_millis(50);

/// Start writing and restoring, or removing what that left.
///
/// # Errors
/// [`Error::Spec`] for an order that cannot be, [`Error::Io`] where the place cannot be made.
pub fn start(order: &str, secrets: &Secrets) -> Result<Run> {
    begin(CheckpointJob::from_json(order)?, Credentials::from_map(secrets)?)
}

fn begin(job: CheckpointJob, credentials: Option<Credentials>) -> Result<Run> {
    Clock::prepare();
    let Some(home) = job.place.directory.clone() else {
        return objects::start(job, credentials);
    };
    let shelf = Shelf::new(&job, &home);
    let control = Arc::new(Control::default());
    let mine = control.clone();
    if job.task == Task::Clean {
        return Run::begin(control, move |board| clean::run(&job, &shelf, &home, &mine, board));
    }
    shelf.open()?;
    shelf.tidy()?;
    Run::begin(control, move |board| Coordinator::run(job, shelf, &home, &mine, board))
}

/// Follows the ranks from one checkpoint to the next.
struct Coordinator<'b> {
    crew: Arc<Crew>,
    shelf: Shelf,
    board: &'b Board,
    tally: Tally,
    reports: Receiver<Report>,
    orders: Vec<Sender<Order>>,
    answers: Receiver<Result<RankTimes>>,
    device: Option<DeviceCounters>,
    extras: Extras,
    writes: Vec<serde_json::Value>,
    restores: Vec<serde_json::Value>,
}

impl<'b> Coordinator<'b> {
    fn run(
        job: CheckpointJob,
        shelf: Shelf,
        home: &Path,
        control: &Arc<Control>,
        board: &'b Board,
    ) -> Outcome {
        let content = Content::new(job.seed, slots(&job), job.io_bytes as usize);
        let crew = Arc::new(Crew {
            job,
            content,
            control: control.clone(),
            buffered: AtomicBool::new(false),
            unallocated: AtomicBool::new(false),
        });
        let tally = Tally::begin(crew.job.ranks, crew.job.interval_ns, &KINDS, board);
        let (answer, answers) = channel();
        let (report, reports) = channel();
        let mut run = Coordinator {
            device: DeviceCounters::of(home),
            crew,
            shelf,
            board,
            tally,
            reports,
            orders: Vec::new(),
            answers,
            extras: Extras::default(),
            writes: Vec::new(),
            restores: Vec::new(),
        };
        let done = run.spawn(&answer, &report).and_then(|()| run.work());
        drop((answer, report));
        run.finish(done, control)
    }

    fn spawn(&mut self, answer: &Sender<Result<RankTimes>>, report: &Sender<Report>) -> Result<()> {
        let (ready, is_ready) = channel();
        for index in 0..self.crew.job.ranks {
            let (order, orders) = channel();
            let (crew, answer, ready) = (self.crew.clone(), answer.clone(), ready.clone());
            let ledger = {
                let (interval_ns, start_ns) = (crew.job.interval_ns, self.tally.start_ns());
                let report = report.clone();
                move || Ledger::new(index, &KINDS, interval_ns, start_ns, report)
            };
            let work = move || {
                let rank = pin(&crew, index).and_then(|()| Rank::new(crew, index, ledger()));
                match rank {
                    Err(error) => drop(ready.send(Err(error))),
                    Ok(rank) => {
                        let _ = ready.send(Ok(rank.backend()));
                        drop(ready);
                        serve(rank, index, &orders, &answer);
                    }
                }
            };
            std::thread::Builder::new()
                .name(format!("storlab-rank{index}"))
                .spawn(work)
                .map_err(|e| Error::io("start a thread for", format!("rank {index}"), 0, e))?;
            self.orders.push(order);
        }
        drop(ready);
        for backend in is_ready {
            let (name, features) = backend?;
            self.extras.backend = Some(name);
            self.extras.features = features;
        }
        Ok(())
    }

    /// First all writes, then all restores: these leave the ranks' buffers unfit for writing.
    fn work(&mut self) -> Result<()> {
        let first = self.shelf.numbers()?.last().map_or(1, |last| last + 1);
        for number in first..first + self.crew.job.writes {
            if number > first && !self.pause() {
                return Ok(());
            }
            if !self.write(number)? {
                return Ok(());
            }
        }
        for _ in 0..self.crew.job.restores {
            if !self.restore()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The time of training between two checkpoints. False when the run is to end.
    fn pause(&mut self) -> bool {
        let until = monotonic_ns() + self.crew.job.pause_ns;
        while monotonic_ns() < until && !self.crew.control.stopping() {
            let left = Duration::from_nanos(until.saturating_sub(monotonic_ns()));
            std::thread::sleep(left.min(LOOK));
        }
        !self.crew.control.stopping()
    }

    fn write(&mut self, number: u32) -> Result<bool> {
        let crew = self.crew.clone();
        let names: Vec<&str> = crew.job.files.iter().map(|file| file.name.as_str()).collect();
        let directory = self.shelf.prepare(number, &names)?;
        let before = self.device_bytes();
        let start_ns = monotonic_ns();
        let written = self.all(&Order::Write { number, directory });
        let published = written.and_then(|times| match times {
            Some(times) => self.shelf.publish(&self.manifest(number)).map(|()| Some(times)),
            None => Ok(None),
        });
        let times = match published {
            Ok(Some(times)) => times,
            ended => {
                self.shelf.discard(number);
                self.say_what_is_left(number);
                return ended.map(|_| false);
            }
        };
        let end_ns = monotonic_ns();
        let moved = self.device_bytes().zip(before).map(|(now, then)| now.since(then).written);
        self.span("write", number, start_ns, end_ns);
        self.writes.push(json!({
            "number": number,
            "start_ns": start_ns,
            "written_ns": times.iter().map(|t| t.moved_ns).max(),
            "durable_ns": end_ns,
            "bytes": crew.job.total_bytes(),
            "device_written_bytes": moved,
            "ranks": times,
        }));
        self.delete_old()?;
        Ok(true)
    }

    fn manifest(&self, number: u32) -> Manifest {
        let job = &self.crew.job;
        Manifest {
            number,
            seed: job.seed,
            io_bytes: job.io_bytes,
            slots: slots(job),
            files: job.files.iter().map(|file| (file.name.clone(), file.bytes)).collect(),
        }
    }

    fn delete_old(&mut self) -> Result<()> {
        let Some(count) = self.crew.job.keep_last else { return Ok(()) };
        let start_ns = monotonic_ns();
        let deleted = self.shelf.keep_last(count)?;
        if deleted > 0 {
            let name = format!("{deleted} older");
            let end_ns = monotonic_ns();
            self.extras.spans.push(Span { kind: "delete", name, start_ns, end_ns, bytes: 0 });
        }
        Ok(())
    }

    /// The error that counts is the one that ended it: here another is only told.
    fn say_what_is_left(&mut self, number: u32) {
        let mut numbers = self.shelf.numbers();
        if let Ok(numbers) = &mut numbers {
            numbers.retain(|&whole| whole != number);
        }
        let left = match numbers.as_deref() {
            Ok([.., last]) => format!("checkpoint {last} is the newest whole one"),
            Ok([]) => "there is no whole one".to_owned(),
            Err(error) => format!("which ones are whole cannot be seen: {error}"),
        };
        self.extras.notes.push(format!("checkpoint {number} was not published; {left}"));
    }

    fn restore(&mut self) -> Result<bool> {
        let Some(&number) = self.shelf.numbers()?.last() else {
            let fix = "let the job write one first";
            return Err(Error::spec("restores", "there is no whole checkpoint", fix));
        };
        let manifest = self.shelf.manifest(number)?;
        self.check_shape(&manifest)?;
        let directory = self.shelf.whole(number);
        self.chill(&directory)?;
        let resident = self.resident(&directory)?;
        let content = self.crew.content.of_seed(manifest.seed);
        let before = self.device_bytes();
        let start_ns = monotonic_ns();
        let Some(times) = self.all(&Order::Restore { number, content, directory })? else {
            return Ok(false);
        };
        let end_ns = times.iter().map(|t| t.moved_ns).max().unwrap_or(start_ns);
        let moved = self.device_bytes().zip(before).map(|(now, then)| now.since(then).read);
        self.span("restore", number, start_ns, end_ns);
        self.restores.push(json!({
            "number": number,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "bytes": self.crew.job.total_bytes(),
            "resident_before_bytes": resident,
            "device_read_bytes": moved,
            "verified": self.crew.job.verify,
            "ranks": times,
        }));
        Ok(true)
    }

    /// The content of a file depends on how it was written.
    fn check_shape(&self, manifest: &Manifest) -> Result<()> {
        let mut wanted = self.manifest(manifest.number);
        wanted.seed = manifest.seed;
        if wanted == *manifest {
            return Ok(());
        }
        let what = "the newest checkpoint was written by another order";
        Err(Error::spec("files, io_bytes, queue_depth", what, "restore it as it was written"))
    }

    fn chill(&self, directory: &Path) -> Result<()> {
        if self.crew.job.cold == Cold::AsIs {
            return Ok(());
        }
        for file in &self.crew.job.files {
            let path = directory.join(&file.name);
            drop_cache(&path)
                .map_err(|e| Error::io("drop the cache of", path.display().to_string(), 0, e))?;
        }
        Ok(())
    }

    /// Bytes of the checkpoint that lie in memory.
    fn resident(&self, directory: &Path) -> Result<u64> {
        let mut sum = 0;
        for file in &self.crew.job.files {
            let path = directory.join(&file.name);
            sum += resident_bytes(&path)
                .map_err(|e| Error::io("open", path.display().to_string(), 0, e))?;
        }
        Ok(sum)
    }

    fn device_bytes(&self) -> Option<DeviceBytes> {
        self.device.as_ref()?.now()
    }

    fn span(&mut self, kind: &'static str, number: u32, start_ns: u64, end_ns: u64) {
        let name = format!("checkpoint {number}");
        let bytes = self.crew.job.total_bytes();
        self.extras.spans.push(Span { kind, name, start_ns, end_ns, bytes });
    }

    /// Every rank carries out the order. `None` when the run is to end; the first error of a rank
    /// ends it for all.
    fn all(&mut self, order: &Order) -> Result<Option<Vec<RankTimes>>> {
        for rank in &self.orders {
            let _ = rank.send(order.clone());
        }
        let mut times = Vec::with_capacity(self.orders.len());
        let mut failed = None;
        let mut answered = 0;
        let mut stopping_since = None;
        while answered < self.orders.len() {
            match self.answers.recv_timeout(LOOK) {
                Ok(Ok(one)) => times.push(one),
                Ok(Err(error)) => {
                    failed.get_or_insert(error);
                    self.crew.control.end_soon();
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.take_reports();
                    self.give_up(&mut stopping_since, self.orders.len() - answered)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            answered += 1;
        }
        self.take_reports();
        match failed {
            Some(error) => Err(error),
            None if times.iter().any(|t| t.stopped) || self.crew.control.stopping() => Ok(None),
            None => {
                times.sort_by_key(|t| t.rank);
                Ok(Some(times))
            }
        }
    }

    /// A rank that is stuck in the kernel cannot be joined: it is left behind.
    fn give_up(&self, since: &mut Option<u64>, outstanding: usize) -> Result<()> {
        if !self.crew.control.stopping() {
            return Ok(());
        }
        let now = monotonic_ns();
        let waited = now - *since.get_or_insert(now);
        if waited < self.crew.job.drain_timeout_ns + 5_000_000_000 {
            return Ok(());
        }
        Err(Error::Hung { job: 0, outstanding, waited_ms: waited / 1_000_000 })
    }

    fn take_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.tally.add(&report, self.board);
        }
    }

    fn finish(mut self, done: Result<()>, control: &Control) -> Outcome {
        let end_ns = self.tally.close();
        self.orders.clear(); // the ranks end, and hand over their last interval
        let patience = match done {
            Err(Error::Hung { .. }) => Duration::ZERO, // one of them never will
            _ => Duration::from_secs(10),
        };
        while let Ok(report) = self.reports.recv_timeout(patience) {
            self.tally.add(&report, self.board);
        }
        for rank in 0..self.crew.job.ranks {
            self.tally.end(rank);
        }
        let mut extras = std::mem::take(&mut self.extras);
        if self.crew.buffered.load(Relaxed) {
            extras.notes.push("the file system has no O_DIRECT: I/O was buffered".into());
        }
        if self.crew.unallocated.load(Relaxed) {
            extras.notes.push("the file system cannot preallocate: files grew as written".into());
        }
        extras.failure = done.err();
        extras.details.insert("writes".into(), self.writes.into());
        extras.details.insert("restores".into(), self.restores.into());
        extras.details.insert("device_counters".into(), self.device.is_some().into());
        self.tally.finish(end_ns, control, extras)
    }
}

fn pin(crew: &Crew, index: usize) -> Result<()> {
    let Some(cpus) = crew.job.cpus.as_ref().filter(|cpus| !cpus.is_empty()) else { return Ok(()) };
    let cpu = cpus[index % cpus.len()];
    pin_to(cpu).map_err(|e| {
        let what = format!("rank {index} cannot run on CPU {cpu}: {e}");
        Error::spec("cpus", what, "name CPUs that this process may use")
    })
}

/// A run must end, whatever becomes of one of its threads.
fn serve(rank: Rank, index: usize, orders: &Receiver<Order>, answer: &Sender<Result<RankTimes>>) {
    let work = AssertUnwindSafe(|| rank.serve(orders, answer));
    if catch_unwind(work).is_err() {
        let what = format!("rank {index} ended by a mistake in storlab: see standard error");
        let _ = answer.send(Err(Error::Backend { backend: "checkpoint", what }));
    }
}

//! Checkpoints as objects: every file is one, uploaded in parts over several connections; the
//! manifest is written last, and a checkpoint without it is none.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};
use storlab_base::{monotonic_ns, Error, Result};
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, Ledger, Tally};
use storlab_run::handle::{Board, Run};
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::Report;
use storlab_s3::transfer::{Bucket, Moved};
use storlab_s3::{Credentials, Store};

use super::publish::Manifest;
use super::rank::{RankTimes, KINDS};
use super::spec::{CheckpointJob, Format, Task};

const MANIFEST: &str = "storlab-checkpoint.json";
const LOOK: Duration = Duration::from_millis(50);
const WRITE: usize = 0;
const READ: usize = 1;

/// Start writing and restoring, or removing what that left.
///
/// # Errors
/// [`Error::Spec`] for what objects cannot do, and the errors of [`Store::new`].
pub fn start(job: CheckpointJob, credentials: Option<Credentials>) -> Result<Run> {
    if job.format != Format::Raw {
        let what = "safetensors files are written to directories only";
        return Err(Error::spec("format", what, "use raw, or a directory"));
    }
    let spec = job.place.store.as_ref();
    let spec = spec.ok_or_else(|| Error::spec("place", "is no bucket", "give a store"))?;
    let store = Store::new(spec, credentials)?;
    let control = Arc::new(Control::default());
    let mine = control.clone();
    Run::begin(control, move |board| run(&job, &store, &mine, board))
}

/// A rank: its connections and its counters.
struct Rank {
    bucket: Bucket,
    ledger: Ledger,
}

struct Uploads<'u> {
    job: &'u CheckpointJob,
    control: &'u Control,
    board: &'u Board,
    /// For manifests and listings.
    desk: Bucket,
    ranks: Vec<Rank>,
    tally: Tally,
    reports: Receiver<Report>,
    extras: Extras,
    writes: Vec<Value>,
    restores: Vec<Value>,
}

fn run(job: &CheckpointJob, store: &Store, control: &Control, board: &Board) -> Outcome {
    let tally = Tally::begin(job.ranks, job.interval_ns, &KINDS, board);
    let (report, reports) = channel();
    let start_ns = tally.start_ns();
    let patience = job.place.patience();
    let ranks = (0..job.ranks).map(|index| {
        let ledger = Ledger::new(index, &KINDS, job.interval_ns, start_ns, report.clone());
        let bucket = Bucket::new(store.clone(), job.queue_depth, index, &patience)?;
        Ok(Rank { bucket, ledger })
    });
    let made = ranks.collect::<Result<Vec<_>>>();
    let made = made.and_then(|ranks| Ok((ranks, Bucket::new(store.clone(), 1, 0, &patience)?)));
    drop(report);
    let (ranks, desk) = match made {
        Ok(made) => made,
        Err(error) => {
            let extras = Extras { failure: Some(error), ..Extras::default() };
            return tally.finish(monotonic_ns().max(start_ns + 1), control, extras);
        }
    };
    let (extras, writes, restores) = (Extras::default(), Vec::new(), Vec::new());
    let mut uploads =
        Uploads { job, control, board, desk, ranks, tally, reports, extras, writes, restores };
    let done = match job.task {
        Task::Run => uploads.work(),
        Task::Clean => uploads.clean(),
    };
    uploads.finish(done)
}

/// What one rank does with one file.
type Transfer = fn(&CheckpointJob, &Control, &mut Rank, &str, u64) -> Result<bool>;

impl Uploads<'_> {
    fn work(&mut self) -> Result<()> {
        let first = self.numbers()?.last().map_or(1, |last| last + 1);
        for number in first..first + self.job.writes {
            if number > first && !self.pause() {
                return Ok(());
            }
            if !self.write(number)? {
                return Ok(());
            }
        }
        for _ in 0..self.job.restores {
            if !self.restore()? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn pause(&self) -> bool {
        let until = monotonic_ns() + self.job.pause_ns;
        while monotonic_ns() < until && !self.control.stopping() {
            let left = Duration::from_nanos(until.saturating_sub(monotonic_ns()));
            std::thread::sleep(left.min(LOOK));
        }
        !self.control.stopping()
    }

    /// What the keys of a checkpoint begin with.
    fn below(&self, number: u32) -> String {
        format!("{}checkpoint-{number:06}/", self.job.place.prefix)
    }

    /// Of the whole ones, the newest last.
    fn numbers(&mut self) -> Result<Vec<u32>> {
        let prefix = format!("{}checkpoint-", self.job.place.prefix);
        let keys = self.desk.keys(&prefix)?;
        let mut numbers: Vec<u32> = keys
            .iter()
            .filter_map(|key| key.strip_prefix(&prefix)?.split_once('/'))
            .filter(|(_, name)| *name == MANIFEST)
            .filter_map(|(number, _)| number.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn manifest(&self, number: u32) -> Manifest {
        let files = self.job.files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
        Manifest { number, seed: self.job.seed, io_bytes: 0, slots: 0, files }
    }

    fn write(&mut self, number: u32) -> Result<bool> {
        let below = self.below(number);
        let start_ns = monotonic_ns();
        let written = self.all(&below, |job, control, rank, key, bytes| {
            let Rank { bucket, ledger } = rank;
            let heard = &mut |moved: Moved| record(ledger, WRITE, moved);
            let stopping = || control.stopping();
            bucket.put_content(key, bytes, job.part_size, &stopping, heard)
        });
        let published = written.and_then(|times| match times {
            Some(times) => self.publish(number).map(|()| Some(times)),
            None => Ok(None),
        });
        let times = match published {
            Ok(Some(times)) => times,
            ended => {
                // What ended it is what counts; what cannot be deleted is no checkpoint anyway.
                if let Err(error) = self.delete_all(&self.below(number)) {
                    let what = format!("what there is of checkpoint {number} stays: {error}");
                    self.extras.notes.push(what);
                }
                let left = match self.numbers().as_deref() {
                    Ok([.., last]) => format!("checkpoint {last} is the newest whole one"),
                    Ok([]) => "there is no whole one".to_owned(),
                    Err(error) => format!("which ones are whole cannot be seen: {error}"),
                };
                self.extras.notes.push(format!("checkpoint {number} was not published; {left}"));
                return ended.map(|_| false);
            }
        };
        let end_ns = monotonic_ns();
        self.span("write", number, start_ns, end_ns);
        self.writes.push(json!({
            "number": number,
            "start_ns": start_ns,
            "written_ns": times.iter().map(|t| t.moved_ns).max(),
            "durable_ns": end_ns,
            "bytes": self.job.total_bytes(),
            "device_written_bytes": null,
            "ranks": times,
        }));
        self.keep_last()?;
        Ok(true)
    }

    fn publish(&mut self, number: u32) -> Result<()> {
        let key = format!("{}{MANIFEST}", self.below(number));
        let text = serde_json::to_vec(&self.manifest(number)).unwrap_or_default();
        self.desk.put(&key, &text.into())
    }

    /// The manifest first: half a checkpoint must not look like a whole one.
    fn delete(&mut self, below: &str) -> Result<()> {
        let mut keys = self.desk.keys(below)?;
        keys.sort_unstable_by_key(|key| !key.ends_with(MANIFEST));
        for key in keys {
            self.desk.delete(&key)?;
        }
        Ok(())
    }

    /// Every object, and every upload that was not ended.
    fn delete_all(&mut self, below: &str) -> Result<()> {
        self.delete(below)?;
        for upload in self.desk.uploads(below)? {
            self.desk.abort(&upload)?;
        }
        Ok(())
    }

    fn keep_last(&mut self) -> Result<()> {
        let Some(count) = self.job.keep_last else { return Ok(()) };
        let numbers = self.numbers()?;
        let old = &numbers[..numbers.len().saturating_sub(count as usize)];
        if old.is_empty() {
            return Ok(());
        }
        let start_ns = monotonic_ns();
        for &number in old {
            self.delete(&self.below(number))?;
        }
        let (name, end_ns) = (format!("{} older", old.len()), monotonic_ns());
        self.extras.spans.push(Span { kind: "delete", name, start_ns, end_ns, bytes: 0 });
        Ok(())
    }

    fn restore(&mut self) -> Result<bool> {
        let Some(&number) = self.numbers()?.last() else {
            let fix = "let the job write one first";
            return Err(Error::spec("restores", "there is no whole checkpoint", fix));
        };
        let below = self.below(number);
        let text = self.desk.read(&format!("{below}{MANIFEST}"))?;
        let said: Option<Manifest> = serde_json::from_slice(&text).ok();
        if said.is_none_or(|said| said.files != self.manifest(number).files) {
            let what = "the newest checkpoint was written by another order";
            return Err(Error::spec("files", what, "restore it as it was written"));
        }
        let start_ns = monotonic_ns();
        let read = self.all(&below, |job, control, rank, key, bytes| {
            let Rank { bucket, ledger } = rank;
            let heard = &mut |moved: Moved| record(ledger, READ, moved);
            let stopping = || control.stopping();
            bucket.get_content(key, bytes, job.part_size, job.verify, &stopping, heard)
        })?;
        let Some(times) = read else { return Ok(false) };
        let end_ns = monotonic_ns();
        self.span("restore", number, start_ns, end_ns);
        self.restores.push(json!({
            "number": number,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "bytes": self.job.total_bytes(),
            "resident_before_bytes": 0,
            "device_read_bytes": null,
            "verified": self.job.verify,
            "ranks": times,
        }));
        Ok(true)
    }

    fn span(&mut self, kind: &'static str, number: u32, start_ns: u64, end_ns: u64) {
        let (name, bytes) = (format!("checkpoint {number}"), self.job.total_bytes());
        self.extras.spans.push(Span { kind, name, start_ns, end_ns, bytes });
    }

    /// Every rank moves its files. `None` when the run is to end; the first error of a rank ends it
    /// for all.
    fn all(&mut self, below: &str, transfer: Transfer) -> Result<Option<Vec<RankTimes>>> {
        let mut ranks = std::mem::take(&mut self.ranks);
        let (job, control) = (self.job, self.control);
        let (over, overs) = channel::<()>();
        let ended: Vec<Result<RankTimes>> = std::thread::scope(|scope| {
            let work = |(index, rank)| {
                let over = over.clone();
                scope.spawn(move || {
                    let _over = over; // gone with the thread, however that ends
                    let moved = move_files(job, control, index, rank, below, transfer);
                    if moved.is_err() {
                        control.end_soon();
                    }
                    moved
                })
            };
            let threads: Vec<_> = ranks.iter_mut().enumerate().map(work).collect();
            drop(over);
            while overs.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                self.take_reports();
            }
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| mistake())).collect()
        });
        self.ranks = ranks;
        self.take_reports();
        let times = ended.into_iter().collect::<Result<Vec<_>>>()?;
        let stopped = times.iter().any(|times| times.stopped) || self.control.stopping();
        Ok((!stopped).then_some(times))
    }

    fn take_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.tally.add(&report, self.board);
        }
    }

    /// Remove every checkpoint, whole or not.
    fn clean(&mut self) -> Result<()> {
        self.delete_all(&format!("{}checkpoint-", self.job.place.prefix))
    }

    fn finish(mut self, done: Result<()>) -> Outcome {
        let end_ns = self.tally.close();
        self.ranks.clear(); // they hand over their last interval
        while let Ok(report) = self.reports.recv() {
            self.tally.add(&report, self.board);
        }
        for rank in 0..self.job.ranks {
            self.tally.end(rank);
        }
        let mut extras = self.extras;
        extras.failure = done.err();
        extras.backend = Some("s3");
        let patience = self.job.place.patience();
        extras.notes.extend(patience.notes());
        extras.details.insert("retries".into(), patience.retries().into());
        extras.details.insert("writes".into(), self.writes.into());
        extras.details.insert("restores".into(), self.restores.into());
        extras.details.insert("device_counters".into(), false.into());
        self.tally.finish(end_ns, self.control, extras)
    }
}

fn record(ledger: &mut Ledger, place: usize, moved: Moved) {
    ledger.record(place, moved.bytes, moved.latency_ns, moved.start_ns + moved.latency_ns);
}

fn mistake() -> Result<RankTimes> {
    let what = "a rank ended by a mistake in storlab: see standard error".to_owned();
    Err(Error::Backend { backend: "checkpoint", what })
}

fn move_files(
    job: &CheckpointJob,
    control: &Control,
    index: usize,
    rank: &mut Rank,
    below: &str,
    transfer: Transfer,
) -> Result<RankTimes> {
    rank.ledger.on_this_thread();
    let start_ns = monotonic_ns();
    let mut times = RankTimes {
        rank: index,
        bytes: 0,
        start_ns,
        moved_ns: start_ns,
        end_ns: start_ns,
        stopped: false,
    };
    for file in job.files.iter().filter(|file| file.rank == index) {
        let key = format!("{below}{}", file.name);
        if !transfer(job, control, rank, &key, file.bytes)? {
            times.stopped = true;
            break;
        }
        times.bytes += file.bytes;
    }
    times.moved_ns = monotonic_ns();
    times.end_ns = times.moved_ns;
    rank.ledger.cross(times.end_ns);
    rank.ledger.leave_thread();
    Ok(times)
}

//! Control a checkpoint run on any storage: first all writes, then all restores.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};
use storlab_base::{Error, Result, monotonic_ns};
use storlab_io::DeviceBytes;
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, FixedTotals, RecorderFactory};
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::Report;

use crate::publish::Manifest;
use crate::rank::{KINDS, RankTimes};
use crate::spec::CheckpointJob;

/// Interval at which a waiting thread checks whether the run is stopping.
pub const LOOK: Duration = Duration::from_millis(50);
/// Timeout for the last statistics of ranks that have ended.
const FINAL_REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Function that is called regularly while ranks work, to collect their statistics.
pub type Look<'l> = &'l mut dyn FnMut();

/// Storage for checkpoints, together with the ranks (threads) that write and read the files.
pub trait Home {
    /// Start the ranks and allocate everything that they need.
    fn arm(&mut self, factory: &RecorderFactory) -> Result<()>;

    /// Open resources that need the window, such as the ranks' counters; called when the window
    /// begins. Does nothing by default.
    fn begin(&mut self, _factory: &RecorderFactory) {}

    /// Return the numbers of the complete checkpoints in ascending order.
    fn numbers(&mut self) -> Result<Vec<u32>>;

    /// Return the manifest that this job writes for checkpoint `number`.
    fn describe(&self, number: u32) -> Manifest;

    /// Read the manifest of an existing checkpoint.
    fn manifest(&mut self, number: u32) -> Result<Manifest>;

    /// Prepare the writing of checkpoint `number`; does nothing by default.
    fn prepare(&mut self, _number: u32) -> Result<()> {
        Ok(())
    }

    /// Let every rank write its files. Return the ranks' times; `None` if the run is stopping.
    ///
    /// # Errors
    /// The first error of a rank, which stops all.
    fn write(&mut self, number: u32, look: Look<'_>) -> Result<Option<Vec<RankTimes>>>;

    /// Publish a checkpoint whose files are all written.
    ///
    /// # Errors
    /// If the storage refuses; the checkpoint is then not published.
    fn publish(&mut self, manifest: &Manifest) -> Result<()>;

    /// Remove a failed checkpoint, which may already have its final name. Return a message if parts
    /// of the checkpoint remain.
    fn discard(&mut self, number: u32) -> Option<String>;

    /// Evict a checkpoint from the page cache, and prepare its restore. Return how many of the
    /// checkpoint's bytes remain in the cache.
    fn evict_page_cache(&mut self, _manifest: &Manifest) -> Result<u64> {
        Ok(0)
    }

    /// Let every rank read its files of a checkpoint, after [`Home::evict_page_cache`] was called
    /// for it. Return the ranks' times; `None` if the run is stopping.
    ///
    /// # Errors
    /// The first error of a rank, which stops all.
    fn restore(&mut self, manifest: &Manifest, look: Look<'_>) -> Result<Option<Vec<RankTimes>>>;

    /// Remove a complete checkpoint from the storage.
    fn remove(&mut self, number: u32) -> Result<()>;

    /// Return the number of bytes that the block device has moved until now; `None` if it has no
    /// counters.
    fn device_bytes(&self) -> Option<DeviceBytes> {
        None
    }

    /// End the threads of the ranks, which first hand over the statistics of their last interval.
    fn end(&mut self, extras: &mut Extras);
}

/// State of a checkpoint run, which drives the ranks from one checkpoint to the next.
pub struct Checkpoints<'b, H> {
    job: &'b CheckpointJob,
    /// Storage of the checkpoints.
    pub home: H,
    control: &'b Control,
    board: &'b Board,
    totals: FixedTotals,
    reports: Receiver<Box<Report>>,
    extras: Extras,
    writes: Vec<Value>,
    restores: Vec<Value>,
    /// Number of barriers that this client's ranks have passed so far, together with the ranks of
    /// other clients.
    met: u64,
}

/// Start the ranks, call `work`, and build the outcome.
pub fn run<H: Home>(
    job: &CheckpointJob,
    mut home: H,
    control: &Control,
    board: &Board,
    work: fn(&mut Checkpoints<'_, H>) -> Result<()>,
) -> Outcome {
    let (factory, reports) = RecorderFactory::new(job.interval_ns, &KINDS);
    let armed = home.arm(&factory);
    if armed.is_err() {
        control.end_soon();
    }
    let totals = FixedTotals::begin(job.ranks, &factory, control, board);
    home.begin(&factory);
    drop(factory);
    let (extras, writes, restores) = (Extras::default(), Vec::new(), Vec::new());
    let mut run = Checkpoints {
        job,
        home,
        control,
        board,
        totals,
        reports,
        extras,
        writes,
        restores,
        met: 0,
    };
    let done = armed.and_then(|()| if control.stopping() { Ok(()) } else { work(&mut run) });
    run.finish(done)
}

/// Write all checkpoints, then restore. Restores come last, because they may leave the buffers
/// unusable for writing.
pub fn write_and_restore<H: Home>(run: &mut Checkpoints<'_, H>) -> Result<()> {
    let first = run.home.numbers()?.last().map_or(1, |last| last + 1);
    for number in first..first + run.job.writes {
        if number > first && !run.pause() || !run.write(number)? {
            return Ok(());
        }
    }
    for _ in 0..run.job.restores {
        if !run.restore()? {
            return Ok(());
        }
    }
    Ok(())
}

impl<H: Home> Checkpoints<'_, H> {
    /// Sleep for the training time between two checkpoints. Return false if the run is stopping.
    fn pause(&self) -> bool {
        let until = monotonic_ns() + self.job.pause_ns;
        while monotonic_ns() < until && !self.control.stopping() {
            let left = Duration::from_nanos(until.saturating_sub(monotonic_ns()));
            std::thread::sleep(left.min(LOOK));
        }
        !self.control.stopping()
    }

    /// Wait at a barrier, so that all ranks of all clients begin together. Return false if the run
    /// is stopping.
    fn meet(&mut self) -> bool {
        let (meeting, ready_ns) = (self.control.meeting(), monotonic_ns());
        meeting.announce(ready_ns);
        let met = meeting.end_of(self.met, ready_ns, &|| self.control.stopping());
        self.met += 1;
        met.is_some()
    }

    fn write(&mut self, number: u32) -> Result<bool> {
        self.home.prepare(number)?;
        if !self.meet() {
            return Ok(false);
        }
        let before = self.home.device_bytes();
        let start_ns = monotonic_ns();
        let Self { home, totals, reports, board, .. } = self;
        let written = home.write(number, &mut || take_reports(reports, totals, board));
        let published = written.and_then(|times| match times {
            Some(times) => {
                let manifest = self.home.describe(number);
                self.home.publish(&manifest).map(|()| Some(times))
            }
            None => Ok(None),
        });
        let times = match published {
            Ok(Some(times)) => times,
            Err(hung) if hung.hangs() => {
                // Do not clean up: any further request to this file system would hang as well.
                self.extras.notes.push(format!(
                    "checkpoint {number} was not published; its remaining files are removed when \
                     storlab cleans up after the run, or by storlab clean"
                ));
                return Err(hung);
            }
            ended => {
                // Report the original failure; an error of the clean-up becomes a note only.
                self.give_up(number);
                return ended.map(|_| false);
            }
        };
        let end_ns = monotonic_ns();
        let moved = self.home.device_bytes().zip(before).map(|(now, then)| now.since(then).written);
        self.span("write", number, start_ns, end_ns);
        self.writes.push(json!({
            "number": number,
            "start_ns": start_ns,
            "written_ns": times.iter().map(|t| t.moved_ns).max(),
            "durable_ns": end_ns,
            "bytes": self.job.total_bytes(),
            "device_written_bytes": moved,
            "ranks": times,
        }));
        self.delete_old()?;
        Ok(true)
    }

    fn give_up(&mut self, number: u32) {
        // If the removal failed, do not list the remaining checkpoints: the list would fail as
        // well, and take as long as the removal.
        let left = self.home.discard(number).unwrap_or_else(|| self.newest_beside(number));
        self.extras.notes.push(format!("checkpoint {number} was not published; {left}"));
    }

    fn newest_beside(&mut self, number: u32) -> String {
        let mut numbers = self.home.numbers();
        if let Ok(numbers) = &mut numbers {
            numbers.retain(|&whole| whole != number);
        }
        match numbers.as_deref() {
            Ok([.., last]) => format!("checkpoint {last} is the newest complete one"),
            Ok([]) => "no checkpoint is complete".to_owned(),
            Err(error) => format!("the complete checkpoints could not be listed: {error}"),
        }
    }

    fn delete_old(&mut self) -> Result<()> {
        let Some(count) = self.job.keep_last else { return Ok(()) };
        let numbers = self.home.numbers()?;
        let old = &numbers[..numbers.len().saturating_sub(count as usize)];
        if old.is_empty() {
            return Ok(());
        }
        let start_ns = monotonic_ns();
        old.iter().try_for_each(|&number| self.home.remove(number))?;
        let (name, end_ns) = (format!("{} older", old.len()), monotonic_ns());
        self.extras.spans.push(Span { kind: "delete", name, start_ns, end_ns, bytes: 0 });
        Ok(())
    }

    fn restore(&mut self) -> Result<bool> {
        let Some(&number) = self.home.numbers()?.last() else {
            let fix = "write one first (writes = 1)";
            return Err(Error::spec("restores", "there is no complete checkpoint to restore", fix));
        };
        let manifest = self.home.manifest(number)?;
        // The content of a file depends on the job's settings when it was written, so it can be
        // compared only if the settings are unchanged.
        if (Manifest { seed: manifest.seed, ..self.home.describe(number) }) != manifest {
            return Err(written_otherwise());
        }
        let resident = self.home.evict_page_cache(&manifest)?;
        if !self.meet() {
            return Ok(false);
        }
        let before = self.home.device_bytes();
        let start_ns = monotonic_ns();
        let Self { home, totals, reports, board, .. } = self;
        let read = home.restore(&manifest, &mut || take_reports(reports, totals, board))?;
        let Some(times) = read else { return Ok(false) };
        let end_ns = times.iter().map(|t| t.moved_ns).max().unwrap_or(start_ns);
        let moved = self.home.device_bytes().zip(before).map(|(now, then)| now.since(then).read);
        self.span("restore", number, start_ns, end_ns);
        self.restores.push(json!({
            "number": number,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "bytes": self.job.total_bytes(),
            "resident_before_bytes": resident,
            "device_read_bytes": moved,
            "verified": self.job.verify,
            "ranks": times,
        }));
        Ok(true)
    }

    fn span(&mut self, kind: &'static str, number: u32, start_ns: u64, end_ns: u64) {
        let (name, bytes) = (format!("checkpoint {number}"), self.job.total_bytes());
        self.extras.spans.push(Span { kind, name, start_ns, end_ns, bytes });
    }

    fn finish(mut self, done: Result<()>) -> Outcome {
        let end_ns = self.totals.close();
        self.home.end(&mut self.extras);
        let timeout = match &done {
            Err(error) if error.hangs() => Duration::ZERO, // at least one rank will never report
            _ => FINAL_REPORT_TIMEOUT,
        };
        while let Ok(report) = self.reports.recv_timeout(timeout) {
            self.totals.add(report, self.board);
        }
        for rank in 0..self.job.ranks {
            self.totals.end(rank);
        }
        let mut extras = self.extras;
        extras.failure = done.err();
        extras.details.insert("writes".into(), self.writes.into());
        extras.details.insert("restores".into(), self.restores.into());
        self.totals.finish(end_ns, self.control, extras)
    }
}

fn take_reports(reports: &Receiver<Box<Report>>, totals: &mut FixedTotals, board: &Board) {
    while let Ok(report) = reports.try_recv() {
        totals.add(report, board);
    }
}

/// Build the error that the newest checkpoint was written with other settings, so that it cannot be
/// compared.
fn written_otherwise() -> Error {
    let what = "the newest checkpoint was written with other settings";
    Error::spec("files, io_bytes, queue_depth", what, "use the settings with which it was written")
}

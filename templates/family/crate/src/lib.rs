//! Workload family `example`: workers write and flush files, and then read them.
//!
//! A run has two phases, write and read, and each ends when all files are done. A phase is a kind
//! of operation, and a span of the run for which energy is measured.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rand_core::Rng as _;
use serde::Deserialize;
use storlab_base::{Clock, Result, failed, monotonic_ns, stream};
use storlab_run::Secrets;
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, FixedTotals, RecorderFactory, WorkerRecorder, chore};
use storlab_run::handle::Run;
use storlab_run::order::{Order, at_least_one};
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::{Kind, Report};
use storlab_run::threads::guarded;

const WRITE: Kind = Kind::new(0, "write");
const READ: Kind = Kind::new(1, "read");
const PHASES: [Kind; 2] = [WRITE, READ];
/// Interval at which the coordinator checks whether all workers of a phase have ended.
const LOOK: Duration = Duration::from_millis(10);

/// What to do: write and read files, or remove them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Task {
    Run,
    Remove,
}

/// Job of one run, which Python writes as JSON (`job.py`).
#[derive(Debug, Deserialize)]
struct ExampleJob {
    interval_ns: u64,
    seed: u64,
    task: Task,
    directory: PathBuf,
    files: usize,
    file_bytes: usize,
    workers: usize,
}

impl Order for ExampleJob {
    fn check(&self) -> Result<()> {
        at_least_one(&[
            ("files", self.files as u64),
            ("file_bytes", self.file_bytes as u64),
            ("workers", self.workers as u64),
        ])
    }
}

/// Start a run in the background. If `held` is true, it waits until it is released.
///
/// # Errors
/// [`storlab_base::Error::Spec`] if the job is not valid JSON or has an invalid value.
pub fn start(order: &str, _: &Secrets, held: bool) -> Result<Run> {
    let job = ExampleJob::from_json(order)?;
    Clock::prepare();
    let control = Arc::new(Control::new(held));
    let shared = control.clone();
    let begun = Run::begin(control, move |board| match job.task {
        Task::Run => run(&job, &shared, board),
        Task::Remove => chore(job.interval_ns, &PHASES, &shared, board, || remove(&job)),
    });
    begun.map(Run::ends_though_stuck)
}

fn remove(job: &ExampleJob) -> Result<()> {
    match fs::remove_dir_all(&job.directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(failed("remove", &job.directory)(error))
        }
        _ => Ok(()),
    }
}

fn run(job: &ExampleJob, control: &Control, board: &Board) -> Outcome {
    let (factory, reports) = RecorderFactory::new(job.interval_ns, &PHASES);
    let created = fs::create_dir_all(&job.directory).map_err(failed("create", &job.directory));
    let mut totals = FixedTotals::begin(job.workers, &factory, control, board);
    let mut recorders: Vec<_> = (0..job.workers).map(|worker| factory.recorder(worker)).collect();
    recorders.iter_mut().for_each(WorkerRecorder::leave_thread);
    let mut extras = Extras { failure: created.err(), takes_tasks: true, ..Extras::default() };
    for kind in PHASES {
        if extras.failure.is_some() || control.stopping() {
            break;
        }
        board.enter(kind.name, None);
        let phase = Phase { kind, job, control, next: 0.into(), failed: false.into() };
        match phase.carry_out(&mut recorders, &mut totals, &reports, board) {
            Ok(span) => extras.spans.extend(span),
            Err(error) => extras.failure = Some(error),
        }
    }
    let end_ns = totals.close();
    drop(recorders);
    for report in reports.try_iter() {
        totals.add(report, board);
    }
    (0..job.workers).for_each(|worker| totals.end(worker));
    totals.finish(end_ns, control, extras)
}

/// Phase of a run, in which each worker takes one file after the other until none is left.
struct Phase<'r> {
    kind: Kind,
    job: &'r ExampleJob,
    control: &'r Control,
    /// Number of the next file to take.
    next: AtomicUsize,
    /// Whether a worker has failed, which stops the others.
    failed: AtomicBool,
}

impl Phase<'_> {
    /// Run the phase with a thread per recorder; return its span, or `None` if the run was stopped.
    fn carry_out(
        &self,
        recorders: &mut [WorkerRecorder],
        totals: &mut FixedTotals,
        reports: &Receiver<Box<Report>>,
        board: &Board,
    ) -> Result<Option<Span>> {
        let start_ns = monotonic_ns();
        let ends: Result<Vec<u64>> = std::thread::scope(|scope| {
            let spawn = |recorder| scope.spawn(|| self.work(recorder));
            let workers: Vec<_> = recorders.iter_mut().map(spawn).collect();
            while !workers.iter().all(ScopedJoinHandle::is_finished) {
                if let Ok(report) = reports.recv_timeout(LOOK) {
                    totals.add(report, board);
                }
            }
            workers.into_iter().map(|worker| worker.join().expect("work catches panics")).collect()
        });
        let end_ns = ends?.into_iter().max().unwrap_or(start_ns);
        let bytes = (self.job.files * self.job.file_bytes) as u64;
        let (kind, name) = (self.kind.name, self.kind.name.into());
        Ok((!self.control.stopping()).then_some(Span { kind, name, start_ns, end_ns, bytes }))
    }

    /// Handle files as one worker until none is left; return the time at which it ended.
    fn work(&self, recorder: &mut WorkerRecorder) -> Result<u64> {
        recorder.on_this_thread();
        let done = guarded("native", "a worker", || {
            let mut buffer = vec![0; self.job.file_bytes];
            while !self.control.stopping() && !self.failed.load(Relaxed) {
                let file = self.next.fetch_add(1, Relaxed);
                if file >= self.job.files {
                    break;
                }
                self.one_file(file, &mut buffer, recorder)?;
            }
            Ok(monotonic_ns())
        });
        recorder.leave_thread();
        self.failed.fetch_or(done.is_err(), Relaxed);
        done
    }

    fn one_file(
        &self,
        file: usize,
        buffer: &mut [u8],
        recorder: &mut WorkerRecorder,
    ) -> Result<()> {
        let path = self.job.directory.join(format!("file{file}"));
        if self.kind == WRITE {
            stream(self.job.seed, "example", file as u64).fill_bytes(buffer);
        }
        let start_ns = monotonic_ns();
        let done = if self.kind == WRITE {
            File::create(&path).and_then(|mut file| {
                file.write_all(buffer)?;
                file.sync_all()
            })
        } else {
            File::open(&path).and_then(|mut file| file.read_exact(buffer))
        };
        done.map_err(failed(self.kind.name, &path))?;
        let now_ns = monotonic_ns();
        recorder.record(self.kind.place, buffer.len() as u64, now_ns - start_ns, now_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

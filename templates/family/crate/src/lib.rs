//! Workload family `example`: workers write and flush files, and then read them.
//!
//! A run has two phases, write and read, and each ends when all files are done. A phase is a kind
//! of operation, and a span of the run for which energy is measured.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use rand_core::Rng as _;
use serde::Deserialize;
use storlab_base::{Clock, Result, failed, monotonic_ns, stream};
use storlab_run::Secrets;
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, chore};
use storlab_run::handle::Run;
use storlab_run::order::{Order, at_least_one};
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::Kind;
use storlab_run::worker_pool::{Tasks, WorkerPool};

const WRITE: Kind = Kind::new(0, "write");
const READ: Kind = Kind::new(1, "read");
const PHASES: [Kind; 2] = [WRITE, READ];

/// Task of a run: write and read files, or remove them.
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

fn run(job: &ExampleJob, control: &Arc<Control>, board: &Board) -> Outcome {
    // Everything that needs time but is not measured comes before the pool, which begins the window.
    let created = fs::create_dir_all(&job.directory).map_err(failed("create", &job.directory));
    if created.is_err() {
        control.end_soon();
    }
    let interval_ns = job.interval_ns;
    let mut pool =
        WorkerPool::new("example", job.workers, interval_ns, &PHASES, None, board, control);
    // Workers take tasks from a shared queue, so the delay of one that begins late is meaningless.
    let mut extras = Extras { failure: created.err(), takes_tasks: true, ..Extras::default() };
    for kind in PHASES {
        if extras.failure.is_some() || pool.is_over() {
            break;
        }
        board.enter(kind.name, None);
        let start_ns = monotonic_ns();
        extras.failure = pool.carry_out(job.files, |tasks| work(kind, job, tasks)).err();
        let (end_ns, bytes) = (monotonic_ns(), pool.take_moved());
        if !pool.is_over() {
            let (kind, name) = (kind.name, kind.name.into());
            extras.spans.push(Span { kind, name, start_ns, end_ns, bytes });
        }
    }
    let mut totals = pool.end();
    let end_ns = totals.close();
    totals.finish(end_ns, control, extras)
}

/// Do one worker's tasks of a phase: a task is a file.
fn work(kind: Kind, job: &ExampleJob, tasks: &mut Tasks<'_>) -> Result<()> {
    let mut buffer = vec![0; job.file_bytes];
    while let Some(number) = tasks.take() {
        let path = job.directory.join(format!("file{number}"));
        if kind == WRITE {
            stream(job.seed, "example", number as u64).fill_bytes(&mut buffer);
        }
        let start_ns = monotonic_ns();
        let done = if kind == WRITE {
            File::create(&path).and_then(|mut file| {
                file.write_all(&buffer)?;
                file.sync_all()
            })
        } else {
            File::open(&path).and_then(|mut file| file.read_exact(&mut buffer))
        };
        done.map_err(failed(kind.name, &path))?;
        tasks.record(kind.place, job.file_bytes as u64, start_ns);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Workload family `checkpoint`: parallel ranks write checkpoints, make them durable and publish
//! them as training programs do, and read the newest one back.

mod clean;
mod directory;
mod objects;
mod publish;
mod rank;
mod run;
mod safetensors;
mod spec;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use storlab_base::{Clock, Result};
use storlab_run::Secrets;
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::fixed::chore;
use storlab_run::handle::Run;
use storlab_run::order::Order as _;
use storlab_run::outcome::Outcome;
use storlab_s3::{Credentials, Store};

use directory::Directory;
use objects::Objects;
use publish::CheckpointDirectory;
use rank::KINDS;

use run::write_and_restore;
use spec::{CheckpointJob, Task};

/// Start a run that writes and restores checkpoints, or one that removes those of earlier runs. If
/// `held`, the work begins only when the caller releases the run.
///
/// # Errors
/// [`storlab_base::Error::Spec`] for an invalid job description or store. If the checkpoint
/// directory cannot be created, the run fails later instead.
pub fn start(order: &str, secrets: &Secrets, held: bool) -> Result<Run> {
    begin(CheckpointJob::from_json(order)?, Credentials::from_map(secrets)?, held)
}

fn begin(job: CheckpointJob, credentials: Option<Credentials>, held: bool) -> Result<Run> {
    Clock::prepare();
    let control = Arc::new(Control::new(held));
    let run_control = control.clone();
    let Some(home) = job.place.directory.clone() else {
        let store = objects::store_of(&job, credentials)?;
        return Run::begin(control, move |board| in_bucket(&job, store, &run_control, board));
    };
    let shelf = CheckpointDirectory::new(&job, &home);
    if job.task == Task::Clean {
        return Run::begin(control, move |board| {
            let remove = || clean::remove(&shelf, &home, &run_control);
            chore(job.interval_ns, &KINDS, &run_control, board, remove)
        });
    }
    Run::begin(control, move |board| {
        let place = Directory::new(&job, shelf, &run_control);
        run::run(&job, place, &run_control, board, write_and_restore)
    })
}

fn in_bucket(job: &CheckpointJob, store: Store, control: &Arc<Control>, board: &Board) -> Outcome {
    match (Objects::new(job, store, control), job.task) {
        (Ok(place), Task::Run) => run::run(job, place, control, board, write_and_restore),
        (Ok(place), Task::Clean) => run::run(job, place, control, board, |run| run.home.clean()),
        (Err(error), _) => {
            control.end_soon();
            chore(job.interval_ns, &KINDS, control, board, || Err(error))
        }
    }
}

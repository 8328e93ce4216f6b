//! Checkpoints: parallel ranks write one after the other, made durable and published as trainers
//! do, and read the newest one back.

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

use storlab_base::{Clock, Result, monotonic_ns};
use storlab_run::Secrets;
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, Tally};
use storlab_run::handle::{Board, Run};
use storlab_run::order::Order as _;
use storlab_run::outcome::Outcome;
use storlab_s3::{Credentials, Store};

use directory::Directory;
use objects::Objects;
use publish::Shelf;
use rank::KINDS;

use run::write_and_restore;
use spec::{CheckpointJob, Task};

/// Start writing and restoring, or removing what that left.
///
/// # Errors
/// [`storlab_base::Error::Spec`] for an order that cannot be, [`storlab_base::Error::Io`] where the
/// place cannot be made.
pub fn start(order: &str, secrets: &Secrets) -> Result<Run> {
    begin(CheckpointJob::from_json(order)?, Credentials::from_map(secrets)?)
}

fn begin(job: CheckpointJob, credentials: Option<Credentials>) -> Result<Run> {
    Clock::prepare();
    let control = Arc::new(Control::default());
    let mine = control.clone();
    let Some(home) = job.place.directory.clone() else {
        let store = objects::store_of(&job, credentials)?;
        return Run::begin(control, move |board| in_bucket(&job, store, &mine, board));
    };
    let shelf = Shelf::new(&job, &home);
    if job.task == Task::Clean {
        return Run::begin(control, move |board| clean::run(&job, &shelf, &home, &mine, board));
    }
    shelf.open()?;
    shelf.tidy()?;
    Run::begin(control, move |board| {
        let place = Directory::new(&job, shelf, &home, &mine);
        run::run(&job, place, &mine, board, write_and_restore)
    })
}

fn in_bucket(job: &CheckpointJob, store: Store, control: &Control, board: &Board) -> Outcome {
    match (Objects::new(job, store, control), job.task) {
        (Ok(place), Task::Run) => run::run(job, place, control, board, write_and_restore),
        (Ok(place), Task::Clean) => run::run(job, place, control, board, |run| run.home.clean()),
        (Err(error), _) => {
            let tally = Tally::begin(job.ranks, job.interval_ns, &KINDS, board);
            let extras = Extras { failure: Some(error), ..Extras::default() };
            let end_ns = monotonic_ns().max(tally.start_ns() + 1);
            tally.finish(end_ns, control, extras)
        }
    }
}

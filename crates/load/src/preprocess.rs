//! DLRM preprocessing: raw click logs to Parquet, to vocabularies, to split binary.

mod budget;
mod check;
mod count;
mod dense;
mod generate;
mod lookup;
mod merge;
mod spec;

use std::sync::Arc;

use storlab_base::{Clock, Error, Result};

use crate::handle::{Control, Run};
use spec::Task;

pub use check::check;
pub use spec::PreprocessJob;

/// Start the stages, or the making of click logs, or the removal of what either left.
///
/// # Errors
/// [`Error::Spec`] for an order that cannot be.
pub fn start(job: PreprocessJob) -> Result<Run> {
    Clock::prepare();
    let control = Arc::new(Control::default());
    let mine = control.clone();
    match job.task {
        Task::Generate => {
            Run::begin(control, move |board| generate::run(&job, &mine, board))
        }
        Task::Run | Task::Remove => Err(Error::spec("task", "is not there yet", "wait")),
    }
}

//! Floor 2: pacing, sampling, stop rules, and one file for each workload.

mod block;
mod draw;
mod gather;
mod layout;
mod run;
mod slots;
mod spec;
mod verify;

use storlab_base::{Error, Result};
pub use storlab_run::{
    memory_bytes, spin, Outcome, Row, Run, Secrets, Snapshot, Spin, Status, Summary,
};
use storlab_s3::Credentials;

pub use spec::BlockJob;
pub use storlab_preprocess::check;
pub use verify::{Verifier, VerifyReport};

/// Start a run of a family's order, given as JSON.
///
/// # Errors
/// [`Error::Spec`] for an impossible order or an unknown family, [`Error::Io`] for what cannot be
/// opened, [`Error::Backend`] for a backend that is not to be had.
pub fn start(kind: &str, job_json: &str, secrets: &Secrets) -> Result<Run> {
    let credentials = || Credentials::from_map(secrets);
    match kind {
        "block" => run::start(BlockJob::from_json(job_json)?),
        "checkpoint" => storlab_checkpoint::start(job_json, secrets),
        "object" => storlab_object::start(job_json, secrets),
        "preprocess" => storlab_preprocess::start(job_json, secrets),
        "training" => storlab_training::start(job_json, secrets),
        _ => Err(Error::spec("kind", format!("{kind} is no family of work"), "see docs")),
    }
}

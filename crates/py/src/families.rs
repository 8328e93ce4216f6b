//! Table of workload families. A new family adds one line here.

use storlab_base::{Error, Result};
use storlab_run::{Run, Secrets};

type Start = fn(&str, &Secrets, bool) -> Result<Run>;

const FAMILIES: &[(&str, Start)] = &[
    ("block", storlab_block::start),
    ("checkpoint", storlab_checkpoint::start),
    #[cfg(debug_assertions)] // the template of new families, which tests run
    ("example", storlab_example::start),
    ("gpudirect", storlab_gpudirect::start),
    ("object", storlab_object::start),
    ("preprocess", storlab_preprocess::start),
    ("training", storlab_training::start),
];

/// Yield the names of all families.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// Start a run of a family's order, given as JSON. If `held`, its load waits for a start time.
pub fn start(kind: &str, order: &str, secrets: &Secrets, held: bool) -> Result<Run> {
    match FAMILIES.iter().find(|(name, _)| *name == kind) {
        Some((_, start)) => start(order, secrets, held),
        None => Err(Error::spec("kind", format!("{kind} is not a workload family"), "see docs")),
    }
}

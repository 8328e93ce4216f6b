//! Table of the workload families. A new family adds one line to it.

use storlab_base::{Error, Result};
use storlab_run::{Run, Secrets};

type Start = fn(&str, &Secrets, bool) -> Result<Run>;

const SEE: &str = "use a name that storlab._native.family_names() lists";

const FAMILIES: &[(&str, Start)] = &[
    ("block", storlab_block::start),
    ("checkpoint", storlab_checkpoint::start),
    #[cfg(debug_assertions)] // template for new families, run by tests
    ("example", storlab_example::start),
    ("gpudirect", storlab_gpudirect::start),
    ("object", storlab_object::start),
    ("preprocess", storlab_preprocess::start),
    ("training", storlab_training::start),
];

/// Yield the names of all workload families.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// Start a run of the family `kind` with an order, given as JSON. If `held` is set, the load waits
/// for a start time.
pub fn start(kind: &str, order: &str, secrets: &Secrets, held: bool) -> Result<Run> {
    match FAMILIES.iter().find(|(name, _)| *name == kind) {
        Some((_, start)) => start(order, secrets, held),
        None => Err(Error::spec("kind", format!("{kind} is not a workload family"), SEE)),
    }
}

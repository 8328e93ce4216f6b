//! Every family of work, a line each.

use storlab_base::{Error, Result};
use storlab_run::{Run, Secrets};

type Start = fn(&str, &Secrets, bool) -> Result<Run>;

const FAMILIES: &[(&str, Start)] = &[
    ("block", storlab_block::start),
    ("checkpoint", storlab_checkpoint::start),
    ("gpudirect", storlab_gpudirect::start),
    ("object", storlab_object::start),
    ("preprocess", storlab_preprocess::start),
    ("training", storlab_training::start),
];

/// What they are called.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// Start a run of a family's order, given as JSON; where it is held, its load waits to be told.
pub fn start(kind: &str, order: &str, secrets: &Secrets, held: bool) -> Result<Run> {
    match FAMILIES.iter().find(|(name, _)| *name == kind) {
        Some((_, start)) => start(order, secrets, held),
        None => Err(Error::spec("kind", format!("{kind} is no family of work"), "see docs")),
    }
}

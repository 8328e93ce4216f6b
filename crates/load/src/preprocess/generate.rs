//! Making click logs.

use std::sync::Arc;

use super::spec::PreprocessJob;
use crate::handle::{Board, Control};
use crate::outcome::Outcome;

/// Make every file that is missing.
pub fn run(_job: &PreprocessJob, _control: &Arc<Control>, _board: &Board) -> Outcome {
    todo!()
}

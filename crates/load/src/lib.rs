//! Floor 2: pacing, sampling, stop rules, and one file for each workload.

mod block;
mod cpu;
mod draw;
mod gather;
mod layout;
mod outcome;
mod pacing;
mod run;
mod sampling;
mod slots;
mod spec;
mod verify;

pub use outcome::{Outcome, Status, Summary};
pub use run::{BlockRun, Snapshot};
pub use sampling::Row;
pub use spec::BlockJob;
pub use verify::{Verifier, VerifyReport};

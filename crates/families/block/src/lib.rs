//! Workload family `block`: block I/O on devices and files, with an optional verify mode.

mod draw;
mod groups;
mod layout;
mod run;
mod shared;
mod slots;
mod spec;
mod verify;
mod worker;
mod zones;

pub use run::start;
pub use spec::BlockJob;
pub use verify::{Verifier, VerifyReport};

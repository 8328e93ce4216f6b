//! Floor 2: what every run has, whatever its family: its order's common part, pacing, counters by
//! interval, CPU, its live view and its end. It knows no family.

pub mod arming;
pub mod board;
pub mod control;
pub mod cpu;
pub mod first_io;
pub mod fixed;
pub mod gate;
pub mod handle;
mod host_memory;
pub mod meeting;
pub mod merge;
pub mod mix;
pub mod order;
pub mod outcome;
pub mod pacing;
pub mod recorder;
pub mod sampling;
mod spin;
pub mod threads;
pub mod timed;
pub mod turns;
pub mod window;

use std::collections::BTreeMap;

pub use handle::{Run, Snapshot};
pub use host_memory::{HostMemory, host_memory, memory_bytes};
pub use outcome::{Outcome, Status, Summary};
pub use sampling::Row;
pub use spin::{Spin, spin};

/// What a run needs and its order may not hold, by name: credentials.
pub type Secrets = BTreeMap<String, String>;

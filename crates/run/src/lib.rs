//! Runtime that all workload families share: parsing of orders, pacing, counters per interval, CPU
//! accounting, live snapshots and the end of a run.

pub mod arming;
pub mod batch_worker;
pub mod board;
pub mod control;
pub mod cpu;
pub mod first_io;
pub mod fixed;
pub mod groups;
pub mod handle;
mod host_memory;
pub mod merge;
pub mod mix;
pub mod order;
pub mod outcome;
pub mod pacing;
pub mod recorder;
pub mod sampling;
mod spin;
pub mod sync_point;
pub mod threads;
pub mod timed;
pub mod window;
pub mod worker_pool;

use std::collections::BTreeMap;

pub use handle::{Run, Snapshot};
pub use host_memory::{HostMemory, host_memory, memory_bytes};
pub use outcome::{Outcome, Status, Summary};
pub use sampling::Row;
pub use spin::{Spin, spin};

/// Credentials of a run, by name. They are not part of the order, because the order is stored with
/// the results.
pub type Secrets = BTreeMap<String, String>;

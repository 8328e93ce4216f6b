//! Basic building blocks of the other crates: clock, histograms, seeded patterns, payload, errors.
//! This crate depends on no other crate of the project.

mod arch;
mod clock;
mod content;
pub mod durable;
mod error;
mod file_lock;
mod histogram;
mod lock;
mod pattern;
mod payload;
mod random;
mod signal;
mod stamped;

pub use arch::{page_bytes, prefetch};
pub use clock::{
    Clock, TimeSource, clock_ns, monotonic_ns, narrowest, thread_cpu_ns, wall_clock_ns,
};
pub use content::{Content, FileContent, Identity};
pub use error::{Error, OpKind, Result, failed};
pub use file_lock::try_lock_file;
pub use histogram::{Coarse, Counts, Figures, Histogram};
pub use lock::lock;
pub use pattern::{Offsets, Pattern, Share, gcd};
pub use payload::{Payload, PayloadSpec};
pub use random::{Rng, below, normal, stream};
pub use signal::Signal;
pub use stamped::{CHUNK_BYTES, ODD, ODD_2, STAMP_BYTES, Stamped, mix};

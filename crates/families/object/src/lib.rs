//! Workload family `object`: load on an S3 object store.
//!
//! Each worker is a thread with its own async runtime and some of the run's request slots. A slot
//! has one request in flight at a time, on its own keep-alive connections. While requests are in
//! flight, workers share only the record of which objects exist.

mod draw;
mod endpoints;
mod groups;
mod kind;
mod multipart;
mod names;
mod pool;
mod progress;
mod requests;
mod run;
mod shared;
mod sizes;
mod slot;
mod spec;
mod tasks;
mod timer;
mod worker;

pub use run::start;

//! Load on an object store.
//!
//! Each worker is a thread with a runtime of its own, and as many request slots as its share of the
//! concurrency. A slot has one request in flight at a time, over keep-alive connections that nobody
//! else uses. Workers share which objects there are, and nothing else while requests are out.

mod draw;
mod endpoints;
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

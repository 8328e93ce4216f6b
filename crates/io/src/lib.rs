//! Floor 1: [`Backend`], what moves bytes, and one file for each backend.
//!
//! A backend belongs to one worker thread. It owns the files' registration and the buffers;
//! operations name both by index, so that callers handle no descriptors and no addresses.

mod arena;
mod backend;
mod device;
mod file;
mod null;
mod posix;
mod probe;
mod stream;
mod uring;

pub use arena::Arena;
pub use backend::{Backend, Completion, Op, Wake, WAKE_TAG};
pub use device::{drop_cache, resident_bytes, DeviceBytes, DeviceCounters};
pub use file::{Access, File};
pub use null::NullBackend;
pub use posix::PosixBackend;
pub use probe::{probe, Probe};
pub use stream::{Chunk, Pass, Stream, StreamSpec, SECTOR};
pub use uring::UringBackend;

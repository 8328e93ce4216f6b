//! I/O backends: the [`Backend`] trait and its implementations for `io_uring`, POSIX calls and no
//! I/O.
//!
//! A backend belongs to one worker thread. It owns the buffers and the registration of the files;
//! operations refer to both by index, so that callers handle no descriptors and no addresses.

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
pub use backend::{Backend, Completion, Op, WAKE_TAG, Wake};
pub use device::{DeviceBytes, DeviceCounters, drop_cache, resident_bytes};
pub use file::{Access, File};
pub use null::NullBackend;
pub use posix::PosixBackend;
pub use probe::{Probe, probe};
pub use stream::{Chunk, Pass, SECTOR, Stream, StreamSpec};
pub use uring::UringBackend;

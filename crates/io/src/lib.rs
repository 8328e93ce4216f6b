//! I/O backends: the [`Backend`] trait with implementations for `io_uring`, for POSIX calls and one
//! that does no I/O.
//!
//! A backend belongs to one worker thread. It owns the buffers and the registration of the files.
//! Operations refer to buffers and files by index, so that callers handle neither addresses nor
//! file descriptors.

mod arena;
mod backend;
mod device;
mod file;
mod kinds;
mod null;
mod posix;
mod probe;
mod stream;
mod uring;
mod zones;

pub use arena::Arena;
pub use backend::{Backend, Completion, Op, Queue, WAKE_TAG, Wake};
pub use device::{DeviceBytes, DeviceCounters, drop_cache, resident_bytes};
pub use file::{Access, File};
pub use kinds::{BackendKind, UseBackend};
pub use null::NullBackend;
pub use posix::PosixBackend;
pub use probe::{Probe, probe};
pub use stream::{Chunk, Pass, SECTOR, Stream, StreamSpec};
pub use uring::UringBackend;
pub use zones::{Zone, zones};

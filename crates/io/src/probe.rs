//! Check of whether `io_uring` works on this machine.

use std::sync::Arc;

use storlab_base::Result;

use crate::arena::Arena;
use crate::backend::{Backend, Queue};
use crate::uring::UringBackend;

/// Result of [`probe`].
#[derive(Clone, Debug)]
pub struct Probe {
    /// Whether `io_uring` works on this machine.
    pub uring: bool,
    /// Reason why `io_uring` does not work; empty if it does.
    pub reason: String,
    /// Features of `io_uring` that the kernel supports.
    pub features: Vec<&'static str>,
}

/// Find out whether `io_uring` works by creating a small ring.
pub fn probe() -> Probe {
    let attempt = || -> Result<UringBackend> {
        let arena =
            Arena::new(1, 4096).map_err(|e| storlab_base::Error::io("mmap", "buffers", 0, e))?;
        UringBackend::new(Arc::new(Vec::new()), arena, Queue::of_depth(1))
    };
    match attempt() {
        Ok(backend) => Probe { uring: true, reason: String::new(), features: backend.features() },
        Err(e) => Probe { uring: false, reason: e.to_string(), features: Vec::new() },
    }
}

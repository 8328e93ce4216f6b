//! Workload family `gpudirect`: I/O between storage and GPU memory through cuFile or through a
//! bounce buffer in host memory, and I/O to host memory only, for comparison.
//!
//! Building this crate requires neither cuFile nor the CUDA driver: runs that use them load them at
//! run time.

mod checked;
mod content;
mod cuda;
mod cufile;
mod details;
mod devices;
mod draw;
mod errors;
mod figures;
mod files;
mod first_pass;
mod library;
mod paths;
mod probe;
mod read_back;
mod route;
mod run;
mod shared;
mod spec;
mod stack;
mod worker;

pub use run::start;
pub use spec::GpuDirectJob;

//! Storage to GPU memory: by cuFile, through memory of the host, and to memory of the host only.
//!
//! Neither cuFile nor the CUDA driver is needed to build this: both are loaded by the runs that use
//! them.

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
mod nap;
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

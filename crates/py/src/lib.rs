//! Floor 3: Python bindings. Conversion only, no logic.

mod errors;
mod histogram;
mod run;
mod s3;
mod serve;

use pyo3::prelude::*;

/// The native engine of storlab.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::histogram::Histogram;
    #[pymodule_export]
    use super::monotonic_ns;
    #[pymodule_export]
    use super::run::{check_split_binary, memory_bytes, probe, spin, verify_pass, Run};
    #[pymodule_export]
    use super::s3::S3Client;
    #[pymodule_export]
    use super::serve::serve_s3;
}

/// Now on the run's clock (CLOCK_MONOTONIC), in ns.
#[pyfunction]
fn monotonic_ns() -> u64 {
    storlab_base::monotonic_ns()
}

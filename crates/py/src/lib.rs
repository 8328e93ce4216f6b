//! Python bindings of storlab's Rust crates. They convert types and contain no logic.

mod errors;
mod families;
mod histogram;
mod merge;
mod packed;
mod run;
mod s3;
mod serve;

use pyo3::prelude::*;

const TARGET_FEATURES: &str = env!("STORLAB_TARGET_FEATURES");
/// Processor features that the compiler assumed, separated by commas. `storlab/base/processor.py`
/// reads them from a section of the library file before it loads the library: on a processor
/// without these features, no code of the library could run to check them.
#[used]
#[unsafe(link_section = ".storlab.cpu")]
#[allow(unsafe_code)]
static BUILT_FOR: [u8; TARGET_FEATURES.len()] = *TARGET_FEATURES.as_bytes().first_chunk().unwrap();

/// Native engine of storlab.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::built_for;
    #[pymodule_export]
    use super::family_names;
    #[pymodule_export]
    use super::histogram::{Histogram, latency_columns};
    #[pymodule_export]
    use super::merge::Merger;
    #[pymodule_export]
    use super::monotonic_ns;
    #[pymodule_export]
    use super::packed::{pack, unpack};
    #[pymodule_export]
    use super::run::{
        Run, check_split_binary, memory_bytes, memory_group, probe, spin, verify_pass, zones,
    };
    #[pymodule_export]
    use super::s3::S3Client;
    #[pymodule_export]
    use super::serve::serve_s3;
}

/// Return the processor features that this library requires in addition to the architecture's
/// baseline. The names are those of the Rust compiler.
#[pyfunction]
fn built_for() -> Vec<String> {
    String::from_utf8_lossy(&BUILT_FOR).split_terminator(',').map(str::to_owned).collect()
}

/// Return the names of the workload families that this engine can run.
#[pyfunction]
fn family_names() -> Vec<&'static str> {
    families::names().collect()
}

/// Return the current time of the run's clock (CLOCK_MONOTONIC) in ns.
#[pyfunction]
fn monotonic_ns() -> u64 {
    storlab_base::monotonic_ns()
}

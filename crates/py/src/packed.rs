//! `storlab._native.pack` and `unpack`: what clients of a cluster send, made smaller.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Quick: five times as fast as zlib, both ways, and no larger.
const LEVEL: i32 = 1;

/// Content by Zstandard.
#[pyfunction]
pub fn pack<'py>(py: Python<'py>, content: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let packed = py.detach(|| zstd::bulk::compress(content, LEVEL)).map_err(wrong)?;
    Ok(PyBytes::new(py, &packed))
}

/// What `pack` was given. Raises ValueError for what is not whole.
#[pyfunction]
pub fn unpack<'py>(py: Python<'py>, packed: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let content = py.detach(|| zstd::stream::decode_all(packed)).map_err(wrong)?;
    Ok(PyBytes::new(py, &content))
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` gives it
fn wrong(error: std::io::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

//! Conversion of Rust errors into Python exceptions, for all bindings.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use storlab_base::Error;

/// Convert an error into a Python exception: `ValueError` for an invalid order, `OSError` with
/// errno and path for an operation that the kernel refused, and `RuntimeError` for failures of
/// devices, stores, drivers and backends.
pub fn to_python(error: Error) -> PyErr {
    match error {
        Error::Spec { .. } => PyValueError::new_err(error.to_string()),
        Error::Io { operation, path, source, .. } => {
            let Some(errno) = source.raw_os_error() else {
                // Errors of a name resolver, for example, have no errno, and errno 0 would mean
                // success.
                return PyOSError::new_err(format!("{operation} {path}: {source}"));
            };
            PyOSError::new_err((errno, format!("{operation}: {source}"), path))
        }
        Error::Short { .. }
        | Error::Hung { .. }
        | Error::NotReady { .. }
        | Error::Silent { .. }
        | Error::Then { .. }
        | Error::Dependency { .. }
        | Error::Backend { .. } => PyRuntimeError::new_err(error.to_string()),
    }
}

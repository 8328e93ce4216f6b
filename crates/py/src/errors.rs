//! Conversion of Rust errors to Python exceptions, for all bindings.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use storlab_base::Error;

/// Convert an error to a Python exception: `ValueError` for an invalid order, `OSError` with errno
/// and path if an operation on a file or device failed, and `RuntimeError` for failures of devices,
/// stores, drivers and backends.
pub fn to_python(error: Error) -> PyErr {
    match error {
        Error::Spec { .. } => PyValueError::new_err(error.to_string()),
        Error::Io { operation, path, source, .. } => {
            let Some(errno) = source.raw_os_error() else {
                // Errors of a name resolver, for example, have no errno. They must not get errno 0,
                // which means success.
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

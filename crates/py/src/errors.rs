//! The one place where Rust errors become Python exceptions.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use storlab_base::Error;

/// `ValueError` for a wrong order, `OSError` with errno and path for what the kernel refused, and
/// `RuntimeError` for what devices, stores, drivers and backends did not do.
pub fn to_python(error: Error) -> PyErr {
    match error {
        Error::Spec { .. } => PyValueError::new_err(error.to_string()),
        Error::Io { operation, path, source, .. } => {
            let Some(errno) = source.raw_os_error() else {
                // Of a resolver, say: errno 0 would be "success".
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

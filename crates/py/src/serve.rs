//! `storlab._native.serve_s3`: runs the embedded S3 server, in a process of its own.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use storlab_server::{Credentials, serve_for_parent};

use crate::errors::to_python;

/// Serve a bucket from a directory on a free port of 127.0.0.1, until stdin is closed or SIGTERM
/// arrives.
///
/// `config_json` has `directory`, `bucket`, `ready_fd` (file descriptor to which the line `{"port":
/// N}` is written once the server listens) and optionally `durable` (true: a PUT is answered when
/// the object is on the device; false: when it is in the page cache). `secrets` is the result of
/// `Credentials.as_dict()`.
///
/// Raises ValueError for an invalid config or a directory that another server uses, and OSError if
/// the directory, socket or file descriptor cannot be used.
#[pyfunction]
pub fn serve_s3(
    py: Python<'_>,
    config_json: &str,
    mut secrets: HashMap<String, String>,
) -> PyResult<()> {
    let mut take = |name: &str| {
        secrets
            .remove(name)
            .ok_or_else(|| PyValueError::new_err(format!("secrets: {name} is missing")))
    };
    let credentials =
        Credentials { access_key: take("access_key")?, secret_key: take("secret_key")? };
    py.detach(move || serve_for_parent(config_json, credentials)).map_err(to_python)
}

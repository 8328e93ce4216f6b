//! `storlab._native.serve_s3`: the embedded S3 server, in a process of its own.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use storlab_server::{Credentials, serve_for_parent};

use crate::errors::to_python;

/// Serves one bucket below a directory on a free port of 127.0.0.1, until stdin ends or SIGTERM.
///
/// `config_json` has `directory`, `bucket`, `ready_fd` (gets the line `{"port": N}` once the server
/// listens) and, if wanted, `durable` (false: an object that was put is in the page cache; true: on
/// the device). `secrets` is `Credentials.as_dict()`.
///
/// Raises ValueError for a config that is wrong or a directory that another server uses, OSError
/// where directory, socket or descriptor are refused.
#[pyfunction]
pub fn serve_s3(
    py: Python<'_>,
    config_json: &str,
    mut secrets: HashMap<String, String>,
) -> PyResult<()> {
    let mut take = |name: &str| {
        secrets.remove(name).ok_or_else(|| PyValueError::new_err(format!("secrets: no {name}")))
    };
    let credentials =
        Credentials { access_key: take("access_key")?, secret_key: take("secret_key")? };
    py.detach(move || serve_for_parent(config_json, credentials)).map_err(to_python)
}

//! `storlab._native.S3Client`: single S3 requests, for example for preparation and clean-up.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use storlab_base::{Error, lock};
use storlab_s3::{Credentials, Failure, OneShot, Reply, Store, StoreSpec};

use crate::errors::to_python;

/// Answer as a tuple: status, headers, body.
type PyReply<'py> = (u16, Vec<(String, String)>, Bound<'py, PyBytes>);

/// Client that sends signed requests to an S3 store, one at a time, over one persistent connection.
#[pyclass(module = "storlab._native", frozen)]
pub struct S3Client {
    inner: Mutex<OneShot>,
}

#[pymethods]
impl S3Client {
    /// Create a client for a store. `store_json` is the JSON of an `S3Store`.
    ///
    /// `secrets` is the result of `Credentials.as_dict()`. If it is empty, requests are not signed.
    /// Raises ValueError for an invalid store, and OSError if its name cannot be resolved or its
    /// ca_file cannot be read.
    #[new]
    fn new(py: Python<'_>, store_json: &str, secrets: BTreeMap<String, String>) -> PyResult<Self> {
        let spec: StoreSpec = serde_json::from_str(store_json)
            .map_err(|e| PyValueError::new_err(format!("store: {e}")))?;
        let made = py.detach(move || {
            let credentials = Credentials::from_map(&secrets)?;
            OneShot::new(Store::new(&spec, credentials)?)
        });
        match made {
            Ok(client) => Ok(S3Client { inner: Mutex::new(client) }),
            Err(error @ Error::Io { operation: "resolve", .. }) => {
                Err(with_fault(py, to_python(error), "name"))
            }
            Err(error) => Err(to_python(error)),
        }
    }

    /// Send a request to the first endpoint. Returns (status, headers with lower-case names, body),
    /// whatever the status. If `key` is None, the request is for the bucket itself.
    ///
    /// Raises OSError if no answer arrives, with errno if there is one. The message names the
    /// endpoint and, for TLS, the problem with the certificate. The exception has an attribute
    /// `fault`, a keyword for the kind of failure (see `Failure::fault`).
    fn request<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        key: Option<&str>,
        query: Vec<(String, String)>,
        body: &[u8],
        timeout_s: f64,
    ) -> PyResult<PyReply<'py>> {
        self.answer(py, timeout_s, move |client, timeout| {
            client.request(method, key, &query, body, timeout)
        })
    }

    /// Write an object if a condition holds: ("if-none-match", "*") or ("if-match", etag). A store
    /// that does not support conditional writes ignores the condition. Returns and raises like
    /// `request`.
    fn put_if<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        body: &[u8],
        condition: (String, String),
        timeout_s: f64,
    ) -> PyResult<PyReply<'py>> {
        self.answer(py, timeout_s, move |client, timeout| {
            client.put_if(key, body, (&condition.0, &condition.1), timeout)
        })
    }
}

impl S3Client {
    fn answer<'py>(
        &self,
        py: Python<'py>,
        timeout_s: f64,
        ask: impl FnOnce(&mut OneShot, Duration) -> Result<Reply, Failure> + Send,
    ) -> PyResult<PyReply<'py>> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|e| PyValueError::new_err(format!("timeout_s: {e}")))?;
        let answer = py.detach(move || {
            let mut client = lock(&self.inner);
            let name = client.endpoint_name().to_owned();
            ask(&mut client, timeout).map_err(|failure| (name, failure))
        });
        match answer {
            Ok(Reply { status, headers, body }) => Ok((status, headers, PyBytes::new(py, &body))),
            Err((name, failure)) => Err(failed(py, &name, &failure)),
        }
    }
}

fn failed(py: Python<'_>, endpoint: &str, failure: &Failure) -> PyErr {
    // Messages about connections already contain the endpoint.
    let message = failure.to_string();
    let text = if message.contains(endpoint) { message } else { format!("{endpoint}: {message}") };
    let error = match failure.errno() {
        Some(errno) => PyOSError::new_err((errno, text)),
        None => PyOSError::new_err(text),
    };
    with_fault(py, error, failure.fault())
}

/// Set the exception's attribute `fault` to the keyword of the failure.
fn with_fault(py: Python<'_>, error: PyErr, fault: &str) -> PyErr {
    match error.value(py).setattr("fault", fault) {
        Ok(()) => error,
        Err(other) => other,
    }
}

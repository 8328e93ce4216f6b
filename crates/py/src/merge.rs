//! `storlab._native.Merger`: merges the samples of a cluster's clients.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyBytesMethods};
use storlab_run::merge::{MergeClient, MergeRow};

use crate::errors::to_python;
use crate::run::{PyRow, as_json};

/// Samples of a client: name, clock offset, start and end of its window, rows.
type PyClient<'py> = (String, i64, u64, u64, Vec<PyRow<'py>>);

/// Merges the samples of a cluster's clients, each of which has its own clock.
///
/// Clients are added as their samples arrive. Memory use depends on the length of the window, not
/// on the number of clients.
#[pyclass(module = "storlab._native")]
pub struct Merger {
    inner: storlab_run::merge::Merger,
}

#[pymethods]
impl Merger {
    /// Create a merger for samples with intervals of `interval_ns`. Raises ValueError if that
    /// length is out of range.
    #[new]
    fn new(interval_ns: u64) -> PyResult<Self> {
        let inner = storlab_run::merge::Merger::new(interval_ns).map_err(to_python)?;
        Ok(Merger { inner })
    }

    /// Add the samples of clients, each as a tuple (name, offset, start of its window, end of its
    /// window, rows).
    ///
    /// The offset is how many ns the client's clock is ahead of the controller's. Window and rows
    /// are those that `Run.outcome` returned, with times of the client's clock. Adding many clients
    /// in one call is cheaper than one call for each.
    ///
    /// Raises ValueError for a client that was added before, a time that is out of range, or an
    /// invalid histogram. In the last case, the sums may already contain some of the clients.
    #[allow(clippy::needless_pass_by_value)] // Python passes the list by value.
    fn add(&mut self, py: Python<'_>, clients: Vec<PyClient<'_>>) -> PyResult<()> {
        let clients: Vec<_> = clients
            .iter()
            .map(|(name, offset_ns, start_ns, end_ns, rows)| MergeClient {
                name: name.as_str(),
                offset_ns: *offset_ns,
                window_ns: (*start_ns, *end_ns),
                rows: rows.iter().map(given).collect(),
            })
            .collect();
        py.detach(|| self.inner.add(&clients)).map_err(to_python)
    }

    /// Return the merged samples with times of the controller's clock: a JSON summary, and rows
    /// like those of `Run.outcome`.
    ///
    /// The JSON has:
    /// - `window_start_ns`, `window_end_ns`: the intersection of all windows, shortened to whole
    ///   intervals if some clients lack the last one
    /// - `kept_share`: length of this window divided by that of the longest client's window
    /// - `clients`: number of clients
    /// - `left_out`: number of client intervals outside the window, which are not counted
    /// - `totals`: sums of the rows per operation. Failed operations have the kind `any kind`, and
    ///   late operations are missing.
    ///
    /// The intervals of the rows are numbered from the start of the common window.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(String, Vec<PyRow<'py>>)> {
        let merged = py.detach(|| self.inner.finish());
        let summary = as_json(&merged)?;
        Ok((summary, merged.rows.into_iter().map(|row| to_row(py, row)).collect()))
    }
}

fn given<'r>(row: &'r PyRow<'_>) -> MergeRow<&'r str, &'r [u8]> {
    MergeRow {
        interval: row.0,
        start_ns: row.1,
        end_ns: row.2,
        kind: &row.3,
        operations: row.4,
        bytes: row.5,
        latency: row.6.as_bytes(),
        intended: row.7.as_ref().map(PyBytesMethods::as_bytes),
        worker_cpu_ns: row.8,
        ttfb: row.9.as_ref().map(PyBytesMethods::as_bytes),
        errors: row.10,
    }
}

fn to_row(py: Python<'_>, row: MergeRow<String, Vec<u8>>) -> PyRow<'_> {
    (
        row.interval,
        row.start_ns,
        row.end_ns,
        row.kind,
        row.operations,
        row.bytes,
        PyBytes::new(py, &row.latency),
        row.intended.map(|bytes| PyBytes::new(py, &bytes)),
        row.worker_cpu_ns,
        row.ttfb.map(|bytes| PyBytes::new(py, &bytes)),
        row.errors,
    )
}

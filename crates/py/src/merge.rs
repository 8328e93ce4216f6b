//! `storlab._native.Merger`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyBytesMethods};
use storlab_run::merge::{MergeClient, MergeRow};

use crate::errors::to_python;
use crate::run::{PyRow, as_json};

type PyClient<'py> = (String, i64, u64, u64, Vec<PyRow<'py>>);

/// Sums what the clients of a cluster measured, each on its own clock, as it comes: memory is for
/// one window, however many clients there are.
#[pyclass(module = "storlab._native")]
pub struct Merger {
    inner: storlab_run::merge::Merger,
}

#[pymethods]
impl Merger {
    /// For samples of `interval_ns`. Raises ValueError for a length that cannot be.
    #[new]
    fn new(interval_ns: u64) -> PyResult<Self> {
        let inner = storlab_run::merge::Merger::new(interval_ns).map_err(to_python)?;
        Ok(Merger { inner })
    }

    /// Add clients, each as (name, offset, start and end of its window, rows): its samples, as rows
    /// of `Run.outcome`, on its own clock, which is so many ns ahead of the controller's. Many at a
    /// time cost less than each alone.
    ///
    /// Raises ValueError for a client that was added before and times that cannot be; for what is
    /// no histogram, too, and the sums may then hold part of the clients.
    #[allow(clippy::needless_pass_by_value)] // as rows are taken out of Python's lists
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

    /// What all clients did together, on the controller's clock: JSON and rows, as of
    /// `Run.outcome`.
    ///
    /// The JSON has `window_start_ns` and `window_end_ns` (what all windows have in common, cut to
    /// whole intervals where the last one is not all clients'), `kept_share` of the longest window,
    /// `clients`, `left_out` (intervals of clients beyond the window, which are in no figure) and
    /// `totals` by operation, the sums of the rows: failed operations are there of `any kind`, and
    /// late ones are not told. The rows' intervals are counted from the common start.
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

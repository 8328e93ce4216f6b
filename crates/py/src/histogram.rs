//! `storlab._native.Histogram`.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyBytesMethods};
use storlab_base::{Figures, Result};

const LEAST_OF_A_THREAD: usize = 1000;

/// Mean, p50, p99 and maximum in ns of HdrHistogram V2 encodings, a list of each. All zeros where
/// nothing was counted. Raises ValueError for what is not such an encoding.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::type_complexity)] // as Python gives and takes them
pub fn latency_columns(
    py: Python<'_>,
    encoded: Vec<Bound<'_, PyBytes>>,
) -> PyResult<(Vec<f64>, Vec<u64>, Vec<u64>, Vec<u64>)> {
    let encoded: Vec<_> = encoded.iter().map(PyBytesMethods::as_bytes).collect();
    let figures = py.detach(|| figures_of(&encoded));
    let figures = figures.map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok((
        figures.iter().map(|figure| figure.mean_ns).collect(),
        figures.iter().map(|figure| figure.p50_ns).collect(),
        figures.iter().map(|figure| figure.p99_ns).collect(),
        figures.iter().map(|figure| figure.max_ns).collect(),
    ))
}

/// On all cores: a cluster has hundreds of thousands, when its run has ended.
fn figures_of(encoded: &[&[u8]]) -> Result<Vec<Figures>> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = encoded.len().div_ceil(cores).max(LEAST_OF_A_THREAD);
    let read = |part: &[&[u8]]| {
        let mut places = Vec::new();
        part.iter().map(|bytes| Figures::of_v2(bytes, &mut places)).collect::<Result<Vec<_>>>()
    };
    if encoded.len() <= share {
        return read(encoded); // a thread costs more than reading a few
    }
    thread::scope(|threads| {
        let parts: Vec<_> =
            encoded.chunks(share).map(|part| threads.spawn(move || read(part))).collect();
        let mut figures = Vec::with_capacity(encoded.len());
        for part in parts {
            figures.extend(part.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(figures)
    })
}

/// A latency histogram: HdrHistogram, 1 ns to 1 h, 3 significant digits.
#[pyclass(module = "storlab._native")]
#[derive(Default)]
pub struct Histogram {
    inner: storlab_base::Histogram,
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// From HdrHistogram's V2 encoding, not compressed. Raises ValueError when it is not one.
    #[staticmethod]
    fn from_v2(data: &[u8]) -> PyResult<Self> {
        let inner = storlab_base::Histogram::from_v2(data)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Histogram { inner })
    }

    /// HdrHistogram's V2 encoding, not compressed.
    fn to_v2<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.to_v2())
    }

    /// Count a value of ns, `count` times.
    #[pyo3(signature = (value_ns, count = 1))]
    fn record(&mut self, value_ns: u64, count: u64) {
        self.inner.record_n(value_ns, count);
    }

    /// Add all counts of another histogram.
    fn add(&mut self, other: &Histogram) {
        self.inner.add(&other.inner);
    }

    /// Number of values.
    #[getter]
    fn count(&self) -> u64 {
        self.inner.count()
    }

    /// Smallest value in ns; 0 when empty.
    #[getter]
    fn min_ns(&self) -> u64 {
        self.inner.min_ns()
    }

    /// Largest value in ns; 0 when empty.
    #[getter]
    fn max_ns(&self) -> u64 {
        self.inner.max_ns()
    }

    /// Mean in ns; 0 when empty.
    #[getter]
    fn mean_ns(&self) -> f64 {
        self.inner.mean_ns()
    }

    /// Standard deviation in ns; 0 when empty.
    #[getter]
    fn stdev_ns(&self) -> f64 {
        self.inner.stdev_ns()
    }

    /// The value in ns that `percent` of all values do not exceed; 0 when empty.
    fn percentile(&self, percent: f64) -> u64 {
        self.inner.percentile(percent)
    }

    /// `(lowest_ns, highest_ns, count)` of each bucket that is not empty.
    fn buckets(&self) -> Vec<(u64, u64, u64)> {
        self.inner.buckets()
    }
}

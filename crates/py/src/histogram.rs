//! `storlab._native.Histogram`, and summaries of many encoded histograms.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyBytesMethods};
use storlab_base::{Figures, Result};

/// Smallest number of encoded histograms for which it is worth starting a thread.
const LEAST_OF_A_THREAD: usize = 1000;

/// Return mean, p50, p99 and maximum of encoded latency histograms, in ns: four lists with one
/// value per histogram.
///
/// Each histogram is given in HdrHistogram V2 encoding. An empty one gives zeros. Raises ValueError
/// if the bytes of one are not such an encoding.
#[pyfunction]
// Python passes a list by value and gets a tuple of lists, so the types cannot be simpler.
#[allow(clippy::needless_pass_by_value, clippy::type_complexity)]
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

/// Summarise encoded histograms on all cores. At the end of a run, a cluster has hundreds of
/// thousands of them.
fn figures_of(encoded: &[&[u8]]) -> Result<Vec<Figures>> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = encoded.len().div_ceil(cores).max(LEAST_OF_A_THREAD);
    let read = |part: &[&[u8]]| {
        let mut places = Vec::new();
        part.iter().map(|bytes| Figures::of_v2(bytes, &mut places)).collect::<Result<Vec<_>>>()
    };
    if encoded.len() <= share {
        return read(encoded); // too few to be worth a thread
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

/// Latency histogram: HdrHistogram from 1 ns to 1 h with 3 significant digits.
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

    /// Decode a histogram from an uncompressed HdrHistogram V2 encoding. Raises ValueError if the
    /// bytes are not such an encoding.
    #[staticmethod]
    fn from_v2(data: &[u8]) -> PyResult<Self> {
        let inner = storlab_base::Histogram::from_v2(data)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Histogram { inner })
    }

    /// Encode the histogram as uncompressed HdrHistogram V2.
    fn to_v2<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.to_v2())
    }

    /// Record a value, in ns, `count` times.
    #[pyo3(signature = (value_ns, count = 1))]
    fn record(&mut self, value_ns: u64, count: u64) {
        self.inner.record_n(value_ns, count);
    }

    /// Add all counts of another histogram to this one.
    fn add(&mut self, other: &Histogram) {
        self.inner.add(&other.inner);
    }

    /// Number of recorded values.
    #[getter]
    fn count(&self) -> u64 {
        self.inner.count()
    }

    /// Smallest value in ns; 0 if empty.
    #[getter]
    fn min_ns(&self) -> u64 {
        self.inner.min_ns()
    }

    /// Largest value in ns; 0 if empty.
    #[getter]
    fn max_ns(&self) -> u64 {
        self.inner.max_ns()
    }

    /// Mean in ns; 0 if empty.
    #[getter]
    fn mean_ns(&self) -> f64 {
        self.inner.mean_ns()
    }

    /// Standard deviation in ns; 0 if empty.
    #[getter]
    fn stdev_ns(&self) -> f64 {
        self.inner.stdev_ns()
    }

    /// Return the percentile in ns: the value that `percent` of all values do not exceed. 0 if
    /// empty.
    fn percentile(&self, percent: f64) -> u64 {
        self.inner.percentile(percent)
    }

    /// Return `(lowest_ns, highest_ns, count)` of each bucket that is not empty.
    fn buckets(&self) -> Vec<(u64, u64, u64)> {
        self.inner.buckets()
    }
}

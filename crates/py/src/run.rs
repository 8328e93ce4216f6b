//! `storlab._native.Run`, and the verification pass.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use serde_json::json;
use storlab_base::lock;
use storlab_block::{BlockJob, Verifier};
use storlab_run::Row;
use storlab_run::order::Order as _;

use crate::errors::to_python;
use crate::families::start;

/// interval, start_ns, end_ns, operation, operations, bytes, latency, intended, worker_cpu_ns,
/// ttfb, errors
pub type PyRow<'py> = (
    u32,
    u64,
    u64,
    String,
    u64,
    u64,
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyBytes>>,
    u64,
    Option<Bound<'py, PyBytes>>,
    u64,
);

/// One run by the native engine. It starts at once or, where it is held, when it is told to.
#[pyclass(module = "storlab._native", frozen)]
pub struct Run {
    inner: storlab_run::Run,
}

#[pymethods]
impl Run {
    /// Start the run of a job of that kind ("block", "object"), given as JSON; `secrets` are what
    /// it needs and its order may not hold. With `held` it makes everything ready, and its load
    /// waits for `open_at`.
    ///
    /// Raises ValueError for an impossible order, OSError (errno, path) for what cannot be opened,
    /// RuntimeError for a backend that this machine does not have.
    #[new]
    #[pyo3(signature = (kind, job_json, secrets = None, held = false))]
    fn new(
        py: Python<'_>,
        kind: &str,
        job_json: &str,
        secrets: Option<BTreeMap<String, String>>,
        held: bool,
    ) -> PyResult<Self> {
        let secrets = secrets.unwrap_or_default();
        py.detach(|| start(kind, job_json, &secrets, held))
            .map(|inner| Run { inner })
            .map_err(to_python)
    }

    /// True once all of a held run is ready: it waits for `open_at`, or has.
    fn armed(&self) -> bool {
        self.inner.armed()
    }

    /// The load of a held run starts at `start_ns` on the run's clock, or at once where that has
    /// passed. Raises RuntimeError where the run is not held, or was told already.
    fn open_at(&self, start_ns: u64) -> PyResult<()> {
        if self.inner.open_at(start_ns) {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("the run is not held, or was told already when to start"))
    }

    /// The run is a part of a larger work, and meets the others: to be called before `open_at`.
    fn share(&self) {
        self.inner.meeting().share();
    }

    /// When this part will be ready for meeting `number` (from 0), on its clock, once it has said
    /// so; None when the time-out passed first.
    fn announced(&self, py: Python<'_>, number: u64, timeout_s: f64) -> PyResult<Option<u64>> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|e| PyValueError::new_err(format!("timeout_s: {e}")))?;
        Ok(py.detach(|| self.inner.meeting().announced(number, timeout)))
    }

    /// The next meeting that was not told yet: when all parts are ready for it, on this clock.
    /// Raises RuntimeError where this part has not announced it.
    fn tell(&self, ready_ns: u64) -> PyResult<()> {
        if self.inner.meeting().tell(ready_ns) {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("the run has announced no such meeting"))
    }

    /// All meetings until now: `announced_ns`, `told_ns` and `ready_ns` of each.
    fn met(&self) -> Vec<(u64, u64, u64)> {
        let met = self.inner.meeting().met();
        met.iter().map(|met| (met.announced_ns, met.told_ns, met.ready_ns)).collect()
    }

    /// JSON of `storlab.model.result.Snapshot`.
    fn snapshot(&self) -> String {
        let s = self.inner.snapshot();
        let bins = s.live.latency_bins.iter().flatten().enumerate();
        let bins: Vec<(usize, &u64)> = bins.filter(|(_, count)| **count > 0).collect();
        json!({
            "phase": s.phase.name,
            "elapsed_ns": s.elapsed_ns,
            "phase_ns": s.phase.length_ns,
            "operations_s": s.live.operations_s,
            "bytes_s": s.live.bytes_s,
            "latency_p99_ns": s.live.latency_p99_ns,
            "flush_p99_ns": s.live.flush_p99_ns,
            "latency_bins": bins,
            "cpu_percent": s.cpu_percent,
        })
        .to_string()
    }

    /// End the run soon, with status cancelled.
    fn cancel(&self) {
        self.inner.cancel();
    }

    /// True when the run has ended; False when the time-out passed first.
    #[pyo3(signature = (timeout_s = None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        let timeout = match timeout_s {
            None => None,
            Some(seconds) => Some(
                Duration::try_from_secs_f64(seconds)
                    .map_err(|e| PyValueError::new_err(format!("timeout_s: {e}")))?,
            ),
        };
        Ok(py.detach(|| self.inner.wait(timeout)))
    }

    /// What the run left behind: JSON of `RunOutcome` without its samples, and the samples as rows.
    /// Raises RuntimeError while the run is going on.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<(String, Vec<PyRow<'py>>)> {
        let Some(outcome) = self.inner.outcome() else {
            return Err(PyRuntimeError::new_err("the run is still going on: wait for it"));
        };
        let summary = as_json(&outcome.summary)?;
        Ok((summary, outcome.rows.into_iter().map(|row| to_row(py, row)).collect()))
    }
}

/// What Python reads as one of its models.
pub fn as_json(what: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(what).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

fn to_row(py: Python<'_>, row: Row) -> PyRow<'_> {
    (
        row.interval,
        row.start_ns,
        row.end_ns,
        row.kind.to_owned(),
        row.operations,
        row.bytes,
        PyBytes::new(py, &row.latency),
        row.intended.map(|bytes| PyBytes::new(py, &bytes)),
        row.worker_cpu_ns,
        row.ttfb.map(|bytes| PyBytes::new(py, &bytes)),
        row.errors,
    )
}

/// How often a verification pass looks whether it is to end.
const LOOK_NS: u64 = 100_000_000;

/// Read everything that a verify-mode job has written, and report what is not as it was left.
///
/// Signals are handled meanwhile; what a handler raises, such as KeyboardInterrupt, ends the pass.
/// `keep_going` is called about every 100 ms; the pass ends early, with a note in its report, when
/// it returns False.
///
/// Returns JSON of `VerifyReport`. Raises ValueError for a job without verify mode, OSError for
/// what cannot be opened.
#[pyfunction]
#[pyo3(signature = (job_json, keep_going = None))]
pub fn verify_pass(
    py: Python<'_>,
    job_json: &str,
    keep_going: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let keep_going = keep_going.map(|ask| ask.clone().unbind());
    let raised = Mutex::new(None);
    let looked_ns = AtomicU64::new(0);
    let goes_on = || {
        let now = storlab_base::monotonic_ns();
        if now - looked_ns.load(Relaxed) < LOOK_NS {
            return true;
        }
        looked_ns.store(now, Relaxed);
        Python::attach(|py| ask(py, keep_going.as_ref())).unwrap_or_else(|error| {
            *lock(&raised) = Some(error);
            false
        })
    };
    let report = py
        .detach(|| {
            let job = BlockJob::from_json(job_json)?;
            let spec = job.verify.as_ref().ok_or_else(|| {
                storlab_base::Error::spec("verify", "the job is not in verify mode", "set it")
            })?;
            Verifier::open(spec, &job.members, job.seed)?.pass_while(job.direct, &goes_on)
        })
        .map_err(to_python)?;
    if let Some(error) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    as_json(&report)
}

fn ask(py: Python<'_>, keep_going: Option<&Py<PyAny>>) -> PyResult<bool> {
    py.check_signals()?;
    keep_going.map_or(Ok(true), |ask| ask.call0(py)?.is_truthy(py))
}

/// Look through what a preprocessing run left in a directory, and digest it.
///
/// Returns JSON: `details.output` of the run. Raises ValueError for an output that is empty or
/// contradicts itself, OSError for what cannot be read.
#[pyfunction]
pub fn check_split_binary(py: Python<'_>, path: &str) -> PyResult<String> {
    let output = py.detach(|| storlab_preprocess::check(Path::new(path))).map_err(to_python)?;
    Ok(output.to_string())
}

/// JSON of what this machine offers: `uring` {available, reason, features} and `clock` {source,
/// ghz}; and whether this library was `optimised`, which a build for tests is not.
#[pyfunction]
pub fn probe() -> String {
    let probed = storlab_io::probe();
    let clock = storlab_base::Clock::new();
    json!({
        "uring": {"available": probed.uring, "reason": probed.reason, "features": probed.features},
        "clock": {"source": clock.source_name(), "ghz": clock.ghz()},
        "optimised": !cfg!(debug_assertions),
    })
    .to_string()
}

/// Keep every core that this process may use busy for so long, and say what it did not get.
///
/// Returns JSON: `threads`, `length_ns`, `largest_gap_ns` (one of them did not run), `lost_percent`
/// (of their time), `waited_percent` of it in run queues and `steal_percent` of all cores, both
/// null where the kernel does not tell. Raises ValueError for a time that cannot be.
#[pyfunction]
pub fn spin(py: Python<'_>, seconds: f64) -> PyResult<String> {
    let length = Duration::try_from_secs_f64(seconds)
        .map_err(|e| PyValueError::new_err(format!("seconds: {e}")))?;
    let spun = py.detach(|| storlab_run::spin(length));
    as_json(&spun)
}

/// Memory that this process may use, in bytes: the machine's, or what its control groups leave.
#[pyfunction]
pub fn memory_bytes() -> u64 {
    storlab_run::memory_bytes()
}

/// Directory of the control group that limits `memory_bytes`; None if the machine's RAM does.
#[pyfunction]
pub fn memory_group() -> Option<String> {
    storlab_run::host_memory().group.map(|group| group.display().to_string())
}

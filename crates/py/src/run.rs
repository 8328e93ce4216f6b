//! `storlab._native.Run`, the verification pass, and measurements of this machine.

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

/// Row of a run's samples, one per interval and operation: interval, start_ns, end_ns, operation,
/// operations, bytes, latency, intended, worker_cpu_ns, ttfb, errors. The operation of a group of
/// jobs is named `GROUP.read`.
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

/// Run of the native engine. Its load starts when the workers are ready. If the run is held, the
/// load waits for the time passed to `open_at`.
#[pyclass(module = "storlab._native", frozen)]
pub struct Run {
    inner: storlab_run::Run,
}

#[pymethods]
impl Run {
    /// Start a run of the workload family `kind` (such as "block" or "object"). `job_json`
    /// describes the run.
    ///
    /// `secrets` are credentials, which `job_json` must not contain. If `held` is set, the workers
    /// get ready and then wait for `open_at`. Raises ValueError for an invalid job, OSError (errno,
    /// path) for a file or device that cannot be opened, and RuntimeError for a backend that this
    /// machine does not support.
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

    /// Return whether all workers of a held run are ready. The result stays True after `open_at`.
    fn armed(&self) -> bool {
        self.inner.armed()
    }

    /// Start the load of a held run at `start_ns` on the run's clock, or at once if that time has
    /// passed. Raises RuntimeError if the run is not held or already has a start time.
    fn open_at(&self, start_ns: u64) -> PyResult<()> {
        if self.inner.open_at(start_ns) {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "the run is not held, or already has a start time: call open_at once, on a held run",
        ))
    }

    /// Mark the run as one part of a distributed run, which synchronises with the other parts. Must
    /// be called before `open_at`.
    fn share(&self) {
        self.inner.meeting().share();
    }

    /// Return the time at which this part will be ready for synchronisation point `number` (from
    /// 0), on its clock. Waits until this part has announced that time; None if the time-out passes
    /// first.
    fn announced(&self, py: Python<'_>, number: u64, timeout_s: f64) -> PyResult<Option<u64>> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|e| PyValueError::new_err(format!("timeout_s: {e}")))?;
        Ok(py.detach(|| self.inner.meeting().announced(number, timeout)))
    }

    /// Set the time at which all parts are ready for the next open synchronisation point, on this
    /// part's clock. Raises RuntimeError if this part has not announced that point yet.
    fn tell(&self, ready_ns: u64) -> PyResult<()> {
        if self.inner.meeting().tell(ready_ns) {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "the run has not announced its next synchronisation point yet: call announced first",
        ))
    }

    /// For each completed synchronisation point, return when this part of the distributed run
    /// announced when it would be ready (`announced_ns`), when it received the time at which all
    /// parts are ready (`told_ns`), and that time (`ready_ns`).
    fn met(&self) -> Vec<(u64, u64, u64)> {
        let met = self.inner.meeting().met();
        met.iter().map(|met| (met.announced_ns, met.told_ns, met.ready_ns)).collect()
    }

    /// Return the current state of the run as the JSON of a `storlab.model.result.Snapshot`.
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

    /// Stop the run as soon as possible. Its status becomes cancelled.
    fn cancel(&self) {
        self.inner.cancel();
    }

    /// Wait until the run has ended. Returns False if the time-out passes first.
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

    /// Return the outcome of an ended run: the JSON of a `RunOutcome` without samples, and the
    /// samples as rows. Raises RuntimeError while the run is in progress.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<(String, Vec<PyRow<'py>>)> {
        let Some(outcome) = self.inner.outcome() else {
            return Err(PyRuntimeError::new_err("the run has not ended yet: call wait first"));
        };
        let summary = as_json(&outcome.summary)?;
        Ok((summary, outcome.rows.into_iter().map(|row| to_row(py, row)).collect()))
    }
}

/// Serialise a value to JSON, which Python parses into a model.
pub fn as_json(what: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(what).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

fn to_row(py: Python<'_>, row: Row) -> PyRow<'_> {
    (
        row.interval,
        row.start_ns,
        row.end_ns,
        match row.group {
            Some(group) => format!("{group}.{}", row.kind),
            None => row.kind.to_owned(),
        },
        row.operations,
        row.bytes,
        PyBytes::new(py, &row.latency),
        row.intended.map(|bytes| PyBytes::new(py, &bytes)),
        row.worker_cpu_ns,
        row.ttfb.map(|bytes| PyBytes::new(py, &bytes)),
        row.errors,
    )
}

/// Time between two checks of whether a verification pass should stop, in ns.
const LOOK_NS: u64 = 100_000_000;

/// Read all data that a job in verify mode has written, and report what differs from the job's
/// record of its writes.
///
/// Python signal handlers run during the pass. An exception that they raise, such as
/// KeyboardInterrupt, ends it. `keep_going` is called about every 100 ms. If it returns False, the
/// pass ends early, with a note in its report.
///
/// Returns the JSON of a `VerifyReport`. Raises ValueError for a job without verify mode, and
/// OSError for a file or device that cannot be opened.
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
                storlab_base::Error::spec("verify", "is not set", "use a job in verify mode")
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

/// Check the output directory of a preprocessing run, and compute its digest.
///
/// Returns the run's `details.output` as JSON. Raises ValueError if the output is empty or
/// inconsistent, and OSError if it cannot be read.
#[pyfunction]
pub fn check_split_binary(py: Python<'_>, path: &str) -> PyResult<String> {
    let output = py.detach(|| storlab_preprocess::check(Path::new(path))).map_err(to_python)?;
    Ok(output.to_string())
}

/// Return as JSON which features this machine and this library have.
///
/// The JSON has `uring` {available, reason, features}, `clock` {source, ghz} and `optimised`, which
/// is false for a debug build of this library.
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

/// Keep every core that this process may use busy for `seconds`, and measure how much of that time
/// its threads did not run.
///
/// Returns JSON with `threads`, `length_ns`, `largest_gap_ns` (longest time in which a thread did
/// not run), `lost_percent` (part of the threads' time in which they did not run), `waited_percent`
/// (part that they waited in run queues) and `steal_percent` (part of all cores' time that the
/// hypervisor took). The last two are null if the kernel does not report them. Raises ValueError if
/// `seconds` is invalid.
#[pyfunction]
pub fn spin(py: Python<'_>, seconds: f64) -> PyResult<String> {
    let length = Duration::try_from_secs_f64(seconds)
        .map_err(|e| PyValueError::new_err(format!("seconds: {e}")))?;
    let spun = py.detach(|| storlab_run::spin(length));
    as_json(&spun)
}

/// Return how many bytes of memory this process may use: the machine's RAM, or the lowest limit of
/// its control groups.
#[pyfunction]
pub fn memory_bytes() -> u64 {
    storlab_run::memory_bytes()
}

/// Return the directory of the control group whose limit `memory_bytes` returns; None if the
/// machine's RAM is the limit.
#[pyfunction]
pub fn memory_group() -> Option<String> {
    storlab_run::host_memory().group.map(|group| group.display().to_string())
}

/// Zone of a drive as plain numbers, in the order in which [`zones`] describes them.
type Zone = (u64, u64, u64, u64);

/// Return start, length, capacity and written bytes of each usable zone of a host-managed zoned
/// device that accepts only sequential writes; None if the device has none.
///
/// Raises OSError if the device cannot be opened.
#[pyfunction]
pub fn zones(path: &str) -> PyResult<Option<Vec<Zone>>> {
    let failed = |e| to_python(storlab_base::Error::io("open", path, 0, e));
    let zones = storlab_io::zones(Path::new(path)).map_err(failed)?;
    Ok(zones.map(|all| all.iter().map(|z| (z.start, z.len, z.capacity, z.written)).collect()))
}

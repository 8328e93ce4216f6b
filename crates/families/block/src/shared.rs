//! State shared by the worker threads of a run.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock};

use storlab_base::Result;
use storlab_io::{BackendKind, File};
use storlab_run::arming::ARM_TIMEOUT_NS;
use storlab_run::timed::{Message, Plan, Timed};

use crate::layout::Layout;
use crate::spec::BlockJob;
use crate::verify::{Verifier, VerifyReport};

/// State shared by the workers of one block run: the common state of timed runs, plus files and
/// verification. Dropping it closes the files and the verify state.
pub struct Shared {
    /// Coordination with the run: window, stop signals and messages.
    pub timed: Timed,
    /// Parsed description of the run.
    pub job: BlockJob,
    /// Layout of each job.
    pub layouts: Vec<Layout>,
    /// Backend in use.
    pub backend: BackendKind,
    /// Open files or devices, in the order of [`BlockJob::members`]; empty for backend `null`.
    pub files: Arc<Vec<File>>,
    /// Writer and checker of block headers in verify mode; `None` otherwise.
    pub verifier: Option<Verifier>,
    /// Result of the read checks made during the load.
    pub verified: Mutex<Option<VerifyReport>>,
    /// Names of the backend's features, set by the first worker.
    pub features: OnceLock<Vec<&'static str>>,
    /// Reason for using `posix` if `auto` could not use `uring`.
    pub note: Option<String>,
}

impl Shared {
    /// Create the shared state, without files and verifier, and the receiver of the workers'
    /// messages.
    ///
    /// # Errors
    /// [`storlab_base::Error::Spec`] if the layout does not fit a job.
    pub fn new(
        job: BlockJob,
        backend: BackendKind,
        note: Option<String>,
    ) -> Result<(Self, Receiver<Message>)> {
        let (timed, receiver) = Timed::new(Plan {
            workers: job.jobs,
            ramp_ns: job.ramp_ns,
            window_ns: job.window_ns,
            interval_ns: job.interval_ns,
            drain_timeout_ns: job.drain_timeout_ns,
            arm_timeout_ns: ARM_TIMEOUT_NS,
            open_loop: job.open_loop(),
            kinds: job.kinds(),
            prepares: false,
        });
        let shared = Shared {
            timed,
            layouts: (0..job.jobs)
                .map(|index| Layout::for_job(&job, index))
                .collect::<Result<_>>()?,
            job,
            backend,
            files: Arc::default(),
            verifier: None,
            verified: Mutex::default(),
            features: OnceLock::new(),
            note,
        };
        Ok((shared, receiver))
    }
}

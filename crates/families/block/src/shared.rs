//! What the threads of a run share.

use std::ops::Deref;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock};

use storlab_io::File;
use storlab_run::arming::ARM_TIMEOUT_NS;
use storlab_run::timed::{Message, Plan, Timed};

use crate::spec::{BackendKind, BlockJob};
use crate::verify::{Verifier, VerifyReport};

/// A timed run, and what block I/O adds to it. Gone when the run has ended, and files and verify
/// state with it.
pub struct Shared {
    timed: Timed,
    /// The order.
    pub job: BlockJob,
    /// `uring`, `posix` or `null`.
    pub backend: BackendKind,
    /// One for each member; none for the null backend.
    pub files: Arc<Vec<File>>,
    /// In verify mode.
    pub verifier: Option<Verifier>,
    /// What reads found during the load.
    pub verified: Mutex<Option<VerifyReport>>,
    /// Of the backend, once a worker has one.
    pub features: OnceLock<Vec<&'static str>>,
    /// Why it is this backend, where that was not asked for.
    pub note: Option<String>,
}

impl Shared {
    /// Of a run that has not begun, and what its workers will say.
    pub fn new(
        job: BlockJob,
        backend: BackendKind,
        files: Vec<File>,
        verifier: Option<Verifier>,
        note: Option<String>,
    ) -> (Self, Receiver<Message>) {
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
        let (verified, features) = (Mutex::new(None), OnceLock::new());
        let files = Arc::new(files);
        (Shared { timed, job, backend, files, verifier, verified, features, note }, receiver)
    }
}

impl Deref for Shared {
    type Target = Timed;

    fn deref(&self) -> &Timed {
        &self.timed
    }
}

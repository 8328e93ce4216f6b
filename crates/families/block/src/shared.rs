//! State shared by the worker threads of a run.

use std::sync::mpsc::Receiver;
use std::sync::{Mutex, OnceLock};

use storlab_io::BackendKind;
use storlab_run::arming::ARM_TIMEOUT_NS;
use storlab_run::timed::{Message, Plan, Timed};

use crate::groups::Group;
use crate::verify::{Verifier, VerifyReport};

/// State shared by the workers of one block run: the common state of timed runs, plus files and
/// verification. Dropping it closes the files and the verify state.
pub struct Shared {
    /// Coordination with the run: window, stop signals and messages.
    pub timed: Timed,
    /// Groups of jobs; one without a name if the run has none.
    pub groups: Vec<Group>,
    /// Backend in use.
    pub backend: BackendKind,
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
    /// messages. `groups` has at least one group.
    pub fn new(
        groups: Vec<Group>,
        backend: BackendKind,
        note: Option<String>,
    ) -> (Self, Receiver<Message>) {
        let job = &groups[0].job;
        let (timed, receiver) = Timed::new(Plan {
            workers: groups.iter().map(|group| group.job.jobs).sum(),
            ramp_ns: job.ramp_ns,
            window_ns: job.window_ns,
            interval_ns: job.interval_ns,
            drain_timeout_ns: job.drain_timeout_ns,
            arm_timeout_ns: ARM_TIMEOUT_NS,
            open_loop: groups.iter().any(|group| group.job.open_loop()),
            kinds: groups.iter().enumerate().flat_map(|(index, g)| g.kinds(index)).collect(),
            groups: groups.iter().filter_map(Group::counted).collect(),
            prepares: false,
        });
        let shared = Shared {
            timed,
            groups,
            backend,
            verifier: None,
            verified: Mutex::default(),
            features: OnceLock::new(),
            note,
        };
        (shared, receiver)
    }

    /// Return the number of the group of worker `index`, and the number of its job in that group.
    pub fn group_of(&self, index: usize) -> (usize, usize) {
        let after = self.groups.partition_point(|group| group.first <= index);
        let number = after.saturating_sub(1);
        (number, index - self.groups[number].first)
    }
}

//! State shared by the worker threads of a run.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock};

use storlab_base::Result;
use storlab_io::{BackendKind, File, Zone};
use storlab_run::arming::ARM_TIMEOUT_NS;
use storlab_run::groups::Group;
use storlab_run::timed::{Message, Plan, Timed};

use crate::layout::Layout;
use crate::spec::BlockJob;
use crate::verify::{Verifier, VerifyReport};
use crate::zones::{Resets, zones_of};

/// State shared by the workers of one block run: the common state of timed runs, plus files and
/// verification. Dropping it closes the files and the verify state.
pub struct Shared {
    /// Coordination with the run: window, stop signals and messages.
    pub timed: Timed,
    /// Groups of jobs; one without a name if the run has none.
    pub groups: Vec<Group<BlockJob>>,
    /// Layout of each worker.
    pub layouts: Vec<Layout>,
    /// Open files or devices of each group, in the order of [`BlockJob::members`]; empty for
    /// backend `null`.
    pub files: Vec<Arc<Vec<File>>>,
    /// Backend in use.
    pub backend: BackendKind,
    /// Writer and checker of block headers in verify mode; `None` otherwise.
    pub verifier: Option<Verifier>,
    /// Result of the read checks made during the load.
    pub verified: Mutex<Option<VerifyReport>>,
    /// Zones of zoned devices that were reset.
    pub resets: Mutex<Resets>,
    /// Names of the backend's features, set by the first worker.
    pub features: OnceLock<Vec<&'static str>>,
    /// Reason for using `posix` if `auto` could not use `uring`.
    pub note: Option<String>,
}

impl Shared {
    /// Create the shared state, without files and verifier, and the receiver of the workers'
    /// messages. `groups` has at least one group.
    ///
    /// # Errors
    /// [`storlab_base::Error::Spec`] if the layout of its files does not fit a job,
    /// [`storlab_base::Error::Io`] if a zoned device does not report its zones.
    pub fn new(
        groups: Vec<Group<BlockJob>>,
        backend: BackendKind,
        note: Option<String>,
    ) -> Result<(Self, Receiver<Message>)> {
        let layouts_of = |Group { job, workers, .. }: &Group<BlockJob>| {
            let layout = |own, zones: &Option<Vec<Vec<Zone>>>| match zones {
                Some(zones) => Layout::on_zones(job, own, zones),
                None => Layout::for_job(job, own),
            };
            let zones = zones_of(job, backend)?;
            (0..*workers).map(|own| layout(own, &zones)).collect::<Result<Vec<_>>>()
        };
        let layouts = groups.iter().map(layouts_of).collect::<Result<Vec<_>>>()?.concat();
        let job = &groups[0].job;
        let (timed, receiver) = Timed::new(Plan {
            workers: layouts.len(),
            ramp_ns: job.ramp_ns,
            window_ns: job.window_ns,
            interval_ns: job.interval_ns,
            drain_timeout_ns: job.drain_timeout_ns,
            arm_timeout_ns: ARM_TIMEOUT_NS,
            open_loop: groups.iter().any(|group| group.open_loop),
            kinds: groups.iter().flat_map(|group| group.kinds.clone()).collect(),
            groups: groups.iter().filter_map(Group::counted).collect(),
            prepares: false,
        });
        let shared = Shared {
            timed,
            files: vec![Arc::default(); groups.len()],
            groups,
            layouts,
            backend,
            verifier: None,
            verified: Mutex::default(),
            resets: Mutex::default(),
            features: OnceLock::new(),
            note,
        };
        Ok((shared, receiver))
    }
}

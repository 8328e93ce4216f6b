//! State shared by the worker threads of a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock};

use storlab_base::{Error, lock};
use storlab_run::timed::{Message, Plan, Timed};

use crate::checked::Checked;
use crate::devices::{Devices, Reading};
use crate::errors::Fault;
use crate::figures::{Compared, Registration};
use crate::route::Counters;
use crate::spec::GpuDirectJob;
use crate::stack::Stack;

/// Index of a file, with the (offset, length) pairs of a worker's last writes to it.
pub type Written = (usize, Vec<(u64, u32)>);

/// State shared by the workers of one run: the common state of timed runs, plus GPUs, libraries and
/// verification.
pub struct Shared {
    /// Coordination with the run: window, stop signals and messages.
    pub timed: Timed,
    /// Parsed description of the run.
    pub job: GpuDirectJob,
    stack: OnceLock<Option<Arc<Stack>>>,
    /// The stack (GPUs and libraries) if it is open. Reading this field, unlike calling `stack`,
    /// does not open it.
    kept: Mutex<Option<Arc<Stack>>>,
    /// Number of workers that are ready.
    arrived: AtomicUsize,
    /// Counters of cuFile and of the block devices, read before the load.
    pub before: OnceLock<(Counters, Option<Reading>)>,
    /// Block devices that store the target's files.
    pub devices: Devices,
    /// Bytes moved by successful operations, including the ramp.
    pub moved_bytes: AtomicU64,
    /// Cost of registering all workers' buffers and files with cuFile, without the shared buffers.
    pub registration: Mutex<Registration>,
    /// Result of verifying the data path before the load (first pass).
    pub first_pass: Mutex<Option<Compared>>,
    /// Record of the files that an earlier run has verified.
    pub checked: Checked,
    /// Last writes of each worker, to be verified after the load.
    pub written: Mutex<Vec<Written>>,
    /// Names of the kernel's and driver's features that the workers' data paths used.
    pub features: Mutex<BTreeSet<&'static str>>,
}

impl Shared {
    /// Create the shared state, and the receiver of the workers' messages.
    pub fn new(job: GpuDirectJob) -> (Self, Receiver<Message>) {
        let (timed, receiver) = Timed::new(Plan {
            workers: job.workers,
            ramp_ns: job.ramp_ns,
            window_ns: job.window_ns,
            interval_ns: job.interval_ns,
            drain_timeout_ns: job.drain_timeout_ns,
            arm_timeout_ns: job.arm_timeout_ns,
            open_loop: job.arrival.open_loop(),
            kinds: job.mix.kinds(false),
            groups: Vec::new(),
            prepares: false,
        });
        let devices = Devices::of(&job.members);
        let checked = Checked::of(&job);
        let shared = Shared {
            timed,
            job,
            stack: OnceLock::new(),
            kept: Mutex::default(),
            arrived: AtomicUsize::new(0),
            before: OnceLock::new(),
            devices,
            moved_bytes: AtomicU64::new(0),
            registration: Mutex::default(),
            first_pass: Mutex::default(),
            checked,
            written: Mutex::default(),
            features: Mutex::default(),
        };
        (shared, receiver)
    }

    /// Return the stack (open GPUs and libraries). The first caller opens it while the others wait.
    ///
    /// `None` if it cannot be opened; the run then fails with the reason.
    pub fn stack(&self) -> Option<Arc<Stack>> {
        let open = || match Stack::open(&self.job, || self.timed.control.stopping()) {
            Ok(stack) => {
                let stack = Arc::new(stack);
                *lock(&self.kept) = Some(stack.clone());
                Some(stack)
            }
            // The run was cancelled, so this error need not be reported.
            Err(_) if self.timed.control.cancelled() => None,
            Err(error) => {
                self.timed.fail(error);
                None
            }
        };
        self.stack.get_or_init(open).clone()
    }

    /// Return the stack (open GPUs and libraries) if it is open; do not open it.
    pub fn opened(&self) -> Option<Arc<Stack>> {
        lock(&self.kept).clone()
    }

    /// Count a worker as ready. The last worker to be ready reads the counters.
    pub fn arrive(&self) {
        if self.arrived.fetch_add(1, Relaxed) + 1 == self.job.workers
            && let Some(stack) = self.opened()
        {
            let _ = self.before.set((Counters::read(&stack), self.devices.now()));
        }
    }

    /// Fail the run with `error`. If `fault` makes the CUDA context unusable, the context is reset
    /// after the run.
    pub fn fail_by(&self, fault: Fault, error: Error) {
        self.note_fault(fault);
        self.timed.fail(error);
    }

    /// If `fault` makes the CUDA context unusable, mark the context as lost, so that the next run
    /// gets a new context.
    pub fn note_fault(&self, fault: Fault) {
        if fault.sticky()
            && let Some(stack) = self.opened()
        {
            stack.mark_context_lost();
        }
    }

    /// Add one worker's cost of registering buffers and files with cuFile.
    pub fn add_registration(&self, cost: &Registration) {
        *lock(&self.registration) += cost;
    }

    /// Add the result of one worker's first pass (verification of the data path).
    pub fn add_first_pass(&self, compared: &Compared) {
        *lock(&self.first_pass).get_or_insert_default() += compared;
    }
}

//! What the threads of a run share.

use std::collections::BTreeSet;
use std::ops::Deref;
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

/// What a worker wrote: the file's number, and places in it with their lengths.
pub type Written = (usize, Vec<(u64, u32)>);

/// A timed run, and what this family adds to it.
pub struct Shared {
    timed: Timed,
    /// The order.
    pub job: GpuDirectJob,
    stack: OnceLock<Option<Arc<Stack>>>,
    /// The same for what is told at the end.
    kept: Mutex<Option<Arc<Stack>>>,
    /// Workers that are ready, or have ended before they were.
    arrived: AtomicUsize,
    /// Before the load.
    pub before: OnceLock<(Counters, Option<Reading>)>,
    /// Under the members.
    pub devices: Devices,
    /// By operations that succeeded, ramp included.
    pub moved_bytes: AtomicU64,
    /// Of all workers, beside what the stack has of its own.
    pub registration: Mutex<Registration>,
    /// Of the first pass.
    pub first_pass: Mutex<Option<Compared>>,
    /// Files that need no first pass.
    pub checked: Checked,
    /// What the workers remember of their writes.
    pub written: Mutex<Vec<Written>>,
    /// Of the movers.
    pub features: Mutex<BTreeSet<&'static str>>,
}

impl Shared {
    /// Of a run that has not begun, and what its workers will say.
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

    /// GPUs and libraries, which the first who asks opens while the others wait. `None` where they
    /// cannot be had: the run has failed with the reason.
    pub fn stack(&self) -> Option<Arc<Stack>> {
        let open = || match Stack::open(&self.job, || self.control.stopping()) {
            Ok(stack) => {
                let stack = Arc::new(stack);
                *lock(&self.kept) = Some(stack.clone());
                Some(stack)
            }
            // Who gave up waiting wants no reason.
            Err(_) if self.control.cancelled() => None,
            Err(error) => {
                self.fail(error);
                None
            }
        };
        self.stack.get_or_init(open).clone()
    }

    /// The same, once it was opened.
    pub fn opened(&self) -> Option<Arc<Stack>> {
        lock(&self.kept).clone()
    }

    /// A worker is ready; with the last of them the counters are read.
    pub fn arrive(&self) {
        if self.arrived.fetch_add(1, Relaxed) + 1 == self.job.workers
            && let Some(stack) = self.opened()
        {
            let _ = self.before.set((Counters::read(&stack), self.devices.now()));
        }
    }

    /// The run ends as failed.
    pub fn fail_by(&self, fault: Fault, error: Error) {
        self.note_fault(fault);
        self.fail(error);
    }

    /// Where a GPU's context is of no use any more, the next run gets a new one.
    pub fn note_fault(&self, fault: Fault) {
        if fault.sticky()
            && let Some(stack) = self.opened()
        {
            stack.fail_for_good();
        }
    }

    /// What one worker's registrations took.
    pub fn add_registration(&self, cost: &Registration) {
        *lock(&self.registration) += cost;
    }

    /// What one worker's first pass found.
    pub fn add_first_pass(&self, compared: &Compared) {
        *lock(&self.first_pass).get_or_insert_default() += compared;
    }
}

impl Deref for Shared {
    type Target = Timed;

    fn deref(&self) -> &Timed {
        &self.timed
    }
}

//! What the threads of a run share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use storlab_base::{lock, Error, Result};
use storlab_run::control::Control;
use storlab_run::cpu::WindowCpu;
use storlab_run::sampling::Report;
use storlab_run::window::Window;
use storlab_s3::{Failure, Store};

use super::kind::ObjectKind;
use super::pool::Objects;
use super::spec::{ObjectJob, Routing};
use super::tasks::Progress;

/// So many wrong bodies are named, and as many short ones.
const BAD_BODIES: usize = 3;

/// What workers tell the coordinator.
pub enum Message {
    /// Runtime made.
    Ready,
    /// An interval has ended.
    Interval(Box<Report>),
    /// The worker has.
    Done {
        /// Of the worker.
        job: usize,
        /// What it left, or why it ended.
        ended: Box<Result<WorkerEnd>>,
    },
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerEnd {
    /// When its last request succeeded.
    pub last_completion_ns: u64,
    /// Open loop: requests due inside the window that were never sent.
    pub unserved: u64,
}

/// Counted over the whole run, ramp and drain included.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Counts {
    pub connections: AtomicU64,
    pub retries: AtomicU64,
    pub deleted_keys: AtomicU64,
    pub repeated_draws: AtomicU64,
    pub aborts_failed: AtomicU64,
    pub rests: AtomicU64,
    pub succeeded: AtomicU64,
    pub failed: AtomicU64,
}

/// What is told in words.
#[derive(Default)]
pub struct Said {
    /// An example of each kind of error.
    pub errors: BTreeMap<String, String>,
    /// That came whole, and are not what was stored.
    pub wrong: Bodies,
    /// That the connection ended before their announced end.
    pub short: Bodies,
}

/// Bodies of one fault.
#[derive(Default)]
pub struct Bodies {
    /// The first few.
    pub examples: Vec<String>,
    /// How many there were.
    pub count: u64,
}

/// See the module.
pub struct Shared {
    /// The order.
    pub job: ObjectJob,
    /// Where it is carried out.
    pub store: Store,
    /// What is there.
    pub objects: Objects,
    /// Of fill and clean.
    pub progress: Progress,
    /// Worker threads.
    pub threads: usize,
    /// How the run is ended.
    pub control: Arc<Control>,
    /// Of the process, at the window's ends.
    pub cpu: WindowCpu,
    /// For notes and details.
    pub counts: Counts,
    busy: Vec<AtomicUsize>,
    said: Mutex<Said>,
    failure: Mutex<Option<Error>>,
    gate: (Mutex<Option<Window>>, Condvar),
    sender: Sender<Message>,
}

impl Shared {
    /// Of a run that has not begun.
    pub fn new(
        job: ObjectJob,
        store: Store,
        objects: Objects,
        threads: usize,
        sender: Sender<Message>,
    ) -> Self {
        Shared {
            busy: (0..store.endpoints()).map(|_| AtomicUsize::new(0)).collect(),
            progress: Progress::new(&job),
            control: Arc::default(),
            cpu: WindowCpu::default(),
            counts: Counts::default(),
            said: Mutex::default(),
            failure: Mutex::default(),
            gate: (Mutex::new(None), Condvar::new()),
            job,
            store,
            objects,
            threads,
            sender,
        }
    }

    /// The run ends as failed; the first failure is the one that is told.
    pub fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.control.end_soon();
    }

    /// The first failure.
    pub fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    /// For the coordinator, which outlives all workers but the hung ones.
    pub fn send(&self, message: Message) {
        // A receiver that is gone has given up on this worker.
        let _ = self.sender.send(message);
    }

    /// Let the workers begin.
    pub fn open_gate(&self, window: Window) {
        *lock(&self.gate.0) = Some(window);
        self.gate.1.notify_all();
    }

    /// Until the window is known.
    pub fn wait_at_gate(&self) -> Window {
        let mut gate = lock(&self.gate.0);
        loop {
            if let Some(window) = *gate {
                return window;
            }
            gate = self.gate.1.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The endpoint of the next request; `turn` is whose turn it is.
    pub fn route(&self, turn: usize) -> Routed<'_> {
        let count = self.busy.len();
        let in_turn = (0..count).map(|step| turn.wrapping_add(step) % count);
        let endpoint = match self.job.routing {
            Routing::RoundRobin => turn % count,
            Routing::LeastBusy => {
                in_turn.min_by_key(|&e| self.busy[e].load(Relaxed)).unwrap_or_default()
            }
        };
        self.busy[endpoint].fetch_add(1, Relaxed);
        Routed { endpoint, busy: &self.busy[endpoint] }
    }

    /// An attempt failed; `what` it was, such as the key.
    pub fn heard(&self, kind: ObjectKind, what: &str, failure: &Failure) {
        self.counts.failed.fetch_add(1, Relaxed);
        let mut said = lock(&self.said);
        let word = failure.kind();
        let text = || format!("{} of {what}: {failure}", kind.name());
        let bodies = match failure {
            Failure::WrongBody(_) => Some(&mut said.wrong),
            Failure::ShortBody => Some(&mut said.short),
            _ => None,
        };
        if let Some(bodies) = bodies {
            bodies.count += 1;
            if bodies.examples.len() < BAD_BODIES {
                bodies.examples.push(text());
            }
        }
        said.errors.entry(word).or_insert_with(text);
    }

    /// What has been told until now.
    pub fn take_said(&self) -> Said {
        std::mem::take(&mut lock(&self.said))
    }
}

/// A request is on its way to an endpoint, as long as this lives.
pub struct Routed<'s> {
    /// Which.
    pub endpoint: usize,
    busy: &'s AtomicUsize,
}

impl Drop for Routed<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Relaxed);
    }
}

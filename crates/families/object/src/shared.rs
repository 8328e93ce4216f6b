//! What the threads of a run share.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Receiver;

use storlab_base::lock;
use storlab_run::timed::{Message, Plan, Timed};
use storlab_s3::{Failure, Store};

use super::kind::ObjectKind;
use super::pool::Objects;
use super::progress::Progress;
use super::spec::{ObjectJob, Routing, Task};

/// So many wrong bodies are named, and as many short ones.
const BAD_BODIES: usize = 3;

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

/// A timed run, and what object storage adds to it.
pub struct Shared {
    timed: Timed,
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
    /// For notes and details.
    pub counts: Counts,
    busy: Vec<AtomicUsize>,
    said: Mutex<Said>,
}

impl Shared {
    /// Of a run that has not begun, and what its workers will say.
    pub fn new(
        job: ObjectJob,
        store: Store,
        objects: Objects,
        threads: usize,
    ) -> (Self, Receiver<Message>) {
        let measures = job.task == Task::Run;
        let (timed, receiver) = Timed::new(Plan {
            workers: threads,
            ramp_ns: if measures { job.ramp_ns } else { 0 },
            window_ns: job.window_ns.filter(|_| measures),
            interval_ns: job.interval_ns,
            drain_timeout_ns: job.drain_timeout_ns,
            open_loop: job.open_loop(),
            kinds: job.kinds().into_iter().map(ObjectKind::entry).collect(),
            prepares: !measures,
        });
        let shared = Shared {
            timed,
            busy: (0..store.endpoints()).map(|_| AtomicUsize::new(0)).collect(),
            progress: Progress::new(&job),
            counts: Counts::default(),
            said: Mutex::default(),
            job,
            store,
            objects,
            threads,
        };
        (shared, receiver)
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

impl Deref for Shared {
    type Target = Timed;

    fn deref(&self) -> &Timed {
        &self.timed
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

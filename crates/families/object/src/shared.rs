//! State shared by the worker threads of a run.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Receiver;

use storlab_base::lock;
use storlab_run::arming::ARM_TIMEOUT_NS;
use storlab_run::groups::Group;
use storlab_run::timed::{Message, Plan, Timed};
use storlab_s3::{Failure, Store};

use super::endpoints::EndpointTable;
use super::kind::ObjectKind;
use super::pool::Objects;
use super::progress::Progress;
use super::spec::{ObjectJob, Routing, Task};

/// Maximum number of wrong response bodies, and of truncated ones, that are kept as examples.
const BAD_BODIES: usize = 3;
/// Maximum number of error kinds that are counted separately: a store may return a new code with
/// each response.
const KINDS: usize = 64;
const OTHER_KINDS: &str = "other";

/// Counters over the whole run, including ramp and drain.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Counts {
    pub connections: AtomicU64,
    pub retries: AtomicU64,
    pub deleted_keys: AtomicU64,
    pub repeated_draws: AtomicU64,
    pub aborts_failed: AtomicU64,
    pub rests: AtomicU64,
    pub workers_served: AtomicU64,
    pub failed: AtomicU64,
}

/// Examples of failures, for the notes and details of a run.
#[derive(Default)]
pub struct Examples {
    /// One example of each kind of error.
    pub errors: BTreeMap<String, Example>,
    /// Response bodies that arrived completely but differ from the stored objects.
    pub wrong: Bodies,
    /// Response bodies whose connection ended before the announced length.
    pub short: Bodies,
}

/// Example of one kind of error.
pub struct Example {
    /// Description of the failed request and its error.
    pub text: String,
    /// How the user can fix errors of this kind.
    pub advice: &'static str,
}

/// Response bodies with one kind of fault.
#[derive(Default)]
pub struct Bodies {
    /// Descriptions of the first few bodies with this fault.
    pub examples: Vec<String>,
    /// Number of bodies with this fault.
    pub count: u64,
}

/// State shared by the workers of one object run: the common state of timed runs, plus store,
/// objects and counters.
pub struct Shared {
    /// Coordination with the run: window, stop signals and messages.
    pub timed: Timed,
    /// Groups of requests; one without a name if the run has none.
    pub groups: Vec<Group<ObjectJob>>,
    /// Object store under test.
    pub store: Store,
    /// Record of which objects exist, for each group.
    pub objects: Vec<Objects>,
    /// Progress of a fill or clean task.
    pub progress: Progress,
    /// Counters of the whole run, for its notes and details.
    pub counts: Counts,
    /// Counters of HTTP requests by endpoint, summed over the workers that have ended.
    pub endpoints: Mutex<EndpointTable>,
    busy: Vec<AtomicUsize>,
    examples: Mutex<Examples>,
}

impl Shared {
    /// Create the shared state, and the receiver of the workers' messages. `groups` has at least
    /// one group.
    pub fn new(
        groups: Vec<Group<ObjectJob>>,
        store: Store,
        objects: Vec<Objects>,
    ) -> (Self, Receiver<Message>) {
        let job = &groups[0].job;
        let measures = job.task == Task::Run;
        let (timed, receiver) = Timed::new(Plan {
            workers: groups.iter().map(|group| group.workers).sum(),
            ramp_ns: if measures { job.ramp_ns } else { 0 },
            window_ns: job.window_ns.filter(|_| measures),
            interval_ns: job.interval_ns,
            drain_timeout_ns: job.drain_timeout_ns,
            arm_timeout_ns: ARM_TIMEOUT_NS,
            open_loop: groups.iter().any(|group| group.open_loop),
            kinds: groups.iter().flat_map(|group| group.kinds.clone()).collect(),
            groups: groups.iter().filter_map(Group::counted).collect(),
            prepares: !measures,
        });
        let shared = Shared {
            timed,
            busy: (0..store.endpoints()).map(|_| AtomicUsize::new(0)).collect(),
            progress: Progress::new(job),
            counts: Counts::default(),
            examples: Mutex::default(),
            endpoints: Mutex::default(),
            groups,
            store,
            objects,
        };
        (shared, receiver)
    }

    /// Return the number of worker threads.
    pub fn threads(&self) -> usize {
        self.groups.iter().map(|group| group.workers).sum()
    }

    /// Return the number of requests that may be in flight.
    pub fn slots(&self) -> usize {
        self.groups.iter().map(|group| group.job.slots().len()).sum()
    }

    /// Choose the endpoint of the next request. For round robin, `turn` is the number of the
    /// worker's request.
    pub fn route(&self, turn: usize) -> Routed<'_> {
        let count = self.busy.len();
        let endpoint = match self.groups[0].job.routing {
            Routing::RoundRobin => {
                self.busy[turn % count].fetch_add(1, Relaxed);
                turn % count
            }
            Routing::LeastBusy => join_least_busy(&self.busy, turn),
        };
        Routed { endpoint, busy: &self.busy[endpoint] }
    }

    /// Count a failed attempt at a request on `what`, such as a key, and keep an example. Return
    /// the name of the error kind under which it is counted.
    pub fn note_failure(&self, kind: ObjectKind, what: &str, failure: &Failure) -> String {
        self.counts.failed.fetch_add(1, Relaxed);
        let mut examples = lock(&self.examples);
        let mut word = failure.kind();
        if examples.errors.len() >= KINDS && !examples.errors.contains_key(&word) {
            OTHER_KINDS.clone_into(&mut word);
        }
        let text = || format!("{} of {what}: {failure}", kind.name());
        let bodies = match failure {
            Failure::WrongBody(_) => Some(&mut examples.wrong),
            Failure::ShortBody => Some(&mut examples.short),
            _ => None,
        };
        if let Some(bodies) = bodies {
            bodies.count += 1;
            if bodies.examples.len() < BAD_BODIES {
                bodies.examples.push(text());
            }
        }
        let example = || Example { text: text(), advice: failure.advice() };
        examples.errors.entry(word.clone()).or_insert_with(example);
        word
    }

    /// Remove and return the examples recorded so far.
    pub fn take_examples(&self) -> Examples {
        std::mem::take(&mut lock(&self.examples))
    }
}

/// Choose the endpoint with the fewest requests in flight and count one more there. Ties go to the
/// first one from `turn` on. Threads that choose concurrently see each other's choice.
fn join_least_busy(busy: &[AtomicUsize], turn: usize) -> usize {
    let count = busy.len();
    loop {
        let in_turn = (0..count).map(|step| turn.wrapping_add(step) % count);
        let (endpoint, requests) = in_turn
            .map(|endpoint| (endpoint, busy[endpoint].load(Relaxed)))
            .min_by_key(|&(_, requests)| requests)
            .unwrap_or_default();
        let joined = busy[endpoint].compare_exchange(requests, requests + 1, Relaxed, Relaxed);
        if joined.is_ok() {
            return endpoint;
        }
    }
}

/// Request in flight at an endpoint. It counts until this value is dropped.
pub struct Routed<'s> {
    /// Index of the endpoint in the store's list.
    pub endpoint: usize,
    busy: &'s AtomicUsize,
}

impl Drop for Routed<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads choose from each pair of endpoints at the same time.
    #[test]
    fn threads_that_choose_at_once_share_endpoints_evenly() {
        const ROUNDS: usize = 20_000;
        let pairs: Vec<_> = (0..ROUNDS).map(|_| [const { AtomicUsize::new(0) }; 2]).collect();
        let arrived = AtomicUsize::new(0);
        let choose = || {
            for (round, busy) in pairs.iter().enumerate() {
                arrived.fetch_add(1, Relaxed);
                // Spin, because a thread that sleeps here would choose too late to compete.
                let mut looks = 0;
                while arrived.load(Relaxed) < 2 * (round + 1) {
                    looks += 1;
                    if looks % 10_000 == 0 {
                        std::thread::yield_now();
                    }
                }
                join_least_busy(busy, 0);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(choose);
            choose();
        });
        let uneven = pairs.into_iter().map(|busy| busy.map(AtomicUsize::into_inner));
        assert_eq!(uneven.filter(|busy| *busy != [1, 1]).count(), 0);
    }

    #[test]
    fn of_equally_busy_endpoints_the_next_in_turn_is_chosen() {
        let busy = [0, 3, 0].map(AtomicUsize::new);
        assert_eq!([1, 0, 0, 2].map(|turn| join_least_busy(&busy, turn)), [2, 0, 0, 2]);
    }
}

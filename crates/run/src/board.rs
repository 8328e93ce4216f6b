//! State that a run publishes: phase and rates while it runs, and its outcome at the end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use storlab_base::{Signal, lock, monotonic_ns};

use crate::outcome::Outcome;
use crate::sampling::Live;

/// Phase of a run, as shown in the live view.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Name of the phase: `prepare`, `armed`, `ramp`, `measure`, `drain` or `done`.
    pub name: &'static str,
    /// Start of the phase on the run's clock, in ns.
    pub since_ns: u64,
    /// Expected length of the phase in ns; `None` if unknown.
    pub length_ns: Option<u64>,
}

/// State that the coordinator of a run publishes, for callers of the run's handle.
pub struct Board {
    now: Mutex<(Phase, Live)>,
    outcome: Signal<Option<Outcome>>,
    /// Whether preparations are over: the run is ready or has ended.
    begun: AtomicBool,
}

impl Board {
    /// Create the state of a run that starts now, in phase `prepare`.
    pub(crate) fn new() -> Self {
        let phase = Phase { name: "prepare", since_ns: monotonic_ns(), length_ns: None };
        Board {
            now: Mutex::new((phase, Live::default())),
            outcome: Signal::default(),
            begun: AtomicBool::new(false),
        }
    }

    /// Return the current phase, and the latest rates and latency.
    pub(crate) fn now(&self) -> (Phase, Live) {
        *lock(&self.now)
    }

    /// Return the outcome of the run; `None` until the run has ended.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.outcome.lock().clone()
    }

    /// Wait until the run has ended. Returns false if the time-out passes first.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        let ended = |outcome: &mut Option<Outcome>| outcome.as_ref().map(|_| ());
        self.outcome.wait_for(timeout.unwrap_or(Duration::MAX), ended).is_some()
    }

    /// Enter a phase. `length_ns` is its expected length, if known.
    pub fn enter(&self, name: &'static str, length_ns: Option<u64>) {
        self.begun.store(true, Relaxed);
        lock(&self.now).0 = Phase { name, since_ns: monotonic_ns(), length_ns };
    }

    /// Return whether the run has finished its preparations, or has ended.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// Set the expected length of the current phase, in ns.
    pub fn expect(&self, length_ns: u64) {
        lock(&self.now).0.length_ns = Some(length_ns);
    }

    /// Publish rates and latency for the live view.
    pub fn show(&self, live: Live) {
        lock(&self.now).1 = live;
    }

    /// Publish the outcome and end the run. If this is called twice, the first outcome remains.
    pub(crate) fn publish(&self, outcome: Outcome) {
        self.enter("done", None);
        self.outcome.change(|ended| _ = ended.get_or_insert(outcome));
    }
}

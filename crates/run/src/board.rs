//! What a run shows while it goes on, and what it leaves at its end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};

use crate::outcome::Outcome;
use crate::sampling::Live;

/// A phase of the run, for the live view.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// `prepare`, `armed`, `ramp`, `measure`, `drain` or `done`.
    pub name: &'static str,
    /// When it began.
    pub since_ns: u64,
    /// How long it should last, where that is known.
    pub length_ns: Option<u64>,
}

/// What the coordinator publishes.
pub struct Board {
    now: Mutex<(Phase, Live)>,
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
    /// It has entered a phase: it got ready.
    begun: AtomicBool,
}

impl Board {
    /// Of a run that begins now.
    pub(crate) fn new() -> Self {
        let phase = Phase { name: "prepare", since_ns: monotonic_ns(), length_ns: None };
        Board {
            now: Mutex::new((phase, Live::default())),
            outcome: Mutex::new(None),
            ended: Condvar::new(),
            begun: AtomicBool::new(false),
        }
    }

    /// The phase, rates and latency.
    pub(crate) fn now(&self) -> (Phase, Live) {
        *lock(&self.now)
    }

    /// What the run left behind; `None` while it runs.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        lock(&self.outcome).clone()
    }

    /// True when the run has ended; false when the time-out passed first.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        let outcome = lock(&self.outcome);
        let running = |outcome: &mut Option<Outcome>| outcome.is_none();
        match timeout {
            None => {
                drop(self.ended.wait_while(outcome, running));
                true
            }
            Some(limit) => self
                .ended
                .wait_timeout_while(outcome, limit, running)
                .is_ok_and(|(outcome, _)| outcome.is_some()),
        }
    }

    /// Enter a phase.
    pub fn enter(&self, name: &'static str, length_ns: Option<u64>) {
        self.begun.store(true, Relaxed);
        lock(&self.now).0 = Phase { name, since_ns: monotonic_ns(), length_ns };
    }

    /// It got ready, or has ended.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// How long the phase should last, now that it can be told.
    pub fn expect(&self, length_ns: u64) {
        lock(&self.now).0.length_ns = Some(length_ns);
    }

    /// Rates of the live view.
    pub fn show(&self, live: Live) {
        lock(&self.now).1 = live;
    }

    /// What the run left behind: the first word counts.
    pub(crate) fn publish(&self, outcome: Outcome) {
        self.enter("done", None);
        lock(&self.outcome).get_or_insert(outcome);
        self.ended.notify_all();
    }
}

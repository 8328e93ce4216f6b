//! A run in progress, whatever its family: its phases, its live view and its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use storlab_base::{Clock, Error, Result, lock, monotonic_ns};

use crate::control::Control;
use crate::cpu::ProcessCpu;
use crate::outcome::Outcome;
use crate::sampling::Live;

/// A phase of the run, for the live view.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// `prepare`, `ramp`, `measure`, `drain` or `done`.
    pub name: &'static str,
    /// When it began.
    pub since_ns: u64,
    /// How long it should last, where that is known.
    pub length_ns: Option<u64>,
}

/// The live view of a run.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Phase.
    pub phase: Phase,
    /// Since the phase began, in ns.
    pub elapsed_ns: u64,
    /// Rates and latency.
    pub live: Live,
    /// CPU of the process since the last snapshot, in percent of a core.
    pub cpu_percent: Option<f64>,
}

/// What the coordinator publishes.
pub struct Board {
    now: Mutex<(Phase, Live)>,
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

impl Board {
    /// Enter a phase.
    pub fn enter(&self, name: &'static str, length_ns: Option<u64>) {
        lock(&self.now).0 = Phase { name, since_ns: monotonic_ns(), length_ns };
    }

    /// How long the phase should last, now that it can be told.
    pub fn expect(&self, length_ns: u64) {
        lock(&self.now).0.length_ns = Some(length_ns);
    }

    /// Rates of the live view.
    pub fn show(&self, live: Live) {
        lock(&self.now).1 = live;
    }

    fn publish(&self, outcome: Outcome) {
        self.enter("done", None);
        *lock(&self.outcome) = Some(outcome);
        self.ended.notify_all();
    }
}

/// A run in progress. Dropping it cancels the run.
pub struct Run {
    control: Arc<Control>,
    board: Arc<Board>,
    last_cpu: Mutex<(u64, ProcessCpu)>,
}

impl Run {
    /// Coordinate a run in a thread of its own; what `work` returns is the run's outcome. A run
    /// ends, whatever becomes of that thread: where it panics, the run has failed.
    ///
    /// # Errors
    /// [`Error::Io`] where the thread cannot be started.
    pub fn begin(
        control: Arc<Control>,
        work: impl FnOnce(&Board) -> Outcome + Send + 'static,
    ) -> Result<Self> {
        let phase = Phase { name: "prepare", since_ns: monotonic_ns(), length_ns: None };
        let board = Arc::new(Board {
            now: Mutex::new((phase, Live::default())),
            outcome: Mutex::new(None),
            ended: Condvar::new(),
        });
        let (mine, ending) = (board.clone(), control.clone());
        std::thread::Builder::new()
            .name("storlab-run".into())
            .spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| work(&mine)));
                let mut outcome = outcome.unwrap_or_else(|_| {
                    ending.end_soon();
                    Outcome::lost(monotonic_ns())
                });
                outcome.summary.notes.extend(Clock::recheck());
                mine.publish(outcome);
            })
            .map_err(|e| Error::io("start a thread for", "the run", 0, e))?;
        let last_cpu = Mutex::new(ProcessCpu::timed());
        Ok(Run { control, board, last_cpu })
    }

    /// What happens now.
    pub fn snapshot(&self) -> Snapshot {
        let (phase, live) = *lock(&self.board.now);
        let (now, used) = ProcessCpu::timed();
        let mut last = lock(&self.last_cpu);
        let (elapsed, cpu) = (now.saturating_sub(last.0), used.since(last.1));
        let cpu_ns = (cpu.user_ns + cpu.system_ns) as f64;
        let cpu_percent = (elapsed > 0).then(|| cpu_ns * 100.0 / elapsed as f64);
        *last = (now, used);
        Snapshot { phase, elapsed_ns: now.saturating_sub(phase.since_ns), live, cpu_percent }
    }

    /// End soon, with status cancelled.
    pub fn cancel(&self) {
        self.control.cancel();
    }

    /// True when the run has ended; false when the time-out passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let outcome = lock(&self.board.outcome);
        let running = |outcome: &mut Option<Outcome>| outcome.is_none();
        match timeout {
            None => {
                drop(self.board.ended.wait_while(outcome, running));
                true
            }
            Some(limit) => self
                .board
                .ended
                .wait_timeout_while(outcome, limit, running)
                .is_ok_and(|(outcome, _)| outcome.is_some()),
        }
    }

    /// What the run left behind; `None` while it runs.
    pub fn outcome(&self) -> Option<Outcome> {
        lock(&self.board.outcome).clone()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.wait(Some(Duration::ZERO)) {
            self.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    #[test]
    fn a_run_ends_though_its_coordinator_panics() {
        let control = Arc::new(Control::default());
        let run = Run::begin(control.clone(), |_| panic!("as a test wants it")).unwrap();
        assert!(run.wait(None));
        let summary = run.outcome().unwrap().summary;
        assert_eq!(summary.status, Status::Failed);
        assert!(summary.failure.unwrap().message.contains("a mistake in storlab"));
        assert!(control.stopping());
        assert_eq!(run.snapshot().phase.name, "done");
    }
}

//! A run in progress, whatever its family: its phases, its live view and its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storlab_base::{Clock, Error, Result, lock, monotonic_ns};

use crate::board::{Board, Phase};
use crate::control::Control;
use crate::cpu::ProcessCpu;
use crate::meeting::Meeting;
use crate::outcome::Outcome;
use crate::sampling::Live;

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
        let board = Arc::new(Board::new());
        let (run_board, ending) = (board.clone(), control.clone());
        std::thread::Builder::new()
            .name("storlab-run".into())
            .spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| work(&run_board)));
                let mut outcome = outcome.unwrap_or_else(|_| {
                    ending.end_soon();
                    Outcome::lost(monotonic_ns())
                });
                outcome.summary.notes.extend(Clock::recheck());
                run_board.publish(outcome);
            })
            .map_err(|e| Error::io("start a thread for", "the run", 0, e))?;
        let last_cpu = Mutex::new(ProcessCpu::timed());
        Ok(Run { control, board, last_cpu })
    }

    /// What happens now.
    pub fn snapshot(&self) -> Snapshot {
        let (phase, live) = self.board.now();
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

    /// True once all of a held run is ready: it waits for [`Run::open_at`], or has.
    pub fn armed(&self) -> bool {
        self.control.armed()
    }

    /// The load of a held run starts then, on the run's clock, or at once where that has passed.
    /// False, and nothing has changed, where the run is not held or was told already.
    pub fn open_at(&self, start_ns: u64) -> bool {
        self.control.open_at(start_ns)
    }

    /// Where it meets the other parts of the work that it is a part of.
    pub fn meeting(&self) -> &Meeting {
        self.control.meeting()
    }

    /// True when the run has ended; false when the time-out passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.board.wait(timeout)
    }

    /// What the run left behind; `None` while it runs.
    pub fn outcome(&self) -> Option<Outcome> {
        self.board.outcome()
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

//! Handle to a run in progress, used by all workload families.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storlab_base::{Clock, Error, Result, lock, monotonic_ns};

use crate::arming::ARM_TIMEOUT_NS;
use crate::board::{Board, Phase};
use crate::control::Control;
use crate::cpu::ProcessCpu;
use crate::outcome::Outcome;
use crate::sampling::Live;
use crate::sync_point::SyncPoint;

/// State of a run at one moment, for the live view.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Current phase of the run.
    pub phase: Phase,
    /// Time since the phase began, in ns.
    pub elapsed_ns: u64,
    /// Rates and latency of the last interval.
    pub live: Live,
    /// CPU use of the process since the previous snapshot, in percent of one core.
    pub cpu_percent: Option<f64>,
}

/// Time in ns that the handle waits longer than the run's own start-up time-out, so that the run
/// itself can report the failure first. `LOOK` is the time between two checks.
const GRACE_NS: u64 = 10_000_000_000;
const LOOK: Duration = Duration::from_secs(1);

/// Handle to a run in progress. Dropping it cancels the run.
pub struct Run {
    control: Arc<Control>,
    board: Arc<Board>,
    last_cpu: Mutex<(u64, ProcessCpu)>,
    /// Longest time that the start-up may take without progress, in ns.
    silence_ns: u64,
    /// Time at which the run was first found to be ending; 0 before.
    ending_since_ns: AtomicU64,
    /// Longest time that the run may take to end, in ns.
    ending_ns: u64,
}

impl Run {
    /// Start a run. `work` is its coordinator, which runs in a thread of its own and returns the
    /// outcome. If `work` panics, the run has failed.
    ///
    /// # Errors
    /// [`Error::Io`] if the thread cannot be started.
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
            .map_err(|e| Error::io("start", "a thread of the run", 0, e))?;
        let last_cpu = Mutex::new(ProcessCpu::timed());
        let ending_since_ns = AtomicU64::new(0);
        let (silence_ns, ending_ns) = (ARM_TIMEOUT_NS + GRACE_NS, u64::MAX);
        Ok(Run { control, board, last_cpu, silence_ns, ending_since_ns, ending_ns })
    }

    /// Fail the run if it takes too long to end: the limit is that of a start-up without progress.
    /// Use this for families that join their threads, because a join never returns if the thread is
    /// stuck in the kernel. Other families have limits of their own.
    #[must_use]
    pub fn ends_though_stuck(mut self) -> Self {
        self.ending_ns = self.silence_ns;
        self
    }

    fn give_up(&self) {
        self.give_up_on_a_silent_start();
        self.give_up_on_an_end_that_never_comes();
    }

    /// Fail the run if its start-up makes no progress for too long, for example because a call
    /// hangs on a dead mount. Its thread is abandoned. Checked whenever the handle is used.
    fn give_up_on_a_silent_start(&self) {
        let silent_ns = self.control.signs.silent_ns(monotonic_ns(), 0);
        if silent_ns >= self.silence_ns && !self.board.has_begun() {
            let silent = Error::NotReady { workers: 1, waited_ms: silent_ns / 1_000_000 };
            self.board.publish(Outcome::failed(monotonic_ns(), &silent));
            self.control.end_soon();
        }
    }

    fn give_up_on_an_end_that_never_comes(&self) {
        if !self.control.stopping() || self.board.wait(Some(Duration::ZERO)) {
            return;
        }
        let now = monotonic_ns();
        let first = self.ending_since_ns.compare_exchange(0, now, Relaxed, Relaxed);
        let waited_ns = now.saturating_sub(first.err().unwrap_or(now));
        if waited_ns >= self.ending_ns {
            let waited_ms = waited_ns / 1_000_000;
            let silent = Error::Silent { workers: 1, waited_ms };
            self.board.publish(Outcome::failed(now, &silent));
        }
    }

    /// Return the current phase, rates and CPU use of the run.
    pub fn snapshot(&self) -> Snapshot {
        self.give_up();
        let (phase, live) = self.board.now();
        let (now, used) = ProcessCpu::timed();
        let mut last = lock(&self.last_cpu);
        let (elapsed, cpu) = (now.saturating_sub(last.0), used.since(last.1));
        let cpu_ns = (cpu.user_ns + cpu.system_ns) as f64;
        let cpu_percent = (elapsed > 0).then(|| cpu_ns * 100.0 / elapsed as f64);
        *last = (now, used);
        Snapshot { phase, elapsed_ns: now.saturating_sub(phase.since_ns), live, cpu_percent }
    }

    /// Cancel the run. It ends soon, with status cancelled.
    pub fn cancel(&self) {
        self.control.cancel();
    }

    /// Return whether a held run is ready and waits for its start time. The result stays true after
    /// [`Run::open_at`].
    pub fn armed(&self) -> bool {
        self.give_up();
        self.control.armed()
    }

    /// Set the start time of a held run, in ns on the run's clock. A time in the past means now.
    /// Returns false, and changes nothing, if the run is not held or already has a start time.
    pub fn open_at(&self, start_ns: u64) -> bool {
        self.control.open_at(start_ns)
    }

    /// Return the synchronisation point with the other parts of a distributed run.
    pub fn meeting(&self) -> &SyncPoint {
        self.control.meeting()
    }

    /// Wait until the run has ended. Returns false if the time-out passes first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let until_ns = timeout.map(|limit| monotonic_ns().saturating_add(limit.as_nanos() as u64));
        loop {
            self.give_up();
            let left_ns = until_ns.map(|until| until.saturating_sub(monotonic_ns()));
            let left = left_ns.map(Duration::from_nanos);
            let ended = self.board.wait(Some(left.unwrap_or(LOOK).min(LOOK)));
            if ended || left.is_some_and(|left| left <= LOOK) {
                return ended;
            }
        }
    }

    /// Return the outcome of the run; `None` until the run has ended.
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
    fn a_run_that_never_gets_ready_ends_as_failed() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let control = Arc::new(Control::default());
        let late = Outcome::lost(1);
        let mut run = Run::begin(control.clone(), move |board| {
            let _ = held.recv(); // like open() on a dead mount
            board.enter("measure", None);
            late
        })
        .unwrap();
        run.silence_ns = 50_000_000;
        assert!(run.wait(Some(Duration::from_mins(1))));
        let failure = || run.outcome().unwrap().summary.failure.unwrap().message;
        assert!(failure().contains("did not get ready"), "{}", failure());
        assert!(control.stopping());
        drop(release); // a late outcome changes nothing
        while Arc::strong_count(&run.board) > 1 {
            std::thread::yield_now();
        }
        assert!(failure().contains("did not get ready"), "{}", failure());
    }

    #[test]
    fn a_run_that_is_to_end_and_is_stuck_ends_as_failed() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let begin = || {
            let work = move |board: &Board| {
                board.enter("measure", None);
                let _ = held.recv(); // blocks like joining a thread that hangs in read() on an unreachable mount
                Outcome::lost(1)
            };
            Run::begin(Arc::new(Control::default()), work).unwrap()
        };
        let mut run = begin().ends_though_stuck();
        run.ending_ns = 50_000_000;
        assert!(!run.wait(Some(Duration::from_millis(200))), "it was not to end");
        run.cancel();
        assert!(run.wait(Some(Duration::from_mins(1))));
        let failure = run.outcome().unwrap().summary.failure.unwrap();
        assert!(failure.fix.contains("kernel log"), "{failure:?}");
        drop(release);
    }

    #[test]
    fn one_that_gives_signs_or_has_begun_may_take_its_time() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let control = Arc::new(Control::default());
        let signs = control.clone();
        let mut run = Run::begin(control, move |board| {
            while told.try_recv().is_err() {
                signs.goes_on();
            }
            board.enter("measure", None);
            let _ = told.recv();
            Outcome::lost(monotonic_ns())
        })
        .unwrap();
        run.silence_ns = 200_000_000;
        assert!(!run.wait(Some(Duration::from_millis(500))));
        tell.send(()).unwrap();
        while !run.board.has_begun() {
            std::thread::yield_now();
        }
        assert!(!run.wait(Some(Duration::from_millis(500))));
        drop(tell);
        assert!(run.wait(None));
        assert!(run.outcome().unwrap().summary.failure.unwrap().message.contains("a defect"));
    }

    #[test]
    fn a_run_ends_though_its_coordinator_panics() {
        let control = Arc::new(Control::default());
        let run = Run::begin(control.clone(), |_| panic!("as a test wants it")).unwrap();
        assert!(run.wait(None));
        let summary = run.outcome().unwrap().summary;
        assert_eq!(summary.status, Status::Failed);
        assert!(summary.failure.unwrap().message.contains("a defect of storlab"));
        assert!(control.stopping());
        assert_eq!(run.snapshot().phase.name, "done");
    }
}

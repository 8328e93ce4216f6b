//! Worker threads of a run of fixed work that is done in phases. In each phase they take numbered
//! tasks until none is left.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::board::Board;
use crate::control::Control;
use crate::fixed::{FixedTotals, RecorderFactory, WorkerRecorder};
use crate::sampling::{Kind, Report};
use crate::threads::{guarded, pin_in_turn};
use storlab_base::{Error, Result, lock, monotonic_ns};

const LOOK: Duration = Duration::from_millis(100);

/// Workers of all phases of a run, with their counters. Each phase has its own threads.
pub struct WorkerPool<'b> {
    /// Name of the family in errors.
    family: &'static str,
    recorders: Vec<WorkerRecorder>,
    totals: FixedTotals,
    reports: Receiver<Box<Report>>,
    board: &'b Board,
    control: Arc<Control>,
    cpus: Vec<usize>,
    moved: AtomicU64,
}

/// Access of one worker to the tasks of a phase and to its counters.
pub struct Tasks<'c> {
    recorder: &'c mut WorkerRecorder,
    next: &'c AtomicUsize,
    count: usize,
    stop: &'c AtomicBool,
    control: &'c Control,
    moved: &'c AtomicU64,
}

impl Tasks<'_> {
    /// Take the next task; `None` if there is none left, or the run is over.
    pub fn take(&mut self) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        let task = self.next.fetch_add(1, Relaxed);
        (task < self.count).then_some(task)
    }

    /// Return whether the run is over, so that work in progress must be abandoned.
    pub fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.control.stopping()
    }

    /// Record an operation of kind `place` that began at `start_ns` and has just finished.
    pub fn record(&mut self, place: usize, bytes: u64, start_ns: u64) {
        let now = monotonic_ns();
        self.moved.fetch_add(bytes, Relaxed);
        self.recorder.record(place, bytes, now - start_ns, now);
    }
}

impl<'b> WorkerPool<'b> {
    /// Create the workers, and begin the measure window.
    pub fn new(
        family: &'static str,
        workers: usize,
        interval_ns: u64,
        kinds: &[Kind],
        cpus: Option<&[usize]>,
        board: &'b Board,
        control: &Arc<Control>,
    ) -> Self {
        let (factory, reports) = RecorderFactory::new(interval_ns, kinds);
        let totals = FixedTotals::begin(workers, &factory, control, board);
        let recorder = |worker| {
            let mut made = factory.recorder(worker);
            made.leave_thread();
            made
        };
        WorkerPool {
            family,
            recorders: (0..workers).map(recorder).collect(),
            totals,
            reports,
            board,
            control: control.clone(),
            cpus: cpus.unwrap_or_default().to_vec(),
            moved: AtomicU64::new(0),
        }
    }

    /// Return the number of workers.
    pub fn workers(&self) -> usize {
        self.recorders.len()
    }

    /// Return whether the run is stopping.
    pub fn is_over(&self) -> bool {
        self.control.stopping()
    }

    /// Return the start of the window in nanoseconds.
    pub fn start_ns(&self) -> u64 {
        self.totals.start_ns()
    }

    /// Return the number of bytes recorded since the previous call.
    pub fn take_moved(&self) -> u64 {
        self.moved.swap(0, Relaxed)
    }

    /// Run `work` once on each worker, which takes its tasks (0 to `tasks - 1`) from its [`Tasks`].
    ///
    /// # Errors
    /// The first error of any worker; the other workers then stop early.
    pub fn carry_out(
        &mut self,
        tasks: usize,
        work: impl Fn(&mut Tasks<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let failure = Mutex::new(None);
        let (end, ends) = channel();
        let family = self.family;
        let WorkerPool { recorders, totals, reports, board, control, cpus, moved, .. } = self;
        std::thread::scope(|scope| {
            for (index, recorder) in recorders.iter_mut().enumerate().take(tasks.max(1)) {
                let (next, stop, failure, work) = (&next, &stop, &failure, &work);
                let (moved, cpus) = (&*moved, &*cpus);
                let (end, control) = (end.clone(), &**control);
                let name = format!("storlab-work{index}");
                let started =
                    std::thread::Builder::new().name(name).spawn_scoped(scope, move || {
                        recorder.on_this_thread();
                        let mut own = Tasks { recorder, next, count: tasks, stop, control, moved };
                        let ended = pin_in_turn(Some(cpus), index, "a worker")
                            .and_then(|()| guarded(family, "a worker", || work(&mut own)));
                        if let Err(error) = ended {
                            lock(failure).get_or_insert(error);
                            stop.store(true, Relaxed);
                            control.end_soon(); // another may be stuck, and is abandoned
                        }
                        own.recorder.leave_thread();
                        let _ = end.send(());
                    });
                if let Err(e) = started {
                    let error = Error::io("start", "a worker thread", 0, e);
                    lock(failure).get_or_insert(error);
                    stop.store(true, Relaxed);
                }
            }
            drop(end);
            loop {
                let ended = ends.recv_timeout(LOOK);
                while let Ok(report) = reports.try_recv() {
                    totals.add(report, board);
                }
                if ended == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
            }
        });
        let failed = lock(&failure).take();
        failed.map_or(Ok(()), Err)
    }

    /// End the workers. Return the sum of their counters.
    pub fn end(mut self) -> FixedTotals {
        let workers = self.recorders.len();
        self.recorders.clear();
        while let Ok(report) = self.reports.try_recv() {
            self.totals.add(report, self.board);
        }
        for worker in 0..workers {
            self.totals.end(worker);
        }
        self.totals
    }
}

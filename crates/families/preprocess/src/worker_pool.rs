//! Thread pool of a run. Its workers take tasks until none is left.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storlab_base::{Error, Result, lock, monotonic_ns};
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::fixed::{FixedTotals, RecorderFactory, WorkerRecorder};
use storlab_run::sampling::{Kind, Report};
use storlab_run::threads::{guarded, pin_in_turn};

const LOOK: Duration = Duration::from_millis(100);

/// Worker threads of all stages, with their counters.
pub struct WorkerPool<'b> {
    recorders: Vec<WorkerRecorder>,
    totals: FixedTotals,
    reports: Receiver<Box<Report>>,
    board: &'b Board,
    control: Arc<Control>,
    cpus: Vec<usize>,
    moved: AtomicU64,
}

/// One worker's access to the tasks of the current round and to its counters.
pub struct Turn<'c> {
    /// Operations and bytes that the worker has counted.
    recorder: &'c mut WorkerRecorder,
    next: &'c AtomicUsize,
    tasks: usize,
    stop: &'c AtomicBool,
    control: &'c Control,
    moved: &'c AtomicU64,
}

impl Turn<'_> {
    /// Take the next task; `None` if none is left or the run is over.
    pub fn next(&mut self) -> Option<usize> {
        if self.is_over() {
            return None;
        }
        let task = self.next.fetch_add(1, Relaxed);
        (task < self.tasks).then_some(task)
    }

    /// Return whether the run is over, so that work in progress must be abandoned.
    pub fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.control.stopping()
    }

    /// Record a finished operation of a stage. `place` is the stage's index, `start_ns` the time at
    /// which the operation began.
    pub fn record(&mut self, place: usize, bytes: u64, start_ns: u64) {
        let now = monotonic_ns();
        self.moved.fetch_add(bytes, Relaxed);
        self.recorder.record(place, bytes, now - start_ns, now);
    }
}

impl<'b> WorkerPool<'b> {
    /// Create the workers, and begin the measure window.
    pub fn new(
        workers: usize,
        interval_ns: u64,
        kinds: &[Kind],
        cpus: Option<&Vec<usize>>,
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
            recorders: (0..workers).map(recorder).collect(),
            totals,
            reports,
            board,
            control: control.clone(),
            cpus: cpus.cloned().unwrap_or_default(),
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

    /// Run `work` once on each worker, which takes tasks (numbers 0 to `tasks - 1`) from its
    /// [`Turn`].
    ///
    /// # Errors
    /// The first error of any worker; the other workers then stop early.
    pub fn carry_out(
        &mut self,
        tasks: usize,
        work: impl Fn(&mut Turn<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let failure = Mutex::new(None);
        let (end, ends) = channel();
        let WorkerPool { recorders, totals, reports, board, control, cpus, moved } = self;
        std::thread::scope(|scope| {
            for (index, recorder) in recorders.iter_mut().enumerate().take(tasks.max(1)) {
                let (next, stop, failure, work) = (&next, &stop, &failure, &work);
                let (moved, cpus) = (&*moved, &*cpus);
                let (end, control) = (end.clone(), &**control);
                let name = format!("storlab-prep{index}");
                let started =
                    std::thread::Builder::new().name(name).spawn_scoped(scope, move || {
                        recorder.on_this_thread();
                        let mut turn = Turn { recorder, next, tasks, stop, control, moved };
                        let ended = pin_in_turn(Some(cpus), index, "a worker")
                            .and_then(|()| guarded("preprocess", "a worker", || work(&mut turn)));
                        if let Err(error) = ended {
                            lock(failure).get_or_insert(error);
                            stop.store(true, Relaxed);
                            control.end_soon(); // another may be stuck, and is abandoned
                        }
                        turn.recorder.leave_thread();
                        let _ = end.send(());
                    });
                if let Err(e) = started {
                    let error = Error::io("start", "a thread of preprocessing", 0, e);
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

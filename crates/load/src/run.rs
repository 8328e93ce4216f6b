//! One run: starts the workers together, watches the window, gathers what they measured.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use storlab_base::{monotonic_ns, Clock, Error, Result};
use storlab_io::{probe, Arena, Backend, File, NullBackend, PosixBackend, UringBackend, Wake};

use crate::block::{Worker, WorkerEnd};
use crate::cpu::{pin_to, sharpen_timers, ProcessCpu};
use crate::gather::Gatherer;
use crate::layout::Layout;
use crate::outcome::Outcome;
use crate::sampling::{Live, Report};
use crate::spec::{BackendKind, BlockJob, MemberKind};
use crate::verify::Verifier;

/// Threads of one job of the posix backend, unless its queue is deeper.
const THREADS_MAX: usize = 512;

/// When the load starts, and the measure window on the run's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Ramp begins.
    pub load_start_ns: u64,
    /// Window begins.
    pub start_ns: u64,
    /// Window ends; `u64::MAX` while a window by bytes is open.
    pub end_ns: u64,
}

/// What workers tell the coordinator.
pub enum Message {
    /// Buffers filled, ring made.
    Ready {
        /// Of the backend.
        features: Vec<&'static str>,
    },
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

/// How a run is ended. Outlives the run's files, so that a handle to a run that is over holds none
/// of them.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    /// By the user, not by an error.
    cancelled: AtomicBool,
    wakers: Mutex<Vec<Arc<dyn Wake>>>,
}

impl Control {
    /// The run ends soon, or has to.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// True when the user ended the run.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// End every worker's wait, so that it looks at clock and flag.
    pub fn wake_all(&self) {
        for waker in lock(&self.wakers).iter() {
            waker.wake();
        }
    }

    fn end_soon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake_all();
    }

    /// By the user.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.end_soon();
    }
}

/// What the threads of a run share. Gone when the run has ended, and files and verify state with
/// it.
pub struct Shared {
    /// The order.
    pub job: BlockJob,
    /// `uring`, `posix` or `null`.
    pub backend: BackendKind,
    /// One for each member; none for the null backend.
    pub files: Arc<Vec<File>>,
    /// In verify mode.
    pub verifier: Option<Verifier>,
    /// How it is ended.
    pub control: Arc<Control>,
    failure: Mutex<Option<Error>>,
    gate: (Mutex<Option<Window>>, Condvar),
    sender: Sender<Message>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Without files, and with all messages of the workers.
    #[cfg(test)]
    pub(crate) fn for_test(job: BlockJob) -> (Self, Receiver<Message>) {
        let (sender, receiver) = channel();
        let open = |spec| Verifier::open(spec, &job.members, job.seed).unwrap();
        let shared = Shared {
            verifier: job.verify.as_ref().map(open),
            job,
            backend: BackendKind::Null,
            files: Arc::default(),
            control: Arc::default(),
            failure: Mutex::new(None),
            gate: (Mutex::new(None), Condvar::new()),
            sender,
        };
        (shared, receiver)
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

    fn wait_at_gate(&self) -> Window {
        let mut gate = lock(&self.gate.0);
        loop {
            if let Some(window) = *gate {
                return window;
            }
            gate = self.gate.1.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

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
    /// Phase and rates.
    pub now: Mutex<(Phase, Live)>,
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

impl Board {
    /// Enter a phase.
    pub fn enter(&self, name: &'static str, length_ns: Option<u64>) {
        lock(&self.now).0 = Phase { name, since_ns: monotonic_ns(), length_ns };
    }

    fn publish(&self, outcome: Outcome) {
        self.enter("done", None);
        *lock(&self.outcome) = Some(outcome);
        self.ended.notify_all();
    }
}

/// A run in progress. Dropping it cancels the run.
pub struct BlockRun {
    control: Arc<Control>,
    board: Arc<Board>,
    last_cpu: Mutex<(u64, ProcessCpu)>,
}

impl BlockRun {
    /// Open the files and start. The load begins when all workers are ready.
    ///
    /// # Errors
    /// [`Error::Spec`] for an impossible order, [`Error::Io`] for what cannot be opened,
    /// [`Error::Backend`] where the backend asked for is forbidden here.
    pub fn start(job: BlockJob) -> Result<Self> {
        Clock::prepare();
        let (backend, note) = choose_backend(&job)?;
        for index in 0..job.jobs {
            Layout::for_job(&job, index)?;
        }
        let files = if backend == BackendKind::Null { Vec::new() } else { open_all(&job)? };
        let verifier = match &job.verify {
            Some(spec) => Some(Verifier::open(spec, &job.members, job.seed)?),
            None => None,
        };
        let (sender, receiver) = channel();
        let control = Arc::new(Control::default());
        let shared = Arc::new(Shared {
            job,
            backend,
            files: Arc::new(files),
            verifier,
            control: control.clone(),
            failure: Mutex::new(None),
            gate: (Mutex::new(None), Condvar::new()),
            sender,
        });
        let phase = Phase { name: "prepare", since_ns: monotonic_ns(), length_ns: None };
        let board = Arc::new(Board {
            now: Mutex::new((phase, Live::default())),
            outcome: Mutex::new(None),
            ended: Condvar::new(),
        });
        spawn_coordinator(shared, &board, receiver, note)?;
        let last_cpu = Mutex::new((monotonic_ns(), ProcessCpu::now()));
        Ok(BlockRun { control, board, last_cpu })
    }

    /// What happens now.
    pub fn snapshot(&self) -> Snapshot {
        let (phase, live) = *lock(&self.board.now);
        let (now, used) = (monotonic_ns(), ProcessCpu::now());
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

impl Drop for BlockRun {
    fn drop(&mut self) {
        if !self.wait(Some(Duration::ZERO)) {
            self.cancel();
        }
    }
}

fn choose_backend(job: &BlockJob) -> Result<(BackendKind, Option<String>)> {
    let null = job.members.iter().filter(|m| m.kind == MemberKind::Null).count();
    if null > 0 && null < job.members.len() {
        return Err(Error::spec("members", "null and real members are mixed", "use one sort"));
    }
    if null > 0 {
        return Ok((BackendKind::Null, None));
    }
    if job.backend != BackendKind::Auto {
        return Ok((job.backend, None));
    }
    let found = probe();
    if found.uring {
        return Ok((BackendKind::Uring, None));
    }
    let note = format!("io_uring is not available ({}): POSIX threads did the I/O", found.reason);
    Ok((BackendKind::Posix, Some(note)))
}

fn open_all(job: &BlockJob) -> Result<Vec<File>> {
    job.members.iter().map(|m| File::open(&m.path, &m.name, job.access())).collect()
}

fn spawn_coordinator(
    shared: Arc<Shared>,
    board: &Arc<Board>,
    receiver: Receiver<Message>,
    note: Option<String>,
) -> Result<()> {
    let board = board.clone();
    let work = move || {
        for index in 0..shared.job.jobs {
            if let Err(error) = spawn_worker(&shared, index) {
                shared.fail(error);
                let ended = Box::new(Ok(WorkerEnd::never_began()));
                shared.send(Message::Done { job: index, ended });
            }
        }
        let mut gatherer = Gatherer::new(&shared, &board, note);
        while let Some(limit) = gatherer.next_wait() {
            match receiver.recv_timeout(limit) {
                Ok(message) => gatherer.take(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            gatherer.look_at_clock();
        }
        let outcome = gatherer.finish();
        drop(shared);
        board.publish(outcome);
    };
    std::thread::Builder::new()
        .name("storlab-run".into())
        .spawn(work)
        .map(|_| ())
        .map_err(|e| Error::io("start a thread for", "the run", 0, e))
}

fn spawn_worker(shared: &Arc<Shared>, index: usize) -> Result<()> {
    let mine = shared.clone();
    let work = move || {
        // A run must end, whatever becomes of one of its threads.
        let work = AssertUnwindSafe(|| work_on_backend(&mine, index));
        let ended = Box::new(catch_unwind(work).unwrap_or_else(|_| {
            let what = format!("job {index} ended by a mistake in storlab: see standard error");
            Err(Error::Backend { backend: mine.backend.name(), what })
        }));
        let sender = mine.sender.clone();
        drop(mine);
        // A receiver that is gone has given up on this worker.
        let _ = sender.send(Message::Done { job: index, ended });
    };
    std::thread::Builder::new()
        .name(format!("storlab-job{index}"))
        .spawn(work)
        .map(|_| ())
        .map_err(|e| Error::io("start a thread for", format!("job {index}"), 0, e))
}

fn work_on_backend(shared: &Shared, index: usize) -> Result<WorkerEnd> {
    let job = &shared.job;
    if let Some(cpus) = job.cpus.as_ref().filter(|c| !c.is_empty()) {
        let cpu = cpus[index % cpus.len()];
        pin_to(cpu).map_err(|e| {
            let what = format!("job {index} cannot run on CPU {cpu}: {e}");
            Error::spec("cpus", what, "name CPUs that this process may use")
        })?;
    }
    if job.open_loop() {
        sharpen_timers();
    }
    let slots = job.read_slots() + job.write_slots();
    let arena = Arena::new(slots, job.longest_block() as usize)
        .map_err(|e| Error::io("get memory for", "buffers", 0, e))?;
    let layout = Layout::for_job(job, index)?;
    let parts = layout.parts_max(job.longest_block()).max(layout.members().len());
    // All parts of all operations at once, as far as threads for them are bearable.
    let threads = (job.queue_depth * parts).min(job.queue_depth.max(THREADS_MAX));
    match shared.backend {
        BackendKind::Null => work_with(shared, index, NullBackend::new(arena)),
        BackendKind::Posix => {
            let backend = PosixBackend::new(shared.files.clone(), arena, threads)
                .map_err(|e| Error::io("start threads for", "backend posix", 0, e))?;
            work_with(shared, index, backend)
        }
        BackendKind::Uring | BackendKind::Auto => {
            let (batch, depth) = (job.batch.min(job.queue_depth) * parts, job.queue_depth * parts);
            let backend = UringBackend::new(shared.files.clone(), arena, batch, depth)?;
            work_with(shared, index, backend)
        }
    }
}

fn work_with<B: Backend>(shared: &Shared, index: usize, backend: B) -> Result<WorkerEnd> {
    lock(&shared.control.wakers).push(backend.waker());
    let features = backend.features();
    let worker = Worker::new(shared, index, backend, Clock::new())?;
    shared.send(Message::Ready { features });
    worker.run(shared.wait_at_gate())
}

#[cfg(test)]
mod tests;

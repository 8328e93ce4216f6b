//! A run of block I/O: opens the files, and starts the workers together.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use storlab_base::{lock, Clock, Error, Result};
use storlab_io::{probe, Arena, Backend, File, NullBackend, PosixBackend, UringBackend};
use storlab_run::control::Control;
use storlab_run::cpu::{pin_to, sharpen_timers, WindowCpu};
use storlab_run::handle::{Board, Run};
use storlab_run::outcome::Outcome;
use storlab_run::sampling::Report;
use storlab_run::window::Window;
use storlab_run::Secrets;

use crate::gather::Gatherer;
use crate::layout::Layout;
use crate::spec::{BackendKind, BlockJob, MemberKind};
use crate::verify::Verifier;
use crate::worker::{Worker, WorkerEnd};

/// Threads of one job of the posix backend, unless its queue is deeper.
const THREADS_MAX: usize = 512;

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
    /// Of the process, at the window's ends.
    pub cpu: WindowCpu,
    failure: Mutex<Option<Error>>,
    gate: (Mutex<Option<Window>>, Condvar),
    sender: Sender<Message>,
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
            cpu: WindowCpu::default(),
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

/// Open the files and start. The load begins when all workers are ready.
///
/// # Errors
/// [`Error::Spec`] for an impossible order, [`Error::Io`] for what cannot be opened,
/// [`Error::Backend`] where the backend asked for is forbidden here.
pub fn start(order: &str, _: &Secrets) -> Result<Run> {
    begin(BlockJob::from_json(order)?)
}

fn begin(job: BlockJob) -> Result<Run> {
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
        cpu: WindowCpu::default(),
        failure: Mutex::new(None),
        gate: (Mutex::new(None), Condvar::new()),
        sender,
    });
    Run::begin(control, move |board| coordinate(shared, board, &receiver, note))
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

fn coordinate(
    shared: Arc<Shared>,
    board: &Board,
    receiver: &Receiver<Message>,
    note: Option<String>,
) -> Outcome {
    for index in 0..shared.job.jobs {
        if let Err(error) = spawn_worker(&shared, index) {
            shared.fail(error);
            let ended = Box::new(Ok(WorkerEnd::never_began()));
            shared.send(Message::Done { job: index, ended });
        }
    }
    let mut gatherer = Gatherer::new(&shared, board, note);
    while let Some(limit) = gatherer.next_wait() {
        match receiver.recv_timeout(limit) {
            Ok(message) => gatherer.take(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        gatherer.look_at_clock();
    }
    let outcome = gatherer.finish();
    drop(shared); // whoever sees the outcome finds the files closed
    outcome
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
    shared.control.add_waker(backend.waker());
    let features = backend.features();
    let worker = Worker::new(shared, index, backend, Clock::new())?;
    shared.send(Message::Ready { features });
    worker.run(shared.wait_at_gate())
}

#[cfg(test)]
mod tests;

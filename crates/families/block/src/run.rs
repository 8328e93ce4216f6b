//! Execute a block run: open the files, start the workers and build the outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use storlab_base::{Clock, Error, Result, lock, monotonic_ns};
use storlab_io::{Arena, Backend, File, NullBackend, PosixBackend, UringBackend, probe};
use storlab_run::Secrets;
use storlab_run::cpu::sharpen_timers;
use storlab_run::handle::Run;
use storlab_run::order::{MemberKind, Order as _};
use storlab_run::outcome::Totals;
use storlab_run::threads::{cores_for, pin_in_turn, unless_ended};
use storlab_run::timed::{self, Ending, Load, Message, Timed, WorkerEnd, unserved_note};

use crate::layout::Layout;
use crate::shared::Shared;
use crate::spec::{BackendKind, BlockJob};
use crate::verify::Verifier;
use crate::worker::Worker;

/// Maximum number of threads of one job on backend `posix`, unless its queue depth is larger.
const THREADS_MAX: usize = 512;

/// Open the files or devices and start a run. The load begins once all workers are ready; if
/// `held`, it also waits until the caller releases the run.
///
/// # Errors
/// [`Error::Spec`] for an invalid order (JSON job description), [`Error::Io`] if a file, a device
/// or the verify state cannot be opened, [`Error::Backend`] if the requested backend is not
/// permitted on this machine.
pub fn start(order: &str, _: &Secrets, held: bool) -> Result<Run> {
    begin(BlockJob::from_json(order)?, held)
}

fn begin(job: BlockJob, held: bool) -> Result<Run> {
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
    let (shared, receiver) = Shared::new(job, backend, files, verifier, note);
    timed::begin(shared, receiver, held)
}

fn choose_backend(job: &BlockJob) -> Result<(BackendKind, Option<String>)> {
    let null = job.members.iter().filter(|m| m.kind == MemberKind::Null).count();
    if null > 0 && null < job.members.len() {
        return Err(Error::spec(
            "members",
            "null targets are mixed with files or devices",
            "use only null targets, or none",
        ));
    }
    if null > 0 {
        return Ok((BackendKind::Null, None));
    }
    if job.backend != BackendKind::Auto {
        return Ok((job.backend, None));
    }
    let probed = probe();
    if probed.uring {
        return Ok((BackendKind::Uring, None));
    }
    let note =
        format!("io_uring is not available ({}), so POSIX threads did the I/O", probed.reason);
    Ok((BackendKind::Posix, Some(note)))
}

fn open_all(job: &BlockJob) -> Result<Vec<File>> {
    job.members.iter().map(|m| File::open(&m.path, &m.name, job.access())).collect()
}

impl Load for Shared {
    const WORKER: &'static str = "job";

    fn timed(&self) -> &Timed {
        &self.timed
    }

    fn backend(&self) -> &'static str {
        self.backend.name()
    }

    fn cores(&self) -> usize {
        let threads = (0..self.job.jobs).map(|index| self.threads_of(index)).sum();
        cores_for(threads, self.job.cpus.as_deref())
    }

    fn work(self: &Arc<Self>, index: usize) -> Result<WorkerEnd> {
        work_on_backend(self, index)
    }

    fn end(&self, _: &BTreeMap<&'static str, Totals>, unserved: u64) -> Ending {
        let features = self.features.get().cloned().unwrap_or_default();
        let verified = lock(&self.verified).take();
        let mut notes: Vec<String> = self.note.iter().cloned().collect();
        notes.extend(unserved_note(unserved, "operations"));
        notes.extend(verified.iter().flat_map(|report| report.notes.iter().cloned()));
        notes.extend(self.buffers_note(&features));
        Ending {
            final_sync_ns: self.final_sync(),
            verify: verified.and_then(|report| serde_json::to_value(report).ok()),
            features,
            notes,
            ..Ending::default()
        }
    }
}

impl Shared {
    /// Return the number of threads of job `index`: its worker, plus the helper threads of backend
    /// `posix`.
    fn threads_of(&self, index: usize) -> usize {
        match (self.backend, Layout::for_job(&self.job, index)) {
            (BackendKind::Posix, Ok(layout)) => match in_flight_at_once(&self.job, &layout) {
                1 => 1, // the worker does the I/O itself
                helpers => 1 + helpers,
            },
            _ => 1,
        }
    }

    /// Flush all files and devices after the load. Return the duration in nanoseconds.
    ///
    /// Flushing a full page cache may take an hour. If the user stops the run meanwhile, the flush
    /// is left to its thread and `None` is returned.
    fn final_sync(&self) -> Option<u64> {
        if !self.job.sync.at_end || self.timed.control.stopping() {
            return None;
        }
        let files = self.files.clone();
        let flushed = unless_ended(&self.timed.control, "the final flush", move || {
            let begin = monotonic_ns();
            files.iter().try_for_each(File::sync).map(|()| monotonic_ns() - begin)
        });
        flushed.and_then(Option::transpose).unwrap_or_else(|error| {
            self.timed.fail(error);
            None
        })
    }

    fn buffers_note(&self, features: &[&str]) -> Option<String> {
        let buffers = self.job.read_slots() + self.job.write_slots() > 0;
        let uring = self.backend.name() == "uring" && !features.is_empty();
        let registered = features.contains(&"registered_buffers");
        (uring && buffers && !registered).then(|| {
            "the kernel refused to register the I/O buffers (memlock limit?), so each operation \
             costs more CPU"
                .to_owned()
        })
    }
}

fn work_on_backend(shared: &Shared, index: usize) -> Result<WorkerEnd> {
    let job = &shared.job;
    pin_in_turn(job.cpus.as_deref(), index, format_args!("job {index}"))?;
    if job.open_loop() {
        sharpen_timers();
    }
    let slots = job.read_slots() + job.write_slots();
    let arena = Arena::new(slots, job.longest_block() as usize)
        .map_err(|e| Error::io("allocation", "buffers", 0, e))?;
    let layout = Layout::for_job(job, index)?;
    match shared.backend {
        BackendKind::Null => work_with(shared, index, NullBackend::new(arena)),
        BackendKind::Posix => {
            let in_flight = in_flight_at_once(job, &layout);
            let backend = PosixBackend::new(shared.files.clone(), arena, in_flight)
                .map_err(|e| Error::io("start", "threads of backend posix", 0, e))?;
            work_with(shared, index, backend)
        }
        BackendKind::Uring | BackendKind::Auto => {
            let parts = parts_of(job, &layout);
            let (batch, depth) = (job.batch.min(job.queue_depth) * parts, job.queue_depth * parts);
            let backend = UringBackend::new(shared.files.clone(), arena, batch, depth)?;
            work_with(shared, index, backend)
        }
    }
}

/// Return the maximum number of parts of one operation.
fn parts_of(job: &BlockJob, layout: &Layout) -> usize {
    layout.parts_max(job.longest_block()).max(layout.members().len())
}

/// Return the maximum number of I/Os that one job has in flight on backend `posix`: the parts of
/// all its operations, limited by the number of threads.
fn in_flight_at_once(job: &BlockJob, layout: &Layout) -> usize {
    (job.queue_depth * parts_of(job, layout)).min(job.queue_depth.max(THREADS_MAX))
}

fn work_with<B: Backend>(shared: &Shared, index: usize, backend: B) -> Result<WorkerEnd> {
    shared.timed.control.add_waker(backend.waker());
    let features = backend.features();
    let worker = Worker::new(shared, index, backend, Clock::new())?;
    shared.features.get_or_init(|| features);
    shared.timed.send(Message::Ready);
    worker.run(shared.timed.wait_at_gate())
}

#[cfg(test)]
mod tests;

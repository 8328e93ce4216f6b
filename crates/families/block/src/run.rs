//! Execute a block run: open the files, start the workers and build the outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use storlab_base::{Clock, Error, Result, lock, monotonic_ns};
use storlab_io::{Arena, Backend, BackendKind, File, Probe, Queue, UseBackend, probe};
use storlab_run::Secrets;
use storlab_run::cpu::sharpen_timers;
use storlab_run::groups::{Group, place_of_worker};
use storlab_run::handle::Run;
use storlab_run::order::{Member, MemberKind};
use storlab_run::outcome::Totals;
use storlab_run::threads::{cores_for, pin_in_turn, unless_ended};
use storlab_run::timed::{self, Ending, Load, Message, Timed, WorkerEnd, unserved_note};

use crate::layout::Layout;
use crate::shared::Shared;
use crate::spec::{BackendChoice, BlockJob};
use crate::verify::Verifier;
use crate::worker::Worker;

/// Open the files or devices and start a run. The load begins once all workers are ready; if
/// `held`, it also waits until the caller releases the run.
///
/// # Errors
/// [`Error::Spec`] for an invalid order (JSON job description), [`Error::Io`] if a file, a device
/// or the verify state cannot be opened, [`Error::Backend`] if the requested backend is not
/// permitted on this machine.
pub fn start(order: &str, _: &Secrets, held: bool) -> Result<Run> {
    begin(Group::parse(order)?, held)
}

fn begin(groups: Vec<Group<BlockJob>>, held: bool) -> Result<Run> {
    Clock::prepare();
    let (backend, note) = choose_backend(&groups)?;
    let (mut shared, receiver) = Shared::new(groups, backend, note)?;
    let Shared { groups, files, verifier, .. } = &mut shared;
    for (Group { job, .. }, files) in groups.iter().zip(files) {
        if backend != BackendKind::Null {
            let open = |m: &Member| File::open(&m.path, &m.name, job.access());
            *files = Arc::new(job.members.iter().map(open).collect::<Result<_>>()?);
        }
        if let Some(spec) = &job.verify {
            *verifier = Some(Verifier::open(spec, &job.members, job.seed)?);
        }
    }
    timed::begin(shared, receiver, held)
}

fn choose_backend(groups: &[Group<BlockJob>]) -> Result<(BackendKind, Option<String>)> {
    let members = || groups.iter().flat_map(|group| &group.job.members);
    let null = members().filter(|m| m.kind == MemberKind::Null).count();
    if null > 0 && null < members().count() {
        return Err(Error::spec(
            "members",
            "null targets are mixed with files or devices",
            "use only null targets, or none",
        ));
    }
    match groups[0].job.backend {
        _ if null > 0 => Ok((BackendKind::Null, None)),
        BackendChoice::Given(backend) => Ok((backend, None)),
        BackendChoice::Auto => match probe() {
            probed if probed.uring => Ok((BackendKind::Uring, None)),
            Probe { reason, .. } => {
                let note =
                    format!("io_uring is not available ({reason}), so POSIX threads did the I/O");
                Ok((BackendKind::Posix, Some(note)))
            }
        },
    }
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
        let threads_of = |(index, layout)| {
            let (number, _) = place_of_worker(&self.groups, index);
            self.backend.threads(queue(&self.groups[number].job, layout))
        };
        let threads = self.layouts.iter().enumerate().map(threads_of).sum();
        // With a group that is not pinned, all cores can be used.
        let pinned = self.groups.iter().map(|group| group.job.cpus.clone());
        let cpus = pinned.collect::<Option<Vec<_>>>().map(|lists| lists.concat());
        cores_for(threads, cpus.as_deref())
    }

    fn work(self: &Arc<Self>, index: usize) -> Result<WorkerEnd> {
        let (number, own) = place_of_worker(&self.groups, index);
        let (Group { job, .. }, files) = (&self.groups[number], &self.files[number]);
        let queue = queue(job, &self.layouts[index]);
        pin_in_turn(job.cpus.as_deref(), own, format_args!("job {index}"))?;
        if job.open_loop() {
            sharpen_timers();
        }
        let slots = job.read_slots() + job.write_slots();
        let arena = Arena::new(slots, job.longest_block() as usize)
            .map_err(|e| Error::io("allocation", "buffers", 0, e))?;
        self.backend.open(files.clone(), arena, queue, Work { shared: self, index })
    }

    fn end(&self, _: &BTreeMap<&'static str, Totals>, unserved: u64) -> Ending {
        let features = self.features.get().cloned().unwrap_or_default();
        let verified = lock(&self.verified).take();
        let mut notes: Vec<String> = self.note.iter().cloned().collect();
        notes.extend(unserved_note(unserved, "operations"));
        notes.extend(lock(&self.resets).note());
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

/// Return the queue depth, batch size and parts per operation of a job with this layout.
fn queue(job: &BlockJob, layout: &Layout) -> Queue {
    let depth = job.queue_depth;
    let parts = layout.parts_max(job.longest_block()).max(layout.members().len());
    Queue { depth, batch: job.batch.min(depth), parts }
}

impl Shared {
    /// Flush all files and devices after the load. Return the duration in nanoseconds.
    ///
    /// Flushing a full page cache may take an hour. If the user stops the run meanwhile, the flush
    /// is left to its thread and `None` is returned.
    fn final_sync(&self) -> Option<u64> {
        let flushing = self.groups.iter().zip(&self.files).filter(|(g, _)| g.job.sync.at_end);
        let files: Vec<Arc<Vec<File>>> = flushing.map(|(_, files)| files.clone()).collect();
        if files.is_empty() || self.timed.control.stopping() {
            return None;
        }
        let flushed = unless_ended(&self.timed.control, "the final flush", move || {
            let begin = monotonic_ns();
            let mut all = files.iter().flat_map(|files| files.iter());
            all.try_for_each(File::sync).map(|()| monotonic_ns() - begin)
        });
        flushed.and_then(Option::transpose).unwrap_or_else(|error| {
            self.timed.fail(error);
            None
        })
    }

    fn buffers_note(&self, features: &[&str]) -> Option<String> {
        let buffers = self.groups.iter().any(|group| group.job.buffer_bytes() > 0);
        let uring = self.backend.name() == "uring" && !features.is_empty();
        let registered = features.contains(&"registered_buffers");
        (uring && buffers && !registered).then(|| {
            "the kernel refused to register the I/O buffers (memlock limit?), so each operation \
             costs more CPU"
                .to_owned()
        })
    }
}

/// Work of one job, called with its backend: creates the worker and runs it.
struct Work<'r> {
    shared: &'r Shared,
    index: usize,
}

impl UseBackend for Work<'_> {
    type Output = WorkerEnd;

    fn with<B: Backend>(self, backend: B) -> Result<WorkerEnd> {
        let Work { shared, index } = self;
        shared.timed.control.add_waker(backend.waker());
        let features = backend.features();
        let worker = Worker::new(shared, index, backend, Clock::new())?;
        shared.features.get_or_init(|| features);
        shared.timed.send(Message::Ready);
        worker.run(shared.timed.wait_at_gate())
    }
}

#[cfg(test)]
mod tests;

//! Execute a run: open GPUs and libraries, verify the data path (first pass), start the load of all
//! workers together, and read back their writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use storlab_base::{Clock, Result, Signal};
use storlab_io::{Backend, Wake};
use storlab_run::Secrets;
use storlab_run::cpu::sharpen_timers;
use storlab_run::handle::Run;
use storlab_run::order::Order as _;
use storlab_run::outcome::Totals;
use storlab_run::threads::{cores_for, pin_in_turn};
use storlab_run::timed::{self, Ending, Load, Message, Timed, WorkerEnd, unserved_note};

use crate::details::{After, details};
use crate::first_pass::{self, Failed};
use crate::paths::{
    Bounce, DirectAsync, DirectBatch, DirectSync, Host, InTurn, Mover, Overlapped, Use,
    WorkerResources, begin_overlapped,
};
use crate::probe;
use crate::read_back::read_back;
use crate::shared::Shared;
use crate::spec::{Api, GpuDirectJob, Route, Task};
use crate::worker::Worker;

/// Start a run. The load begins once all workers are ready; if `held`, it also waits until the
/// caller releases the run.
///
/// Problems with GPUs and libraries are reported in the outcome of the run.
///
/// # Errors
/// [`storlab_base::Error::Spec`] for an invalid job description.
pub fn start(order: &str, _: &Secrets, held: bool) -> Result<Run> {
    let job = GpuDirectJob::from_json(order)?;
    Clock::prepare();
    if job.task == Task::Probe {
        return probe::begin(job, held);
    }
    let (shared, receiver) = Shared::new(job);
    timed::begin(shared, receiver, held)
}

impl Load for Shared {
    const WORKER: &'static str = "worker";

    fn timed(&self) -> &Timed {
        &self.timed
    }

    fn backend(&self) -> &'static str {
        match self.job.path {
            Route::Direct => "cufile",
            Route::Bounce | Route::BounceOverlapped => "cuda",
            Route::Host => "posix",
        }
    }

    fn cores(&self) -> usize {
        cores_for(self.job.workers, self.job.cpus.as_deref())
    }

    fn work(self: &Arc<Self>, index: usize) -> Result<WorkerEnd> {
        work(self, index)
    }

    fn end(&self, _: &BTreeMap<&'static str, Totals>, unserved: u64) -> Ending {
        let after = After::read(self);
        let (compared, failure) = match read_back(self) {
            Ok(compared) => (compared, None),
            Err((compared, error)) => (compared, Some(error)),
        };
        let mut ending = details(self, &after, compared);
        ending.notes.extend(unserved_note(unserved, "operations"));
        ending.failure = failure;
        ending
    }
}

fn work(shared: &Shared, index: usize) -> Result<WorkerEnd> {
    let job = &shared.job;
    pin_in_turn(job.cpus.as_deref(), index, format_args!("worker {index}"))?;
    // If the stack (GPUs and libraries) could not be opened, the run has already failed with the
    // reason.
    let Some(stack) = shared.stack() else { return Ok(WorkerEnd::default()) };
    let waits = job.path == Route::BounceOverlapped || job.api == Api::Async;
    if job.arrival.open_loop() || waits {
        sharpen_timers();
    }
    let resources = WorkerResources::take(job, index, &stack)?;
    drop(stack);
    match (job.path, job.api) {
        (Route::Host, _) => with(shared, index, InTurn::new(Host::new(shared, resources)?)),
        (Route::Bounce, _) => with(shared, index, InTurn::new(Bounce::new(shared, resources)?)),
        (Route::BounceOverlapped, _) => begin_overlapped(shared, resources, Ring { shared, index }),
        (Route::Direct, Api::Sync) => {
            with(shared, index, InTurn::new(DirectSync::new(shared, resources)?))
        }
        (Route::Direct, Api::Batch) => with(shared, index, DirectBatch::new(shared, resources)?),
        (Route::Direct, Api::Async) => with(shared, index, DirectAsync::new(shared, resources)?),
    }
}

/// Runs a worker once its overlapped data path, which waits in an I/O backend, is open.
struct Ring<'r> {
    shared: &'r Shared,
    index: usize,
}

impl Use for Ring<'_> {
    type Output = WorkerEnd;

    fn with<B: Backend>(self, mover: Overlapped<B>, waker: Arc<dyn Wake>) -> Result<WorkerEnd> {
        self.shared.timed.control.add_waker(waker);
        with(self.shared, self.index, mover)
    }
}

fn with<M: Mover>(shared: &Shared, index: usize, mut mover: M) -> Result<WorkerEnd> {
    let nap = Arc::new(Signal::<bool>::default());
    shared.timed.control.add_waker(nap.clone());
    if let Err(Failed { error, stuck }) = first_pass::check(shared, index, &mut mover) {
        if stuck {
            std::mem::forget(mover);
        }
        return Err(error);
    }
    let worker = Worker::new(shared, index, mover, nap)?;
    shared.arrive();
    shared.timed.send(Message::Ready);
    worker.run(shared.timed.wait_at_gate())
}

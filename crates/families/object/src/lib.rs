//! Load on an object store.
//!
//! Each worker is a thread with a runtime of its own, and as many request slots as its share of the
//! concurrency. A slot has one request in flight at a time, over keep-alive connections that nobody
//! else uses. Workers share which objects there are, and nothing else while requests are out.

mod coordinator;
mod draw;
mod kind;
mod multipart;
mod pool;
mod recorder;
mod requests;
mod shared;
mod sizes;
mod slot;
mod spec;
mod tasks;
mod timer;
mod worker;

use std::sync::mpsc::channel;
use std::sync::Arc;

use storlab_base::{Clock, Result};
use storlab_run::cpu::available_cores;
use storlab_run::handle::Run;
use storlab_run::Secrets;
use storlab_s3::{Credentials, Store};

use draw::Draw;
use kind::ObjectKind;
use pool::Objects;
use shared::Shared;
use spec::ObjectJob;

/// Start a run. The load begins when all workers are ready. Without credentials, requests are not
/// signed.
///
/// # Errors
/// [`storlab_base::Error::Spec`] for an impossible order or store, [`storlab_base::Error::Io`] for
/// an endpoint's name that does not resolve or a file that cannot be read.
pub fn start(order: &str, secrets: &Secrets) -> Result<Run> {
    begin(ObjectJob::from_json(order)?, Credentials::from_map(secrets)?)
}

fn begin(job: ObjectJob, credentials: Option<Credentials>) -> Result<Run> {
    Clock::prepare();
    Draw::new(&job, 0)?;
    let store = Store::new(&job.store, credentials)?;
    let kinds = job.kinds();
    let deletes = [ObjectKind::Delete, ObjectKind::MultiDelete].iter().any(|k| kinds.contains(k));
    let objects = Objects::new(&job, deletes)?;
    let threads = job.threads.unwrap_or_else(available_cores).min(job.slots().len());
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared::new(job, store, objects, threads, sender));
    let control = shared.control.clone();
    Run::begin(control, move |board| coordinator::coordinate(&shared, board, &receiver))
}

//! Execute a run of the object family: start its worker threads, each with its own async runtime,
//! and build the outcome.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Map, Value, json};
use storlab_base::{Clock, Error, Result, lock, monotonic_ns};
use storlab_io::Wake;
use storlab_run::Secrets;
use storlab_run::cpu::{available_cores, sharpen_timers};
use storlab_run::groups::{Group, place_of_worker};
use storlab_run::handle::Run;
use storlab_run::outcome::Totals;
use storlab_run::recorder::Reading;
use storlab_run::threads::panicked;
use storlab_run::timed::{self, Ending, Load, Message, Timed, WorkerEnd, unserved_note};
use storlab_run::window::Window;
use storlab_s3::content::Content;
use storlab_s3::{Credentials, Store};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::draw::Draw;
use super::pool::Objects;
use super::shared::{Examples, Shared};
use super::slot::Slot;
use super::spec::{ObjectJob, Task};
use super::tasks;
use super::worker::Worker;

/// Thresholds for giving up a run: if after `HOPELESS_NS` no request has succeeded and more than
/// `HOPELESS_ERRORS` attempts have failed, the run ends early instead of continuing for hours.
const HOPELESS_NS: u64 = 30_000_000_000;
const HOPELESS_ERRORS: u64 = 1_000;
/// Number of pauses after refused or broken connections above which a run without a success is also
/// given up. Slots that pause make few attempts, so few attempts fail.
const HOPELESS_RESTS: u64 = 100;

/// Start a run. The load begins once all workers are ready; if `held`, it also waits until the
/// caller releases the run. Without credentials, requests are not signed.
///
/// # Errors
/// [`storlab_base::Error::Spec`] for an invalid job description or store,
/// [`storlab_base::Error::Io`] if the name of an endpoint does not resolve or the file of
/// certificate authorities cannot be read.
pub fn start(order: &str, secrets: &Secrets, held: bool) -> Result<Run> {
    begin(Group::parse(order)?, Credentials::from_map(secrets)?, held)
}

fn begin(
    groups: Vec<Group<ObjectJob>>,
    credentials: Option<Credentials>,
    held: bool,
) -> Result<Run> {
    Clock::prepare();
    groups.iter().try_for_each(|group| Draw::new(&group.job, 0).map(drop))?;
    let store = Store::new(&groups[0].job.store, credentials)?;
    let objects_of = |group: &Group<ObjectJob>| Objects::new(&group.job, group.job.deletes());
    let objects = groups.iter().map(objects_of).collect::<Result<_>>()?;
    let (shared, receiver) = Shared::new(groups, store, objects);
    timed::begin(shared, receiver, held)
}

impl Load for Shared {
    const WORKER: &'static str = "worker";

    fn timed(&self) -> &Timed {
        &self.timed
    }

    fn backend(&self) -> &'static str {
        "s3"
    }

    fn cores(&self) -> usize {
        self.threads().min(available_cores())
    }

    fn work(self: &Arc<Self>, index: usize) -> Result<WorkerEnd> {
        work(self, index)
    }

    fn look(&self, window: &Window, now: u64) {
        let counts = &self.counts;
        let long = now > window.load_start_ns.saturating_add(HOPELESS_NS);
        let nothing = counts.workers_served.load(Relaxed) == 0;
        let many = counts.failed.load(Relaxed) > HOPELESS_ERRORS
            || counts.rests.load(Relaxed) > HOPELESS_RESTS;
        if long && nothing && many {
            self.timed.control.end_soon();
        }
    }

    /// Estimate the total duration of a fill (writing the pool) from its progress so far.
    fn expected_ns(&self, window: &Window) -> Option<u64> {
        let (done, all) = self.progress.bytes();
        let passed = monotonic_ns().saturating_sub(window.start_ns);
        (done > 0 && window.start_ns > 0).then(|| (passed as f64 * all as f64 / done as f64) as u64)
    }

    fn end(&self, totals: &BTreeMap<&'static str, Totals>, unserved: u64) -> Ending {
        let examples = self.take_examples();
        Ending {
            notes: self.notes(&examples, unserved),
            details: self.details(&examples),
            failure: nothing_done(totals, &examples),
            ..Ending::default()
        }
    }
}

impl Shared {
    fn notes(&self, examples: &Examples, unserved: u64) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(unserved_note(unserved, "requests"));
        for (bodies, what) in [
            (&examples.wrong, "differed from the stored objects"),
            (&examples.short, "were truncated because their connection ended"),
        ] {
            if bodies.count > 0 {
                let examples = bodies.examples.join("; ");
                notes.push(format!("{} response bodies {what}, such as {examples}", bodies.count));
            }
        }
        let counts = &self.counts;
        let rests = counts.rests.load(Relaxed);
        if rests > 0 {
            notes.push(format!(
                "connections were refused or broken repeatedly, so storlab paused {rests} times \
                 and sent at most about 1,000 such requests per second; the number of errors \
                 therefore says nothing about the speed of the store"
            ));
        }
        for (count, what) in [
            (
                &counts.repeated_draws,
                "times a request was drawn again, because no object existed for it",
            ),
            (
                &counts.aborts_failed,
                "failed multipart uploads may still be open, because they could not be aborted",
            ),
        ] {
            match count.load(Relaxed) {
                0 => {}
                count => notes.push(format!("{count} {what}")),
            }
        }
        notes
    }

    fn details(&self, examples: &Examples) -> Map<String, Value> {
        let counts = &self.counts;
        let mut details = Map::new();
        for (name, count) in [
            ("connections", &counts.connections),
            ("retries", &counts.retries),
            ("deleted_keys", &counts.deleted_keys),
            ("repeated_draws", &counts.repeated_draws),
        ] {
            details.insert(name.to_owned(), json!(count.load(Relaxed)));
        }
        details.insert("threads".to_owned(), json!(self.threads()));
        let texts: BTreeMap<_, _> =
            examples.errors.iter().map(|(kind, example)| (kind, &example.text)).collect();
        details.insert("error_examples".to_owned(), json!(texts));
        let endpoints = lock(&self.endpoints).rows(|endpoint| self.store.endpoint_name(endpoint));
        details.insert("endpoints".to_owned(), Value::Array(endpoints));
        details
    }
}

/// Run worker `index` on the current thread.
fn work(shared: &Arc<Shared>, index: usize) -> Result<WorkerEnd> {
    let no = |e| Error::io("start", format!("a runtime for worker {index}"), 0, e);
    let (number, own) = place_of_worker(&shared.groups, index);
    let group = &shared.groups[number];
    if group.open_loop {
        sharpen_timers();
    }
    let clock = Clock::new();
    let draw = Draw::new(&group.job, own)?;
    // A local runtime has one queue for slots and connections. A LocalSet inside a runtime would
    // have two, and each response would pass through both.
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(LocalOptions::default()).map_err(no)?;
    let nudge = Arc::new(RuntimeWaker::default());
    shared.timed.control.add_waker(nudge.clone());
    // Generate the pattern of all request bodies now, because it would take time during the load.
    Content::of("");
    shared.timed.send(Message::Ready);
    let window = shared.timed.wait_at_gate();
    window.wait_for_start(&clock);
    runtime.block_on(async {
        let worker = Rc::new(Worker::new(shared, index, clock, draw, window)?);
        drive(&worker, &nudge).await
    })
}

/// Generate the load, measure it, and wait for the last requests.
async fn drive(worker: &Rc<Worker>, nudge: &RuntimeWaker) -> Result<WorkerEnd> {
    let mut slots = JoinSet::new();
    let job = worker.job();
    let slot_lanes = job.slots().into_iter().enumerate();
    for (number, lane) in slot_lanes.filter(|&(number, _)| worker.has_slot(number)) {
        let slot = Slot::new(worker.clone(), lane);
        match job.task {
            Task::Run => slots.spawn_local(slot.run()),
            Task::Fill => slots.spawn_local(tasks::fill(slot)),
            Task::Clean => slots.spawn_local(tasks::clean(slot, number == 0)),
        };
    }
    while !worker.shared.timed.control.stopping() {
        let now = worker.tick();
        let give_up = worker.give_up_ns();
        if now >= give_up {
            worker.fail_as_hung();
            break;
        }
        let until = worker.recorder.borrow().boundary_ns().min(give_up);
        tokio::select! {
            ended = slots.join_next() => match ended {
                None => break,
                Some(Ok(())) => {}
                Some(Err(_)) => return Err(panicked("s3", format_args!("worker {}", worker.index))),
            },
            () = nudge.0.notified() => {}
            () = tokio::time::sleep(Duration::from_nanos(until - now)) => {}
        }
    }
    wait_for_the_end(worker, nudge).await;
    let unserved = worker.count_unserved().await;
    lock(&worker.shared.endpoints).add(&worker.endpoints.take());
    let mut recorder = worker.recorder.borrow_mut();
    recorder.finish(&worker.shared.timed, Reading::of_this_thread);
    let unfinished = recorder.unfinished().to_vec();
    Ok(WorkerEnd { last_completion_ns: recorder.last_completion_ns(), unserved, unfinished })
}

/// Wait until the window ends, because an open loop may have sent its last request long before the
/// end.
async fn wait_for_the_end(worker: &Worker, nudge: &RuntimeWaker) {
    let end_ns = worker.window.end_ns;
    while end_ns != u64::MAX && !worker.shared.timed.control.stopping() {
        let now = worker.tick();
        if now >= end_ns {
            return;
        }
        let until = worker.recorder.borrow().boundary_ns().min(end_ns);
        tokio::select! {
            () = nudge.0.notified() => {}
            () = tokio::time::sleep(Duration::from_nanos(until - now)) => {}
        }
    }
}

/// Wakes a worker's runtime from any thread.
#[derive(Default)]
struct RuntimeWaker(Notify);

impl Wake for RuntimeWaker {
    fn wake(&self) {
        self.0.notify_one();
    }
}

/// Return an error if no request of the run succeeded. It describes the most frequent failure.
fn nothing_done(totals: &BTreeMap<&'static str, Totals>, examples: &Examples) -> Option<Error> {
    if totals.values().any(|t| t.operations + t.late_operations > 0) {
        return None;
    }
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in totals.values().flat_map(|totals| &totals.errors) {
        *errors.entry(kind).or_default() += count;
    }
    let (kind, count) = errors.into_iter().max_by_key(|&(_, count)| count)?;
    let example = examples.errors.get(kind);
    let text = example.map_or(kind, |example| &example.text);
    let what = format!("no request succeeded; {count} failed with {kind}, for example: {text}");
    Some(Error::dependency(what, example.map_or("", |example| example.advice)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::job_with;

    /// Return whether a run of one hour whose load began `since_ns` ago is given up.
    fn is_given_up(since_ns: u64, succeeded: u64, failed: u64, rests: u64) -> bool {
        let job = job_with(|j| {
            j["window_ns"] = json!(3_600_000_000_000u64);
        });
        let store = Store::new(&job.store, None).unwrap();
        let objects = Objects::new(&job, false).unwrap();
        let (shared, _receiver) = Shared::new(Group::alone(job), store, vec![objects]);
        shared.counts.workers_served.store(succeeded, Relaxed);
        shared.counts.failed.store(failed, Relaxed);
        shared.counts.rests.store(rests, Relaxed);
        let now = monotonic_ns();
        let start_ns = now - since_ns;
        shared.look(&Window { load_start_ns: start_ns, start_ns, end_ns: u64::MAX }, now);
        shared.timed.control.stopping()
    }

    #[test]
    fn a_store_that_answers_nothing_but_errors_is_not_asked_for_ever() {
        let long = HOPELESS_NS + 1_000_000_000;
        assert!(is_given_up(long, 0, HOPELESS_ERRORS + 1, 0));
        assert!(!is_given_up(long, 1, HOPELESS_ERRORS + 1, 0));
        assert!(!is_given_up(long, 0, HOPELESS_ERRORS, 0));
        assert!(!is_given_up(1_000_000_000, 0, HOPELESS_ERRORS + 1, 0));
        // Slots that pause make too few attempts to reach `HOPELESS_ERRORS`, so the number of
        // pauses decides.
        assert!(is_given_up(long, 0, 200, HOPELESS_RESTS + 1));
        assert!(!is_given_up(long, 1, 200, HOPELESS_RESTS + 1));
    }
}

//! Tests of the start of a load, and of workers that never get ready.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::outcome::Status;
use crate::sampling::empty_table;

const MS: u64 = 1_000_000;
const RAMP_NS: u64 = 3 * MS;
const WINDOW_NS: u64 = 20 * MS;
const KIND: Kind = Kind::new(0, "tick");
/// Time in ns longer than any step of a test takes.
const LONG_NS: u64 = 60_000 * MS;

/// Work of one worker, given its index.
type Work = fn(&Fake, usize);

/// Load of three workers whose work is a function.
struct Fake {
    timed: Timed,
    work: Work,
    submitted: AtomicU64,
}

impl Load for Fake {
    const WORKER: &'static str = "fake";

    fn timed(&self) -> &Timed {
        &self.timed
    }

    fn backend(&self) -> &'static str {
        "test"
    }

    fn cores(&self) -> usize {
        1
    }

    fn work(self: &Arc<Self>, index: usize) -> Result<WorkerEnd> {
        (self.work)(self, index);
        Ok(WorkerEnd::default())
    }

    fn end(&self, _: &BTreeMap<&'static str, Totals>, _: u64) -> Ending {
        let mut ending = Ending::default();
        ending.details.insert("submitted".into(), self.submitted.load(Relaxed).into());
        ending.details.insert("gave_up".into(), self.timed.gave_up().into());
        ending
    }
}

/// Submit one operation as soon as the load starts, then wait for the window's end.
fn tick(fake: &Fake, _: usize) {
    fake.timed.send(Message::Ready);
    let window = fake.timed.wait_at_gate();
    sleep_until(window.load_start_ns);
    if fake.timed.control.stopping() {
        return;
    }
    fake.submitted.fetch_add(1, Relaxed);
    fake.timed.first_io.submitted(monotonic_ns(), window.load_start_ns);
    sleep_until(window.end_ns);
}

/// Let the first worker never reach the gate, even when the run ends; the others behave normally.
fn stuck(fake: &Fake, index: usize) {
    if index == 0 {
        loop {
            sleep_until(monotonic_ns() + LONG_NS);
        }
    }
    come_in_vain(fake);
}

/// Let the first worker reach the gate only after the run is over; the others behave normally.
fn stuck_until_stopped(fake: &Fake, index: usize) {
    while index == 0 && !fake.timed.control.stopping() {
        sleep_until(monotonic_ns() + MS);
    }
    come_in_vain(fake);
}

fn come_in_vain(fake: &Fake) {
    fake.timed.send(Message::Ready);
    fake.timed.wait_at_gate();
    assert!(fake.timed.control.stopping());
}

fn sleep_until(at_ns: u64) {
    std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns())));
}

fn plan() -> Plan {
    Plan {
        workers: 3,
        ramp_ns: RAMP_NS,
        window_ns: Some(WINDOW_NS),
        interval_ns: WINDOW_NS,
        drain_timeout_ns: LONG_NS,
        arm_timeout_ns: LONG_NS,
        open_loop: false,
        kinds: vec![KIND],
        groups: Vec::new(),
        prepares: false,
    }
}

fn load(plan: Plan, work: Work) -> (Fake, Receiver<Message>) {
    let (timed, receiver) = Timed::new(plan);
    (Fake { timed, work, submitted: AtomicU64::new(0) }, receiver)
}

fn started(work: Work, arm_timeout_ns: u64, held: bool) -> Run {
    let (load, receiver) = load(Plan { arm_timeout_ns, ..plan() }, work);
    begin(load, receiver, held).unwrap()
}

fn run(held: bool) -> Run {
    started(tick, LONG_NS, held)
}

fn armed() -> Run {
    let run = run(true);
    while !run.armed() {
        std::thread::yield_now();
    }
    run
}

fn ended(run: &Run) -> Summary {
    assert!(run.wait(Some(Duration::from_nanos(LONG_NS))), "the run goes on for ever");
    run.outcome().unwrap().summary
}

#[test]
fn a_held_run_does_nothing_until_it_is_told_and_starts_at_its_time() {
    let run = armed();
    assert_eq!(run.snapshot().phase.name, "armed");
    assert!(!run.wait(Some(Duration::from_millis(50))), "it did not wait");
    assert_eq!(run.snapshot().phase.name, "armed");
    let start_ns = monotonic_ns() + 3_000 * MS;
    assert!(run.open_at(start_ns));
    assert!(!run.open_at(start_ns + MS), "told twice");
    let summary = ended(&run);
    assert_eq!(summary.status, Status::Finished);
    assert_eq!(summary.window_start_ns, start_ns + RAMP_NS);
    assert_eq!(summary.window_end_ns, start_ns + RAMP_NS + WINDOW_NS);
    assert_eq!(summary.details["submitted"], 3);
    let (first, last) = (summary.first_io_late_ns.unwrap(), summary.last_worker_late_ns.unwrap());
    assert!(first <= last && last < LONG_NS, "{first} {last}");
    assert!(run.armed() && !run.open_at(0));
}

#[test]
fn a_run_may_be_told_before_it_is_ready() {
    let run = run(true);
    let start_ns = monotonic_ns() + 120 * MS;
    assert!(run.open_at(start_ns));
    let summary = ended(&run);
    let late_ns = summary.window_start_ns - RAMP_NS - start_ns;
    assert!(late_ns < LONG_NS);
    assert!(summary.first_io_late_ns.unwrap() >= late_ns);
}

#[test]
fn a_start_in_the_past_is_now_and_counted_as_late() {
    let run = armed();
    let now = monotonic_ns();
    assert!(run.open_at(now - 40 * MS));
    let summary = ended(&run);
    assert_eq!(summary.status, Status::Finished);
    assert!(summary.window_start_ns >= now + RAMP_NS, "the window began without a load");
    assert_eq!(summary.details["submitted"], 3);
    assert!(summary.first_io_late_ns.unwrap() >= 40 * MS);
}

#[test]
fn a_held_run_is_cancelled_before_and_after_it_is_told() {
    for start_ns in [None, Some(u64::MAX / 2), Some(monotonic_ns() + LONG_NS)] {
        let run = armed();
        assert!(start_ns.is_none_or(|at_ns| run.open_at(at_ns)));
        run.cancel();
        let summary = ended(&run);
        assert_eq!(summary.status, Status::Cancelled);
        assert_eq!(summary.details["submitted"], 0);
        assert_eq!((summary.first_io_late_ns, summary.last_worker_late_ns), (None, None));
    }
}

#[test]
fn a_run_that_is_not_held_cannot_be_told() {
    let run = run(false);
    assert!(!run.open_at(0) && !run.armed());
    let summary = ended(&run);
    assert_eq!(summary.details["submitted"], 3);
    assert!(summary.first_io_late_ns.is_some() && !run.armed());
}

#[test]
fn a_worker_that_never_gets_ready_fails_the_run() {
    let summary = ended(&started(stuck, 50 * MS, false));
    assert_eq!((summary.status, &summary.details["gave_up"]), (Status::Failed, &true.into()));
    let failure = summary.failure.unwrap();
    assert!(failure.message.starts_with("1 of the workers did not get ready"), "{failure:?}");
    assert!(failure.fix.contains("does not return"));
}

#[test]
fn a_run_whose_worker_never_gets_ready_can_be_cancelled() {
    for (work, gives_up) in [(stuck as Work, true), (stuck_until_stopped, false)] {
        let run = started(work, LONG_NS, false);
        run.cancel();
        let summary = ended(&run);
        assert_eq!((summary.status, summary.failure.is_none()), (Status::Cancelled, true));
        assert_eq!(summary.details["gave_up"], gives_up);
    }
}

/// Return an interval report of the first worker with this many operations.
fn interval(operations: u64) -> Message {
    let mut kinds = empty_table(&[KIND], false);
    kinds[0].as_mut().unwrap().operations = operations;
    Message::Interval(Box::new(Report::new(0, kinds)))
}

/// Return the failure of a load after an hour in which only `message` arrives, every ten minutes;
/// `None` if it has not failed.
fn failed_after_an_hour(plan: Plan, message: Option<fn() -> Message>) -> Option<String> {
    let (fake, _receiver) = load(plan, tick);
    let board = Board::new();
    let mut coordinator = Coordinator::new(&fake, &board);
    coordinator.open_window();
    for second in 0..3600 {
        if let Some(message) = message.filter(|_| second % 600 == 0) {
            coordinator.take(message());
        }
        coordinator.give_up_on_the_idle(coordinator.window.start_ns + second * 1000 * MS);
    }
    fake.timed.take_failure().map(|error| error.to_string())
}

#[test]
fn a_window_by_bytes_in_which_nothing_is_done_any_more_fails() {
    let by_bytes = || Plan { window_ns: None, ..plan() };
    let failed = failed_after_an_hour(by_bytes(), None).unwrap();
    assert!(failed.starts_with("3 of the workers did not respond for 180"), "{failed}");
    let nothing = || interval(0);
    assert!(failed_after_an_hour(by_bytes(), Some(nothing)).is_some());
    // The load is not idle if operations end, or if its schedule has none due.
    assert_eq!(failed_after_an_hour(by_bytes(), Some(|| interval(1))), None);
    let paced = Plan { open_loop: true, ..by_bytes() };
    assert_eq!(failed_after_an_hour(paced, Some(nothing)), None);
    assert_eq!(failed_after_an_hour(plan(), None), None, "a window by time ends");
}

#[test]
fn a_coordinator_that_was_stopped_for_hours_has_not_seen_silence() {
    let (fake, _receiver) = load(Plan { window_ns: None, ..plan() }, tick);
    let board = Board::new();
    let mut coordinator = Coordinator::new(&fake, &board);
    coordinator.open_window();
    for hour in 0..10 {
        coordinator.give_up_on_the_idle(hour * 3600 * 1000 * MS);
    }
    assert!(fake.timed.take_failure().is_none());
}

#[test]
fn workers_that_are_given_up_are_counted_as_such() {
    let (fake, _receiver) = load(plan(), tick);
    let board = Board::new();
    let mut coordinator = Coordinator::new(&fake, &board);
    coordinator.take(Message::Done { job: 1, ended: Box::new(Ok(WorkerEnd::default())) });
    coordinator.give_up_on_the_silent(3 * LONG_NS, 0);
    let error = fake.timed.take_failure().unwrap().to_string();
    assert_eq!(error, "2 of the workers did not respond for 180000 ms");
}

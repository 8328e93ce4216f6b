//! When the load of a run starts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::outcome::Status;

const MS: u64 = 1_000_000;
const RAMP_NS: u64 = 3 * MS;
const WINDOW_NS: u64 = 20 * MS;
/// In which every machine has done anything.
const LONG_NS: u64 = 60_000 * MS;

/// Each worker submits one operation as soon as the load starts, and waits for the window's end.
struct Ticks {
    timed: Timed,
    submitted: AtomicU64,
}

impl Deref for Ticks {
    type Target = Timed;

    fn deref(&self) -> &Timed {
        &self.timed
    }
}

impl Load for Ticks {
    const WORKER: &'static str = "ticker";

    fn backend(&self) -> &'static str {
        "test"
    }

    fn cores(&self) -> usize {
        1
    }

    fn work(self: &Arc<Self>, _: usize) -> Result<WorkerEnd> {
        self.timed.send(Message::Ready);
        let window = self.timed.wait_at_gate();
        sleep_until(window.load_start_ns);
        if self.timed.control.stopping() {
            return Ok(WorkerEnd::default());
        }
        self.submitted.fetch_add(1, Relaxed);
        self.timed.first_io.submitted(monotonic_ns(), window.load_start_ns);
        sleep_until(window.end_ns);
        Ok(WorkerEnd::default())
    }

    fn end(&self, _: &BTreeMap<&'static str, Totals>, _: u64) -> Ending {
        let mut ending = Ending::default();
        ending.details.insert("submitted".into(), self.submitted.load(Relaxed).into());
        ending
    }
}

fn sleep_until(at_ns: u64) {
    std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns())));
}

fn run(held: bool) -> Run {
    let (timed, receiver) = Timed::new(Plan {
        workers: 3,
        ramp_ns: RAMP_NS,
        window_ns: Some(WINDOW_NS),
        interval_ns: WINDOW_NS,
        drain_timeout_ns: LONG_NS,
        arm_timeout_ns: LONG_NS,
        open_loop: false,
        kinds: vec![Kind { place: 0, name: "tick" }],
        prepares: false,
    });
    if held {
        timed.control.hold();
    }
    begin(Ticks { timed, submitted: AtomicU64::new(0) }, receiver, held).unwrap()
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

/// The first worker never comes to the gate; the others do.
struct Stuck {
    timed: Timed,
    behind: bool,
}

impl Deref for Stuck {
    type Target = Timed;

    fn deref(&self) -> &Timed {
        &self.timed
    }
}

impl Load for Stuck {
    const WORKER: &'static str = "stuck";

    fn backend(&self) -> &'static str {
        "test"
    }

    fn cores(&self) -> usize {
        1
    }

    fn work(self: &Arc<Self>, index: usize) -> Result<WorkerEnd> {
        while index == 0 && (self.behind || !self.timed.control.stopping()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.timed.send(Message::Ready);
        self.timed.wait_at_gate();
        assert!(self.timed.control.stopping());
        Ok(WorkerEnd::default())
    }

    fn end(&self, _: &BTreeMap<&'static str, Totals>, _: u64) -> Ending {
        let mut ending = Ending::default();
        ending.details.insert("gave_up".into(), self.timed.gave_up().into());
        ending
    }
}

fn stuck(arm_timeout_ns: u64, behind: bool) -> Run {
    let (timed, receiver) = Timed::new(Plan {
        workers: 3,
        ramp_ns: RAMP_NS,
        window_ns: Some(WINDOW_NS),
        interval_ns: WINDOW_NS,
        drain_timeout_ns: LONG_NS,
        arm_timeout_ns,
        open_loop: false,
        kinds: vec![Kind { place: 0, name: "tick" }],
        prepares: false,
    });
    begin(Stuck { timed, behind }, receiver, false).unwrap()
}

#[test]
fn a_worker_that_never_gets_ready_fails_the_run() {
    let summary = ended(&stuck(50 * MS, true));
    assert_eq!((summary.status, &summary.details["gave_up"]), (Status::Failed, &true.into()));
    let failure = summary.failure.unwrap();
    assert!(failure.message.starts_with("1 of the workers did not get ready"), "{failure:?}");
    assert!(failure.fix.contains("does not come back"));
}

#[test]
fn a_run_whose_worker_never_gets_ready_can_be_cancelled() {
    for behind in [true, false] {
        let run = stuck(LONG_NS, behind);
        run.cancel();
        let summary = ended(&run);
        assert_eq!((summary.status, summary.failure.is_none()), (Status::Cancelled, true));
        assert_eq!(summary.details["gave_up"], behind);
    }
}

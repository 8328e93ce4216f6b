//! Tests of the start of the window of fixed work, and of late workers.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::handle::Run;

const MS: u64 = 1_000_000;
const LONG: Duration = Duration::from_mins(1);
const KINDS: [Kind; 2] = [Kind::new(0, "read"), Kind::new(1, "step")];

/// Run two workers; the second one reads 5 ms after the first.
fn run(held: bool, extras: fn() -> Extras) -> Run {
    let control = Arc::new(Control::new(held));
    let run_control = control.clone();
    Run::begin(control, move |board| {
        let (factory, reports) = RecorderFactory::new(1000 * MS, &KINDS);
        let work = |worker: usize| {
            let factory = factory.clone();
            move || {
                let mut recorder = factory.recorder(worker);
                let start_ns = recorder.start_ns;
                recorder.record(1, 0, MS, start_ns + MS);
                let read_ns = start_ns + 5 * MS * worker as u64;
                recorder.record(0, 4096, 2 * MS, read_ns + 2 * MS);
                recorder.record(0, 4096, 2 * MS, read_ns + 9 * MS);
            }
        };
        let threads: Vec<_> = (0..2).map(|worker| std::thread::spawn(work(worker))).collect();
        let mut totals = FixedTotals::begin(2, &factory, &run_control, board);
        drop(factory);
        for report in reports {
            totals.add(report, board);
        }
        for (worker, thread) in threads.into_iter().enumerate() {
            thread.join().unwrap();
            totals.end(worker);
        }
        let end_ns = totals.close();
        totals.finish(end_ns, &run_control, extras())
    })
    .unwrap()
}

fn armed() -> Run {
    let run = run(true, Extras::default);
    while !run.armed() {
        std::thread::yield_now();
    }
    run
}

fn ended(run: &Run) -> Summary {
    assert!(run.wait(Some(LONG)), "the run goes on for ever");
    run.outcome().unwrap().summary
}

#[test]
fn held_work_begins_at_its_time() {
    let run = armed();
    assert!(!run.wait(Some(Duration::from_millis(50))), "it did not wait");
    assert_eq!(run.snapshot().phase.name, "armed");
    let start_ns = monotonic_ns() + 3_000 * MS;
    assert!(run.open_at(start_ns));
    let summary = ended(&run);
    assert_eq!(summary.status, Status::Finished);
    assert_eq!(summary.window_start_ns, start_ns);
    assert_eq!(summary.totals["read"].operations, 4);
    assert_eq!((summary.first_io_late_ns, summary.last_worker_late_ns), (Some(0), Some(5 * MS)));
}

#[test]
fn work_that_is_told_too_late_begins_at_once_and_says_so() {
    let run = armed();
    let now = monotonic_ns();
    assert!(run.open_at(now - 40 * MS));
    let summary = ended(&run);
    assert!(summary.window_start_ns >= now);
    let late_ns = summary.window_start_ns - (now - 40 * MS);
    assert_eq!(summary.first_io_late_ns, Some(late_ns));
    assert_eq!(summary.last_worker_late_ns, Some(late_ns + 5 * MS));
}

#[test]
fn held_work_is_cancelled_before_and_after_it_is_told() {
    for start_ns in [None, Some(u64::MAX / 2)] {
        let run = armed();
        assert!(start_ns.is_none_or(|at_ns| run.open_at(at_ns)));
        run.cancel();
        assert_eq!(ended(&run).status, Status::Cancelled);
    }
}

#[test]
fn work_that_is_not_held_begins_when_it_is_ready() {
    let before = monotonic_ns();
    let run = run(false, Extras::default);
    let summary = ended(&run);
    assert!(summary.window_start_ns >= before && !run.armed());
    assert_eq!((summary.first_io_late_ns, summary.last_worker_late_ns), (Some(0), Some(5 * MS)));
}

#[test]
fn a_worker_that_had_no_task_yet_was_not_late() {
    let run = run(false, || Extras { takes_tasks: true, ..Extras::default() });
    let summary = ended(&run);
    assert_eq!((summary.first_io_late_ns, summary.last_worker_late_ns), (Some(0), None));
}

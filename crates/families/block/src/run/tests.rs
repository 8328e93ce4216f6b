//! Tests of whole runs, on the null backend and on small files.

use std::time::Duration;

use serde_json::{Value, json};
use storlab_run::cpu::available_cores;
use storlab_run::outcome::{Outcome, Status};

use super::*;
use crate::groups::tests::grouped_json;
use crate::spec::tests::job_json;

fn start(change: impl Fn(&mut Value)) -> Run {
    start_with(change, false)
}

fn held(change: impl Fn(&mut Value)) -> Run {
    let run = start_with(change, true);
    while !run.armed() {
        std::thread::yield_now();
    }
    run
}

fn start_with(change: impl Fn(&mut Value), held: bool) -> Run {
    let mut job = job_json("jbod", 1, 1, None);
    job["members"][0]["kind"] = json!("null");
    change(&mut job);
    begin(Group::parse(&job.to_string()).unwrap(), held).unwrap()
}

fn finish(run: &Run) -> Outcome {
    assert!(run.wait(Some(Duration::from_mins(1))), "the run goes on for ever");
    run.outcome().unwrap()
}

#[test]
fn a_sleeping_open_loop_is_cancelled_at_once() {
    let run = start(|j| {
        j["arrival"] = json!({"kind": "constant", "rate_iops": 1e-3});
        j["window_ns"] = json!(3_600_000_000_000u64);
        j["interval_ns"] = json!(3_600_000_000_000u64);
    });
    while run.snapshot().phase.name != "measure" {
        std::thread::yield_now();
    }
    run.cancel();
    assert_eq!(finish(&run).summary.status, Status::Cancelled);
}

#[test]
fn cpu_after_the_window_is_not_the_windows() {
    // Too high a rate: the backlog takes several times the length of the window.
    let run = start(|j| {
        j["arrival"] = json!({"kind": "constant", "rate_iops": 3e7});
        j["drain_timeout_ns"] = json!(400_000_000);
    });
    let outcome = finish(&run);
    assert_eq!(outcome.summary.status, Status::Finished);
    let summary = outcome.summary;
    assert_eq!(summary.window_end_ns - summary.window_start_ns, 100_000_000);
    let cpu = summary.cpu.unwrap();
    let (percent, waited) = (cpu.busiest_worker_percent, cpu.longest_wait_percent.unwrap_or(0.0));
    // A worker that waits for a core through the whole window uses no CPU.
    assert!(percent > 0.0 || waited > 50.0, "{percent} {waited}");
    assert!(percent <= 100.0 && waited <= 100.0, "{percent} {waited}");
}

#[test]
fn groups_run_at_the_same_time_and_are_counted_apart() {
    let order = grouped_json(|_| {});
    let outcome = finish(&begin(Group::parse(&order.to_string()).unwrap(), false).unwrap());
    let summary = outcome.summary;
    assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
    let (readers, writer) = (&summary.groups["readers"], &summary.groups["writer"]);
    assert_eq!((readers.len(), writer.len()), (1, 1));
    // 200 writes per second for 100 ms; the readers of the null backend are not held back.
    let done = writer["write"].operations;
    assert_eq!(done + writer["write"].late_operations, 20);
    assert_eq!(writer["write"].bytes, done * 16384);
    assert!(readers["read"].operations > 100, "{:?}", readers["read"]);
    assert!(writer["write"].intended.is_some() && readers["read"].intended.is_none());
    for kind in ["read", "write"] {
        let of_group = if kind == "read" { &readers["read"] } else { &writer["write"] };
        let whole = &summary.totals[kind];
        assert_eq!((whole.operations, whole.bytes), (of_group.operations, of_group.bytes));
    }
    let by_worker = summary.by_worker.unwrap();
    assert_eq!((by_worker.operations.len(), by_worker.operations[2]), (3, done));
    let rows = |group| outcome.rows.iter().filter(move |row| row.group.as_deref() == group);
    let sum = |group| rows(group).map(|row| row.operations).sum::<u64>();
    assert_eq!(sum(Some("writer")), done);
    assert_eq!(sum(None), sum(Some("readers")) + done);
}

#[test]
fn groups_stay_within_their_regions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let half = 1 << 20;
    std::fs::write(&path, vec![0; 2 * half]).unwrap();
    let order = grouped_json(|j| {
        for (group, offset) in [(0, half), (1, 0)] {
            let job = &mut j["groups"][group]["job"];
            job["backend"] = json!("auto");
            job["members"][0] = json!({"path": path, "name": "d", "kind": "file", "size": half,
                                       "offset": offset});
            job["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
        }
        j["groups"][0]["job"]["arrival"] = json!({"kind": "constant", "rate_iops": 300.0});
        j["groups"][1]["job"]["offsets"] = json!({"kind": "sequential"});
    });
    let outcome = finish(&begin(Group::parse(&order.to_string()).unwrap(), false).unwrap());
    assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
    let written = std::fs::read(&path).unwrap();
    let filled = |bytes: &[u8]| bytes.chunks(4096).filter(|c| c.iter().any(|&b| b != 0)).count();
    // The writer's 20 blocks of 16 KiB lie in its half, one after another from its start.
    assert_eq!((filled(&written[..20 * 16384]), filled(&written[20 * 16384..half])), (80, 0));
    let distinct = filled(&written[half..]);
    // 30 writes are due in the window; on a busy machine some of them end after it.
    assert!((1..=30).contains(&distinct), "{distinct}");
}

#[test]
fn jobs_meet_a_window_by_odd_bytes_exactly() {
    for jobs in [1, 2, 3, 7] {
        let total = 9 * 4096 + 1234;
        let run = start(|j| {
            j["jobs"] = json!(jobs);
            j["window_ns"] = json!(null);
            j["window_bytes"] = json!(total);
        });
        let outcome = finish(&run);
        assert_eq!(outcome.summary.totals["read"].bytes, total, "{jobs} jobs");
        let by_worker = outcome.summary.by_worker.unwrap();
        assert_eq!((by_worker.bytes.len(), by_worker.bytes.iter().sum::<u64>()), (jobs, total));
    }
}

#[test]
fn jobs_together_write_a_sequence_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    for (jobs, blocks) in [(1, 5), (2, 5), (3, 11), (4, 7)] {
        std::fs::write(&path, []).unwrap();
        let size = blocks * 4096 + 512;
        let run = start(|j| {
            j["backend"] = json!("auto");
            let member = json!({"path": path, "name": "d", "kind": "file", "size": size});
            j["members"] = json!([member]);
            j["jobs"] = json!(jobs);
            j["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
            j["offsets"] = json!({"kind": "sequential"});
            j["window_ns"] = json!(null);
            j["window_bytes"] = json!(size);
        });
        let outcome = finish(&run);
        assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written.len(), size);
        let holes = written.chunks(4096).filter(|c| c.iter().all(|&b| b == 0)).count();
        assert_eq!(holes, 0, "{jobs} jobs, {blocks} blocks");
    }
}

#[test]
fn parts_of_one_striped_operation_run_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let run = start(|j| {
        *j = job_json("stripe", 3, 1, Some(4096));
        for member in 0..3 {
            let path = dir.path().join(format!("m{member}"));
            std::fs::write(&path, vec![1; 1 << 20]).unwrap();
            j["members"][member]["path"] = json!(path);
        }
        j["backend"] = json!("posix");
        j["queue_depth"] = json!(1);
        j["block_sizes"] = json!([{"bytes": 12288, "weight": 1.0}]);
    });
    let outcome = finish(&run);
    assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
    assert_eq!(outcome.summary.engine.features, ["threads"]);
}

#[test]
fn helpers_of_a_job_are_not_taken_for_one_core() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let run = start(|j| {
        j["backend"] = json!("posix");
        j["queue_depth"] = json!(16);
        j["block_sizes"] = json!([{"bytes": 1 << 18, "weight": 1.0}]);
        j["members"] = json!([{"path": path, "name": "d", "kind": "file", "size": 1 << 20}]);
        j["window_ns"] = json!(1_000_000_000);
    });
    let cpu = finish(&run).summary.cpu.unwrap();
    // Reads hit the page cache, so they keep all cores busy; the tolerance covers the resolution of
    // thread CPU times.
    assert!(cpu.busiest_worker_percent <= 110.0, "{cpu:?}");
    assert_eq!(cpu.cores, available_cores().min(17));
}

#[test]
fn the_last_flush_is_timed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let run = start(|j| {
        std::fs::write(&path, []).unwrap();
        j["backend"] = json!("auto");
        j["members"] = json!([{"path": path, "name": "d", "kind": "file", "size": 1 << 20}]);
        j["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
        j["sync"] = json!({"kind": "fsync", "every_writes": 0, "final": true});
        j["window_ns"] = json!(null);
        j["window_bytes"] = json!(1 << 16);
    });
    let summary = finish(&run).summary;
    assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
    assert!(summary.final_sync_ns.is_some_and(|ns| ns > 0));
}

#[test]
fn direct_io_leaves_out_what_is_no_whole_sector() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![1; 3 * 4096 + 700]).unwrap();
    for window in ["window_ns", "window_bytes"] {
        let run = start(|j| {
            let size = 3 * 4096 + 700;
            j["backend"] = json!("auto");
            j["direct"] = json!(true);
            j["members"] = json!([{"path": path, "name": "d", "kind": "file", "size": size}]);
            j["offsets"] = json!({"kind": "sequential"});
            j["window_ns"] = json!(null);
            // A window of one second, or one limited by bytes: a busy machine may stall the load
            // for part of a shorter window.
            j[window] = json!(if window == "window_ns" { 1_000_000_000 } else { 10_000_000 });
        });
        let summary = finish(&run).summary;
        match summary.failure {
            // tmpfs does not support O_DIRECT before Linux 6.6.
            Some(failure) if failure.message.contains("open with O_DIRECT") => return,
            failure => assert!(failure.is_none(), "{failure:?}"),
        }
        assert!(summary.totals["read"].operations > 0);
    }
}

#[test]
fn a_held_run_submits_nothing_before_its_time() {
    for open_loop in [false, true] {
        let run = held(|j| {
            j["jobs"] = json!(3);
            j["ramp_ns"] = json!(10_000_000);
            j["window_ns"] = json!(1_000_000_000);
            if open_loop {
                j["arrival"] = json!({"kind": "constant", "rate_iops": 1000.0});
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        let now = monotonic_ns();
        assert!(run.open_at(now + 3_000_000_000));
        let summary = finish(&run).summary;
        assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
        assert_eq!(summary.window_start_ns, now + 3_010_000_000);
        assert!(summary.totals["read"].operations > 0);
        let (first, last) = (summary.first_io_late_ns, summary.last_worker_late_ns);
        assert!(first.is_some() && first <= last, "{first:?} {last:?}");
    }
}

#[test]
fn a_held_run_that_is_cancelled_has_submitted_nothing() {
    let run = held(|_| {});
    run.cancel();
    let summary = finish(&run).summary;
    assert_eq!(summary.status, Status::Cancelled);
    assert_eq!((summary.totals["read"].operations, summary.first_io_late_ns), (0, None));
}

//! Tests of the worker on a device in virtual time, with exact numbers and with failures that a
//! real disk does not produce on demand.

use std::cell::RefCell;
use std::rc::Rc;

use rand_core::Rng as _;
use serde_json::{Value, json};
use storlab_base::{Error, Histogram, OpKind, stream, thread_cpu_ns};

use super::simulated::{MS, OnCancel, START, Serve, after, bench};

fn nothing(_: &mut Value) {}

fn constant(rate: f64) -> Value {
    json!({"kind": "constant", "rate_iops": rate})
}

#[test]
fn a_closed_loop_at_fixed_latency_has_the_rate_of_littles_law() {
    let ran = bench(nothing, after(MS)).nudged().run();
    // 4 in flight, 1 ms each, for 100 ms, minus the time of a system call per round.
    assert!((392..=400).contains(&ran.stats[0].operations), "{}", ran.stats[0].operations);
    assert_eq!(ran.stats[0].bytes, ran.stats[0].operations * 4096);
    assert_eq!(ran.stats[0].latency.count(), ran.stats[0].operations);
    assert_eq!(ran.rows.len(), 5);
    assert!(ran.rows.windows(2).all(|w| w[0].end_ns == w[1].start_ns));
    assert_eq!(ran.rows.iter().map(|r| r.operations).sum::<u64>(), ran.stats[0].operations);
}

#[test]
fn cpu_that_a_worker_used_before_it_saw_the_end_is_no_more_than_the_window() {
    let mut has_burnt = false;
    let serve: Serve = Box::new(move |op, now| {
        if now < START + 90 * MS || has_burnt {
            return Some((now + MS, op.len as i32));
        }
        has_burnt = true;
        // Burn CPU time, as if a hypervisor had stopped the thread while its CPU clock runs on.
        let begin_ns = thread_cpu_ns();
        while thread_cpu_ns() - begin_ns < 120 * MS {}
        Some((now + 120 * MS, op.len as i32))
    });
    let ran = bench(|j| j["queue_depth"] = json!(1), serve).nudged().run();
    let cpu_ns: u64 = ran.rows.iter().map(|row| row.worker_cpu_ns).sum();
    assert!((20 * MS..=100 * MS).contains(&cpu_ns), "{cpu_ns}");
}

#[test]
fn the_ramp_is_shown_but_not_counted() {
    let change = |j: &mut Value| j["ramp_ns"] = json!(50 * MS);
    let ran = bench(change, after(MS)).nudged().run();
    assert!(ran.stats[0].operations <= 400);
    // 50 ms are two and a half intervals.
    assert_eq!(ran.live.len(), 3 + 5);
    for rate in &ran.live[1..] {
        assert!((3800.0..=4000.0).contains(rate), "{:?}", ran.live);
    }
}

#[test]
fn a_stall_of_the_device_counts_for_all_who_were_due() {
    // 1,000 operations/s for 1 s; from 300 ms to 500 ms nothing completes.
    for depth in [1, 64] {
        let serve: Serve = Box::new(|op, now| {
            let stalled = (START + 300 * MS..START + 500 * MS).contains(&now);
            let begin = if stalled { START + 500 * MS } else { now };
            Some((begin + 10_000, op.len as i32))
        });
        let change = |j: &mut Value| {
            j["queue_depth"] = json!(depth);
            j["arrival"] = constant(1000.0);
            j["window_ns"] = json!(1000 * MS);
        };
        let ran = bench(change, serve).nudged().run();
        let intended = ran.stats[0].intended.as_ref().unwrap();
        assert_eq!(intended.count(), 1000);
        // 200 operations waited between 0 and 200 ms, 100 ms on average.
        let (mean_ms, p90_ms) = (intended.mean_ns() / 1e6, intended.percentile(90.0) as f64 / 1e6);
        assert!((mean_ms / 20.0 - 1.0).abs() < 0.03, "depth {depth}: {mean_ms}");
        assert!((p90_ms / 100.0 - 1.0).abs() < 0.03, "depth {depth}: {p90_ms}");
    }
}

#[test]
fn an_open_loop_lasts_until_the_window_ends() {
    let change = |j: &mut Value| j["arrival"] = constant(100.0);
    let ran = bench(change, after(MS)).nudged().run();
    assert_eq!(ran.stats[0].operations, 10);
    assert!(ran.ended_ns >= START + 100 * MS, "{}", ran.ended_ns - START);
}

#[test]
fn an_open_loop_may_be_bounded_by_bytes() {
    let change = |j: &mut Value| {
        j["arrival"] = constant(10_000.0);
        j["window_ns"] = json!(null);
        j["window_bytes"] = json!(40 * 4096);
    };
    let ran = bench(change, after(MS)).run();
    assert_eq!((ran.stats[0].operations, ran.stats[0].bytes), (40, 40 * 4096));
    assert_eq!(ran.end.unserved, 0);
}

#[test]
fn blocks_that_other_jobs_hold_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let change = |j: &mut Value| {
        j["verify"] = json!({"state": dir.path().join("s"), "block": 4096, "check_reads": true});
        j["window_ns"] = json!(null);
        j["window_bytes"] = json!(8 * 4096);
        j["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
    };
    let bench = bench(change, after(MS));
    let shared = bench.shared.clone();
    // Another job holds all blocks; its completion does not wake this worker.
    assert!(shared.verifier.as_ref().unwrap().try_claim(0, 0, 1 << 20));
    let release = move || shared.verifier.as_ref().unwrap().release(0, 0, 1 << 20);
    let ran = bench.elsewhere_at(START + 30 * MS, release).run();
    assert_eq!(ran.stats[0].operations, 8);
    assert!(ran.log[0].0 >= START + 30 * MS);
}

#[test]
fn an_operation_that_the_kernel_had_no_room_for_comes_again() {
    let mut refusals = 5;
    let serve: Serve = Box::new(move |op, now| {
        if refusals > 0 {
            refusals -= 1;
            return Some((now, -libc::EAGAIN));
        }
        Some((now + MS, op.len as i32))
    });
    let bench = bench(nothing, serve).nudged();
    let shared = bench.shared.clone();
    let ran = bench.run();
    assert!(shared.timed.take_failure().is_none());
    assert!(ran.stats[0].operations >= 390);
}

#[test]
fn the_part_that_failed_is_the_one_that_is_named() {
    let change = |j: &mut Value| {
        *j = crate::spec::tests::job_json("stripe", 3, 1, Some(4096));
        j["block_sizes"] = json!([{"bytes": 12288, "weight": 1.0}]);
        j["offsets"] = json!({"kind": "sequential"});
    };
    let serve: Serve = Box::new(|op, now| {
        let bad = op.file == 2 && op.offset == 8192;
        Some((now + MS, if bad { -libc::EIO } else { op.len as i32 }))
    });
    let bench = bench(change, serve).nudged();
    let shared = bench.shared.clone();
    let ran = bench.run();
    match shared.timed.take_failure().unwrap() {
        Error::Io { operation, path, offset, source } => {
            assert_eq!((operation, path.as_str(), offset), ("read", "m2", 8192));
            assert_eq!(source.raw_os_error(), Some(libc::EIO));
        }
        other => panic!("{other}"),
    }
    assert_eq!(ran.stats[0].operations * 12288, ran.stats[0].bytes);
}

#[test]
fn a_part_that_its_operation_does_not_have_fails_the_run() {
    let syncs = |j: &mut Value| {
        j["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
        j["sync"] = json!({"kind": "fsync", "every_writes": 1, "final": false});
    };
    let changes: [fn(&mut Value); 2] = [nothing, syncs];
    for (change, kind) in changes.into_iter().zip([OpKind::Read, OpKind::Sync]) {
        let serve: Serve = Box::new(move |op, now| {
            Some((now + MS, if op.kind == kind { -libc::EIO } else { op.len as i32 }))
        });
        let bench = bench(change, serve).nudged().retagged(|tag| tag | 7 << 16);
        let shared = bench.shared.clone();
        let ran = bench.run();
        let failure = shared.timed.take_failure();
        assert!(matches!(failure, Some(Error::Backend { .. })), "{failure:?}");
        let stats = ran.stats.last().unwrap();
        assert_eq!((stats.operations, stats.latency.count()), (0, 0), "{kind:?}");
    }
}

#[test]
fn a_device_that_never_answers_is_hung_whatever_the_kernel_takes_back() {
    for (on_cancel, abandoned) in [
        (OnCancel::Nothing, true),
        (OnCancel::Ends(libc::ECANCELED), false),
        (OnCancel::Ends(libc::EINTR), false),
    ] {
        let serve: Serve = Box::new(|_, _| None);
        let bench = bench(nothing, serve).nudged().on_cancel(on_cancel);
        let shared = bench.shared.clone();
        let ran = bench.run();
        match shared.timed.take_failure() {
            Some(Error::Hung { outstanding: 4, waited_ms: 5000, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(ran.abandoned, abandoned);
        assert!(ran.ended_ns < START + 5400 * MS);
    }
}

#[test]
fn what_the_kernel_takes_back_after_a_cancel_is_no_error() {
    for errno in [libc::ECANCELED, libc::EINTR, libc::EAGAIN] {
        let serve: Serve = Box::new(|_, _| None);
        let bench = bench(nothing, serve).on_cancel(OnCancel::Ends(errno));
        let (shared, control) = (bench.shared.clone(), bench.shared.timed.control.clone());
        let ran = bench.at(START + 30 * MS, move || control.cancel()).nudged().run();
        assert!(shared.timed.take_failure().is_none(), "errno {errno}");
        assert!(!ran.abandoned && ran.ended_ns < START + 300 * MS);
    }
}

#[test]
fn a_window_by_odd_bytes_is_met_exactly() {
    let change = |j: &mut Value| {
        j["window_ns"] = json!(null);
        j["window_bytes"] = json!(10 * 4096 + 100);
    };
    let ran = bench(change, after(MS)).run();
    assert_eq!((ran.stats[0].operations, ran.stats[0].bytes), (11, 10 * 4096 + 100));
}

#[test]
fn flushes_come_at_their_cadence() {
    let change = |j: &mut Value| {
        j["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
        j["sync"] = json!({"kind": "fsync", "every_writes": 10, "final": false});
    };
    let ran = bench(change, after(MS)).nudged().run();
    let syncs: Vec<usize> = ran
        .log
        .iter()
        .enumerate()
        .filter_map(|(at, (_, op))| (op.kind == OpKind::Sync).then_some(at))
        .collect();
    assert!(syncs.len() > 30);
    assert!(syncs.iter().enumerate().all(|(n, at)| *at == n * 11 + 10), "{syncs:?}");
}

#[test]
fn flushes_take_no_due_time_of_an_open_loop() {
    for depth in [1, 4] {
        let change = |j: &mut Value| {
            j["queue_depth"] = json!(depth);
            j["arrival"] = constant(1000.0);
            j["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
            j["sync"] = json!({"kind": "fsync", "every_writes": 1, "final": false});
        };
        let ran = bench(change, after(100_000)).nudged().run();
        // One flush before each write except the first.
        let done: Vec<u64> = ran.stats.iter().map(|stats| stats.operations).collect();
        assert_eq!(done, [100, 99], "depth {depth}");
        let due = ran.stats[0].intended.as_ref().unwrap();
        // At depth 1 the flush uses the only slot, so the due write waits for it.
        let longest = if depth == 1 { 220_000 } else { 110_000 };
        assert!(due.count() == 100 && due.max_ns() < longest, "{depth}: {}", due.max_ns());
    }
}

#[test]
fn one_seed_is_one_sequence() {
    let offsets = |seed: u64, latency: u64| {
        let change = |j: &mut Value| {
            j["seed"] = json!(seed);
            j["mix"] = json!({"read": 50.0, "write": 50.0, "trim": 0.0});
        };
        let ran = bench(change, after(latency)).nudged().run();
        ran.log[..200].iter().map(|(_, op)| (op.kind, op.offset)).collect::<Vec<_>>()
    };
    assert_eq!(offsets(7, MS), offsets(7, MS / 3));
    assert_ne!(offsets(7, MS), offsets(8, MS));
}

#[test]
fn the_first_operation_is_late_by_what_it_comes_after_its_time() {
    let bench = bench(nothing, after(MS)).nudged();
    let shared = bench.shared.clone();
    bench.run();
    assert_eq!(shared.timed.first_io.latest_ns(), Some(0));
    // An operation that is due long after the start of the load is not late because of that.
    let paced = |j: &mut Value| j["arrival"] = json!({"kind": "poisson", "rate_iops": 50.0});
    let bench = super::simulated::bench(paced, after(MS)).nudged();
    let shared = bench.shared.clone();
    let ran = bench.run();
    assert!(ran.log[0].0 > START + MS, "{}", ran.log[0].0 - START);
    assert!(shared.timed.first_io.latest_ns().is_some_and(|late_ns| late_ns < MS));
}

#[test]
fn closed_loop_operations_in_flight_at_the_end_are_counted_apart() {
    // Reads take 1 ms, and 300 ms in the last 20 of 100 ms: all 4 slots are busy at the end.
    let serve = || -> Serve {
        Box::new(|op, now| {
            let length_ns = if now < START + 80 * MS { MS } else { 300 * MS };
            Some((now + length_ns, op.len as i32))
        })
    };
    let ran = bench(nothing, serve()).nudged().run();
    let stats = &ran.stats[0];
    assert_eq!(stats.unfinished.operations, 4);
    assert!(stats.unfinished.longest_ns.abs_diff(300 * MS) < MS, "{:?}", stats.unfinished);
    assert_eq!(stats.latency.count(), stats.operations);
    assert!(stats.latency.max_ns() < 2 * MS, "{}", stats.latency.max_ns());

    // An open loop counts these 4 operations in its latency; a window limited by bytes ends with
    // the last operation, so none is unfinished.
    let open = |j: &mut Value| j["arrival"] = constant(1000.0);
    let ran = bench(open, serve()).nudged().run();
    assert!(ran.stats[0].late > 0 && ran.stats[0].latency.max_ns() >= 299 * MS);
    assert_eq!(ran.stats[0].unfinished.operations, 0);
    let by_bytes = |j: &mut Value| {
        j["window_ns"] = json!(null);
        j["window_bytes"] = json!(400 * 4096);
    };
    let ran = bench(by_bytes, serve()).run();
    assert_eq!((ran.stats[0].operations, ran.stats[0].unfinished.operations), (400, 0));
}

/// Latencies from a seeded Pareto distribution with shape 1.5 and a p99.9 of 10 ms. Start and end
/// of every operation are recorded in `noted`.
fn pareto(seed: u64, noted: &Rc<RefCell<Vec<(u64, u64)>>>) -> Serve {
    let (mut random, noted) = (stream(seed, "latency", 0), noted.clone());
    Box::new(move |op, now| {
        let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let latency_ns = (0.1 * MS as f64 * (1.0 - uniform).powf(-1.0 / 1.5)).min(1e9) as u64;
        noted.borrow_mut().push((now, now + latency_ns));
        Some((now + latency_ns, op.len as i32))
    })
}

#[test]
fn operations_in_flight_at_the_end_would_bias_p999_of_a_closed_loop() {
    let change = |j: &mut Value| j["ramp_ns"] = json!(100 * MS);
    let (mut reported, mut with_unfinished) = (Histogram::new(), Histogram::new());
    let mut unfinished = 0;
    for seed in 0..400 {
        let noted = Rc::default();
        let ran = bench(change, pareto(seed, &noted)).nudged().run();
        reported.add(&ran.stats[0].latency);
        with_unfinished.add(&ran.stats[0].latency);
        let end_ns = START + 200 * MS;
        let noted = noted.borrow();
        let in_flight = noted.iter().filter(|&&(start, end)| start < end_ns && end >= end_ns);
        for (start, end) in in_flight {
            with_unfinished.record(end - start);
        }
        unfinished += ran.stats[0].unfinished.operations;
    }
    // If an operation ended on the device just before the window ended, the worker may have seen it
    // only afterwards.
    let noted = with_unfinished.count() - reported.count();
    assert!(unfinished == 1600 && (1590..=1600).contains(&noted), "{unfinished} {noted}");
    let p999_ms = |histogram: &Histogram| histogram.percentile(99.9) as f64 / MS as f64;
    let (reported, with_unfinished) = (p999_ms(&reported), p999_ms(&with_unfinished));
    println!("{reported} {with_unfinished} {unfinished}");
    assert!((reported / 10.0 - 1.0).abs() < 0.05, "{reported}");
    assert!(with_unfinished > 10.7, "{with_unfinished}");
}

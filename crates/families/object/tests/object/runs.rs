//! Tests with a healthy store.

use super::*;

#[test]
fn gets_are_verified_timed_and_counted() {
    let server = Server::start();
    let mut job = job(&server);
    job["interval_ns"] = json!(200_000_000);
    fill(&job);
    let outcome = good(&job);
    let totals = &outcome.summary.totals["get"];
    assert!(totals.operations > 20, "{}", totals.operations);
    assert_eq!(totals.bytes, totals.operations * 20_000);
    let (latency, ttfb) = (totals.latency.as_ref().unwrap(), totals.ttfb.as_ref().unwrap());
    assert_eq!((latency.count, ttfb.count), (totals.operations, totals.operations));
    assert!(ttfb.mean_ns <= latency.mean_ns && totals.intended.is_none());
    assert_eq!(all_errors(&outcome), 0);
    // Keep-alive: exactly one connection per slot.
    assert_eq!(detail(&outcome, "connections"), 4);
    let rows = &outcome.rows;
    assert_eq!(rows.iter().map(|row| row.operations).sum::<u64>(), totals.operations);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.kind == "get" && row.ttfb.is_some()));
    let cpu = outcome.summary.cpu.unwrap();
    assert!(cpu.worker_ns > 0 && cpu.cores <= 2);
    let length = outcome.summary.window_end_ns - outcome.summary.window_start_ns;
    assert_eq!(length, 800_000_000);
}

#[test]
fn the_ramp_counts_nowhere() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    job["ramp_ns"] = json!(200_000_000);
    let before = server.held().log.len();
    let outcome = good(&job);
    let asked = (server.held().log.len() - before) as u64;
    assert!(operations(&outcome, "get") < asked, "{asked}");
    assert_eq!(outcome.rows[0].start_ns, outcome.summary.window_start_ns);
}

#[test]
fn all_kinds_together_do_not_disturb_each_other() {
    let server = Server::start();
    let mut job = job(&server);
    job["pool"]["objects"] = json!(400);
    fill(&job);
    job["mix"] = json!({"get": 40, "put": 25, "head": 10, "list": 5, "delete": 15,
                        "multi_delete": 5});
    job["delete_batch"] = json!(3);
    job["join_pool"] = json!(true);
    job["concurrency"] = json!(16);
    job["keys"]["kind"] = json!("zipf");
    let outcome = serving(&job, 1, &["get", "put", "head", "list", "delete", "multi_delete"]);
    assert_eq!(all_errors(&outcome), 0, "{:?}", outcome.summary.details["error_examples"]);
    assert_eq!(outcome.summary.totals["list"].bytes, 0);
    assert!(detail(&outcome, "deleted_keys") > 0);
    assert!(!note(&outcome, "deleted")); // reported in the details, not as a warning
}

#[test]
fn a_mix_holds_its_percentages() {
    let server = Server::start();
    let mut job = job(&server);
    job["pool"]["sizes"] = sizes(100);
    job["sizes"] = sizes(100);
    fill(&job);
    job["mix"] = json!({"get": 30, "put": 70});
    job["window_ns"] = json!(1_000_000_000);
    let outcome = good(&job);
    let (gets, puts) = (operations(&outcome, "get"), operations(&outcome, "put"));
    let n = (gets + puts) as f64;
    assert!(n > 50.0, "{n}");
    assert!((gets as f64 - 0.3 * n).abs() < 5.0 * (n * 0.21).sqrt() + 4.0, "{gets} of {n}");
}

#[test]
fn lanes_have_their_own_concurrency() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    server.held().busy.clear();
    job["lanes"] = json!({"get": 3, "put": 1});
    serving(&job, 1, &["get", "put"]);
    let held = server.held();
    assert!(held.busy[&http::Method::GET].1 <= 3 && held.busy[&http::Method::PUT].1 == 1);
}

#[test]
fn ranges_of_odd_places_are_verified() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    job["range_size"] = json!(4097);
    let outcome = good(&job);
    let totals = &outcome.summary.totals["get"];
    assert!(totals.operations > 20 && totals.bytes == totals.operations * 4097);
    assert_eq!(all_errors(&outcome), 0);
}

#[test]
fn every_payload_mode_and_parts_bring_the_same_bytes() {
    for payload in ["unsigned", "signed", "streaming", "trailer-crc"] {
        for part_size in [json!(null), json!(200_000)] {
            let server = Server::start();
            let mut job = job(&server);
            job["pool"]["objects"] = json!(0);
            job["sizes"] = json!({"kind": "uniform", "low": 0, "high": 600_000});
            job["mix"] = json!({"get": 50, "put": 50});
            job["join_pool"] = json!(true);
            job["payload"] = json!(payload);
            job["part_size"] = part_size.clone();
            job["part_concurrency"] = json!(3);
            // About one object in ten is larger than a part.
            let outcome = serving(&job, 10, &["get", "put"]);
            let message = &outcome.summary.details["error_examples"];
            assert_eq!(all_errors(&outcome), 0, "{payload} {part_size}: {message}");
            let framed = payload == "streaming" || payload == "trailer-crc";
            assert_eq!(server.framed_bytes() > 0, framed, "{payload}");
            let held = server.held();
            let parts = held.log.iter().any(|seen| seen.query.contains_key("partNumber"));
            assert_eq!((parts, held.uploads.len()), (!part_size.is_null(), 0));
        }
    }
}

#[test]
fn an_open_loop_sends_what_is_due_and_nothing_else() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    job["arrival"] = json!({"kind": "constant", "rate_iops": 300.0});
    job["window_ns"] = json!(500_000_000);
    let before = server.held().log.len();
    // The store stalls in the middle: requests are late, but none is left out.
    server.judge(move |seen| {
        if seen.number == before + 50 {
            std::thread::sleep(Duration::from_millis(200));
        }
        storlab_testing::Fault::None
    });
    let outcome = good(&job);
    let totals = &outcome.summary.totals["get"];
    assert_eq!(totals.operations + totals.late_operations, 150);
    let intended = totals.intended.as_ref().unwrap();
    assert_eq!(intended.count, 150);
    assert!(intended.max_ns >= 190_000_000, "{intended:?}");
    // About 60 requests were due during the stall; a fast closed loop would show only four.
    assert!(intended.p90_ns > 20_000_000, "{intended:?}");
}

#[test]
fn what_an_overloaded_store_never_served_still_counts() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    job["arrival"] = json!({"kind": "poisson", "rate_iops": 2000.0});
    job["window_ns"] = json!(300_000_000);
    job["concurrency"] = json!(1);
    job["drain_timeout_ns"] = json!(100_000_000);
    job["request_timeout_ns"] = json!(50_000_000);
    server.judge(|_| {
        std::thread::sleep(Duration::from_millis(10));
        storlab_testing::Fault::None
    });
    let outcome = good(&job);
    let totals = &outcome.summary.totals["get"];
    // About 600 requests were due (within 5 sigma); at 10 ms each, 40 were served.
    let due = totals.operations + totals.late_operations + all_errors(&outcome);
    assert!(due.abs_diff(600) < 125 && totals.operations < 100, "{due} {}", totals.operations);
    assert!(note(&outcome, "never sent"));
}

#[test]
fn requests_are_routed_over_all_endpoints() {
    let server = Server::on(2);
    let mut job = job(&server);
    fill(&job);
    let count = |port: u16, from: usize| {
        server.held().log[from..].iter().filter(|seen| seen.port == port).count()
    };
    let before = server.held().log.len();
    good(&job);
    let [a, b] = [0, 1].map(|i| count(server.ports[i], before));
    assert!(a.abs_diff(b) <= 8, "{a} {b}");
    // Unlike round robin, least busy avoids the slow endpoint.
    let slow = server.ports[0];
    server.judge(move |seen| match seen.port == slow {
        true => storlab_testing::Fault::Stall,
        false => storlab_testing::Fault::None,
    });
    job["routing"] = json!("least_busy");
    job["drain_timeout_ns"] = json!(100_000_000);
    job["request_timeout_ns"] = json!(60_000_000_000u64);
    // Run until enough was served rather than for a fixed time; up to four requests may be in
    // flight.
    job["window_ns"] = json!(50_000_000_000u64);
    let before = server.held().log.len();
    let going = begin(&job);
    while count(server.ports[1], before) <= 20 + 4 {
        assert!(!going.wait(Some(Duration::from_millis(5))), "the run ended by itself");
    }
    going.cancel();
    let outcome = finish(&going);
    let (stalled, served) = (count(slow, before), operations(&outcome, "get"));
    assert!(stalled <= 2 && served > 20, "{stalled} {served}");
}

#[test]
fn deletes_that_run_out_of_objects_end_the_run() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    job["mix"] = json!({"delete": 100});
    job["window_ns"] = json!(60_000_000_000u64);
    let outcome = run(&job);
    assert_eq!(outcome.summary.status, Status::Failed);
    let failure = outcome.summary.failure.unwrap();
    assert!(
        failure.message.contains("all objects were deleted")
            && failure.fix.contains("more objects")
    );
    // Deletes of other slots that were in flight at the end may not have arrived.
    assert!(server.held().objects.len() < 4, "{}", server.held().objects.len());
}

#[test]
fn an_anonymous_run_signs_nothing() {
    let server = Server::start();
    let job = job(&server);
    fill(&job);
    let run = storlab_object::start(&job.to_string(), &Secrets::new(), false).unwrap();
    assert_eq!(all_errors(&finish(&run)), 0);
}

#[test]
fn storlabs_own_server_keeps_what_every_kind_of_put_brings() {
    let directory = tempfile::tempdir().unwrap();
    let config = storlab_server::Config {
        directory: directory.path().to_owned(),
        bucket: "bench".to_owned(),
        durable: false,
    };
    let keys = storlab_server::Credentials { access_key: "AK".into(), secret_key: "SK".into() };
    let embedded = storlab_server::Server::start(&config, keys).unwrap();
    let server = Server::start();
    let mut job = job(&server);
    job["store"]["endpoints"] = json!([format!("http://127.0.0.1:{}", embedded.port())]);
    job["store"]["bucket"] = json!("bench");
    job["pool"]["objects"] = json!(200);
    job["pool"]["sizes"] = json!({"kind": "lognormal", "median": 50_000, "sigma": 1.0, "low": 0,
                                  "high": 8_000_000});
    job["sizes"] = job["pool"]["sizes"].clone();
    for payload in ["unsigned", "signed", "streaming", "trailer-crc"] {
        job["task"] = json!("fill");
        good(&job);
        job["task"] = json!("run");
        job["payload"] = json!(payload);
        job["part_size"] = json!(5 << 20);
        job["mix"] = json!({"get": 40, "put": 25, "head": 10, "list": 5, "delete": 15,
                            "multi_delete": 5});
        job["delete_batch"] = json!(3);
        job["join_pool"] = json!(true);
        let outcome = good(&job);
        let message = &outcome.summary.details["error_examples"];
        assert_eq!(all_errors(&outcome), 0, "{payload}: {message}");
        assert!(operations(&outcome, "get") > 0 && operations(&outcome, "put") > 0);
        let mut clean = job.clone();
        clean["task"] = json!("clean");
        good(&clean);
    }
    assert!(server.held().log.is_empty());
}

#[test]
fn a_held_run_asks_nothing_before_its_time() {
    let server = Server::start();
    let job = job(&server);
    fill(&job);
    let before = server.held().log.len();
    for cancelled in [true, false] {
        let run = storlab_object::start(&job.to_string(), &secrets(), true).unwrap();
        while !run.armed() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(server.held().log.len(), before);
        let start_ns = storlab_base::monotonic_ns() + 100_000_000;
        if cancelled {
            run.cancel();
        } else {
            assert!(run.open_at(start_ns));
        }
        let summary = finish(&run).summary;
        if cancelled {
            assert_eq!((summary.status, summary.first_io_late_ns), (Status::Cancelled, None));
            assert_eq!(server.held().log.len(), before);
        } else {
            assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
            assert!(summary.window_start_ns >= start_ns);
            assert!(summary.first_io_late_ns.is_some());
            assert!(summary.first_io_late_ns <= summary.last_worker_late_ns);
        }
    }
}

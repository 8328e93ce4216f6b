//! Tests of the host path, which needs neither a GPU nor a library.

use serde_json::json;

use crate::support::{FILE, Rig, bytes_of, number, told};

#[test]
fn the_host_path_needs_no_library() {
    let rig = Rig::new(2).with(|j| {
        j["path"] = json!("host");
        j["libraries"] = json!({"cufile": [], "cuda": []});
    });
    let summary = rig.good();
    let reads = &summary.totals["read"];
    assert_eq!((reads.bytes, reads.operations), (2 * FILE, 2 * FILE / 4096));
    assert_eq!(reads.latency.as_ref().unwrap().count, reads.operations);
    assert_eq!(told(&summary, "route.by"), "none");
    assert_eq!(number(&summary, "route.bytes"), 2 * FILE);
    assert_eq!(
        (number(&summary, "first_pass.files"), number(&summary, "first_pass.wrong")),
        (2, 0)
    );
    assert_eq!(number(&summary, "first_pass.bytes"), 2 << 16);
    assert_eq!(summary.engine.backend, Some("posix"));
}

#[test]
fn writes_of_the_host_path_are_read_back() {
    let rig = Rig::new(2).with(|j| {
        j["path"] = json!("host");
        j["mix"] = json!({"read": 50.0, "write": 50.0});
        j["workers"] = json!(4);
        j["workers_per_file"] = json!(2);
    });
    let summary = rig.good();
    let moved = summary.totals["read"].bytes + summary.totals["write"].bytes;
    assert_eq!(moved, 2 * FILE);
    assert!(number(&summary, "read_back.bytes") > 0);
    assert_eq!((number(&summary, "read_back.files"), number(&summary, "read_back.wrong")), (2, 0));
    assert_ne!(rig.file(0), bytes_of(0));
}

#[test]
fn an_open_loop_keeps_its_rate_and_a_window_by_time_its_length() {
    let rig = Rig::new(1).with(|j| {
        j["path"] = json!("host");
        j["arrival"] = json!({"kind": "constant", "rate_iops": 2000.0});
        j["window_bytes"] = json!(null);
        j["window_ns"] = json!(100_000_000);
        j["ramp_ns"] = json!(20_000_000);
    });
    let summary = rig.good();
    let reads = &summary.totals["read"];
    // Operations due in the ramp may have ended in the window.
    assert!(reads.operations + reads.late_operations >= 200);
    assert_eq!(reads.intended.as_ref().unwrap().count, 200);
    assert_eq!(summary.window_end_ns - summary.window_start_ns, 100_000_000);
}

#[test]
fn a_sleeping_open_loop_is_cancelled() {
    let rig = Rig::new(1).with(|j| {
        j["path"] = json!("host");
        j["arrival"] = json!({"kind": "constant", "rate_iops": 1e-3});
        j["window_bytes"] = json!(null);
        j["window_ns"] = json!(3_600_000_000_000u64);
    });
    let run = rig.start();
    while run.snapshot().phase.name != "measure" {
        std::thread::yield_now();
    }
    run.cancel();
    let summary = crate::support::finish(&run).summary;
    assert_eq!(summary.status, storlab_run::outcome::Status::Cancelled);
}

#[test]
fn many_workers_share_few_files() {
    let rig = Rig::new(2).with(|j| {
        j["path"] = json!("host");
        (j["workers"], j["workers_per_file"]) = (json!(256), json!(16));
        j["offsets"] = json!({"kind": "sequential"});
    });
    assert_eq!(rig.good().totals["read"].bytes, 2 * FILE);
}

#[test]
fn a_missing_file_fails_the_run_and_not_the_program() {
    let rig = Rig::new(1).with(|j| {
        j["path"] = json!("host");
        j["members"][0]["path"] = json!("/absent/file");
    });
    let (message, summary) = rig.bad();
    assert!(message.starts_with("open of f0"), "{message}");
    assert_eq!(summary.failure.unwrap().errno_name, Some("ENOENT"));
}

#[test]
fn a_file_that_is_too_short_is_named() {
    let rig = Rig::new(1).with(|j| {
        j["path"] = json!("host");
        j["verify_bytes"] = json!(0);
        j["members"][0]["size"] = json!(64 * FILE);
    });
    let (message, _) = rig.bad();
    assert!(message.contains("f0") && message.contains("moved 0 of 4096"), "{message}");
}

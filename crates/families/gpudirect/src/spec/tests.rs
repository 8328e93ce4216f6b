use serde_json::{Value, json};

use super::*;

/// Return an order of reads of two files of 1 MiB, modified by `change`.
pub(crate) fn job_json(change: impl FnOnce(&mut Value)) -> Value {
    let member = |name: &str| json!({"path": name, "name": name, "kind": "file", "size": 1 << 20});
    let mut job = json!({
        "version": 1, "kind": "gpudirect", "do": "load", "members": [member("a"), member("b")],
        "path": "direct", "api": "sync", "mix": {"read": 100.0, "write": 0.0},
        "offsets": {"kind": "uniform"},
        "block_sizes": [{"bytes": 4096, "weight": 1.0}], "workers": 1, "workers_per_file": 1,
        "queue_depth": 1, "gpus": [0], "register": true,
        "arrival": {"kind": "closed", "rate_iops": null}, "cpus": null, "verify_bytes": 0,
        "libraries": {"cufile": ["libcufile.so.0"], "cuda": ["libcuda.so.1"]}, "direct": true,
        "ramp_ns": 0, "window_ns": null, "window_bytes": 1 << 20, "interval_ns": 1_000_000_000,
        "drain_timeout_ns": 1_000_000_000, "seed": 5,
    });
    change(&mut job);
    job
}

pub(crate) fn job(change: impl FnOnce(&mut Value)) -> GpuDirectJob {
    GpuDirectJob::from_json(&job_json(change).to_string()).unwrap()
}

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    GpuDirectJob::from_json(&job_json(change).to_string()).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_done_is_refused_by_its_field() {
    type Case = (fn(&mut Value), &'static str);
    let cases: [Case; 12] = [
        (|j| j["members"] = json!([]), "members"),
        (|j| j["workers"] = json!(0), "workers"),
        (|j| j["gpus"] = json!([]), "gpu"),
        (|j| j["mix"] = json!({"read": 50.0, "write": 0.0}), "mix"),
        (|j| j["window_ns"] = json!(5), "window_ns"),
        (|j| j["queue_depth"] = json!(2), "queue_depth"),
        (|j| (j["api"], j["queue_depth"]) = (json!("batch"), json!(129)), "queue_depth"),
        (|j| (j["path"], j["api"]) = (json!("bounce"), json!("async")), "api"),
        (|j| j["block_sizes"][0]["bytes"] = json!(1000), "block_size"),
        (|j| j["block_sizes"][0]["bytes"] = json!(2 << 20), "size"),
        (|j| j["block_sizes"][0]["bytes"] = json!(2u64 << 30), "block_size"),
        (|j| j["arrival"] = json!({"kind": "poisson", "rate_iops": null}), "arrival.rate_iops"),
    ];
    for (change, field) in cases {
        let reason = refusal(change);
        assert!(reason.starts_with(field), "{field}: {reason}");
    }
}

#[test]
fn a_probe_needs_no_load() {
    let text = json!({"version": 1, "do": "probe", "interval_ns": 1}).to_string();
    assert_eq!(GpuDirectJob::from_json(&text).unwrap().task, Task::Probe);
}

#[test]
fn workers_lie_on_files_in_groups_and_on_gpus_in_turn() {
    let job = job(|j| {
        (j["workers"], j["workers_per_file"]) = (json!(5), json!(2));
        j["gpus"] = json!([0, 1]);
    });
    let places: Vec<_> = (0..5).map(|w| job.place_of(w)).collect();
    let at = |file, index, count| (file, Share { index, count });
    // There are three groups of workers for two files: the third group shares the first file.
    assert_eq!(places, [at(0, 0, 3), at(0, 1, 3), at(1, 0, 2), at(1, 1, 2), at(0, 2, 3)]);
    assert_eq!((0..5).map(|w| job.gpu_of(w)).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
}

#[test]
fn whole_pages_are_whole_wherever_they_go() {
    assert!(job(|_| {}).in_whole_pages());
    assert!(!job(|j| j["block_sizes"][0]["bytes"] = json!(1536)).in_whole_pages());
    assert!(!job(|j| j["direct"] = json!(false)).in_whole_pages());
    assert!(!job(|j| j["members"][1]["offset"] = json!(512)).in_whole_pages());
}

#[test]
fn a_window_by_bytes_is_shared_out_in_whole_blocks() {
    let job = job(|j| (j["workers"], j["window_bytes"]) = (json!(3), json!(40_000)));
    let parts: Vec<u64> = (0..3).filter_map(|w| job.window_bytes_of(w)).collect();
    assert_eq!(parts, [16384, 12288, 12288]);
}

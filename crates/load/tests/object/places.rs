//! Families whose place is a bucket: training reads and checkpoints.

use std::time::Duration;

use http::Method;
use serde_json::{json, Value};
use storlab_load::{start, Outcome, Secrets, Status};

use super::server::{Fault, Server};

fn place(server: &Server) -> Value {
    json!({
        "directory": null, "direct": true, "prefix": "p/own/",
        "store": {"endpoints": server.endpoints(), "bucket": "b", "region": "us-east-1",
                  "addressing": "path", "ca_file": null, "verify_tls": true},
    })
}

fn go(kind: &str, job: &Value) -> Outcome {
    let secrets = [("access_key", "AK"), ("secret_key", "SK")];
    let secrets: Secrets = secrets.map(|(name, value)| (name.into(), value.into())).into();
    let run = start(kind, &job.to_string(), &secrets).unwrap();
    assert!(run.wait(Some(Duration::from_secs(60))), "the run goes on for ever");
    run.outcome().unwrap()
}

fn training(server: &Server, task: &str, format: &str, samples: u64) -> Value {
    json!({
        "version": 1, "ramp_ns": 0, "interval_ns": 1_000_000_000u64,
        "drain_timeout_ns": 5_000_000_000u64, "seed": 7, "task": task, "place": place(server),
        "records": {"format": format, "files": 9, "samples_per_file": samples,
                    "record_bytes": 100_000, "record_stdev_bytes": 20_000, "resize_bytes": 0,
                    "folder": "train", "prefix": "img", "seed": 3},
        "accelerators": 2, "batch": 2, "computation_ns": 1_000_000, "reader_threads": 2,
        "prefetch": 2, "epochs": 2, "max_steps": null, "shuffle": "epoch", "reshard": true,
        "barrier": true, "check": "crc", "drop_caches": false, "read_bytes": 65_536,
        "queue_depth": 4, "cpus": null,
    })
}

fn checkpoint(server: &Server, writes: u32, restores: u32) -> Value {
    json!({
        "version": 1, "ramp_ns": 0, "interval_ns": 1_000_000_000u64,
        "drain_timeout_ns": 5_000_000_000u64, "seed": 7, "task": "run", "place": place(server),
        "files": [
            {"name": "rank0/a.bin", "rank": 0, "bytes": 12_000_001},
            {"name": "rank0/b.bin", "rank": 0, "bytes": 0},
            {"name": "rank1.bin", "rank": 1, "bytes": 5_000_000},
        ],
        "ranks": 2, "format": "raw", "writes": writes, "restores": restores, "pause_ns": 0,
        "sync": "fsync", "publish": "rename", "keep_last": null, "io_bytes": 65_536,
        "queue_depth": 2, "verify": true, "cold": "direct", "part_size": 5 << 20, "cpus": null,
    })
}

#[test]
fn a_data_set_is_made_of_objects_once_and_read_with_its_checksums() {
    let server = Server::start();
    for (format, samples) in [("npz", 1), ("tfrecord", 4), ("jpeg", 1)] {
        let made = go("training", &training(&server, "generate", format, samples)).summary;
        assert_eq!(made.status, Status::Finished, "{format}: {:?}", made.failure);
        assert_eq!(made.totals["write"].operations, 9);
        let again = go("training", &training(&server, "generate", format, samples)).summary;
        assert_eq!(again.totals["write"].operations, 0, "made twice");
        let read = go("training", &training(&server, "run", format, samples)).summary;
        assert_eq!(read.status, Status::Finished, "{format}: {:?}", read.failure);
        assert_eq!(read.totals["step"].operations, 2 * 2 * (9 * samples / 2 / 2));
        assert_eq!(read.engine.backend, Some("s3"));
    }
}

#[test]
fn a_corrupt_sample_is_named_by_its_checksum() {
    let server = Server::start();
    go("training", &training(&server, "generate", "npz", 1));
    server.judge(|seen| if seen.method == Method::GET { Fault::Corrupt } else { Fault::None });
    let failure = go("training", &training(&server, "run", "npz", 1)).summary.failure.unwrap();
    assert!(failure.message.contains("train/img_"), "{failure:?}");
}

#[test]
fn checkpoints_are_uploaded_in_parts_and_compared() {
    let server = Server::start();
    let done = go("checkpoint", &checkpoint(&server, 2, 1)).summary;
    assert_eq!(done.status, Status::Finished, "{:?}", done.failure);
    assert_eq!(done.totals["write"].bytes, 2 * 17_000_001);
    assert_eq!(done.totals["read"].bytes, 17_000_001);
    assert_eq!(done.details["restores"][0]["number"], 2);
    let kinds: Vec<_> = done.spans.iter().map(|span| span.kind).collect();
    assert_eq!(kinds, ["write", "write", "restore"]);
    let again = go("checkpoint", &checkpoint(&server, 0, 1)).summary;
    assert_eq!(again.status, Status::Finished, "{:?}", again.failure);
}

#[test]
fn a_failed_upload_leaves_the_last_checkpoint_whole() {
    let server = Server::start();
    go("checkpoint", &checkpoint(&server, 1, 0));
    server.judge(|seen| {
        let second = seen.key.contains("checkpoint-000002") && seen.method == Method::PUT;
        if second && seen.key.ends_with("rank1.bin") {
            Fault::Refuse(500, "InternalError")
        } else {
            Fault::None
        }
    });
    let failed = go("checkpoint", &checkpoint(&server, 1, 0)).summary;
    assert_eq!(failed.status, Status::Failed);
    let said = failed.failure.unwrap().message;
    assert!(said.contains("rank1.bin") && said.contains("InternalError"), "{said}");
    let note = failed.notes.join(" ");
    assert!(note.contains("checkpoint 1 is the newest whole one"), "{note}");
    server.judge(|_| Fault::None);
    let restored = go("checkpoint", &checkpoint(&server, 0, 1)).summary;
    assert_eq!(restored.status, Status::Finished, "{:?}", restored.failure);
    assert_eq!(restored.details["restores"][0]["number"], 1);
}

#[test]
fn a_byte_that_the_store_changed_ends_a_restore() {
    let server = Server::start();
    go("checkpoint", &checkpoint(&server, 1, 0));
    server.judge(|seen| {
        let file = seen.key.ends_with("a.bin") && seen.method == Method::GET;
        if file {
            Fault::Corrupt
        } else {
            Fault::None
        }
    });
    let failed = go("checkpoint", &checkpoint(&server, 0, 1)).summary;
    let said = failed.failure.unwrap().message;
    assert!(said.contains("rank0/a.bin") && said.contains("body is wrong"), "{said}");
}

#[test]
fn a_clean_task_removes_every_checkpoint() {
    let server = Server::start();
    go("checkpoint", &checkpoint(&server, 1, 0));
    let mut job = checkpoint(&server, 0, 0);
    job["task"] = json!("clean");
    assert_eq!(go("checkpoint", &job).summary.status, Status::Finished);
    let nothing = go("checkpoint", &checkpoint(&server, 0, 1)).summary.failure.unwrap();
    assert!(nothing.message.contains("no whole checkpoint"), "{nothing:?}");
}

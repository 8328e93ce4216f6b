//! Tests of training reads from a bucket.

#![allow(clippy::pedantic, missing_docs)]

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use storlab_run::{Outcome, Status};
use storlab_testing::{Fault, Server, patient, secrets};

fn go(job: &Value) -> Outcome {
    let run = storlab_training::start(&job.to_string(), &secrets(), false).unwrap();
    assert!(run.wait(Some(Duration::from_secs(60))), "the run goes on for ever");
    run.outcome().unwrap()
}

fn training(server: &Server, task: &str, format: &str, samples: u64) -> Value {
    json!({
        "version": 1, "ramp_ns": 0, "interval_ns": 1_000_000_000u64,
        "drain_timeout_ns": 5_000_000_000u64, "seed": 7, "task": task, "place": server.place(),
        "records": {"format": format, "files": 9, "samples_per_file": samples,
                    "record_bytes": 100_000, "record_stdev_bytes": 20_000, "resize_bytes": 0,
                    "folder": "train", "prefix": "img", "seed": 3},
        "accelerators": 2, "batch": 2, "computation_ns": 1_000_000, "reader_threads": 2,
        "prefetch": 2, "epochs": 2, "max_steps": null, "shuffle": "epoch", "reshard": true,
        "barrier": true, "check": "crc", "drop_caches": false, "read_bytes": 65_536,
        "queue_depth": 4, "cpus": null,
    })
}

#[test]
fn a_data_set_is_made_of_objects_once_and_read_with_its_checksums() {
    let server = Server::start();
    for (format, samples) in [("npz", 1), ("tfrecord", 4), ("jpeg", 1)] {
        let made = go(&training(&server, "generate", format, samples)).summary;
        assert_eq!(made.status, Status::Finished, "{format}: {:?}", made.failure);
        assert_eq!(made.totals["write"].operations, 9);
        let again = go(&training(&server, "generate", format, samples)).summary;
        assert_eq!(again.totals["write"].operations, 0, "made twice");
        let read = go(&training(&server, "run", format, samples)).summary;
        assert_eq!(read.status, Status::Finished, "{format}: {:?}", read.failure);
        assert_eq!(read.totals["step"].operations, 2 * 2 * (9 * samples / 2 / 2));
        assert_eq!(read.engine.backend, Some("s3"));
    }
}

#[test]
fn a_corrupt_sample_is_named_by_its_checksum() {
    let server = Server::start();
    go(&training(&server, "generate", "npz", 1));
    server.judge(|seen| if seen.method == Method::GET { Fault::Corrupt } else { Fault::None });
    let failure = go(&training(&server, "run", "npz", 1)).summary.failure.unwrap();
    assert!(failure.message.contains("train/img_"), "{failure:?}");
}

#[test]
fn an_answer_that_is_cut_short_is_asked_for_again_from_there_on() {
    let server = Server::start();
    go(&training(&server, "generate", "npz", 1));
    let cut = std::sync::Mutex::new(std::collections::HashSet::new());
    server.judge(move |seen| match seen.method == Method::GET && !seen.key.is_empty() {
        true if cut.lock().unwrap().insert(seen.key.clone()) => Fault::Truncate,
        _ => Fault::None,
    });
    let read = go(&patient(training(&server, "run", "npz", 1))).summary;
    assert_eq!(read.status, Status::Finished, "{:?}", read.failure);
    assert!(read.notes.join(" ").contains("9 after short body"), "{:?}", read.notes);
}

#[test]
fn a_thread_of_a_data_set_that_ends_by_a_mistake_fails_the_run() {
    let server = Server::start();
    let mut job = training(&server, "generate", "jpeg", 1);
    job["records"]["record_bytes"] = json!(1u64 << 63); // more than any allocation can be
    job["records"]["record_stdev_bytes"] = json!(0);
    let made = go(&job).summary;
    assert_eq!(made.status, Status::Failed);
    let message = made.failure.unwrap().message;
    assert!(message.contains("a thread of the data set ended because of a defect"), "{message}");
}

#[test]
fn a_data_set_that_is_cancelled_asks_a_store_that_is_gone_no_more() {
    let server = Server::start();
    server.judge(|_| Fault::Stall);
    let mut job = patient(training(&server, "generate", "jpeg", 1));
    job["records"]["files"] = json!(1);
    job["place"]["request_timeout_ns"] = json!(1_000_000_000u64);
    let run = storlab_training::start(&job.to_string(), &secrets(), false).unwrap();
    while server.held().log.is_empty() {
        std::thread::yield_now();
    }
    run.cancel();
    let before = server.held().log.len();
    assert!(run.wait(Some(Duration::from_secs(60))), "the run goes on for ever");
    // One request may have been in flight.
    assert!(server.held().log.len() <= before + 1);
}

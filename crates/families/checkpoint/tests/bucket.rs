//! Tests of checkpoints in a bucket.

#![allow(clippy::pedantic, missing_docs)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use storlab_run::{Outcome, Status};
use storlab_testing::{Fault, Seen, Server, first_two_fail, patient, secrets};

fn go(job: &Value) -> Outcome {
    let run = storlab_checkpoint::start(&job.to_string(), &secrets(), false).unwrap();
    assert!(run.wait(Some(Duration::from_secs(60))), "the run goes on for ever");
    run.outcome().unwrap()
}

fn checkpoint(server: &Server, writes: u32, restores: u32) -> Value {
    json!({
        "version": 1, "ramp_ns": 0, "interval_ns": 1_000_000_000u64,
        "drain_timeout_ns": 5_000_000_000u64, "seed": 7, "task": "run", "place": server.place(),
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
fn checkpoints_are_uploaded_in_parts_and_compared() {
    let server = Server::start();
    let done = go(&checkpoint(&server, 2, 1)).summary;
    assert_eq!(done.status, Status::Finished, "{:?}", done.failure);
    assert_eq!(done.totals["write"].bytes, 2 * 17_000_001);
    assert_eq!(done.totals["read"].bytes, 17_000_001);
    assert_eq!(done.details["restores"][0]["number"], 2);
    let kinds: Vec<_> = done.spans.iter().map(|span| span.kind).collect();
    assert_eq!(kinds, ["write", "write", "restore"]);
    let again = go(&checkpoint(&server, 0, 1)).summary;
    assert_eq!(again.status, Status::Finished, "{:?}", again.failure);
}

#[test]
fn a_failed_upload_leaves_the_last_checkpoint_whole() {
    let server = Server::start();
    go(&checkpoint(&server, 1, 0));
    server.judge(|seen| {
        let second = seen.key.contains("checkpoint-000002") && seen.method == Method::PUT;
        if second && seen.key.ends_with("rank1.bin") {
            Fault::Refuse(500, "InternalError")
        } else {
            Fault::None
        }
    });
    let failed = go(&checkpoint(&server, 1, 0)).summary;
    assert_eq!(failed.status, Status::Failed);
    let message = failed.failure.unwrap().message;
    assert!(message.contains("rank1.bin") && message.contains("InternalError"), "{message}");
    let note = failed.notes.join(" ");
    assert!(note.contains("checkpoint 1 is the newest complete one"), "{note}");
    server.judge(|_| Fault::None);
    let restored = go(&checkpoint(&server, 0, 1)).summary;
    assert_eq!(restored.status, Status::Finished, "{:?}", restored.failure);
    assert_eq!(restored.details["restores"][0]["number"], 1);
}

#[test]
fn a_byte_that_the_store_changed_ends_a_restore() {
    let server = Server::start();
    go(&checkpoint(&server, 1, 0));
    server.judge(|seen| {
        let file = seen.key.ends_with("a.bin") && seen.method == Method::GET;
        if file { Fault::Corrupt } else { Fault::None }
    });
    let failed = go(&checkpoint(&server, 0, 1)).summary;
    let failure = failed.failure.unwrap();
    assert_eq!(failure.operation.as_deref(), Some("verify"));
    assert!(failure.offset.is_some_and(|offset| offset > 0), "{failure:?}");
    let message = failure.message;
    assert!(
        message.contains("rank0/a.bin") && message.contains("differs from what was written"),
        "{message}"
    );
}

#[test]
fn a_clean_task_removes_every_checkpoint() {
    let server = Server::start();
    go(&checkpoint(&server, 1, 0));
    let mut job = checkpoint(&server, 0, 0);
    job["task"] = json!("clean");
    assert_eq!(go(&job).summary.status, Status::Finished);
    let nothing = go(&checkpoint(&server, 0, 1)).summary.failure.unwrap();
    assert!(nothing.message.contains("no complete checkpoint"), "{nothing:?}");
}

#[test]
fn errors_that_pass_end_no_checkpoint() {
    let server = Server::start();
    server.judge(first_two_fail());
    let done = go(&patient(checkpoint(&server, 1, 1))).summary;
    assert_eq!(done.status, Status::Finished, "{:?}", done.failure);
    assert_eq!(done.details["restores"][0]["number"], 1);
    assert!(done.details["retries"].as_u64().unwrap() > 10, "{:?}", done.details["retries"]);
    let note = done.notes.join(" ");
    assert!(note.contains("after SlowDown (503)") && note.contains("retried"), "{note}");
    assert!(server.held().uploads.is_empty());
}

#[test]
fn a_request_without_an_answer_in_time_is_sent_again() {
    let server = Server::start();
    let stalled = AtomicBool::new(false);
    let second = |seen: &Seen| seen.query.get("partNumber").is_some_and(|number| number == "2");
    server.judge(move |seen| match second(seen) {
        true if !stalled.swap(true, SeqCst) => Fault::Stall,
        _ => Fault::None,
    });
    let mut job = patient(checkpoint(&server, 1, 0));
    // Small enough that only the stalled request can exceed the timeout, even on a busy machine.
    job["files"] = json!([
        {"name": "rank0.bin", "rank": 0, "bytes": 65_537},
        {"name": "rank1.bin", "rank": 1, "bytes": 1},
    ]);
    job["part_size"] = json!(65_536);
    job["place"]["request_timeout_ns"] = json!(10_000_000_000u64);
    let done = go(&job).summary;
    assert_eq!(done.status, Status::Finished, "{:?}", done.failure);
    assert!(done.notes.join(" ").contains("1 after time-out"), "{:?}", done.notes);
}

#[test]
fn an_upload_that_cannot_be_completed_is_given_up() {
    let server = Server::start();
    let aborts = AtomicUsize::new(0);
    server.judge(move |seen| {
        let upload = seen.query.contains_key("uploadId");
        let abort = upload && seen.method == Method::DELETE;
        if upload && seen.method == Method::POST {
            Fault::Refuse(500, "InternalError")
        } else if abort && aborts.fetch_add(1, SeqCst) < 2 {
            Fault::Refuse(503, "SlowDown")
        } else {
            Fault::None
        }
    });
    let failed = go(&patient(checkpoint(&server, 1, 0))).summary;
    assert_eq!(failed.status, Status::Failed);
    let held = server.held();
    assert!(held.uploads.is_empty(), "{:?}", held.uploads.values().map(|u| &u.0).next());
    assert!(held.objects.is_empty(), "{:?}", held.objects.keys());
}

#[test]
fn a_completion_whose_answer_was_lost_counts_when_the_object_is_there() {
    let server = Server::start();
    let lost = AtomicBool::new(false);
    server.judge(move |seen| {
        let complete = seen.query.contains_key("uploadId") && seen.method == Method::POST;
        match complete {
            true if !lost.swap(true, SeqCst) => Fault::Lose,
            _ => Fault::None,
        }
    });
    let done = go(&patient(checkpoint(&server, 1, 1))).summary;
    assert_eq!(done.status, Status::Finished, "{:?}", done.failure);
}

/// CreateMultipartUpload is not idempotent: each attempt that arrives begins another upload.
#[test]
fn uploads_whose_ids_were_lost_are_aborted() {
    let begins = |seen: &Seen| seen.method == Method::POST && seen.query.contains_key("uploads");
    for lost_for_ever in [false, true] {
        let server = Server::start();
        let lost = AtomicBool::new(false);
        server.judge(move |seen| match begins(seen) {
            true if lost_for_ever || !lost.swap(true, SeqCst) => Fault::Lose,
            _ => Fault::None,
        });
        let done = go(&patient(checkpoint(&server, 1, 0))).summary;
        let status = if lost_for_ever { Status::Failed } else { Status::Finished };
        assert_eq!(done.status, status, "{:?}", done.failure);
        let held = server.held();
        assert!(held.log.iter().filter(|seen| begins(seen)).count() > 1);
        assert!(held.uploads.is_empty(), "{:?}", held.uploads.values().map(|u| &u.0).next());
    }
}

#[test]
fn uploads_that_may_not_be_listed_are_counted_once_for_each_object() {
    let server = Server::start();
    server.judge(|seen| match seen.query.contains_key("uploads") {
        true if seen.method == Method::POST => Fault::Lose,
        true => Fault::Refuse(403, "AccessDenied"),
        false => Fault::None,
    });
    let done = go(&patient(checkpoint(&server, 1, 0))).summary;
    assert_eq!(done.status, Status::Failed);
    let begun = server.held().log.iter().filter(|seen| seen.method == Method::POST).count();
    assert!(begun > 1, "{begun}");
    let notes = done.notes.join("\n");
    assert!(notes.contains("1 multipart uploads may be left"), "{notes}");
}

#[test]
fn what_a_killed_run_left_of_uploads_is_given_up_by_the_clean_task() {
    let server = Server::start();
    server.held().whole_keys = true;
    let open = |key: &str| (key.to_owned(), Default::default());
    for (id, key) in [("1", "p/own/checkpoint-000001/a"), ("2", "p/other"), ("3", "q")] {
        server.held().uploads.insert(id.to_owned(), open(key));
    }
    let mut job = checkpoint(&server, 0, 0);
    job["task"] = json!("clean");
    assert_eq!(go(&job).summary.status, Status::Finished);
    assert_eq!(server.held().uploads.keys().collect::<Vec<_>>(), ["2", "3"]);
}

#[test]
fn a_store_that_ignores_prefixes_loses_nothing_of_others() {
    let server = Server::start();
    server.held().prefix_ignored = true; // prefixes of upload listings are ignored too
    let open = |key: &str| (key.to_owned(), Default::default());
    let others = ["other", "p/own/checkpoint", "p/owner/checkpoint-000001/a"];
    for key in others {
        server.held().objects.insert(key.to_owned(), Default::default());
        server.held().uploads.insert(format!("of {key}"), open(key));
    }
    let mut job = checkpoint(&server, 3, 0);
    job["keep_last"] = json!(1);
    let done = go(&job).summary;
    assert_eq!(done.status, Status::Finished, "{:?}", done.failure);
    server.held().uploads.insert("own".to_owned(), open("p/own/checkpoint-000009/a"));
    job["task"] = json!("clean");
    assert_eq!(go(&job).summary.status, Status::Finished);
    let held = server.held();
    assert_eq!(held.objects.keys().collect::<Vec<_>>(), others);
    let uploads: Vec<_> = others.iter().map(|key| format!("of {key}")).collect();
    assert_eq!(held.uploads.keys().collect::<Vec<_>>(), uploads.iter().collect::<Vec<_>>());
}

#[test]
fn a_wrong_length_is_wrong_data_and_not_a_broken_connection() {
    let server = Server::start();
    go(&checkpoint(&server, 1, 0));
    let key = "p/own/checkpoint-000001/rank1.bin".to_owned();
    let short = server.held().objects[&key].slice(..4_999_999);
    server.held().objects.insert(key, short);
    let failed = go(&patient(checkpoint(&server, 0, 1))).summary;
    let message = failed.failure.unwrap().message;
    assert!(
        message.contains("rank1.bin") && message.contains("differs from what was written"),
        "{message}"
    );
}

#[test]
fn who_cancels_does_not_wait_for_retries_of_a_store_that_is_gone() {
    let server = Server::start();
    let gone = AtomicBool::new(false);
    let is_part = |seen: &Seen| seen.query.contains_key("partNumber");
    server.judge(move |seen| match gone.fetch_or(is_part(seen), SeqCst) || is_part(seen) {
        true => Fault::Stall,
        false => Fault::None,
    });
    let mut job = patient(checkpoint(&server, 1, 0));
    job["place"]["request_timeout_ns"] = json!(1_000_000_000u64);
    let run = storlab_checkpoint::start(&job.to_string(), &secrets(), false).unwrap();
    while !server.held().log.iter().any(is_part) {
        std::thread::yield_now();
    }
    let before = server.held().log.len();
    run.cancel();
    assert!(run.wait(Some(Duration::from_secs(60))), "the run goes on for ever");
    let after = server.held().log.split_off(before);
    let count = |what: fn(&Seen) -> bool| after.iter().filter(|seen| what(seen)).count();
    assert!(count(|seen| seen.method == Method::DELETE) <= 1, "{after:?}");
    assert!(count(|seen| seen.query.contains_key("list-type")) <= 1, "{after:?}");
    let notes = run.outcome().unwrap().summary.notes.join("\n");
    assert!(
        notes.contains("1 was not published; its objects could not be removed: LIST"),
        "{notes}"
    );
    assert!(notes.contains("1 multipart uploads may be left"), "{notes}");
    // The next clean removes what was left.
    server.judge(|_| Fault::None);
    let mut job = checkpoint(&server, 0, 0);
    job["task"] = json!("clean");
    assert_eq!(go(&job).summary.status, Status::Finished);
    let held = server.held();
    assert!(held.uploads.is_empty() && held.objects.is_empty(), "{:?}", held.objects.keys());
}

#[test]
fn a_list_of_files_that_is_damaged_is_named() {
    let server = Server::start();
    go(&checkpoint(&server, 1, 0));
    let key = "p/own/checkpoint-000001/storlab-checkpoint.json";
    server.held().objects.insert(key.to_owned(), "{\"number\": 1".into());
    let failure = go(&checkpoint(&server, 0, 1)).summary.failure.unwrap();
    assert!(failure.message.contains(key), "{failure:?}");
}

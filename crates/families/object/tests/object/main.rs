//! Tests with runs against a small in-process S3 server.

#![allow(clippy::pedantic, missing_docs)]

mod endpoints;
mod faults;
mod groups;
mod runs;
mod tasks;

use std::time::Duration;

use serde_json::{Value, json};
use storlab_run::{Outcome, Run, Secrets, Status};
use storlab_testing::Server;

fn sizes(bytes: u64) -> Value {
    json!({"kind": "fixed", "sizes": [{"bytes": bytes, "weight": 1.0}],
           "low": 0, "high": 0, "median": 0, "sigma": 0.0})
}

/// Return an order of GETs of a pool of 40 objects of 20,000 bytes, for 0.8 s.
fn job(server: &Server) -> Value {
    json!({
        "version": 1, "ramp_ns": 0, "interval_ns": 50_000_000,
        "drain_timeout_ns": 5_000_000_000u64, "seed": 1, "task": "run",
        "store": {"endpoints": server.endpoints(), "bucket": "b", "region": "us-east-1",
                  "addressing": "path", "ca_file": null, "verify_tls": true},
        "pool": {"prefix": "p/pool-1/", "objects": 40, "shards": 4, "sizes": sizes(20_000),
                 "seed": 1},
        "write_prefix": "p/run-1/", "sizes": sizes(20_000),
        "mix": {"get": 100.0, "put": 0.0, "head": 0.0, "list": 0.0, "delete": 0.0,
                "multi_delete": 0.0},
        "concurrency": 4, "lanes": null, "threads": 2,
        "keys": {"kind": "uniform", "theta": 1.1, "hot_space_percent": 10.0,
                 "hot_access_percent": 90.0},
        "join_pool": false, "part_size": null, "part_concurrency": 1, "range_size": null,
        "list_max_keys": 1000, "delete_batch": 100,
        "arrival": {"kind": "closed", "rate_iops": null}, "payload": "unsigned",
        "routing": "round_robin", "request_timeout_ns": 5_000_000_000u64, "retries": 0,
        "backoff_ns": 0, "verify": true, "window_ns": 800_000_000
    })
}

fn secrets() -> Secrets {
    let secrets = [("access_key", "AK"), ("secret_key", "SK")];
    secrets.map(|(name, value)| (name.into(), value.into())).into()
}

fn begin(job: &Value) -> Run {
    storlab_object::start(&job.to_string(), &secrets(), false).unwrap()
}

fn finish(run: &Run) -> Outcome {
    assert!(run.wait(Some(Duration::from_secs(60))), "the run goes on for ever");
    run.outcome().unwrap()
}

fn run(job: &Value) -> Outcome {
    finish(&begin(job))
}

/// Run, and assert that the run finishes.
fn good(job: &Value) -> Outcome {
    let outcome = run(job);
    assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
    outcome
}

/// Run until at least `least` requests of each of `kinds` succeeded. On a busy machine the window
/// is doubled, up to four times.
fn serving(job: &Value, least: u64, kinds: &[&str]) -> Outcome {
    let mut job = job.clone();
    for _ in 0..4 {
        let outcome = good(&job);
        if kinds.iter().all(|kind| operations(&outcome, kind) >= least) {
            return outcome;
        }
        job["window_ns"] = json!(job["window_ns"].as_u64().unwrap() * 2);
        if job["mix"]["delete"].as_f64() > Some(0.0) {
            fill(&job); // replace what this try has deleted
        }
    }
    let outcome = good(&job);
    for kind in kinds {
        assert!(operations(&outcome, kind) >= least, "{kind}: {:?}", outcome.summary.totals);
    }
    outcome
}

fn fill(job: &Value) -> Outcome {
    let mut job = job.clone();
    job["task"] = json!("fill");
    good(&job)
}

fn operations(outcome: &Outcome, kind: &str) -> u64 {
    outcome.summary.totals.get(kind).map_or(0, |totals| totals.operations)
}

fn errors(outcome: &Outcome, kind: &str) -> Vec<(String, u64)> {
    outcome.summary.totals[kind].errors.clone().into_iter().collect()
}

fn all_errors(outcome: &Outcome) -> u64 {
    outcome.summary.totals.values().flat_map(|totals| totals.errors.values()).sum()
}

fn detail(outcome: &Outcome, name: &str) -> u64 {
    outcome.summary.details[name].as_u64().unwrap()
}

fn note(outcome: &Outcome, text: &str) -> bool {
    outcome.summary.notes.iter().any(|note| note.contains(text))
}

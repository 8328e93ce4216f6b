//! Tests of whole runs of the example family in a temporary directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use storlab_run::outcome::{Outcome, Status};

fn run(directory: &Path, task: &str) -> Outcome {
    let order = json!({
        "version": 1, "interval_ns": 10_000_000, "seed": 1, "task": task,
        "directory": directory, "files": 20, "file_bytes": 4096, "workers": 3,
    });
    let run = crate::start(&order.to_string(), &BTreeMap::new(), false).unwrap();
    assert!(run.wait(Some(Duration::from_mins(1))));
    run.outcome().unwrap()
}

#[test]
fn a_run_writes_and_reads_every_file_once() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let summary = run(&directory, "run").summary;
    assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
    let spans: Vec<_> = summary.spans.iter().map(|span| (span.kind, span.bytes)).collect();
    assert_eq!(spans, [("write", 20 * 4096), ("read", 20 * 4096)]);
    assert_eq!(directory.read_dir().unwrap().count(), 20);
    assert_eq!(run(&directory, "remove").summary.status, Status::Finished);
    assert!(!directory.exists());
}

#[test]
fn a_failure_names_the_file() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(place.path().join("file7")).unwrap();
    let failure = run(place.path(), "run").summary.failure.unwrap();
    assert!(format!("{failure:?}").contains("file7"));
}

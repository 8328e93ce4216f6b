//! Tests that generate whole data sets in a temporary directory.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use storlab_run::handle::Run;
use storlab_run::order::Order as _;
use storlab_run::outcome::Status;

use super::*;

const ROWS: u64 = 3 * BLOCK_ROWS + 100;
const FILES: u32 = 2;

fn job(home: &Path, rows: u64, files: u32, seed: u64) -> PreprocessJob {
    let order = json!({
        "version": 1, "interval_ns": 1_000_000_000u64, "task": "generate", "inputs": [],
        "directory": home, "clicks": {"rows": rows, "files": files, "seed": seed}, "workers": 1,
        "part_bytes": 67_108_864, "row_group_rows": 1, "compression": "snappy", "threshold": 15,
        "modulo": null, "numerical": "float16", "malformed": "refuse", "malformed_samples": 0,
        "memory_bytes": 1, "cold": true, "resume": false, "cpus": null,
    });
    PreprocessJob::from_json(&order.to_string()).unwrap()
}

fn start(threads: usize, job: PreprocessJob) -> Run {
    let control = Arc::new(Control::default());
    Run::begin(control.clone(), move |board| run_with(threads, &job, &control, board)).unwrap()
}

fn ended(run: &Run) -> Outcome {
    assert!(run.wait(Some(Duration::from_mins(1))), "it goes on for ever");
    run.outcome().unwrap()
}

fn made(threads: usize, home: &Path, seed: u64) -> Outcome {
    let outcome = ended(&start(threads, job(home, ROWS, FILES, seed)));
    assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
    outcome
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

fn names(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home).unwrap();
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort_unstable();
    names
}

/// Return the inode of a file, which changes if the file is generated again.
fn inode(home: &Path, name: &str) -> u64 {
    fs::metadata(home.join(name)).unwrap().ino()
}

#[test]
fn bytes_are_the_same_whatever_the_threads() {
    let (single, four, other) = (home(), home(), home());
    let outcome = made(1, single.path(), 7);
    made(4, four.path(), 7);
    made(4, other.path(), 8);
    let mut bytes = 0;
    for file in 0..FILES {
        let read = |home: &tempfile::TempDir| fs::read(home.path().join(name_of(file))).unwrap();
        let text = read(&single);
        assert!(text == read(&four), "{file}");
        assert!(text != read(&other), "{file}");
        let lines = String::from_utf8(text.clone()).unwrap().lines().count();
        assert_eq!(lines as u64, ROWS / 2);
        bytes += text.len() as u64;
    }
    let summary = outcome.summary;
    assert_eq!(names(single.path()), ["data.json", "day_0", "day_1"]);
    assert_eq!(summary.details["bytes"], bytes);
    assert_eq!(summary.totals["write"].bytes, bytes);
    assert_eq!(summary.totals["write"].operations, 4, "blocks");
    assert_eq!(summary.spans[0].kind, "generate");
    assert_eq!(summary.spans[0].bytes, bytes);
    let file = &summary.details["files"][1];
    assert_eq!((&file["name"], &file["rows"]), (&json!("day_1"), &json!(ROWS / 2)));
}

#[test]
fn the_first_files_have_one_row_more() {
    let home = home();
    let outcome = ended(&start(2, job(home.path(), 5, 7, 1)));
    let files = outcome.summary.details["files"].as_array().unwrap();
    let rows: Vec<u64> = files.iter().map(|file| file["rows"].as_u64().unwrap()).collect();
    assert_eq!(rows, [1, 1, 1, 1, 1, 0, 0]);
    assert_eq!(fs::read(home.path().join("day_6")).unwrap(), b"");
}

#[test]
fn what_is_whole_is_kept_and_what_was_cut_is_made_again() {
    let home = home();
    made(2, home.path(), 7);
    let again = made(2, home.path(), 7);
    assert_eq!(again.summary.spans[0].bytes, 0, "made twice");
    let [kept, cut] = [0, 1].map(|file| inode(home.path(), &name_of(file)));
    let whole = fs::read(home.path().join("day_1")).unwrap();
    fs::write(home.path().join(".partial-day_1"), vec![b'x'; whole.len() + 1]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(home.path().join("day_1")).unwrap();
    file.set_len(1000).unwrap();
    let resumed = made(2, home.path(), 7);
    assert_eq!(resumed.summary.spans[0].bytes, whole.len() as u64);
    assert_eq!(resumed.summary.details["files"].as_array().unwrap().len(), 2);
    assert_eq!(inode(home.path(), "day_0"), kept);
    assert_ne!(inode(home.path(), "day_1"), cut);
    assert!(fs::read(home.path().join("day_1")).unwrap() == whole);
    assert_eq!(names(home.path()), ["data.json", "day_0", "day_1"]);
}

#[test]
fn another_data_set_takes_the_place_of_what_is_there() {
    let (home, fresh) = (home(), home());
    made(2, home.path(), 7);
    made(2, home.path(), 8);
    made(2, fresh.path(), 8);
    for name in names(fresh.path()) {
        let read = |home: &tempfile::TempDir| fs::read(home.path().join(&name)).unwrap();
        assert!(read(&home) == read(&fresh), "{name}");
    }
}

#[test]
fn a_cancelled_run_leaves_whole_files_only() {
    let home = home();
    let rows = 1 << 30;
    let run = start(2, job(home.path(), rows, 1 << 15, 7));
    while run.snapshot().phase.name != "done" && !home.path().join("day_0").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.cancel();
    let outcome = ended(&run);
    assert_eq!(outcome.summary.status, Status::Cancelled, "{:?}", outcome.summary.failure);
    let text = Text::new();
    let files = outcome.summary.details["files"].as_array().unwrap();
    let mut there = names(home.path());
    there.retain(|name| name != SIDECAR);
    assert_eq!(there.len(), files.len());
    assert!(!files.is_empty());
    for file in files {
        let name = file["name"].as_str().unwrap();
        let number = name.strip_prefix("day_").unwrap().parse().unwrap();
        let mut whole = Vec::new();
        for block in 0..2 {
            text.write(7, number, block, BLOCK_ROWS, &mut whole);
        }
        assert!(fs::read(home.path().join(name)).unwrap() == whole, "{name}");
    }
}

#[test]
fn a_full_disk_ends_the_run_with_the_name_of_the_file() {
    let home = home();
    std::os::unix::fs::symlink("/dev/full", home.path().join(".partial-day_1")).unwrap();
    let outcome = ended(&start(2, job(home.path(), ROWS, FILES, 7)));
    assert_eq!(outcome.summary.status, Status::Failed);
    let failure = outcome.summary.failure.unwrap();
    assert_eq!(failure.errno_name, Some("ENOSPC"), "{}", failure.message);
    assert!(failure.message.contains("write of") && failure.message.contains(".partial-day_1"));
    let left = names(home.path());
    assert!(left.iter().all(|name| name == "data.json" || name == "day_0"), "{left:?}");
}

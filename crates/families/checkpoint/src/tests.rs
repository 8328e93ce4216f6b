//! Tests of whole jobs in a temporary directory below the working directory.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use storlab_base::{Error, monotonic_ns};
use storlab_run::outcome::Status;

use super::publish::Manifest;
use super::*;

pub(crate) fn order(home: &Path, change: impl Fn(&mut Value)) -> Value {
    let mut job = json!({
        "version": 1, "ramp_ns": 0, "interval_ns": 1_000_000_000u64,
        "drain_timeout_ns": 30_000_000_000u64, "seed": 7,
        "place": {"directory": home, "direct": true},
        "files": [
            {"name": "rank0/a.bin", "rank": 0, "bytes": 3_000_001},
            {"name": "rank0/b.bin", "rank": 0, "bytes": 0},
            {"name": "rank1.bin", "rank": 1, "bytes": 1_048_576},
        ],
        "ranks": 2, "format": "raw", "writes": 2, "restores": 1, "pause_ns": 0,
        "sync": "fsync", "publish": "rename", "keep_last": null,
        "io_bytes": 65_536, "queue_depth": 2, "verify": true, "cold": "direct",
        "part_size": 1 << 26, "cpus": null,
    });
    change(&mut job);
    job
}

fn run(home: &Path, change: impl Fn(&mut Value)) -> Outcome {
    let job = CheckpointJob::from_json(&order(home, change).to_string()).unwrap();
    let run = begin(job, None, false).unwrap();
    assert!(run.wait(Some(Duration::from_mins(1))), "the run goes on for ever");
    run.outcome().unwrap()
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

#[test]
fn what_is_written_is_published_and_restored() {
    for (format, direct, cold) in
        [("raw", true, "direct"), ("safetensors", true, "direct"), ("raw", false, "drop")]
    {
        let home = home();
        let home = &home.path().canonicalize().unwrap();
        let outcome = run(home, |job| {
            job["format"] = json!(format);
            job["place"]["direct"] = json!(direct);
            job["cold"] = json!(cold);
            job["keep_last"] = json!(1);
        });
        let summary = &outcome.summary;
        assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
        assert_eq!(summary.totals["write"].bytes, 2 * 4_048_577);
        assert_eq!(summary.totals["read"].bytes, 4_048_577);
        assert_eq!(summary.totals["sync"].operations, 6);
        assert!(!home.join("checkpoint-000001").exists());
        let whole = home.join("checkpoint-000002/rank0/a.bin");
        assert_eq!(whole.metadata().unwrap().len(), 3_000_001);
        let kinds: Vec<_> = summary.spans.iter().map(|span| span.kind).collect();
        assert_eq!(kinds, ["write", "write", "delete", "restore"]);
        let rows: u64 = outcome.rows.iter().filter(|r| r.kind == "write").map(|r| r.bytes).sum();
        assert_eq!(rows, 2 * 4_048_577);
    }
}

#[test]
fn a_restore_from_the_device_says_so() {
    let home = home();
    let outcome = run(home.path(), |_| {});
    let restore = &outcome.summary.details["restores"][0];
    assert_eq!(restore["resident_before_bytes"], 0, "{restore}");
    if let Some(read) = restore["device_read_bytes"].as_u64() {
        assert!(read >= 4_048_577 / 2, "{read}");
    }
}

#[test]
fn a_restore_as_it_is_reads_what_the_cache_holds() {
    let home = home();
    let outcome = run(home.path(), |job| {
        job["cold"] = json!("as_is");
        job["restores"] = json!(2);
    });
    let restores = outcome.summary.details["restores"].as_array().unwrap();
    assert!(restores[1]["resident_before_bytes"].as_u64().unwrap() >= 4_048_577, "{restores:?}");
}

#[test]
fn a_restore_ends_with_the_last_byte_that_a_rank_received() {
    let home = home();
    run(home.path(), |job| job["restores"] = json!(0));
    let outcome = run(home.path(), |job| {
        job["writes"] = json!(0);
        job["restores"] = json!(2);
        job["seed"] = json!(8); // so that the expected content is generated again
    });
    assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
    for restore in outcome.summary.details["restores"].as_array().unwrap() {
        let ranks = restore["ranks"].as_array().unwrap();
        let last = ranks.iter().map(|rank| rank["moved_ns"].as_u64().unwrap()).max();
        assert_eq!(restore["end_ns"].as_u64(), last, "{restore}");
    }
}

#[test]
fn a_byte_that_changed_is_found_with_its_file_and_offset() {
    for (format, at, block) in [
        ("raw", 0, 0),
        ("raw", 70_000, 69_632),
        ("raw", 3_000_000, 2_998_272),
        ("safetensors", 1, 0),
        ("safetensors", 100, 0),
        ("safetensors", 4_000, 0),
        ("safetensors", 70_000, 69_632),
    ] {
        let home = home();
        let run = |key: &str| {
            run(home.path(), |job| {
                job["format"] = json!(format);
                job[key] = json!(0);
            })
        };
        assert_eq!(run("restores").summary.status, Status::Finished);
        let path = home.path().join("checkpoint-000002/rank0/a.bin");
        let mut data = std::fs::read(&path).unwrap();
        data[at] ^= 0x40;
        std::fs::write(&path, data).unwrap();
        let outcome = run("writes");
        assert_eq!(outcome.summary.status, Status::Failed, "{format} at {at}");
        let failure = outcome.summary.failure.unwrap();
        assert_eq!(failure.offset, Some(block), "{failure:?}");
        assert!(failure.path.unwrap().ends_with("a.bin"));
    }
}

#[test]
fn a_failed_write_leaves_the_last_checkpoint_whole() {
    let home = home();
    run(home.path(), |job| job["writes"] = json!(1));
    // A directory in place of a file: creating it fails on the second rank only.
    let outcome = run(home.path(), |job| {
        job["writes"] = json!(1);
        job["files"][2]["name"] = json!("rank0");
    });
    assert_eq!(outcome.summary.status, Status::Failed);
    let note = outcome.summary.notes.join(" ");
    assert!(note.contains("checkpoint 2 was not published"), "{note}");
    assert!(note.contains("checkpoint 1 is the newest complete one"), "{note}");
    let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
    let again = run(home.path(), |job| job["writes"] = json!(0));
    assert_eq!(again.summary.status, Status::Finished, "{:?}", again.summary.failure);
}

fn shelf_with_a_checkpoint(home: &Path) -> (CheckpointDirectory, Manifest) {
    run(home, |job| job["writes"] = json!(1));
    let job = CheckpointJob::from_json(&order(home, |_| {}).to_string()).unwrap();
    let shelf = CheckpointDirectory::new(&job, home);
    let manifest = shelf.manifest(1).unwrap();
    (shelf, Manifest { number: 2, ..manifest })
}

#[test]
fn nothing_says_that_a_checkpoint_is_whole_before_its_directories_are_flushed() {
    let home = home();
    let (shelf, manifest) = shelf_with_a_checkpoint(home.path());
    let aside = shelf.prepare(2, &["rank1.bin"]).unwrap();
    // A directory that cannot be flushed.
    std::os::unix::fs::symlink("/proc/self/fdinfo", aside.join("rank0")).unwrap();
    let error = shelf.publish(&manifest).unwrap_err();
    assert!(error.to_string().contains("rank0"), "{error}");
    let left: Vec<_> = std::fs::read_dir(&aside).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [aside.join("rank0")]);
}

#[test]
fn a_checkpoint_that_failed_after_its_rename_is_not_the_newest() {
    let home = home();
    let (shelf, manifest) = shelf_with_a_checkpoint(home.path());
    shelf.prepare(2, &["rank1.bin"]).unwrap();
    shelf.publish(&manifest).unwrap();
    assert_eq!(shelf.numbers().unwrap(), [1, 2]);
    // Flushing the parent directory comes next, and may fail.
    shelf.discard(2);
    assert_eq!(shelf.numbers().unwrap(), [1]);
}

#[test]
fn leftovers_of_a_crash_are_removed_and_never_restored() {
    let home = home();
    run(home.path(), |job| job["writes"] = json!(1));
    let partial = home.path().join(".partial-000002");
    std::fs::create_dir(&partial).unwrap();
    std::fs::write(partial.join("rank1.bin"), b"half").unwrap();
    // A checkpoint without its manifest: a crash lost the rename of the manifest, or it was never
    // complete.
    std::fs::create_dir(home.path().join("checkpoint-000009")).unwrap();
    let outcome = run(home.path(), |job| job["writes"] = json!(0));
    assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
    assert_eq!(outcome.summary.details["restores"][0]["number"], 1);
    assert!(!partial.exists());
}

#[test]
fn cancelling_publishes_nothing() {
    let home = home();
    let job = order(home.path(), |job| {
        job["writes"] = json!(1000);
        job["pause_ns"] = json!(3_600_000_000_000u64);
    });
    let run = begin(CheckpointJob::from_json(&job.to_string()).unwrap(), None, false).unwrap();
    while !home.path().join("checkpoint-000001").exists() {
        std::thread::yield_now();
    }
    run.cancel();
    assert!(run.wait(Some(Duration::from_secs(30))));
    assert_eq!(run.outcome().unwrap().summary.status, Status::Cancelled);
    assert!(!home.path().join(".partial-000002").exists());
}

#[test]
fn the_place_is_made_and_removed_with_all_its_checkpoints() {
    let home = home();
    let place = home.path().join("checkpoints-run");
    let outcome = run(&place, |_| {});
    assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
    std::fs::create_dir(place.join(".partial-000003")).unwrap();
    for _ in 0..2 {
        let outcome = run(&place, |job| job["task"] = json!("clean"));
        assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
        assert!(!place.exists());
    }
    assert!(home.path().exists());
    let failure = run(&place.join("a/b"), |_| {}).summary.failure.unwrap();
    assert_eq!(
        (failure.operation.as_deref(), failure.errno_name),
        (Some("create"), Some("ENOENT"))
    );
    assert_eq!(failure.path, place.join("a/b").to_str().map(str::to_owned));
}

#[test]
fn cleaning_removes_nothing_beside_a_foreign_file() {
    for foreign in ["notes.txt", "checkpoint-1.old", "checkpoint-000007"] {
        let home = home();
        run(home.path(), |job| job["writes"] = json!(1));
        std::fs::write(home.path().join(foreign), b"mine").unwrap();
        let outcome = run(home.path(), |job| job["task"] = json!("clean"));
        assert_eq!(outcome.summary.status, Status::Failed);
        let failure = outcome.summary.failure.unwrap();
        assert!(failure.path.unwrap().ends_with(foreign));
        assert!(home.path().join("checkpoint-000001").exists());
    }
}

#[test]
fn orders_that_cannot_be_are_refused_by_field() {
    let home = home();
    for (field, value) in [
        ("files", json!([{"name": "../x", "rank": 0, "bytes": 1}])),
        ("files", json!([{"name": "x", "rank": 5, "bytes": 1}])),
        ("io_bytes", json!(1000)),
        ("keep_last", json!(0)),
        ("part_size", json!(0)),
    ] {
        let job = order(home.path(), |job| job[field] = value.clone());
        let error = CheckpointJob::from_json(&job.to_string()).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn files_have_their_length_whether_it_was_set_aside_or_not() {
    for (preallocate, direct) in [(true, true), (false, true), (true, false)] {
        let home = home();
        let outcome = run(home.path(), |job| {
            job["preallocate"] = json!(preallocate);
            job["place"]["direct"] = json!(direct);
        });
        assert_eq!(outcome.summary.status, Status::Finished, "{:?}", outcome.summary.failure);
        for (name, bytes) in [("rank0/a.bin", 3_000_001), ("rank0/b.bin", 0)] {
            let file = home.path().join("checkpoint-000002").join(name);
            assert_eq!(file.metadata().unwrap().len(), bytes);
        }
    }
}

#[test]
fn a_file_that_is_set_aside_has_its_whole_length_before_its_bytes() {
    let home = home();
    let order = order(home.path(), |job| {
        job["files"][0]["bytes"] = json!(1 << 28);
        job["preallocate"] = json!(true);
    });
    let run = begin(CheckpointJob::from_json(&order.to_string()).unwrap(), None, false).unwrap();
    // The open file can be examined even after its name is gone.
    let begun = || {
        let names = [".partial-000001", "checkpoint-000001"].map(|name| home.path().join(name));
        names.iter().find_map(|name| std::fs::File::open(name.join("rank0/a.bin")).ok())
    };
    let file = loop {
        let over = run.wait(Some(Duration::from_micros(100)));
        if let Some(file) = begun() {
            break file;
        }
        assert!(!over, "it has written nothing");
    };
    run.cancel();
    assert!(run.wait(Some(Duration::from_mins(1))));
    assert_eq!(file.metadata().unwrap().len(), 1 << 28);
}

#[test]
fn held_ranks_write_nothing_before_their_time() {
    let (kept, left) = (home(), home());
    let held = |home: &Path| {
        let job = CheckpointJob::from_json(&order(home, |_| {}).to_string()).unwrap();
        let run = begin(job, None, true).unwrap();
        while !run.armed() {
            std::thread::yield_now();
        }
        run
    };
    let there = |home: &Path| std::fs::read_dir(home).unwrap().count();
    let (first, second) = (held(kept.path()), held(left.path()));
    let before = there(kept.path());
    let start_ns = monotonic_ns() + 3_000_000_000;
    assert!(first.open_at(start_ns));
    second.cancel();
    assert!(second.wait(Some(Duration::from_mins(1))) && first.wait(Some(Duration::from_mins(1))));
    let summary = first.outcome().unwrap().summary;
    assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
    assert_eq!(summary.window_start_ns, start_ns);
    assert!(summary.first_io_late_ns.is_some());
    assert!(summary.first_io_late_ns <= summary.last_worker_late_ns);
    assert!(kept.path().join("checkpoint-000002").exists());
    let summary = second.outcome().unwrap().summary;
    assert_eq!(summary.status, Status::Cancelled);
    assert_eq!((there(left.path()), summary.first_io_late_ns), (before, None));
    assert!(summary.spans.is_empty() && summary.notes.is_empty(), "{:?}", summary.notes);
}

#[test]
fn ranks_of_several_clients_begin_each_checkpoint_and_restore_together() {
    let homes = [home(), home()];
    let parts: Vec<Run> = homes
        .iter()
        .zip([0, 2])
        .map(|(home, first)| {
            let order = order(home.path(), |job| job["first_rank"] = json!(first));
            let job = CheckpointJob::from_json(&order.to_string()).unwrap();
            let run = begin(job, None, true).unwrap();
            run.meeting().share();
            assert!(run.open_at(0));
            run
        })
        .collect();
    let soon = Duration::from_mins(1);
    for number in 0..3 {
        let ready_ns = parts[0].meeting().announced(number, soon).unwrap();
        // Both clients have arrived, and neither goes on before it is released.
        assert!(parts[1].meeting().announced(number, soon).is_some());
        assert!(!parts[0].wait(Some(Duration::ZERO)));
        assert!(parts.iter().all(|part| part.meeting().tell(ready_ns)));
    }
    for (part, first) in parts.iter().zip([0, 2]) {
        assert!(part.wait(Some(soon)));
        let summary = part.outcome().unwrap().summary;
        assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
        assert_eq!(part.meeting().met().len(), 3);
        let written = summary.details["writes"][1].clone();
        assert_eq!(
            [&written["ranks"][0]["rank"], &written["ranks"][1]["rank"]],
            [first, first + 1]
        );
        assert!(written["start_ns"].as_u64().unwrap() >= part.meeting().met()[1].told_ns);
    }
}

/// Storage on a file system that hangs: every request would block forever.
struct Dead;

impl run::Home for Dead {
    fn arm(&mut self, _: &storlab_run::fixed::RecorderFactory) -> Result<()> {
        Ok(())
    }

    fn numbers(&mut self) -> Result<Vec<u32>> {
        Ok(vec![7])
    }

    fn describe(&self, number: u32) -> Manifest {
        unreachable!("checkpoint {number} is not whole")
    }

    fn manifest(&mut self, number: u32) -> Result<Manifest> {
        unreachable!("checkpoint {number} is read")
    }

    fn write(&mut self, _: u32, _: run::Look<'_>) -> Result<Option<Vec<rank::RankTimes>>> {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let first = Error::io("write", "model.bin", 0, full);
        Err(Error::Silent { workers: 1, waited_ms: 5_000 }.after(Some(first)))
    }

    fn publish(&mut self, _: &Manifest) -> Result<()> {
        unreachable!("it is not written")
    }

    fn discard(&mut self, number: u32) -> Option<String> {
        unreachable!("checkpoint {number} is removed from a file system that hangs")
    }

    fn restore(&mut self, _: &Manifest, _: run::Look<'_>) -> Result<Option<Vec<rank::RankTimes>>> {
        unreachable!("it is not written")
    }

    fn remove(&mut self, number: u32) -> Result<()> {
        unreachable!("checkpoint {number} is removed")
    }

    fn end(&mut self, _: &mut storlab_run::fixed::Extras) {}
}

#[test]
fn a_file_system_that_hangs_is_not_asked_to_clean_up() {
    let home = home();
    let job = CheckpointJob::from_json(&order(home.path(), |_| {}).to_string()).unwrap();
    let control = Arc::new(Control::default());
    let run_control = control.clone();
    let ended = Run::begin(control, move |board| {
        run::run(&job, Dead, &run_control, board, run::write_and_restore)
    });
    let ended = ended.unwrap();
    assert!(ended.wait(Some(Duration::from_mins(1))), "the run goes on for ever");
    let summary = ended.outcome().unwrap().summary;
    assert_eq!(summary.notes.len(), 1, "{:?}", summary.notes);
    assert!(summary.notes[0].starts_with("checkpoint 8 was not published"), "{:?}", summary.notes);
    let failure = summary.failure.unwrap();
    assert_eq!((failure.errno_name, failure.path.as_deref()), (Some("ENOSPC"), Some("model.bin")));
    assert!(failure.message.ends_with("did not respond for 5000 ms"), "{failure:?}");
}

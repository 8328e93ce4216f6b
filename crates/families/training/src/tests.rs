//! Tests of whole jobs in a temporary directory below the working directory.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use storlab_base::monotonic_ns;
use storlab_run::outcome::Status;

use super::*;

pub fn job(home: &Path, change: impl Fn(&mut Value)) -> TrainingJob {
    let mut job = json!({
        "version": 1, "ramp_ns": 0, "interval_ns": 1_000_000_000u64,
        "drain_timeout_ns": 30_000_000_000u64, "seed": 7, "task": "run",
        "place": {"directory": home, "direct": true},
        "records": {
            "format": "npz", "files": 13, "samples_per_file": 1, "record_bytes": 300_000,
            "record_stdev_bytes": 60_000, "resize_bytes": 0, "folder": "train", "prefix": "img",
            "seed": 3,
        },
        "accelerators": 2, "batch": 2, "computation_ns": 2_000_000, "reader_threads": 2,
        "prefetch": 2, "epochs": 2, "max_steps": null, "shuffle": "epoch", "reshard": true,
        "barrier": true, "check": "crc", "drop_caches": false, "read_bytes": 65_536,
        "queue_depth": 4, "cpus": null,
    });
    change(&mut job);
    TrainingJob::from_json(&job.to_string()).unwrap()
}

fn run(home: &Path, change: impl Fn(&mut Value)) -> Outcome {
    let run = begin(job(home, change), None, false).unwrap();
    assert!(run.wait(Some(Duration::from_mins(1))), "the run goes on for ever");
    run.outcome().unwrap()
}

fn generate(home: &Path, change: impl Fn(&mut Value)) -> Outcome {
    run(home, |job| {
        change(job);
        job["task"] = json!("generate");
    })
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

fn shape(format: &str, samples: u64) -> impl Fn(&mut Value) + '_ {
    move |job| {
        job["records"]["format"] = json!(format);
        job["records"]["samples_per_file"] = json!(samples);
    }
}

#[test]
fn a_reader_that_is_stuck_in_the_kernel_is_left_behind() {
    let home = home();
    generate(home.path(), |_| {});
    let job = job(home.path(), |job| {
        job["place"]["direct"] = json!(false);
        job["drop_caches"] = json!(false);
        job["drain_timeout_ns"] = json!(1_000_000);
    });
    // The FIFO has no writer, so opening it blocks.
    let path = home.path().join(job.records.file(0).path);
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let run = begin(job, None, false).unwrap();
    assert!(!run.wait(Some(Duration::from_millis(300))), "it has read a FIFO");
    run.cancel();
    assert!(run.wait(Some(Duration::from_mins(1))), "the run goes on for ever");
    let failure = run.outcome().unwrap().summary.failure.unwrap();
    assert!(failure.fix.contains("kernel log"), "{failure:?}");
}

#[test]
fn every_format_is_made_and_read_with_its_checksums() {
    for (format, samples) in [("npz", 1), ("npz", 3), ("tfrecord", 5), ("jpeg", 1)] {
        let home = home();
        let made = generate(home.path(), shape(format, samples));
        assert_eq!(made.summary.status, Status::Finished, "{:?}", made.summary.failure);
        let again = generate(home.path(), shape(format, samples));
        assert_eq!(again.summary.spans[0].bytes, 0, "made twice");
        let outcome = run(home.path(), shape(format, samples));
        let summary = outcome.summary;
        assert_eq!(summary.status, Status::Finished, "{format}: {:?}", summary.failure);
        let steps = 13 * samples / 2 / 2;
        assert_eq!(summary.totals["step"].operations, 2 * 2 * steps, "{format} {samples}");
        assert_eq!(summary.details["steps"], steps);
        let epochs = summary.details["epochs"].as_array().unwrap();
        assert_eq!(epochs.len(), 2);
        let moved: u64 = epochs.iter().map(|e| e["bytes"].as_u64().unwrap()).sum();
        assert_eq!(moved, summary.totals["read"].bytes);
        assert!(moved > 2 * 2 * steps * 2 * 200_000);
    }
}

#[test]
fn a_damaged_file_ends_the_run_with_its_name() {
    for (format, samples) in [("npz", 1), ("tfrecord", 5)] {
        let home = home();
        generate(home.path(), shape(format, samples));
        for entry in std::fs::read_dir(home.path().join("train")).unwrap() {
            let path = entry.unwrap().path();
            let mut data = std::fs::read(&path).unwrap();
            let middle = data.len() / 2;
            data[middle] ^= 1;
            std::fs::write(&path, data).unwrap();
        }
        let outcome = run(home.path(), shape(format, samples));
        assert_eq!(outcome.summary.status, Status::Failed);
        let failure = outcome.summary.failure.unwrap();
        assert!(failure.message.contains("parse"), "{failure:?}");
        assert!(failure.path.unwrap().contains("train/img_"));
        // Without checksums the damage goes unnoticed.
        let blind = run(home.path(), |job| {
            shape(format, samples)(job);
            job["check"] = json!("header");
        });
        assert_eq!(blind.summary.status, Status::Finished, "{:?}", blind.summary.failure);
    }
}

#[test]
fn a_truncated_file_is_noticed_by_its_headers() {
    let home = home();
    generate(home.path(), |_| {});
    for entry in std::fs::read_dir(home.path().join("train")).unwrap() {
        let path = entry.unwrap().path();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(100_000).unwrap();
    }
    let outcome = run(home.path(), |job| job["check"] = json!("header"));
    assert_eq!(outcome.summary.status, Status::Failed);
}

#[test]
fn a_missing_file_is_named() {
    let home = home();
    std::fs::create_dir(home.path().join("train")).unwrap();
    let outcome = run(home.path(), |_| {});
    let failure = outcome.summary.failure.unwrap();
    assert_eq!(failure.errno, Some(libc::ENOENT));
    assert!(failure.path.unwrap().starts_with("train/img_"));
}

#[test]
fn utilisation_follows_from_the_times() {
    let home = home();
    generate(home.path(), |_| {});
    let outcome = run(home.path(), |job| job["computation_ns"] = json!(30_000_000));
    for epoch in outcome.summary.details["epochs"].as_array().unwrap() {
        for times in epoch["accelerators"].as_array().unwrap() {
            let get = |name: &str| times[name].as_u64().unwrap();
            let total = get("end_ns") - get("start_ns");
            // A late thread does not delay its schedule, so no compute time is missing.
            assert!(get("scheduled_ns") >= 3 * 30_000_000 && get("scheduled_ns") <= total);
            // The first step computes only after its batch has arrived, which takes time.
            assert!(get("first_scheduled_ns") > 30_000_000);
            let later = get("scheduled_ns") - get("first_scheduled_ns");
            assert!(later >= 2 * 30_000_000);
            let sum = get("compute_ns") + get("wait_ns") + get("barrier_ns");
            assert!(sum <= total && sum as f64 > total as f64 * 0.9, "{sum} of {total}");
            assert!(get("first_end_ns") > get("start_ns") && get("first_end_ns") < get("end_ns"));
        }
    }
    let wakes = &outcome.summary.totals["wake"];
    assert_eq!(wakes.operations, outcome.summary.totals["step"].operations);
    let late: u64 = outcome.summary.details["epochs"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|epoch| epoch["accelerators"].as_array().unwrap())
        .map(|times| times["late_ns"].as_u64().unwrap())
        .sum();
    // The histogram resolves each value to 0.1 %.
    let (mean_ns, told_ns) = (late as f64 / wakes.operations as f64, wakes.latency.as_ref());
    let told_ns = told_ns.unwrap().mean_ns;
    assert!((mean_ns - told_ns).abs() <= mean_ns * 0.002 + 1.0, "{mean_ns} {told_ns}");
    let precedence = outcome.summary.details["accelerator_precedence"].as_str().unwrap();
    assert!(["nice -15", "normal"].contains(&precedence), "{precedence}");
}

#[test]
fn an_epoch_begins_when_the_order_of_its_files_is_made() {
    let home = home();
    // Shuffling so many files takes longer than everything else; only one exists and is read.
    let many = |job: &mut Value| {
        for name in ["accelerators", "batch", "epochs", "max_steps"] {
            job[name] = json!(1);
        }
        job["records"]["files"] = json!(1u64 << 22);
        job["file_step"] = json!(1u64 << 22);
        job["shuffle"] = json!("none");
    };
    assert_eq!(generate(home.path(), many).summary.status, Status::Finished);
    let summary = run(home.path(), many).summary;
    assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
    let times = &summary.details["epochs"][0]["accelerators"][0];
    let get = |name: &str| times[name].as_u64().unwrap();
    let (compute_ns, total_ns) = (2_000_000, get("end_ns") - get("start_ns"));
    assert!(get("scheduled_ns") <= get("wait_ns") + compute_ns, "{times}");
    assert_eq!(get("compute_ns") + get("wait_ns") + get("barrier_ns"), total_ns);
}

#[test]
fn epochs_are_permutations_and_shards_do_not_overlap() {
    let job = job(Path::new("/"), |job| {
        job["records"]["files"] = json!(40);
        job["batch"] = json!(5);
        job["accelerators"] = json!(4);
    });
    let files = |epoch: u32| -> Vec<u64> {
        (0..4)
            .flat_map(|index| {
                let order = order::Epoch::new(&job, epoch, index);
                (0..job.steps()).flat_map(move |b| order.batch(b)).map(|piece| piece.file)
            })
            .collect()
    };
    let (first, second) = (files(0), files(1));
    assert_ne!(first, second);
    assert_eq!(first, files(0));
    for mut order in [first, second] {
        order.sort_unstable();
        assert_eq!(order, (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn an_accelerator_that_ends_by_a_mistake_fails_the_run() {
    let home = home();
    // The order of this many files does not fit into memory.
    let outcome = run(home.path(), |job| {
        job["records"]["files"] = json!(1u64 << 60);
        job["max_steps"] = json!(1);
    });
    assert_eq!(outcome.summary.status, Status::Failed);
    let failure = outcome.summary.failure.unwrap();
    assert!(failure.message.contains("an accelerator ended because of a defect"), "{failure:?}");
}

#[test]
fn cancelling_is_prompt() {
    let home = home();
    generate(home.path(), |_| {});
    let run = begin(
        job(home.path(), |job| {
            job["computation_ns"] = json!(3_600_000_000_000u64);
        }),
        None,
        false,
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    run.cancel();
    assert!(run.wait(Some(Duration::from_secs(30))));
    assert_eq!(run.outcome().unwrap().summary.status, Status::Cancelled);
}

#[test]
fn a_file_that_is_made_has_its_whole_length_before_its_bytes() {
    let home = home();
    let order = job(home.path(), |job| {
        job["task"] = json!("generate");
        job["records"]["files"] = json!(1);
        job["records"]["record_bytes"] = json!(1 << 28);
        job["records"]["record_stdev_bytes"] = json!(0);
    });
    let run = begin(order, None, false).unwrap();
    let folder = home.path().join("train");
    let begun = || std::fs::File::open(std::fs::read_dir(&folder).ok()?.next()?.ok()?.path()).ok();
    let file = loop {
        let over = run.wait(Some(Duration::from_micros(100)));
        if let Some(file) = begun() {
            break file;
        }
        assert!(!over, "it has made nothing");
    };
    run.cancel();
    assert!(run.wait(Some(Duration::from_mins(1))));
    assert!(file.metadata().unwrap().len() > 1 << 28);
}

#[test]
fn held_readers_read_nothing_before_their_time() {
    let home = home();
    generate(home.path(), |_| {});
    let held = || {
        let order = job(home.path(), |job| job["drop_caches"] = json!(true));
        let run = begin(order, None, true).unwrap();
        while !run.armed() {
            std::thread::yield_now();
        }
        run
    };
    let run = held();
    let start_ns = monotonic_ns() + 3_000_000_000;
    assert!(run.open_at(start_ns));
    assert!(run.wait(Some(Duration::from_mins(1))));
    let summary = run.outcome().unwrap().summary;
    assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
    assert_eq!(summary.window_start_ns, start_ns);
    assert!(summary.first_io_late_ns.is_some());
    assert!(summary.first_io_late_ns <= summary.last_worker_late_ns);
    let run = held();
    run.cancel();
    assert!(run.wait(Some(Duration::from_mins(1))));
    let summary = run.outcome().unwrap().summary;
    assert_eq!(summary.status, Status::Cancelled);
    assert_eq!((summary.totals["read"].operations, summary.first_io_late_ns), (0, None));
}

/// Return a change that assigns `count` of five accelerators, from `first` on, to this client.
fn part(first: usize, count: usize) -> impl Fn(&mut Value) {
    move |job| {
        job["accelerators"] = json!(count);
        job["first_accelerator"] = json!(first);
        job["all_accelerators"] = json!(5);
    }
}

#[test]
fn accelerators_of_several_clients_read_what_those_of_one_would() {
    let whole = job(Path::new("/"), part(0, 5));
    for (first, count) in [(0, 2), (2, 3)] {
        let own = job(Path::new("/"), part(first, count));
        assert_eq!((own.shard(), own.steps()), (whole.shard(), whole.steps()));
    }
}

#[test]
fn a_data_set_is_made_by_several_clients_each_a_share() {
    let home = home();
    let share = |first: u64| {
        move |job: &mut Value| {
            job["first_file"] = json!(first);
            job["file_step"] = json!(3);
        }
    };
    let there = || std::fs::read_dir(home.path().join("train")).unwrap().count();
    for (first, files) in [(0, 5), (1, 9), (2, 13)] {
        let made = generate(home.path(), share(first));
        assert_eq!(made.summary.status, Status::Finished, "{:?}", made.summary.failure);
        assert_eq!(there(), files);
    }
    let again = generate(home.path(), |_| {});
    assert_eq!(again.summary.totals["write"].operations, 0, "all are whole");
}

#[test]
fn a_step_ends_for_all_clients_with_the_last_of_them() {
    let home = home();
    generate(home.path(), |_| {});
    let parts: Vec<Run> = [(0, 1), (1, 2), (3, 2)]
        .iter()
        .map(|(first, count)| {
            let run = begin(
                job(home.path(), |job| {
                    part(*first, *count)(job);
                    job["batch"] = json!(1);
                }),
                None,
                true,
            );
            let run = run.unwrap();
            run.meeting().share();
            assert!(run.open_at(0));
            run
        })
        .collect();
    let soon = Duration::from_mins(1);
    for step in 0..4 {
        let ready = |part: &Run| part.meeting().announced(step, soon).unwrap();
        let last_ns = parts.iter().map(ready).max().unwrap();
        assert!(parts.iter().all(|part| part.meeting().tell(last_ns)));
    }
    let mut seen = Vec::new();
    for part in &parts {
        assert!(part.wait(Some(soon)));
        let summary = part.outcome().unwrap().summary;
        assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
        for times in summary.details["epochs"][1]["accelerators"].as_array().unwrap() {
            seen.push(times["accelerator"].as_u64().unwrap());
            let last = part.meeting().met().last().unwrap().ready_ns;
            assert!(times["end_ns"].as_u64().unwrap() >= last);
        }
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

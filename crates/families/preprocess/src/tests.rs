//! Tests of all stages together, against a simple independent implementation of their semantics.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand_core::Rng as _;
use serde_json::{Value, json};
use storlab_base::{monotonic_ns, stream};
use storlab_run::order::Order as _;
use storlab_run::outcome::{Outcome, Status};
use tempfile::TempDir;

use super::columns::{CATEGORIES, INTEGERS};
use super::outputs;
use super::spec::PreprocessJob;

struct Bench {
    dir: TempDir,
    inputs: Vec<PathBuf>,
}

type Row = (u8, Vec<Option<i32>>, Vec<Option<u32>>);

impl Bench {
    fn new(texts: &[String]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let write = |(number, text): (usize, &String)| {
            let path = dir.path().join(format!("day_{number}"));
            fs::write(&path, text).unwrap();
            path
        };
        let inputs = texts.iter().enumerate().map(write).collect();
        Bench { dir, inputs }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn job(&self, name: &str, more: &Value) -> String {
        let mut job = json!({
            "version": 1, "interval_ns": 10_000_000, "task": "run", "inputs": self.inputs,
            "directory": self.out(name), "clicks": null, "workers": 2, "part_bytes": 4096,
            "row_group_rows": 7, "compression": "snappy", "threshold": 2, "modulo": null,
            "numerical": "float16", "malformed": "refuse", "malformed_samples": 5,
            "memory_bytes": 1u64 << 30, "cold": false, "resume": false, "cpus": null,
        });
        for (name, value) in more.as_object().unwrap() {
            job[name] = value.clone();
        }
        job.to_string()
    }

    fn held(&self, name: &str) -> storlab_run::Run {
        let run = crate::start(&self.job(name, &json!({})), &BTreeMap::new(), true).unwrap();
        while !run.armed() {
            std::thread::yield_now();
        }
        run
    }

    fn run(&self, name: &str, more: &Value) -> Outcome {
        let run = crate::start(&self.job(name, more), &BTreeMap::new(), false).unwrap();
        assert!(run.wait(Some(Duration::from_mins(2))));
        run.outcome().unwrap()
    }

    fn finished(&self, name: &str, more: &Value) -> Outcome {
        let outcome = self.run(name, more);
        assert!(outcome.summary.failure.is_none(), "{:?}", outcome.summary.failure);
        assert_eq!(outcome.summary.status, Status::Finished);
        outcome
    }
}

fn rows(seed: u64, count: usize) -> Vec<Row> {
    let mut random = stream(seed, "test", 0);
    let mut draw = move |most: u64| random.next_u64() % most;
    let mut row = || {
        let label = draw(2) as u8;
        let integers = (0..INTEGERS)
            .map(|_| (draw(4) > 0).then(|| [-4, -3, -2, 0, 65_533, i32::MAX][draw(6) as usize]));
        let integers = integers.collect();
        let categories = (0..CATEGORIES)
            .map(|column| {
                let value = draw(3 + (column * column) as u64) as u32;
                (draw(5) > 0).then(|| value.wrapping_mul(0x9e37_79b9) ^ column as u32)
            })
            .collect();
        (label, integers, categories)
    };
    (0..count).map(|_| row()).collect()
}

fn text(rows: &[Row]) -> String {
    let line = |(label, integers, categories): &Row| {
        let integers = integers.iter().map(|x| x.map_or(String::new(), |x| x.to_string()));
        let categories = categories.iter().map(|x| x.map_or(String::new(), |x| format!("{x:08x}")));
        let fields: Vec<String> =
            [label.to_string()].into_iter().chain(integers).chain(categories).collect();
        fields.join("\t") + "\n"
    };
    rows.iter().map(line).collect()
}

/// Compute every file of the split binary, by name.
fn expected(rows: &[Row], threshold: u64, modulo: Option<u32>) -> HashMap<String, Vec<u8>> {
    let mut files = HashMap::new();
    files.insert("label.bin".to_owned(), rows.iter().map(|row| row.0).collect());
    let half = |x: &Option<i32>| match x {
        Some(x) if *x > -3 => half::f16::from_f64_const((f64::from(*x) + 3.0).ln()),
        _ => half::f16::ZERO,
    };
    let numbers = rows.iter().flat_map(|row| row.1.iter().flat_map(|x| half(x).to_le_bytes()));
    files.insert("numerical.bin".to_owned(), numbers.collect());
    for column in 0..CATEGORIES {
        let value = |row: &Row| row.2[column].map(|v| modulo.map_or(v, |m| v % m));
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for value in rows.iter().filter_map(value) {
            *counts.entry(value).or_default() += 1;
        }
        let mut order: Vec<(u32, u64)> =
            counts.into_iter().filter(|&(_, count)| count >= threshold).collect();
        order.sort_by_key(|&(value, count)| (std::cmp::Reverse(count), value));
        let ids: HashMap<u32, u32> =
            order.iter().enumerate().map(|(id, &(value, _))| (value, id as u32 + 1)).collect();
        let id = |row: &Row| value(row).and_then(|v| ids.get(&v).copied()).unwrap_or(0);
        let bytes = |id: u32| match ids.len() + 1 {
            0..127 => vec![id as u8],
            127..32767 => (id as u16).to_le_bytes().to_vec(),
            _ => id.to_le_bytes().to_vec(),
        };
        files.insert(format!("cat_{column}.bin"), rows.iter().flat_map(|r| bytes(id(r))).collect());
    }
    files
}

fn check_files(directory: &Path, expected: &HashMap<String, Vec<u8>>) {
    for (name, bytes) in expected {
        let written = fs::read(directory.join("binary/train").join(name)).unwrap();
        assert!(written == *bytes, "{name} differs");
    }
    assert!(!directory.join("binary.partial").exists());
    assert!(!directory.join("binary/journal").exists());
}

fn details(outcome: &Outcome) -> &serde_json::Map<String, Value> {
    &outcome.summary.details
}

#[test]
fn output_is_what_the_semantics_say() {
    let rows = rows(1, 700);
    let bench = Bench::new(&[text(&rows[..300]), String::new(), text(&rows[300..])]);
    for (name, more, threshold, modulo) in [
        ("plain", json!({}), 2, None),
        ("all", json!({"threshold": 0, "compression": "none", "workers": 5}), 0, None),
        ("rare", json!({"threshold": 15, "compression": "zstd", "workers": 1}), 15, None),
        ("modulo", json!({"modulo": 10, "compression": "lz4", "part_bytes": 50_000}), 2, Some(10)),
    ] {
        let outcome = bench.finished(name, &more);
        check_files(&bench.out(name), &expected(&rows, threshold, modulo));
        let details = details(&outcome);
        assert_eq!(details["rows"], 700);
        assert_eq!(details["output"]["rows"], 700);
        assert_eq!(details["stages"].as_array().unwrap().len(), 3);
        assert_eq!(outcome.summary.spans.len(), 3);
    }
}

#[test]
fn floats_are_rounded_once() {
    let rows = rows(2, 50);
    let bench = Bench::new(&[text(&rows)]);
    bench.finished("f", &json!({"numerical": "float32"}));
    let written = fs::read(bench.out("f/binary/train/numerical.bin")).unwrap();
    let float = |x: &Option<i32>| match x {
        Some(x) if *x > -3 => (f64::from(*x) + 3.0).ln() as f32,
        _ => 0.0,
    };
    let wanted: Vec<u8> =
        rows.iter().flat_map(|row| row.1.iter().flat_map(|x| float(x).to_le_bytes())).collect();
    assert!(written == wanted);
}

#[test]
fn little_memory_takes_more_passes_and_gives_the_same() {
    let mut many = rows(3, 40_000);
    for (number, row) in many.iter_mut().enumerate() {
        row.2[9] = Some((number as u32).wrapping_mul(0x9e37_79b9));
        row.2[19] = Some(number as u32 % 20_000);
    }
    let bench = Bench::new(&[text(&many)]);
    let rows_bytes = 2 * (5000 * super::ROW_BYTES + super::WORKER_BYTES);
    let memory = rows_bytes + 700_000;
    let more = json!({
        "threshold": 1, "memory_bytes": memory, "row_group_rows": 5000, "part_bytes": 1 << 20,
    });
    let outcome = bench.finished("little", &more);
    check_files(&bench.out("little"), &expected(&many, 1, None));
    for stage in [1, 2] {
        assert!(details(&outcome)["stages"][stage]["passes"].as_u64().unwrap() > 1, "{stage}");
    }
    let few =
        crate::start(&bench.job("few", &json!({"memory_bytes": 1000})), &BTreeMap::new(), false);
    assert!(few.err().unwrap().to_string().starts_with("memory: is 1000 bytes"));
    let groups = bench.job("groups", &json!({"part_bytes": 64 << 20, "row_group_rows": 1}));
    let groups = crate::start(&groups, &BTreeMap::new(), false);
    assert!(groups.err().unwrap().to_string().contains("other row_group_rows"));
}

#[test]
fn malformed_lines_are_counted_sampled_and_left_out() {
    let good = rows(4, 60);
    let mut first = text(&good[..30]);
    first.insert(0, '\n');
    first.push_str("2\tx\n");
    let second = text(&good[30..]).replacen('\t', "\tx", 1);
    let bench = Bench::new(&[first, second.trim_end_matches('\n').to_owned()]);
    let outcome = bench.finished("skip", &json!({"malformed": "skip", "part_bytes": 4096}));
    let kept: Vec<Row> = good[..30].iter().chain(&good[31..]).cloned().collect();
    check_files(&bench.out("skip"), &expected(&kept, 2, None));
    let malformed = &details(&outcome)["malformed"];
    assert_eq!(malformed["count"], 3);
    assert_eq!(malformed["by_reason"], json!({"fields": 2, "integer": 1}));
    let lines: Vec<&Value> =
        malformed["samples"].as_array().unwrap().iter().map(|sample| &sample["line"]).collect();
    assert_eq!(lines, [1, 32, 1]);
    assert_eq!(malformed["samples"][2]["field"], 2);
    assert_eq!(malformed["samples"][1]["text"], "2\\x09x");
    let refused = bench.run("refuse", &json!({}));
    let failure = refused.summary.failure.unwrap();
    assert!(failure.message.contains("day_0, line 1: fields"), "{}", failure.message);
    assert!(failure.message.contains("3 of 62 lines"), "{}", failure.message);
    assert!(!bench.out("refuse/binary").exists());
}

fn parquet(out: &Path, part: usize) -> PathBuf {
    out.join(format!("parquet/000-day_0/part-{part:05}.parquet"))
}

#[test]
fn a_part_that_is_not_what_ingest_made_is_named() {
    let rows = rows(7, 200);
    let bench = Bench::new(&[text(&rows)]);
    let again = json!({"resume": true});
    let out = bench.out("d");
    bench.finished("d", &again);
    let last = (0..99).take_while(|&part| parquet(&out, part).exists()).last().unwrap();
    let damage: [&dyn Fn(&Path); 3] = [
        &|path| assert!(fs::copy(parquet(&out, last), path).unwrap() > 0),
        &|path| fs::write(path, &fs::read(path).unwrap()[1000..]).unwrap(),
        &|path| fs::write(path, "").unwrap(),
    ];
    for (number, damage) in damage.iter().enumerate() {
        fs::remove_dir_all(out.join("binary")).unwrap();
        damage(&parquet(&out, 1));
        let failure = bench.run("d", &again).summary.failure.unwrap();
        let message = format!("{}: is damaged: ", parquet(&out, 1).display());
        assert!(failure.message.starts_with(&message), "{number}: {}", failure.message);
        assert!(failure.fix.contains("written again"), "{}", failure.fix);
        assert!(!out.join("binary").exists());
        fs::remove_file(parquet(&out, 1)).unwrap();
        fs::remove_file(parquet(&out, 1).with_extension("json")).unwrap();
        bench.finished("d", &again);
        check_files(&out, &expected(&rows, 2, None));
    }
}

#[test]
fn orders_that_would_divide_by_zero_are_refused_by_field() {
    let bench = Bench::new(&[text(&rows(8, 5))]);
    for (field, value) in [
        ("part_bytes", json!(0)),
        ("modulo", json!(0)),
        ("clicks", json!({"rows": 5, "files": 0, "seed": 1})),
    ] {
        let job = bench.job("z", &json!({ field: value }));
        let error = PreprocessJob::from_json(&job).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn an_input_that_changes_during_a_run_is_named() {
    let bench = Bench::new(&[text(&rows(8, 500)), text(&rows(9, 5))]);
    let job = PreprocessJob::from_json(&bench.job("c", &json!({}))).unwrap();
    outputs::claim(&job).unwrap();
    outputs::check_unchanged(&job).unwrap();
    let text = fs::read_to_string(&bench.inputs[1]).unwrap();
    fs::write(&bench.inputs[1], &text[1..]).unwrap();
    let error = outputs::check_unchanged(&job).unwrap_err().to_string();
    assert!(error.contains("day_1: has changed since the run was begun"), "{error}");
}

#[test]
fn nothing_stays_of_a_killed_run_with_more_passes() {
    let bench = Bench::new(&[text(&rows(10, 20))]);
    let place = bench.out("k/vocabulary");
    bench.finished("k", &json!({}));
    fs::remove_file(place.join("C1.json")).unwrap();
    fs::write(place.join(".partial-C1.pass-7"), "x").unwrap();
    bench.finished("k", &json!({"resume": true}));
    let names = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
}

#[test]
fn an_input_without_rows_fails() {
    let bench = Bench::new(&[String::new(), "\n".to_owned()]);
    let failure = bench.run("none", &json!({"malformed": "skip"})).summary.failure.unwrap();
    assert!(failure.message.contains("have no rows"), "{}", failure.message);
}

#[test]
fn what_is_not_its_own_is_never_removed() {
    let bench = Bench::new(&[text(&rows(5, 3))]);
    fs::create_dir(bench.out("mine")).unwrap();
    fs::write(bench.out("mine/diary"), "x").unwrap();
    let failure = bench.run("mine", &json!({})).summary.failure.unwrap();
    assert!(failure.message.contains("diary"), "{}", failure.message);
    let failure = bench.run("mine", &json!({"task": "remove"})).summary.failure.unwrap();
    assert!(failure.message.contains("diary"), "{}", failure.message);
    assert!(bench.out("mine/diary").exists());
    bench.finished("own", &json!({}));
    assert!(bench.run("own", &json!({"task": "remove"})).summary.failure.is_none());
    assert!(!bench.out("own").exists());
    assert!(bench.run("own", &json!({"task": "remove"})).summary.failure.is_none());
}

#[test]
fn a_run_that_was_ended_goes_on_with_the_part_it_was_at() {
    let rows = rows(6, 4000);
    let bench = Bench::new(&[text(&rows)]);
    let wanted = expected(&rows, 2, None);
    let more = json!({"resume": true});
    let mut resumed = 0;
    for wait_ms in [20, 60, 150, 300] {
        let run = crate::start(&bench.job("r", &more), &BTreeMap::new(), false).unwrap();
        run.wait(Some(Duration::from_millis(wait_ms)));
        run.cancel();
        assert!(run.wait(Some(Duration::from_mins(1))));
        let outcome = run.outcome().unwrap();
        assert!(outcome.summary.failure.is_none(), "{:?}", outcome.summary.failure);
        resumed = details(&outcome)["resumed_parts"].as_u64().unwrap().max(resumed);
    }
    let outcome = bench.finished("r", &more);
    check_files(&bench.out("r"), &wanted);
    assert!(details(&outcome)["resumed_parts"].as_u64().unwrap() >= resumed);
    let stages = &details(&outcome)["stages"];
    assert_eq!((&stages[1]["parts"], &stages[1]["tasks"]), (&json!(26), &stages[0]["parts"]));
    let again = bench.finished("r", &more);
    assert_eq!(details(&again)["output"], details(&outcome)["output"]);
    assert_eq!(
        details(&again)["stages"][0]["resumed_parts"],
        details(&again)["stages"][0]["parts"]
    );
    let other = bench.run("r", &json!({"resume": true, "threshold": 3}));
    let message = other.summary.failure.unwrap().message;
    assert!(message.contains("was begun with other threshold"), "{message}");
}

/// Open a FIFO for writing as soon as the run has opened it for reading.
fn writer(fifo: &Path, run: &storlab_run::Run) -> fs::File {
    let mut options = fs::OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    loop {
        match options.open(fifo) {
            Ok(file) => return file,
            Err(_) => assert!(!run.wait(Some(Duration::from_millis(1))), "nobody reads it"),
        }
    }
}

#[test]
fn a_run_that_is_cancelled_is_not_looked_at_to_its_end() {
    let bench = Bench::new(&[text(&rows(11, 50))]);
    bench.finished("c", &json!({}));
    let path = bench.out("c/binary/feature_spec.yaml");
    let specification = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let job = bench.job("c", &json!({"resume": true}));
    let run = crate::start(&job, &BTreeMap::new(), false).unwrap();
    // The check of the output reads this file first.
    let mut file = writer(&path, &run);
    assert_eq!(run.snapshot().phase.name, "check");
    run.cancel();
    file.write_all(&specification).unwrap();
    drop(file);
    assert!(run.wait(Some(Duration::from_mins(1))));
    let outcome = run.outcome().unwrap();
    assert_eq!(outcome.summary.status, Status::Cancelled, "{:?}", outcome.summary.failure);
    assert!(!details(&outcome).contains_key("output"));
}

#[test]
fn a_run_that_is_over_drops_no_further_file_from_the_caches() {
    let bench = Bench::new(&[String::new()]);
    let missing = bench.out("missing");
    let chill = |files: usize| {
        let looks = std::cell::Cell::new(0);
        let mut paths = [bench.inputs[0].as_path(), missing.as_path()].into_iter();
        outputs::evict_page_cache(&mut paths, &|| looks.replace(looks.get() + 1) == files)
    };
    chill(1).unwrap();
    assert!(chill(2).unwrap_err().to_string().contains("missing"));
}

#[test]
fn held_stages_begin_at_their_time_or_not_at_all() {
    let bench = Bench::new(&[text(&rows(7, 50))]);
    let (run, left) = (bench.held("held"), bench.held("left"));
    let start_ns = monotonic_ns() + 3_000_000_000;
    assert!(run.open_at(start_ns));
    left.cancel();
    assert!(left.wait(Some(Duration::from_mins(1))) && run.wait(Some(Duration::from_mins(2))));
    let summary = run.outcome().unwrap().summary;
    assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
    assert_eq!(summary.window_start_ns, start_ns);
    assert!(summary.first_io_late_ns.is_some() && summary.last_worker_late_ns.is_none());
    let summary = left.outcome().unwrap().summary;
    assert_eq!((summary.status, summary.first_io_late_ns), (Status::Cancelled, None));
    assert!(!bench.out("left/binary").exists());
}

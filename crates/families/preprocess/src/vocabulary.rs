//! Vocabulary stage: lists the values of each category column in the order of their ids, with their
//! counts.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use storlab_base::{Result, durable, failed, monotonic_ns};
use storlab_run::worker_pool::WorkerPool;

use super::budget::Budget;
use super::chunks::{Column, Group};
use super::columns::{CATEGORIES, INTEGERS};
use super::count::{Counting, SHARDS};
use super::merge::{Run, merge};
use super::outputs::{aside, clear_aside, make_directory, name_file, publish, read_json};
use super::parts::Part;
use super::spec::PreprocessJob;
use super::stages::VOCABULARY;

/// Paths of the vocabulary files of one column.
pub struct Files {
    /// File of the values, as little-endian `u32`, in order of id from 1.
    pub values: PathBuf,
    counts: PathBuf,
    facts: PathBuf,
}

/// Sidecar of a column's vocabulary. If the sidecar exists, the vocabulary is complete.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Number of values that have an id.
    pub kept: u64,
    /// Number of distinct values.
    pub distinct: u64,
}

impl Files {
    /// Return the paths for column `C<number>`; numbers start at 1.
    pub fn of(job: &PreprocessJob, number: usize) -> Self {
        let place = job.directory.join("vocabulary");
        Files {
            values: place.join(format!("C{number}.values")),
            counts: place.join(format!("C{number}.counts")),
            facts: place.join(format!("C{number}.json")),
        }
    }

    /// Read the sidecar; `None` if the column's vocabulary is not complete.
    pub fn facts(&self) -> Option<Facts> {
        read_json(&self.facts)
    }

    fn open_aside(&self) -> Result<[BufWriter<File>; 2]> {
        let open = |path: &Path| {
            let beside = aside(path);
            File::create(&beside).map(BufWriter::new).map_err(failed("create", &beside))
        };
        Ok([open(&self.values)?, open(&self.counts)?])
    }

    fn publish(&self, files: [BufWriter<File>; 2], facts: Facts) -> Result<()> {
        for (file, path) in files.into_iter().zip([&self.values, &self.counts]) {
            let file = file.into_inner().map_err(|e| failed("write", path)(e.into_error()))?;
            file.sync_all().map_err(failed("sync", path))?;
            name_file(path)?;
        }
        publish(&self.facts, json!(facts).to_string().as_bytes())
    }
}

/// Count the values of every column that does not have a vocabulary yet.
///
/// Returns the largest number of passes that any column took. It is more than 1 if memory is too
/// small for a column.
///
/// # Errors
/// [`storlab_base::Error::Io`] if a file cannot be read or written; [`storlab_base::Error::Spec`]
/// if memory is too small for any number of passes.
pub fn run(
    job: &PreprocessJob,
    parts: &[Part],
    memory: usize,
    pool: &mut WorkerPool<'_>,
) -> Result<usize> {
    let place = job.directory.join("vocabulary");
    make_directory(&place)?;
    // Remove temporary files of a killed process: it may have needed more passes than this one,
    // which would not overwrite the files of the extra passes.
    clear_aside(&place)?;
    let budget = Budget::new(memory);
    let mut most = 0;
    for number in 1..=CATEGORIES {
        let files = Files::of(job, number);
        if files.facts().is_none() && !pool.is_over() {
            most = most.max(make(job, parts, &budget, number, &files, pool)?);
        }
    }
    durable::flush(&place)?;
    Ok(most)
}

fn make(
    job: &PreprocessJob,
    parts: &[Part],
    budget: &Budget,
    number: usize,
    files: &Files,
    pool: &mut WorkerPool<'_>,
) -> Result<usize> {
    let mut facts = Facts { kept: 0, distinct: 0 };
    let mut runs: Vec<Files> = Vec::new();
    let mut first = 0;
    loop {
        let counting = Counting::new(budget, first);
        count(job, parts, number, &counting, pool)?;
        if pool.is_over() {
            return Ok(0);
        }
        let sorted = counting.finish(job.threshold, pool.workers());
        first = sorted.end;
        facts.kept += sorted.kept();
        facts.distinct += sorted.distinct();
        let is_last = first == SHARDS;
        let target = if is_last && runs.is_empty() { files } else { &run_files(files, runs.len()) };
        let mut open = target.open_aside()?;
        let [values, counts] = &mut open;
        sorted.write(values, counts).map_err(failed("write", &target.values))?;
        if is_last && runs.is_empty() {
            files.publish(open, facts)?;
            return Ok(1);
        }
        for file in &mut open {
            file.flush().map_err(failed("write", &target.values))?;
        }
        runs.push(run_files(files, runs.len()));
        if is_last {
            let passes = runs.len();
            join(files, &runs, facts)?;
            return Ok(passes);
        }
    }
}

/// Return the temporary paths for the result of one pass, if a column takes several.
fn run_files(files: &Files, pass: usize) -> Files {
    let beside = |path: &Path| path.with_extension(format!("pass-{pass}"));
    Files {
        values: beside(&files.values),
        counts: files.counts.with_extension(format!("counts-{pass}")),
        facts: files.facts.clone(),
    }
}

fn join(files: &Files, runs: &[Files], facts: Facts) -> Result<()> {
    let open = |path: &Path| {
        let beside = aside(path);
        File::open(&beside).map(BufReader::new).map_err(failed("open", &beside))
    };
    let mut readers = Vec::new();
    for run in runs {
        readers.push(Run::new(open(&run.values)?, open(&run.counts)?));
    }
    let mut whole = files.open_aside()?;
    let [values, counts] = &mut whole;
    merge(&mut readers, values, counts).map_err(failed("write", &files.values))?;
    files.publish(whole, facts)?;
    for path in runs.iter().flat_map(|run| [&run.values, &run.counts]) {
        let beside = aside(path);
        fs::remove_file(&beside).map_err(failed("remove", &beside))?;
    }
    Ok(())
}

fn count(
    job: &PreprocessJob,
    parts: &[Part],
    number: usize,
    counting: &Counting<'_>,
    pool: &mut WorkerPool<'_>,
) -> Result<()> {
    pool.carry_out(parts.len(), |tasks| {
        let mut scatter = counting.scatter()?;
        let (mut column, mut reduced) = (Column::default(), Vec::new());
        while let Some(task) = tasks.take() {
            let file = Group::open(&parts[task].parquet)?;
            for group in 0..file.len() {
                let start_ns = monotonic_ns();
                file.read(group, INTEGERS + number, &mut column)?;
                let values = reduce(column.unsigned(), job.modulo, &mut reduced);
                counting.add(&mut scatter, values)?;
                tasks.record(VOCABULARY, column.bytes, start_ns);
                if tasks.is_over() {
                    return Ok(());
                }
            }
        }
        counting.flush(&mut scatter)
    })
}

/// Reduce the values modulo `modulo` and store them in `into`. Without a modulus, return them
/// unchanged.
pub fn reduce<'v>(values: &'v [u32], modulo: Option<u64>, into: &'v mut Vec<u32>) -> &'v [u32] {
    let Some(modulo) = modulo else { return values };
    into.clear();
    into.extend(values.iter().map(|&value| (u64::from(value) % modulo) as u32));
    into
}

/// Iterator over the values of a vocabulary in the order of their ids. A read error ends it early;
/// [`Values::end`] then returns the error.
pub struct Values {
    path: PathBuf,
    file: BufReader<File>,
    left: u64,
    failure: Option<io::Error>,
}

impl Values {
    /// Open the file of values, skip the first `skip` and yield the next `take`.
    pub fn open(path: &Path, skip: u64, take: u64) -> Result<Self> {
        let mut file = File::open(path).map(BufReader::new).map_err(failed("open", path))?;
        file.seek(SeekFrom::Start(skip * 4)).map_err(failed("read", path))?;
        Ok(Values { path: path.to_owned(), file, left: take, failure: None })
    }

    /// Return the error that ended the iteration early, if any.
    pub fn end(self) -> Result<()> {
        self.failure.map_or(Ok(()), |e| Err(failed("read", &self.path)(e)))
    }
}

impl Iterator for Values {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let mut bytes = [0; 4];
        match self.file.read_exact(&mut bytes) {
            Ok(()) => Some(u32::from_le_bytes(bytes)),
            Err(e) => {
                (self.left, self.failure) = (0, Some(e));
                None
            }
        }
    }
}

//! Generate click logs. Complete files are kept, so that an interrupted run can continue.
//!
//! Threads take blocks of rows in order, and generate their text in parallel. Only then is the
//! length of a block known. Therefore blocks get their file offsets in order, and are written while
//! other blocks are generated.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use storlab_base::{Error, Result, Signal, failed, lock, monotonic_ns};
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::cpu::available_cores;
use storlab_run::fixed::Extras;
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::Kind;
use storlab_run::worker_pool::{Tasks, WorkerPool};

use super::clicks::{BLOCK_ROWS, Text};
use super::outputs;
use super::spec::{Clicks, PreprocessJob};

#[cfg(test)]
mod tests;

const KINDS: [Kind; 1] = [Kind::new(0, "write")];
const MOST_THREADS: usize = 8;
/// Name of the sidecar file that describes the data set in its directory.
const SIDECAR: &str = "data.json";
/// Version of the generator's content. Files of another version are generated again.
const VERSION: u32 = 1;

/// Generate all missing files of click logs. The outcome counts only the files that this run wrote;
/// its details list all complete files.
pub fn run(job: &PreprocessJob, control: &Arc<Control>, board: &Board) -> Outcome {
    run_with(available_cores().min(MOST_THREADS), job, control, board)
}

fn run_with(threads: usize, job: &PreprocessJob, control: &Arc<Control>, board: &Board) -> Outcome {
    let interval_ns = job.interval_ns;
    let mut pool =
        WorkerPool::new("preprocess", threads, interval_ns, &KINDS, None, board, control);
    let start_ns = pool.start_ns();
    let mut extras = Extras { takes_tasks: true, ..Extras::default() };
    match GeneratorShared::open(job, control) {
        Err(error) => extras.failure = Some(error),
        Ok(shared) => {
            let blocks = Mutex::new(shared.blocks());
            let ended =
                pool.carry_out(threads, |tasks| shared.make(|| lock(&blocks).next(), tasks));
            extras.failure = ended.err();
            shared.clear();
            extras.details = shared.details();
        }
    }
    let bytes = pool.take_moved();
    let totals = pool.end();
    let end_ns = monotonic_ns().max(start_ns + 1);
    extras.spans.push(Span { kind: "generate", name: "data set".into(), start_ns, end_ns, bytes });
    totals.finish(end_ns, control, extras)
}

fn name_of(file: u32) -> String {
    format!("day_{file}")
}

fn aside(directory: &Path, name: &str) -> PathBuf {
    outputs::aside(&directory.join(name))
}

/// Content of the sidecar file that describes a data set of click logs.
#[derive(Deserialize, Serialize)]
struct DataSet {
    version: u32,
    rows: u64,
    files: u32,
    seed: u64,
    /// Size of each complete file, by name.
    bytes: BTreeMap<String, u64>,
}

impl DataSet {
    /// Read the sidecar, and keep only its entries of files that are present with the right size.
    /// Keep none if the directory has a different data set.
    fn open(directory: &Path, clicks: &Clicks) -> Result<Self> {
        let Clicks { rows, files, seed } = *clicks;
        let none = DataSet { version: VERSION, rows, files, seed, bytes: BTreeMap::new() };
        let path = directory.join(SIDECAR);
        let text = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(none),
            read => read.map_err(failed("read", &path))?,
        };
        let facts = |set: &DataSet| (set.version, set.rows, set.files, set.seed);
        let Some(mut set) = serde_json::from_slice(&text).ok().filter(|s| facts(s) == facts(&none))
        else {
            return Ok(none);
        };
        set.bytes.retain(|name, bytes| {
            fs::metadata(directory.join(name))
                .is_ok_and(|metadata| metadata.is_file() && metadata.len() == *bytes)
        });
        Ok(set)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        outputs::publish(&directory.join(SIDECAR), json!(self).to_string().as_bytes())
    }
}

/// Block of rows, which one thread generates.
struct Block {
    /// Position of the block among all blocks to generate.
    turn: u64,
    file: u32,
    number: u64,
    rows: u64,
}

/// Click log that is being written under its temporary name.
struct Growing {
    number: u32,
    path: PathBuf,
    file: fs::File,
    /// Number of blocks that are not written yet.
    left: AtomicU64,
}

/// File and offset at which the next block is written.
#[derive(Default)]
struct Line {
    turn: u64,
    file: Option<Arc<Growing>>,
    offset: u64,
}

/// State shared by the threads that generate click logs.
struct GeneratorShared<'r> {
    clicks: Clicks,
    directory: &'r Path,
    control: &'r Control,
    text: Text,
    /// Numbers of the files to generate.
    missing: Vec<u32>,
    line: Signal<Line>,
    set: Mutex<DataSet>,
}

impl<'r> GeneratorShared<'r> {
    fn open(job: &'r PreprocessJob, control: &'r Control) -> Result<Self> {
        let directory = job.directory.as_path();
        let missing = || Error::spec("clicks", "is missing", "give rows, files and seed");
        let clicks = job.clicks.clone().ok_or_else(missing)?;
        fs::create_dir_all(directory).map_err(failed("create", directory))?;
        let set = DataSet::open(directory, &clicks)?;
        let missing: Vec<u32> =
            (0..clicks.files).filter(|&file| !set.bytes.contains_key(&name_of(file))).collect();
        if !missing.is_empty() {
            // Save the sidecar before any file is generated, so that it no longer lists files of
            // another data set.
            set.save(directory)?;
        }
        Ok(GeneratorShared {
            clicks,
            directory,
            control,
            text: Text::new(),
            missing,
            line: Signal::default(),
            set: Mutex::new(set),
        })
    }

    /// Return the number of blocks of a file. A file without rows has one block, so that it is
    /// created.
    fn blocks_of(&self, file: u32) -> u64 {
        self.clicks.rows_of(file).div_ceil(BLOCK_ROWS).max(1)
    }

    fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let in_order = self
            .missing
            .iter()
            .flat_map(|&file| (0..self.blocks_of(file)).map(move |number| (file, number)));
        (0..).zip(in_order).map(|(turn, (file, number))| {
            let rows = (self.clicks.rows_of(file) - number * BLOCK_ROWS).min(BLOCK_ROWS);
            Block { turn, file, number, rows }
        })
    }

    /// Generate and write blocks until there are none.
    fn make(&self, next: impl Fn() -> Option<Block>, tasks: &mut Tasks<'_>) -> Result<()> {
        let mut text = Vec::new();
        while !self.control.stopping() {
            let Some(block) = next() else { break };
            text.clear();
            self.text.write(self.clicks.seed, block.file, block.number, block.rows, &mut text);
            let bytes = text.len() as u64;
            let Some((file, offset)) = self.place(&block, bytes)? else { break };
            let begin = monotonic_ns();
            file.file
                .write_all_at(&text, offset)
                .map_err(|e| Error::io("write", file.path.display().to_string(), offset, e))?;
            tasks.record(0, bytes, begin);
            if file.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.finish(&file)?;
            }
        }
        Ok(())
    }

    /// Wait until all earlier blocks have their offsets. Return the file and the offset for a block
    /// of `bytes` bytes; `None` if the run is stopping.
    fn place(&self, block: &Block, bytes: u64) -> Result<Option<(Arc<Growing>, u64)>> {
        let reached = self.line.poll(|line| {
            let reached = line.turn == block.turn;
            (reached || self.control.stopping()).then_some(reached)
        });
        if !reached {
            return Ok(None);
        }
        // No other thread changes the position meanwhile, because later blocks wait until
        // `line.turn` reaches their number.
        self.line.change(|line| {
            if block.number == 0 {
                line.file = Some(Arc::new(self.create(block.file)?));
                line.offset = 0;
            }
            let place = line.file.clone().map(|file| (file, line.offset));
            line.offset += bytes;
            line.turn += 1;
            Ok(place)
        })
    }

    fn create(&self, number: u32) -> Result<Growing> {
        let path = aside(self.directory, &name_of(number));
        let file = fs::File::create(&path).map_err(failed("create", &path))?;
        Ok(Growing { number, path, file, left: AtomicU64::new(self.blocks_of(number)) })
    }

    fn finish(&self, done: &Growing) -> Result<()> {
        let name = name_of(done.number);
        let bytes = done.file.metadata().map_err(failed("look at", &done.path))?.len();
        done.file.sync_all().map_err(failed("sync", &done.path))?;
        outputs::name_file(&self.directory.join(&name))?;
        let mut set = lock(&self.set);
        set.bytes.insert(name, bytes);
        set.save(self.directory)
    }

    /// Remove the temporary files that are left after the run.
    fn clear(&self) {
        for name in self.missing.iter().copied().map(name_of).chain([SIDECAR.to_owned()]) {
            // Ignore errors: usually the file no longer exists, and one that remains is overwritten
            // by the next run.
            let _ = fs::remove_file(aside(self.directory, &name));
        }
    }

    fn details(&self) -> serde_json::Map<String, Value> {
        let set = lock(&self.set);
        let whole = (0..self.clicks.files).filter_map(|file| {
            let name = name_of(file);
            let bytes = *set.bytes.get(&name)?;
            Some(json!({"name": name, "bytes": bytes, "rows": self.clicks.rows_of(file)}))
        });
        let files: Vec<Value> = whole.collect();
        let bytes: u64 = set.bytes.values().sum();
        [("bytes".to_owned(), json!(bytes)), ("files".to_owned(), files.into())]
            .into_iter()
            .collect()
    }
}

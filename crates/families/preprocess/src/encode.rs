//! Encode stage: from Parquet files and vocabularies to the split binary.
//!
//! Every row has a fixed position in every output file, so workers can write in any order. If the
//! lookup tables of all columns do not fit into memory together, the data is read in several
//! passes.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use storlab_base::{Error, Result, durable, failed, lock, monotonic_ns};
use storlab_run::worker_pool::{Tasks, WorkerPool};

use super::chunks::{Column, Group};
use super::columns::{CATEGORIES, INTEGERS};
use super::dense::Dense;
use super::feature_spec::{self, id_bytes};
use super::lookup::Lookup;
use super::outputs::make_directory;
use super::parts::{Findings, Part};
use super::spec::{Numerical, PreprocessJob};
use super::stages::ENCODE;
use super::vocabulary::{Files, Values, reduce};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Statistics of the encode stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoded {
    /// Number of passes over the data.
    pub passes: usize,
    /// Number of parts (Parquet files) that an earlier process had encoded, summed over all passes.
    pub resumed: usize,
}

/// Range of a column's ids that is looked up in one pass.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Number of the category column, 1 for `C1`.
    number: usize,
    skip: u64,
    take: u64,
}

/// Write the split binary, unless it exists already.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read or written, [`Error::Spec`] if memory is too small for
/// any number of passes or a part is damaged.
pub fn run(
    job: &PreprocessJob,
    parts: &[Part],
    findings: &Findings,
    memory: usize,
    pool: &mut WorkerPool<'_>,
) -> Result<Encoded> {
    let whole = job.directory.join("binary");
    if whole.exists() {
        return Ok(Encoded { passes: 0, resumed: parts.len() });
    }
    let mut kept = Vec::with_capacity(CATEGORIES);
    for number in 1..=CATEGORIES {
        let files = Files::of(job, number);
        let facts = files.facts().ok_or_else(|| {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            failed("open", &files.values)(source)
        })?;
        kept.push(facts.kept);
    }
    let plan = plan(&kept, memory)?;
    let partial = job.directory.join("binary.partial");
    make_directory(&partial.join("train"))?;
    let journal = Journal::open(&partial, &format!("{plan:?}"))?;
    let outputs = Outputs::open(&partial, &kept, job.numerical)?;
    let resumed = journal.done.len();
    let dense = Dense::new();
    for (pass, slices) in plan.iter().enumerate() {
        if pool.is_over() {
            break; // build no tables for a pass that will not run
        }
        let encoder = Encoder {
            job,
            findings,
            outputs: &outputs,
            tables: tables(job, slices)?,
            dense: &dense,
            first: pass == 0,
        };
        let left: Vec<usize> =
            (0..parts.len()).filter(|&part| !journal.done.contains(&(pass, part))).collect();
        pool.carry_out(left.len(), |tasks| {
            let mut worker = Worker::default();
            while let Some(task) = tasks.take() {
                if encoder.part(&parts[left[task]], left[task], &mut worker, tasks)? {
                    journal.add(pass, left[task])?;
                }
            }
            Ok(())
        })?;
    }
    if !pool.is_over() {
        outputs.flush(pool).inspect_err(|_| Journal::distrust(&partial))?;
        let cardinalities: Vec<u64> = kept.iter().map(|kept| kept + 1).collect();
        publish(&partial, &whole, &feature_spec::text(&cardinalities, job.numerical))?;
    }
    Ok(Encoded { passes: plan.len(), resumed })
}

/// Divide the ids of all columns into passes, so that the lookup tables of each pass fit into
/// `memory` bytes. `kept` is the number of ids per column.
fn plan(kept: &[u64], memory: usize) -> Result<Vec<Vec<Slice>>> {
    let mut most = *kept.iter().max().unwrap_or(&0);
    while Lookup::bytes_for(most) > memory {
        most /= 2;
        if most == 0 {
            let what = format!("leaves {memory} bytes for vocabularies, which is too little");
            return Err(Error::spec("memory", what, "set a larger memory, or fewer workers"));
        }
    }
    let mut passes = vec![Vec::new()];
    let mut used = 0;
    for (index, &kept) in kept.iter().enumerate() {
        let mut skip = 0;
        loop {
            let take = (kept - skip).min(most);
            let bytes = Lookup::bytes_for(take);
            if used + bytes > memory {
                passes.push(Vec::new());
                used = 0;
            }
            used += bytes;
            if let Some(pass) = passes.last_mut() {
                pass.push(Slice { number: index + 1, skip, take });
            }
            skip += take;
            if skip >= kept {
                break;
            }
        }
    }
    Ok(passes)
}

fn tables(job: &PreprocessJob, slices: &[Slice]) -> Result<Vec<(Slice, Lookup)>> {
    let build = |slice: &Slice| {
        let path = Files::of(job, slice.number).values;
        let mut values = Values::open(&path, slice.skip, slice.take)?;
        let table = Lookup::build(slice.take, values.by_ref(), slice.skip as u32 + 1);
        values.end()?;
        Ok((*slice, table))
    };
    slices.iter().map(build).collect()
}

fn publish(partial: &Path, whole: &Path, features: &str) -> Result<()> {
    let path = partial.join("feature_spec.yaml");
    durable::write(&path, features.as_bytes())?;
    Journal::remove(partial)?;
    durable::flush(&partial.join("train"))?;
    durable::flush(partial)?;
    durable::name(partial, whole)
}

/// Output files of the split binary, opened for writing.
struct Outputs {
    label: OutputFile,
    numerical: OutputFile,
    categories: Vec<OutputFile>,
}

struct OutputFile {
    path: PathBuf,
    file: File,
    /// Number of bytes per row in the file.
    bytes: usize,
}

impl Outputs {
    fn open(partial: &Path, kept: &[u64], numerical: Numerical) -> Result<Self> {
        let open = |name: &str, bytes: usize| {
            let path = partial.join("train").join(name);
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path);
            Ok(OutputFile { file: file.map_err(failed("create", &path))?, path, bytes })
        };
        let ids =
            |(index, &kept): (usize, &u64)| open(&format!("cat_{index}.bin"), id_bytes(kept + 1));
        Ok(Outputs {
            label: open("label.bin", 1)?,
            numerical: open("numerical.bin", INTEGERS * float_bytes(numerical))?,
            categories: kept.iter().enumerate().map(ids).collect::<Result<_>>()?,
        })
    }

    fn flush(&self, pool: &mut WorkerPool<'_>) -> Result<()> {
        let places: Vec<&OutputFile> =
            [&self.label, &self.numerical].into_iter().chain(&self.categories).collect();
        pool.carry_out(places.len(), |tasks| {
            while let Some(task) = tasks.take() {
                let OutputFile { path, file, .. } = places[task];
                file.sync_all().map_err(failed("sync", path))?;
            }
            Ok(())
        })
    }
}

impl OutputFile {
    fn write(&self, row: u64, data: &[u8]) -> Result<()> {
        let at = row * self.bytes as u64;
        self.file.write_all_at(data, at).map_err(|e| self.failed("write", at, e))
    }

    fn read(&self, row: u64, data: &mut [u8]) -> Result<()> {
        let at = row * self.bytes as u64;
        self.file.read_exact_at(data, at).map_err(|e| self.failed("read", at, e))
    }

    fn failed(&self, operation: &'static str, at: u64, source: std::io::Error) -> Error {
        Error::io(operation, self.path.display().to_string(), at, source)
    }
}

fn float_bytes(numerical: Numerical) -> usize {
    match numerical {
        Numerical::Float16 => 2,
        Numerical::Float32 => 4,
    }
}

/// State of one pass, shared by all workers.
struct Encoder<'e> {
    job: &'e PreprocessJob,
    findings: &'e Findings,
    outputs: &'e Outputs,
    tables: Vec<(Slice, Lookup)>,
    dense: &'e Dense,
    first: bool,
}

/// Buffers of one worker, reused for all row groups.
#[derive(Default)]
struct Worker {
    column: Column,
    reduced: Vec<u32>,
    ids: Vec<u32>,
    out: Vec<u8>,
    numbered: Vec<u8>,
}

impl Encoder<'_> {
    /// Encode one part (Parquet file) of the input. Return false if the run ended before the part
    /// was complete.
    fn part(
        &self,
        part: &Part,
        number: usize,
        worker: &mut Worker,
        tasks: &mut Tasks<'_>,
    ) -> Result<bool> {
        let file = Group::open(&part.parquet)?;
        let mut row = self.findings.first_row[number];
        file.expect_rows(self.findings.rows_of(number))?;
        for group in 0..file.len() {
            let start_ns = monotonic_ns();
            let mut bytes = 0;
            if self.first {
                bytes += self.labels(&file, group, row, worker)?;
                bytes += self.numbers(&file, group, row, worker)?;
            }
            for (slice, table) in &self.tables {
                file.read(group, INTEGERS + slice.number, &mut worker.column)?;
                bytes += worker.column.bytes;
                self.ids(*slice, table, row, worker)?;
            }
            row += file.rows(group) as u64;
            tasks.record(ENCODE, bytes, start_ns);
            if tasks.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn labels(&self, file: &Group<'_>, group: usize, row: u64, worker: &mut Worker) -> Result<u64> {
        file.read(group, 0, &mut worker.column)?;
        worker.out.clear();
        worker.out.extend(worker.column.values().iter().map(|&label| label as u8));
        self.outputs.label.write(row, &worker.out)?;
        Ok(worker.column.bytes)
    }

    fn numbers(
        &self,
        file: &Group<'_>,
        group: usize,
        row: u64,
        worker: &mut Worker,
    ) -> Result<u64> {
        let (Worker { column, out, .. }, dense) = (worker, self.dense);
        let row_bytes = self.outputs.numerical.bytes;
        let width = row_bytes / INTEGERS;
        let mut bytes = 0;
        out.clear();
        out.resize(file.rows(group) * row_bytes, 0);
        for index in 0..INTEGERS {
            file.read(group, 1 + index, column)?;
            bytes += column.bytes;
            let places = out.chunks_exact_mut(row_bytes).map(|row| &mut row[index * width..]);
            match self.job.numerical {
                Numerical::Float16 => {
                    spread(column, places, |x| dense.half(x).to_le_bytes());
                }
                Numerical::Float32 => {
                    spread(column, places, |x| dense.float(x).to_le_bytes());
                }
            }
        }
        self.outputs.numerical.write(row, out)?;
        Ok(bytes)
    }

    fn ids(&self, slice: Slice, table: &Lookup, row: u64, worker: &mut Worker) -> Result<()> {
        let Worker { column, reduced, ids, out, numbered } = worker;
        let place = &self.outputs.categories[slice.number - 1];
        let values = reduce(column.unsigned(), self.job.modulo, reduced);
        ids.clear();
        ids.resize(values.len() + 1, 0);
        table.find(values, &mut ids[..values.len()]);
        out.clear();
        out.resize(column.rows * place.bytes, 0);
        match place.bytes {
            1 => place_ids(column.levels(), ids, out, |id| (id as u8).to_le_bytes()),
            2 => place_ids(column.levels(), ids, out, |id| (id as u16).to_le_bytes()),
            _ => place_ids(column.levels(), ids, out, u32::to_le_bytes),
        }
        if slice.skip > 0 {
            numbered.clear();
            numbered.resize(out.len(), 0);
            place.read(row, numbered)?;
            add_ids(numbered, out);
        }
        place.write(row, out)
    }
}

/// Convert each value with `make` and store it at its row's position; store zeros for nulls.
fn spread<'o, const N: usize>(
    column: &Column,
    places: impl Iterator<Item = &'o mut [u8]>,
    make: impl Fn(i32) -> [u8; N],
) {
    let (levels, values) = (column.levels(), column.values());
    if levels.is_empty() {
        for (&value, place) in values.iter().zip(places) {
            place[..N].copy_from_slice(&make(value));
        }
        return;
    }
    // Branch-free: it is unpredictable which rows have a value, so a branch would mispredict.
    let Some(last) = values.len().checked_sub(1) else { return };
    let mut next = 0;
    for (&level, place) in levels.iter().zip(places) {
        let made = make(values[next.min(last)]);
        let bytes = if level == 0 { [0; N] } else { made };
        place[..N].copy_from_slice(&bytes);
        next += level as usize;
    }
}

/// Store the id of every row at the row's position. The last of `ids` is an extra 0, which is read
/// for nulls after the last value.
fn place_ids<const N: usize>(
    levels: &[i16],
    ids: &[u32],
    out: &mut [u8],
    bytes: impl Fn(u32) -> [u8; N],
) {
    let places = out.as_chunks_mut::<N>().0;
    if levels.is_empty() {
        places.iter_mut().zip(ids).for_each(|(place, &id)| *place = bytes(id));
        return;
    }
    let mut next = 0;
    for (place, &level) in places.iter_mut().zip(levels) {
        *place = bytes(ids[next] * level as u32);
        next += level as usize;
    }
}

/// Merge the ids that earlier passes have written into `out`.
fn add_ids(ids: &[u8], out: &mut [u8]) {
    // At most one pass finds the id of a row, and 0 means that none was found, so a bitwise OR
    // suffices.
    out.iter_mut().zip(ids).for_each(|(place, &before)| *place |= before);
}

/// Journal of encoded parts, from which a later process resumes. Its entries are valid only until
/// the machine reboots, because data that was not flushed may then be lost.
struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    done: HashSet<(usize, usize)>,
}

impl Journal {
    fn path(partial: &Path) -> PathBuf {
        partial.join("journal")
    }

    fn open(partial: &Path, plan: &str) -> Result<Self> {
        let path = Self::path(partial);
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
        let head = format!("{} {plan}\n", boot.trim());
        let journal = fs::read_to_string(&path).unwrap_or_default();
        let done = journal.strip_prefix(&head).filter(|_| !boot.is_empty()).map(entries);
        let mut options = OpenOptions::new();
        let begins = done.is_none();
        let options = options.create(true).append(!begins).write(true).truncate(begins);
        let mut file = options.open(&path).map_err(failed("create", &path))?;
        if begins {
            file.write_all(head.as_bytes()).map_err(failed("write", &path))?;
        }
        Ok(Journal { path, file: Mutex::new(file), done: done.unwrap_or_default() })
    }

    fn add(&self, pass: usize, part: usize) -> Result<()> {
        let line = format!("\n{pass} {part};");
        lock(&self.file).write_all(line.as_bytes()).map_err(failed("write", &self.path))
    }

    /// Discard the journal after a failed flush: the kernel may have dropped written data, so
    /// everything must be written again. Errors are ignored, because the failed flush is reported.
    fn distrust(partial: &Path) {
        let _ = Self::remove(partial);
    }

    fn remove(partial: &Path) -> Result<()> {
        let path = Self::path(partial);
        fs::remove_file(&path).map_err(failed("remove", &path))
    }
}

/// Parse the complete entries of a journal. The last entry may be incomplete and is then ignored.
fn entries(text: &str) -> HashSet<(usize, usize)> {
    let entry = |line: &str| {
        let (pass, part) = line.strip_suffix(';')?.split_once(' ')?;
        Some((pass.parse().ok()?, part.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

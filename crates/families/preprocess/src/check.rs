//! Check and digests of a finished output of any engine, to test whether two outputs are equal.
//!
//! All files are read together, one block of rows after the other, and every value is checked. Ids
//! are digested as 32-bit numbers, so digests do not depend on the width in which ids are stored.

mod dictionary;
mod features;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use storlab_base::{Error, Result, failed, lock};
use storlab_run::cpu::available_cores;
use storlab_run::threads::panicked;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use features::Features;

#[cfg(test)]
mod tests;

const NUMERICAL: usize = 13;
const CATEGORIES: usize = 26;
/// Size of an id in a digest, in bytes.
const ID: usize = size_of::<u32>();
/// Number of rows (of all files) that are in memory at a time.
const BLOCK_ROWS: usize = 1 << 18;
/// Number of rows that a thread digests per task.
const STRETCH_ROWS: usize = 1 << 13;
/// Number of rows whose columns are copied together at a time, to digest whole rows; they fit into
/// the L1 cache.
const TILE_ROWS: usize = 128;
const FIX: &str = "make the output again";

/// Function that returns true once the run is over.
type Over<'o> = &'o (dyn Fn() -> bool + Sync);

/// Check the output of a run, and compute its digests.
///
/// Returns JSON with `rows`, `cardinalities`, `dtypes`, `columns` (a digest of each column's values
/// in order), `rows_digest` (independent of the order of rows), `dictionary_digest` (of the
/// vocabularies) and `bytes` (size of the split binary). Digests are XXH3 with 64 bits, in
/// hexadecimal.
///
/// `directory` must contain `binary/` and `vocabulary/`.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read, [`Error::Spec`] if the output is empty or inconsistent.
/// Each names the file.
pub fn check(directory: &Path) -> Result<Value> {
    check_while(directory, &|| false).map(Option::unwrap_or_default)
}

/// Like [`check`], but return `None` if `over` returns true before the check is complete.
///
/// # Errors
/// As [`check`].
pub fn check_while(directory: &Path, over: Over<'_>) -> Result<Option<Value>> {
    let binary = directory.join("binary");
    let features = Features::read(&binary.join("feature_spec.yaml"))?;
    let threads = available_cores();
    let mut table = Table::open(&binary.join("train"), &features)?;
    let Some(rows_digest) = table.digest(threads, BLOCK_ROWS, over)? else { return Ok(None) };
    let (vocabulary, cardinalities) = (directory.join("vocabulary"), &features.cardinalities);
    let dictionary_digest = dictionary::digest(&vocabulary, cardinalities, threads, over)?;
    let Some(dictionary_digest) = dictionary_digest else { return Ok(None) };
    let columns: serde_json::Map<String, Value> =
        table.digests().map(|(name, digest)| (name, digits(digest).into())).collect();
    Ok(Some(json!({
        "rows": table.rows,
        "cardinalities": cardinalities,
        "dtypes": {"numerical": features.numerical},
        "columns": columns,
        "rows_digest": digits(rows_digest),
        "dictionary_digest": digits(dictionary_digest),
        "bytes": features.bytes + table.bytes(),
    })))
}

fn digits(digest: u64) -> String {
    format!("{digest:016x}")
}

/// Build the error for an output file that is inconsistent in itself or with another file.
fn wrong(path: &Path, what: impl Into<String>) -> Error {
    Error::spec(path.display().to_string(), what, FIX)
}

fn open(path: &Path) -> Result<(fs::File, u64)> {
    let file = fs::File::open(path).map_err(failed("open", path))?;
    let bytes = file.metadata().map_err(failed("look at", path))?.len();
    Ok((file, bytes))
}

/// Run `work` on every task, on up to `threads` threads.
fn in_parallel<T: Send>(
    threads: usize,
    tasks: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let tasks = Mutex::new(tasks);
    let run = || loop {
        let Some(task) = lock(&tasks).next() else { return Ok(()) };
        work(task)?;
    };
    let failed = |_| Err(panicked("check", "a thread"));
    std::thread::scope(|scope| {
        // A thread that cannot be started is not needed: the other threads do its tasks.
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let first = run();
        let ended = others.into_iter().map(|other| other.join().unwrap_or_else(failed));
        ended.fold(first, Result::and)
    })
}

/// Content of an output file, which determines its number of bytes per row.
#[derive(Clone, Copy)]
enum Kind {
    Label,
    /// Numerical features; the number is the width of a value in bytes.
    Numerical(usize),
    /// Ids of a category column: width of an id in bytes, and the column's cardinality, which is
    /// larger than every id.
    Ids(usize, u64),
}

impl Kind {
    /// Return the number of bytes per row in the file.
    fn stored(self) -> usize {
        match self {
            Kind::Label => 1,
            Kind::Numerical(width) => NUMERICAL * width,
            Kind::Ids(width, _) => width,
        }
    }

    /// Return the number of bytes per row in a digest.
    fn digested(self) -> usize {
        match self {
            Kind::Ids(..) => ID,
            other => other.stored(),
        }
    }
}

/// File of the output, with the block of rows that is loaded.
struct Source {
    path: PathBuf,
    file: fs::File,
    bytes: u64,
    kind: Kind,
    stored: Vec<u8>,
    /// Values of `stored` in the form in which they are digested.
    values: Vec<u8>,
    /// Hash state of each column in the file.
    columns: Vec<Xxh3>,
}

impl Source {
    fn open(path: PathBuf, kind: Kind) -> Result<Self> {
        let (file, bytes) = open(&path)?;
        let columns = if matches!(kind, Kind::Numerical(_)) { NUMERICAL } else { 1 };
        let columns = vec![Xxh3::new(); columns];
        Ok(Source { path, file, bytes, kind, stored: Vec::new(), values: Vec::new(), columns })
    }

    /// Load and check the next `rows` rows. `first` is the number of rows before them.
    fn load(&mut self, first: u64, rows: usize) -> Result<()> {
        self.stored.resize(rows * self.kind.stored(), 0);
        self.file.read_exact(&mut self.stored).map_err(failed("read", &self.path))?;
        self.values.resize(rows * self.kind.digested(), 0);
        let values = &mut self.values;
        match self.kind {
            Kind::Label => {
                values.copy_from_slice(&self.stored);
                if let Some(row) = values.iter().position(|&label| label > 1) {
                    let (label, row) = (values[row], first + row as u64 + 1);
                    return Err(wrong(&self.path, format!("has label {label} in row {row}")));
                }
            }
            Kind::Numerical(_) => values.copy_from_slice(&self.stored),
            Kind::Ids(width, cardinality) => {
                let largest = match width {
                    1 => widen(&self.stored, values, |id| i32::from(i8::from_le_bytes(id))),
                    2 => widen(&self.stored, values, |id| i32::from(i16::from_le_bytes(id))),
                    _ => widen(&self.stored, values, i32::from_le_bytes),
                };
                if u64::from(largest) >= cardinality {
                    return Err(self.stranger(first, cardinality));
                }
            }
        }
        Ok(())
    }

    /// Build the error for the first id of the block that is not smaller than the cardinality.
    fn stranger(&self, first: u64, cardinality: u64) -> Error {
        let ids = self.values.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id));
        let strange = (first + 1..).zip(ids).find(|(_, id)| u64::from(*id) >= cardinality);
        let (row, id) = strange.map_or((0, 0), |(row, id)| (row, id as i32));
        wrong(&self.path, format!("has id {id} in row {row}, and the cardinality is {cardinality}"))
    }

    /// Yield name and digest of each column in the file. `place` is the file's position in the
    /// table.
    fn digests(&self, place: usize) -> impl Iterator<Item = (String, u64)> + '_ {
        let kind = self.kind;
        let named = move |column| match kind {
            Kind::Label => "label".to_owned(),
            Kind::Numerical(_) => format!("num_{column}"),
            Kind::Ids(..) => format!("cat_{}", place - 2),
        };
        self.columns.iter().enumerate().map(move |(column, hash)| (named(column), hash.digest()))
    }
}

/// Convert ids to 32 bits. Return the largest as an unsigned number, so that a negative id is
/// larger than all others.
fn widen<const W: usize>(stored: &[u8], ids: &mut [u8], decode: impl Fn([u8; W]) -> i32) -> u32 {
    let mut largest = 0;
    for (from, to) in stored.as_chunks::<W>().0.iter().zip(ids.as_chunks_mut().0) {
        let id = decode(*from) as u32;
        largest = largest.max(id);
        *to = id.to_le_bytes();
    }
    largest
}

/// Digest one column of the matrix of numerical features, which is stored row by row.
fn digest_numbers<const W: usize>(rows: &[u8], column: usize, hash: &mut Xxh3) {
    let mut together = [[0; W]; STRETCH_ROWS];
    for stretch in rows.as_chunks().0.chunks(NUMERICAL * STRETCH_ROWS) {
        let numbers = stretch[column..].iter().step_by(NUMERICAL);
        let count = numbers.len();
        for (to, number) in together.iter_mut().zip(numbers) {
            *to = *number;
        }
        hash.update(together[..count].as_flattened());
    }
}

/// All output files with one record per row, in the order of columns.
struct Table {
    sources: Vec<Source>,
    rows: u64,
}

impl Table {
    fn open(train: &Path, features: &Features) -> Result<Self> {
        let open = |name: &str, kind| Source::open(train.join(name), kind);
        let mut sources = vec![
            open("label.bin", Kind::Label)?,
            open("numerical.bin", Kind::Numerical(features.numerical_width))?,
        ];
        for index in 0..CATEGORIES {
            let kind = Kind::Ids(features.id_widths[index], features.cardinalities[index]);
            sources.push(open(&format!("cat_{index}.bin"), kind)?);
        }
        let rows = sources[0].bytes;
        if rows == 0 {
            let fix = "see what the inputs hold";
            return Err(Error::spec(train.display().to_string(), "the output has no rows", fix));
        }
        for source in &sources {
            let (bytes, width) = (source.bytes, source.kind.stored() as u64);
            if bytes != rows * width {
                let what = format!("has {bytes} bytes; {width} for each of {rows} labels were due");
                return Err(wrong(&source.path, what));
            }
        }
        Ok(Table { sources, rows })
    }

    fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    fn digests(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.sources.iter().enumerate().flat_map(|(place, source)| source.digests(place))
    }

    /// Digest all rows, `block_rows` at a time.
    ///
    /// Returns the digest of all rows, which does not depend on their order; `None` if the run ends
    /// before all rows are digested.
    fn digest(&mut self, threads: usize, block_rows: usize, over: Over<'_>) -> Result<Option<u64>> {
        let sum = AtomicU64::new(0);
        let mut first = 0;
        while first < self.rows {
            if over() {
                return Ok(None);
            }
            let rows = (self.rows - first).min(block_rows as u64) as usize;
            in_parallel(threads, self.sources.iter_mut(), |source| source.load(first, rows))?;
            in_parallel(threads, self.columns(), |column| {
                column.digest();
                Ok(())
            })?;
            in_parallel(threads, (0..rows).step_by(STRETCH_ROWS), |at| {
                sum.fetch_add(self.digest_rows(at, rows), Ordering::Relaxed); // wraps around
                Ok(())
            })?;
            first += rows as u64;
        }
        Ok(Some(sum.into_inner()))
    }

    fn columns(&mut self) -> impl Iterator<Item = Column<'_>> + Send {
        self.sources.iter_mut().flat_map(|source| {
            let (kind, values) = (source.kind, &source.values[..]);
            let columns = source.columns.iter_mut().enumerate();
            columns.map(move |(index, hash)| Column { kind, values, index, hash })
        })
    }

    /// Return the sum of the digests of up to `STRETCH_ROWS` rows, from row `first` of the loaded
    /// block on. The block has `rows` rows.
    fn digest_rows(&self, first: usize, rows: usize) -> u64 {
        let (short, ids) = self.sources.split_at(2);
        let ids: Vec<&[[u8; ID]]> = ids.iter().map(|source| source.values.as_chunks().0).collect();
        let stride = self.sources.iter().map(|source| source.kind.digested()).sum();
        let mut tile = vec![0; TILE_ROWS * stride];
        let end = rows.min(first + STRETCH_ROWS);
        let mut sum = 0u64;
        for first in (first..end).step_by(TILE_ROWS) {
            let count = TILE_ROWS.min(end - first);
            for (row, mut rest) in (first..first + count).zip(tile.chunks_exact_mut(stride)) {
                for source in short {
                    let width = source.kind.digested();
                    let (values, after) = rest.split_at_mut(width);
                    values.copy_from_slice(&source.values[row * width..][..width]);
                    rest = after;
                }
                for (id, column) in rest.as_chunks_mut().0.iter_mut().zip(&ids) {
                    *id = column[row];
                }
            }
            let digests = tile.chunks_exact(stride).take(count).map(xxh3_64);
            sum = digests.fold(sum, u64::wrapping_add);
        }
        sum
    }
}

/// Column of the loaded block, with its hash state.
struct Column<'t> {
    kind: Kind,
    values: &'t [u8],
    index: usize,
    hash: &'t mut Xxh3,
}

impl Column<'_> {
    fn digest(self) {
        let Column { kind, values, index, hash } = self;
        match kind {
            Kind::Numerical(2) => digest_numbers::<2>(values, index, hash),
            Kind::Numerical(_) => digest_numbers::<4>(values, index, hash),
            Kind::Label | Kind::Ids(..) => hash.update(values),
        }
    }
}

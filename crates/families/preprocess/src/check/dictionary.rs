//! Check and digest of the vocabularies of a finished output.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use storlab_base::Result;
use xxhash_rust::xxh3::Xxh3;

use super::{Over, failed, in_parallel, open, wrong};

/// Number of vocabulary entries that are read at a time.
const ENTRIES: usize = 1 << 16;
const VALUE: usize = size_of::<u32>();
const COUNT: usize = size_of::<u64>();

/// Check all vocabularies, and digest the bytes of their values and counts, column by column.
///
/// Returns `None` if the run ends before all vocabularies are digested.
///
/// # Errors
/// [`storlab_base::Error::Io`] if a file cannot be read, [`storlab_base::Error::Spec`] if a
/// vocabulary is not sorted, or does not have one entry for each id except 0.
pub fn digest(
    directory: &Path,
    cardinalities: &[u64],
    threads: usize,
    over: Over<'_>,
) -> Result<Option<u64>> {
    let columns: Vec<Column> = (1..)
        .zip(cardinalities)
        .map(|(number, &cardinality)| Column {
            values: directory.join(format!("C{number}.values")),
            counts: directory.join(format!("C{number}.counts")),
            entries: cardinality - 1,
        })
        .collect();
    in_parallel(threads, columns.iter(), |column| column.check(over))?;
    let mut hash = Xxh3::new();
    let mut block = vec![0; ENTRIES * COUNT];
    for path in columns.iter().flat_map(|column| [&column.values, &column.counts]) {
        let mut file = fs::File::open(path).map_err(failed("open", path))?;
        loop {
            if over() {
                return Ok(None);
            }
            match file.read(&mut block).map_err(failed("read", path))? {
                0 => break,
                bytes => hash.update(&block[..bytes]),
            }
        }
    }
    Ok(Some(hash.digest()))
}

/// Vocabulary files of one column.
struct Column {
    values: PathBuf,
    counts: PathBuf,
    entries: u64,
}

impl Column {
    /// Check that entries are sorted by descending count, then by ascending value. Stops early if
    /// the run is over.
    fn check(&self, over: Over<'_>) -> Result<()> {
        let mut values = self.open(&self.values, VALUE)?;
        let mut counts = self.open(&self.counts, COUNT)?;
        let mut last = None;
        let mut first = 0;
        let (mut value_bytes, mut count_bytes) = (Vec::new(), Vec::new());
        while first < self.entries && !over() {
            let entries = (self.entries - first).min(ENTRIES as u64) as usize;
            value_bytes.resize(entries * VALUE, 0);
            count_bytes.resize(entries * COUNT, 0);
            values.read_exact(&mut value_bytes).map_err(failed("read", &self.values))?;
            counts.read_exact(&mut count_bytes).map_err(failed("read", &self.counts))?;
            let of_values = value_bytes.as_chunks().0.iter().map(|v| u32::from_le_bytes(*v));
            let of_counts = count_bytes.as_chunks().0.iter().map(|c| u64::from_le_bytes(*c));
            for (id, (value, count)) in (first + 1..).zip(of_values.zip(of_counts)) {
                if count == 0 {
                    return Err(wrong(&self.counts, format!("gives id {id} a count of 0")));
                }
                match last {
                    Some((_, common)) if common < count => {
                        return Err(wrong(&self.counts, format!("is not in order at id {id}")));
                    }
                    Some((before, common)) if common == count && before >= value => {
                        return Err(wrong(&self.values, format!("is not in order at id {id}")));
                    }
                    _ => last = Some((value, count)),
                }
            }
            first += entries as u64;
        }
        Ok(())
    }

    fn open(&self, path: &Path, width: usize) -> Result<fs::File> {
        let (file, bytes) = open(path)?;
        let entries = self.entries;
        if bytes != entries * width as u64 {
            let what = format!("has {bytes} bytes instead of {entries} entries of {width} bytes");
            return Err(wrong(path, what));
        }
        Ok(file)
    }
}

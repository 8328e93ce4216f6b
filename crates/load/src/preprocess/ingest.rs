//! Click logs to Parquet, one file for each part.

use std::fs::File;
use std::io;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use storlab_base::{monotonic_ns, Result};

use super::columns::{properties, schema, Columns};
use super::crew::{Crew, Turn};
use super::lines::Lines;
use super::outputs::{aside, failed, make_directory, name_file};
use super::parse::{self, diagnose};
use super::parts::{Part, PartFacts, Sample};
use super::spec::PreprocessJob;
use super::INGEST;

/// Of a malformed line, kept as a sample.
const SAMPLE_BYTES: usize = 200;

/// Make the Parquet file of every part that has none.
///
/// # Errors
/// [`Error::Io`] for what cannot be read or written.
pub fn run(job: &PreprocessJob, parts: &[Part], crew: &mut Crew<'_>) -> Result<()> {
    for part in parts {
        make_directory(part.parquet.parent().unwrap_or(Path::new(".")))?;
    }
    let missing: Vec<&Part> = parts.iter().filter(|part| part.facts().is_none()).collect();
    crew.each(missing.len(), |turn| {
        let mut columns = Columns::new(job.row_group_rows);
        while let Some(task) = turn.next() {
            one(job, missing[task], &mut columns, turn)?;
        }
        Ok(())
    })
}

fn one(job: &PreprocessJob, part: &Part, columns: &mut Columns, turn: &mut Turn<'_>) -> Result<()> {
    let beside = aside(&part.parquet);
    let file = File::create(&beside).map_err(failed("create", &beside))?;
    let bad = |e: ParquetError| failed("write", &beside)(io_error(e));
    let schema = schema().map_err(bad)?;
    let properties = properties(job.compression);
    let mut writer = SerializedFileWriter::new(file, schema, properties).map_err(bad)?;
    let mut facts = PartFacts::default();
    let mut lines = Lines::open(&job.inputs[part.file], part.start, part.end)?;
    columns.clear();
    let mut start_ns = monotonic_ns();
    while let Some(block) = lines.block()? {
        let mut at = 0;
        while at < block.len {
            at = match parse::line(block.data, at, columns) {
                Some(next) => next,
                None => malformed(job, &block.data[..block.len], at, &mut facts),
            };
            facts.lines += 1;
            if columns.is_full() {
                columns.write(&mut writer).map_err(bad)?;
                facts.rows += columns.rows() as u64;
                columns.clear();
            }
        }
        turn.record(INGEST, block.bytes, start_ns);
        start_ns = monotonic_ns();
        if turn.is_over() {
            return Ok(());
        }
    }
    if columns.rows() > 0 {
        columns.write(&mut writer).map_err(bad)?;
        facts.rows += columns.rows() as u64;
    }
    writer.finish().map_err(bad)?;
    writer.inner().sync_all().map_err(failed("sync", &beside))?;
    name_file(&part.parquet)?;
    part.finish(&facts)
}

/// Count a line that is none, and say where the next one begins.
fn malformed(job: &PreprocessJob, data: &[u8], at: usize, facts: &mut PartFacts) -> usize {
    let end = data[at..].iter().position(|&byte| byte == b'\n').map_or(data.len(), |n| at + n);
    let (reason, field) = diagnose(&data[at..end]);
    *facts.malformed.entry(reason.word().to_owned()).or_default() += 1;
    if facts.samples.len() < job.malformed_samples {
        let text = printable(&data[at..end.min(at + SAMPLE_BYTES)]);
        facts.samples.push(Sample { line: facts.lines, reason, field, text });
    }
    end + 1
}

fn printable(bytes: &[u8]) -> String {
    let text = |&byte: &u8| match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(text).collect()
}

/// What the kernel said, where Parquet only passes it on.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(own) => *own,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

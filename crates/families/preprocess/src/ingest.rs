//! Ingest stage: click logs to Parquet, one file per part.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use storlab_base::{Error, Result, failed, monotonic_ns};
use storlab_run::worker_pool::{Tasks, WorkerPool};

use super::columns::{Columns, properties, schema};
use super::lines::Lines;
use super::outputs::{aside, make_directory, name_file};
use super::parse::{self, diagnose};
use super::parts::{Part, PartFacts, Sample};
use super::spec::PreprocessJob;
use super::stages::INGEST;

/// Maximum number of bytes of a malformed line that are kept as a sample.
const SAMPLE_BYTES: usize = 200;

/// Write the Parquet file of every part that does not have one yet.
pub fn run(job: &PreprocessJob, parts: &[Part], pool: &mut WorkerPool<'_>) -> Result<()> {
    for part in parts {
        make_directory(part.parquet.parent().unwrap_or(Path::new(".")))?;
    }
    let missing: Vec<&Part> = parts.iter().filter(|part| part.facts().is_none()).collect();
    pool.carry_out(missing.len(), |tasks| {
        let mut columns = Columns::new(job.row_group_rows.min(job.part_rows()));
        while let Some(task) = tasks.take() {
            ingest_part(job, missing[task], &mut columns, tasks)?;
        }
        Ok(())
    })
}

fn ingest_part(
    job: &PreprocessJob,
    part: &Part,
    columns: &mut Columns,
    tasks: &mut Tasks<'_>,
) -> Result<()> {
    let mut output = Output::create(job, &part.parquet)?;
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
                output.write(columns, &mut facts)?;
            }
        }
        tasks.record(INGEST, block.bytes, start_ns);
        start_ns = monotonic_ns();
        if tasks.is_over() {
            return Ok(());
        }
    }
    output.write(columns, &mut facts)?;
    output.finish()?;
    part.finish(&facts)
}

/// Parquet file of a part while it is written. Its first rows determine its encodings.
struct Output<'j> {
    job: &'j PreprocessJob,
    path: &'j Path,
    beside: PathBuf,
    file: Option<File>,
    writer: Option<SerializedFileWriter<File>>,
}

impl<'j> Output<'j> {
    fn create(job: &'j PreprocessJob, path: &'j Path) -> Result<Self> {
        let beside = aside(path);
        let file = Some(File::create(&beside).map_err(failed("create", &beside))?);
        Ok(Output { job, path, beside, file, writer: None })
    }

    fn failed(&self, error: ParquetError) -> Error {
        failed("write", &self.beside)(io_error(error))
    }

    fn begin(&mut self, columns: &Columns) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let properties = properties(self.job.compression, columns);
        let writer =
            schema().and_then(|schema| SerializedFileWriter::new(file, schema, properties));
        self.writer = Some(writer.map_err(|e| self.failed(e))?);
        Ok(())
    }

    /// Write the rows of `columns` as a row group, and empty `columns`.
    fn write(&mut self, columns: &mut Columns, facts: &mut PartFacts) -> Result<()> {
        self.begin(columns)?;
        if let Some(writer) = self.writer.as_mut().filter(|_| columns.rows() > 0) {
            let written = columns.write(writer);
            written.map_err(|e| self.failed(e))?;
            facts.rows += columns.rows() as u64;
        }
        columns.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            writer.finish().map_err(|e| self.failed(e))?;
            writer.inner().sync_all().map_err(failed("sync", &self.beside))?;
        }
        name_file(self.path)
    }
}

/// Count a malformed line and keep it as a sample. Return the position of the next line.
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

/// Return the kernel's error that a Parquet error contains.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(own) => *own,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

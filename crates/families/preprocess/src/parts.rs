//! Parts of input files, and the facts stored beside each part's Parquet file once it is complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use storlab_base::{Error, Result, failed};

use super::outputs::{publish, read_json};
use super::parse::Reason;
use super::spec::PreprocessJob;

/// Part of an input file: the lines that begin in a byte range.
#[derive(Clone, Debug)]
pub struct Part {
    /// Index of the input file in the job's `inputs`.
    pub file: usize,
    /// Offset of the range's first byte in the file.
    pub start: u64,
    /// Offset of the range's end in the file, exclusive.
    pub end: u64,
    /// Path of the Parquet file that ingest writes for the part.
    pub parquet: PathBuf,
}

/// Sample of a malformed line.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Sample {
    /// Number of the line, counted from 0 within the part.
    pub line: u64,
    /// Reason why the line is malformed.
    pub reason: Reason,
    /// Number of the invalid field, counted from 1; `None` if the number of fields is wrong.
    pub field: Option<usize>,
    /// First bytes of the line.
    pub text: String,
}

/// Facts about a part, stored in a sidecar beside its Parquet file. If the sidecar exists, the
/// Parquet file is complete.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct PartFacts {
    /// Number of rows in the Parquet file.
    pub rows: u64,
    /// Number of input lines in the part.
    pub lines: u64,
    /// Number of malformed lines by reason.
    pub malformed: BTreeMap<String, u64>,
    /// Samples of the first malformed lines.
    pub samples: Vec<Sample>,
}

impl Part {
    /// List all parts of a job's inputs, in order.
    pub fn of_job(job: &PreprocessJob) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        for (file, path) in job.inputs.iter().enumerate() {
            let size = size_of_input(path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let directory = job.directory.join("parquet").join(format!("{file:03}-{name}"));
            for number in 0..size.div_ceil(job.part_bytes) {
                let start = number * job.part_bytes;
                let end = (start + job.part_bytes).min(size);
                let parquet = directory.join(format!("part-{number:05}.parquet"));
                parts.push(Part { file, start, end, parquet });
            }
        }
        Ok(parts)
    }

    fn sidecar(&self) -> PathBuf {
        self.parquet.with_extension("json")
    }

    /// Read the part's sidecar; `None` if the part is not complete.
    pub fn facts(&self) -> Option<PartFacts> {
        read_json(&self.sidecar())
    }

    /// Write the part's sidecar, which marks the part as complete.
    pub fn finish(&self, facts: &PartFacts) -> Result<()> {
        publish(&self.sidecar(), json!(facts).to_string().as_bytes())
    }
}

fn size_of_input(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).map_err(failed("open", path))?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    Err(Error::spec("inputs", format!("{} is not a file", path.display()), "name files that exist"))
}

/// Rows, lines and malformed lines of all parts together.
pub struct Findings {
    /// Number of rows of all parts.
    pub rows: u64,
    /// Number of input lines of all parts.
    pub lines: u64,
    /// For each part, the index of its first row in the output.
    pub first_row: Vec<u64>,
    by_reason: BTreeMap<String, u64>,
    samples: Vec<Value>,
}

impl Findings {
    /// Sum up the sidecars of the parts.
    ///
    /// # Errors
    /// [`Error::Io`] if a part is not complete.
    pub fn of(job: &PreprocessJob, parts: &[Part]) -> Result<Self> {
        let mut all = Findings {
            rows: 0,
            lines: 0,
            first_row: Vec::with_capacity(parts.len()),
            by_reason: BTreeMap::new(),
            samples: Vec::new(),
        };
        let (mut file, mut line) = (usize::MAX, 0);
        for part in parts {
            if part.file != file {
                (file, line) = (part.file, 0);
            }
            let facts = part.facts().ok_or_else(|| unfinished(part))?;
            all.first_row.push(all.rows);
            all.rows += facts.rows;
            all.lines += facts.lines;
            for (reason, count) in facts.malformed {
                *all.by_reason.entry(reason).or_default() += count;
            }
            let room = job.malformed_samples - all.samples.len();
            all.samples.extend(facts.samples.into_iter().take(room).map(|sample| {
                json!({
                    "file": job.inputs[file].display().to_string(),
                    "line": line + sample.line + 1,
                    "reason": sample.reason,
                    "field": sample.field,
                    "text": sample.text,
                })
            }));
            line += facts.lines;
        }
        Ok(all)
    }

    /// Return the number of rows of a part.
    pub fn rows_of(&self, part: usize) -> u64 {
        self.first_row.get(part + 1).unwrap_or(&self.rows) - self.first_row[part]
    }

    /// Return the number of malformed lines.
    pub fn malformed(&self) -> u64 {
        self.by_reason.values().sum()
    }

    /// Return the counts and samples of malformed lines as JSON, for the run's details.
    pub fn malformed_details(&self) -> Value {
        json!({"count": self.malformed(), "by_reason": self.by_reason, "samples": self.samples})
    }

    /// Return the first malformed line as `<path>, line <n>: <reason>`; empty if there is no
    /// sample.
    pub fn first_malformed(&self) -> String {
        self.samples.first().map_or_else(String::new, |sample| {
            let text = |name: &str| sample[name].as_str().unwrap_or_default().to_owned();
            format!("{}, line {}: {}", text("file"), sample["line"], text("reason"))
        })
    }
}

fn unfinished(part: &Part) -> Error {
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, "the part is not finished");
    failed("read", &part.sidecar())(source)
}

//! The order: `storlab/model/preprocess_job.py` writes it, change both together.

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{Error, Result};

/// Of the text of a row: a label and 39 tabs.
const LEAST_ROW_BYTES: u64 = 40;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// All stages.
    #[default]
    Run,
    /// Make click logs.
    Generate,
    /// Remove the directory and all that is in it.
    Remove,
}

/// A generated data set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clicks {
    /// Over all files.
    pub rows: u64,
    /// How many.
    pub files: u32,
    /// Of all rows.
    pub seed: u64,
}

impl Clicks {
    /// Rows of a file: the first ones have one more where it does not divide.
    pub fn rows_of(&self, file: u32) -> u64 {
        let files = u64::from(self.files);
        self.rows / files + u64::from(u64::from(file) < self.rows % files)
    }
}

/// Of Parquet pages.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Codec {
    None,
    #[default]
    Snappy,
    Lz4,
    Zstd,
}

/// Type of `numerical.bin`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Numerical {
    #[default]
    Float16,
    Float32,
}

/// What becomes of a line that is none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// The run fails.
    #[default]
    Refuse,
    /// It is counted and left out.
    Skip,
}

/// See `storlab/model/preprocess_job.py`.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct PreprocessJob {
    pub version: u32,
    pub interval_ns: u64,
    pub task: Task,
    pub inputs: Vec<PathBuf>,
    pub directory: PathBuf,
    pub clicks: Option<Clicks>,
    pub workers: usize,
    pub part_bytes: u64,
    pub row_group_rows: usize,
    pub compression: Codec,
    pub threshold: u64,
    pub modulo: Option<u64>,
    pub numerical: Numerical,
    pub malformed: Malformed,
    pub malformed_samples: usize,
    pub memory_bytes: usize,
    pub cold: bool,
    pub resume: bool,
    pub cpus: Option<Vec<usize>>,
}

impl PreprocessJob {
    /// From an order as JSON.
    ///
    /// # Errors
    /// [`Error::Spec`] for an order that cannot be.
    pub fn from_json(text: &str) -> Result<Self> {
        let job: PreprocessJob = serde_json::from_str(text)
            .map_err(|e| Error::spec("job", e.to_string(), "see storlab schema"))?;
        job.check()?;
        Ok(job)
    }

    /// Most that a part has.
    pub fn part_rows(&self) -> usize {
        usize::try_from(self.part_bytes / LEAST_ROW_BYTES + 1).unwrap_or(usize::MAX)
    }

    fn check(&self) -> Result<()> {
        let wrong = |field, what: &str, fix: &str| Err(Error::spec(field, what.to_owned(), fix));
        if self.version != 1 {
            return wrong("version", "is not 1", "use the storlab that made the order");
        }
        if self.workers == 0 || self.row_group_rows == 0 || self.interval_ns == 0 {
            return wrong("workers", "and row_group_rows and interval are 0", "use 1 or more");
        }
        if self.part_bytes == 0 {
            return wrong("part_bytes", "is 0", "use 64MiB");
        }
        if self.modulo == Some(0) {
            return wrong("modulo", "is 0", "leave it out, or use 1 or more");
        }
        if self.clicks.as_ref().is_some_and(|clicks| clicks.files == 0) {
            return wrong("clicks.files", "is 0", "use 1 or more");
        }
        if self.task == Task::Run && self.inputs.is_empty() {
            return wrong("inputs", "is empty", "name at least one file");
        }
        if self.task == Task::Generate && self.clicks.is_none() {
            return wrong("clicks", "is missing", "say how many rows");
        }
        Ok(())
    }
}

//! Job description (JSON) of one preprocessing run.

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::Result;
use storlab_run::order::{Order, at_least_one, require};

/// Smallest size of a row's text in bytes: a label and 39 tabs.
const LEAST_ROW_BYTES: u64 = 40;

/// Purpose of a run: preprocess, generate click logs, or remove the output.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Preprocess: run all stages.
    #[default]
    Run,
    /// Generate click logs as input.
    Generate,
    /// Remove the output directory with everything in it.
    Remove,
}

/// Generated data set of click logs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clicks {
    /// Number of rows in all files together.
    pub rows: u64,
    /// Number of files over which the rows are spread.
    pub files: u32,
    /// Seed of the generated rows.
    pub seed: u64,
}

impl Clicks {
    /// Return the number of rows of a file. The rows are divided evenly; the first files take the
    /// remainder.
    pub fn rows_of(&self, file: u32) -> u64 {
        let files = u64::from(self.files);
        self.rows / files + u64::from(u64::from(file) < self.rows % files)
    }
}

/// Compression codec of Parquet pages.
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

/// Type of the numerical features in `numerical.bin`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Numerical {
    #[default]
    Float16,
    Float32,
}

/// Treatment of malformed lines.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// The first malformed line makes the run fail.
    #[default]
    Refuse,
    /// Malformed lines are counted and skipped.
    Skip,
}

/// Job description of one preprocessing run: inputs, output directory and parameters of all stages.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct PreprocessJob {
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

impl Order for PreprocessJob {
    fn check(&self) -> Result<()> {
        at_least_one(&[
            ("workers", self.workers as u64),
            ("row_group_rows", self.row_group_rows as u64),
            ("part_bytes", self.part_bytes),
        ])?;
        let fix = "leave it out, or use 1 or more";
        require(self.modulo != Some(0), "modulo", || "is 0".into(), fix)?;
        let files = self.clicks.as_ref().is_none_or(|clicks| clicks.files > 0);
        require(files, "clicks.files", || "is 0".into(), "use 1 or more")?;
        let fed = self.task != Task::Run || !self.inputs.is_empty();
        require(fed, "inputs", || "is empty".into(), "name at least one file")?;
        let described = self.task != Task::Generate || self.clicks.is_some();
        require(described, "clicks", || "is missing".into(), "give rows, files and seed")
    }
}

impl PreprocessJob {
    /// Return the maximum number of rows that a part can have.
    pub fn part_rows(&self) -> usize {
        usize::try_from(self.part_bytes / LEAST_ROW_BYTES + 1).unwrap_or(usize::MAX)
    }
}

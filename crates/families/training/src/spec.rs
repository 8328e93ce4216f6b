//! The order for training reads.

use serde::Deserialize;
use storlab_base::{Error, Result};
use storlab_io::SECTOR;
use storlab_run::order::{Order, at_least_one, stay_below};
use storlab_s3::transfer::PlaceSpec;

/// What a job does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Epochs.
    Run,
    /// The data set.
    Generate,
}

/// Of the files.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A stored zip of two arrays.
    Npz,
    /// Framed records.
    Tfrecord,
    /// Plain bytes.
    Jpeg,
}

impl Format {
    /// What a file's name ends with.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npz => "npz",
            Format::Tfrecord => "tfrecord",
            Format::Jpeg => "jpeg",
        }
    }
}

/// In which order files are read.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Shuffle {
    /// By number.
    None,
    /// At random, and the same in every epoch.
    Same,
    /// At random, anew in every epoch.
    Epoch,
}

/// What a reader does with what it read.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Nothing.
    Bytes,
    /// Parses the format's headers.
    Header,
    /// And compares its checksums.
    Crc,
}

/// The data set.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Records {
    pub format: Format,
    pub files: u64,
    pub samples_per_file: u64,
    pub record_bytes: u64,
    pub record_stdev_bytes: u64,
    pub folder: String,
    pub prefix: String,
    pub seed: u64,
}

/// See the module.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct TrainingJob {
    pub version: u32,
    pub interval_ns: u64,
    pub drain_timeout_ns: u64,
    pub seed: u64,
    pub task: Task,
    pub place: PlaceSpec,
    pub records: Records,
    pub accelerators: usize,
    pub batch: u64,
    pub computation_ns: u64,
    pub reader_threads: usize,
    pub prefetch: usize,
    pub epochs: u32,
    pub max_steps: Option<u64>,
    pub shuffle: Shuffle,
    pub reshard: bool,
    pub barrier: bool,
    pub check: Check,
    pub drop_caches: bool,
    pub read_bytes: u64,
    pub queue_depth: usize,
    pub cpus: Option<Vec<usize>>,
}

impl Order for TrainingJob {
    fn version(&self) -> u32 {
        self.version
    }

    fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    fn check(&self) -> Result<()> {
        let wrong = |field: &str, what: String, fix: &str| Err(Error::spec(field, what, fix));
        self.place.check()?;
        at_least_one(&[
            ("accelerators", self.accelerators as u64),
            ("batch", self.batch),
            ("reader_threads", self.reader_threads as u64),
            ("prefetch", self.prefetch as u64),
            ("epochs", u64::from(self.epochs)),
            ("queue_depth", self.queue_depth as u64),
            ("records.files", self.records.files),
            ("records.samples_per_file", self.records.samples_per_file),
            ("records.record_bytes", self.records.record_bytes),
        ])?;
        if self.read_bytes == 0 || !self.read_bytes.is_multiple_of(SECTOR) {
            return wrong("read_bytes", "is no multiple of 4096".to_owned(), "use 1MiB");
        }
        if self.records.format == Format::Jpeg && self.records.samples_per_file != 1 {
            let what = "a JPEG file has one sample".to_owned();
            return wrong("records.samples_per_file", what, "use 1");
        }
        let names = [&self.records.folder, &self.records.prefix];
        stay_below("records", names.into_iter().map(String::as_str))?;
        if self.task == Task::Run && self.steps() == 0 {
            let what = format!(
                "{} samples are less than a batch of {} for each of {} accelerators",
                self.records.files * self.records.samples_per_file,
                self.batch,
                self.accelerators
            );
            return wrong("records.files", what, "make the data set larger");
        }
        Ok(())
    }
}

impl TrainingJob {
    /// Samples of one accelerator in an epoch: what does not divide evenly is left out.
    pub fn shard(&self) -> u64 {
        self.records.files * self.records.samples_per_file / self.accelerators as u64
    }

    /// Steps of one accelerator in an epoch: a last, smaller batch is dropped.
    pub fn steps(&self) -> u64 {
        (self.shard() / self.batch).min(self.max_steps.unwrap_or(u64::MAX))
    }

    /// Batches that each reader may be ahead.
    pub fn ahead(&self) -> u64 {
        self.prefetch.div_ceil(self.reader_threads) as u64
    }
}

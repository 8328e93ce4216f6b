//! The order for training reads, as JSON from Python (`storlab/model/training_job.py`): change both
//! together.
//!
//! Sizes are bytes, times nanoseconds.

use serde::Deserialize;
use storlab_base::{Error, Result};
use storlab_io::SECTOR;
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
#[serde(deny_unknown_fields)]
#[allow(missing_docs, dead_code)] // the size to cut to is for loaders that keep samples
pub struct Records {
    pub format: Format,
    pub files: u64,
    pub samples_per_file: u64,
    pub record_bytes: u64,
    pub record_stdev_bytes: u64,
    pub resize_bytes: u64,
    pub folder: String,
    pub prefix: String,
    pub seed: u64,
}

/// See the module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, dead_code)] // ramp and drain belong to every order
pub struct TrainingJob {
    pub version: u32,
    #[serde(default)]
    pub ramp_ns: u64,
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

impl TrainingJob {
    /// Read and check.
    ///
    /// # Errors
    /// [`Error::Spec`] with the field that is wrong.
    pub fn from_json(text: &str) -> Result<Self> {
        let job: TrainingJob = serde_json::from_str(text)
            .map_err(|e| Error::spec("job", e.to_string(), "see storlab/model/training_job.py"))?;
        job.check()?;
        Ok(job)
    }

    fn check(&self) -> Result<()> {
        let wrong = |field: &str, what: String, fix: &str| Err(Error::spec(field, what, fix));
        if self.version != 1 {
            return wrong("version", format!("{} is not known", self.version), "use 1");
        }
        self.place.check()?;
        for (field, value) in [
            ("accelerators", self.accelerators as u64),
            ("batch", self.batch),
            ("reader_threads", self.reader_threads as u64),
            ("prefetch", self.prefetch as u64),
            ("epochs", u64::from(self.epochs)),
            ("queue_depth", self.queue_depth as u64),
            ("interval_ns", self.interval_ns),
            ("records.files", self.records.files),
            ("records.samples_per_file", self.records.samples_per_file),
            ("records.record_bytes", self.records.record_bytes),
        ] {
            if value == 0 {
                return wrong(field, "is 0".to_owned(), "use 1 or more");
            }
        }
        if self.read_bytes == 0 || !self.read_bytes.is_multiple_of(SECTOR) {
            return wrong("read_bytes", "is no multiple of 4096".to_owned(), "use 1MiB");
        }
        if self.records.format == Format::Jpeg && self.records.samples_per_file != 1 {
            let what = "a JPEG file has one sample".to_owned();
            return wrong("records.samples_per_file", what, "use 1");
        }
        let unsafe_name = |name: &str| {
            name.is_empty() || name.split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        if unsafe_name(&self.records.folder) || unsafe_name(&self.records.prefix) {
            return wrong("records", "a name leads elsewhere".to_owned(), "use relative names");
        }
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

//! Job description (JSON) of one training run.

use serde::Deserialize;
use storlab_base::Result;
use storlab_io::SECTOR;
use storlab_run::order::{Order, at_least_one, require, stay_below};
use storlab_s3::transfer::PlaceSpec;

/// Purpose of a run: train for some epochs, or generate the data set.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Train for a number of epochs.
    Run,
    /// Generate the data set.
    Generate,
}

/// Format of the data set's files.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Uncompressed zip of two NPY arrays.
    Npz,
    /// TFRecord: framed records.
    Tfrecord,
    /// Incompressible bytes without headers, not decodable images; one sample per file.
    Jpeg,
}

impl Format {
    /// Return the extension of file names, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npz => "npz",
            Format::Tfrecord => "tfrecord",
            Format::Jpeg => "jpeg",
        }
    }
}

/// Order in which files are read in an epoch.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Shuffle {
    /// Files are read in the order of their numbers.
    None,
    /// Files are read in a random order, which is the same in every epoch.
    Same,
    /// Files are read in a random order, which differs in every epoch.
    Epoch,
}

/// How a reader checks the data that it reads.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// No check: data is only read.
    Bytes,
    /// Parse the headers of the format.
    Header,
    /// Parse the headers, and compare the checksums.
    Crc,
}

/// Data set: format, number of files, and sizes.
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

/// Job description of one training run: data set, accelerators, readers and epochs.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct TrainingJob {
    pub interval_ns: u64,
    pub drain_timeout_ns: u64,
    pub seed: u64,
    pub task: Task,
    pub place: PlaceSpec,
    pub records: Records,
    pub accelerators: usize,
    /// Number of this job's first accelerator, counted over all clients.
    #[serde(default)]
    pub first_accelerator: usize,
    /// Number of accelerators of all clients; 0 if they are all in this job.
    #[serde(default)]
    pub all_accelerators: usize,
    /// Number of the first file that this client generates. Several clients may share the work.
    #[serde(default)]
    pub first_file: u64,
    /// Distance between the numbers of two consecutive files that this client generates.
    #[serde(default = "every_file")]
    pub file_step: u64,
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

fn every_file() -> u64 {
    1
}

impl Order for TrainingJob {
    fn check(&self) -> Result<()> {
        self.place.check()?;
        at_least_one(&[
            ("accelerators", self.accelerators as u64),
            ("batch", self.batch),
            ("reader_threads", self.reader_threads as u64),
            ("prefetch", self.prefetch as u64),
            ("epochs", u64::from(self.epochs)),
            ("file_step", self.file_step),
            ("queue_depth", self.queue_depth as u64),
            ("records.files", self.records.files),
            ("records.samples_per_file", self.records.samples_per_file),
            ("records.record_bytes", self.records.record_bytes),
        ])?;
        let counted = self.first_accelerator + self.accelerators <= self.everywhere() as usize;
        let what =
            || format!("{} is less than the accelerators of this job", self.all_accelerators);
        require(counted, "all_accelerators", what, "count the accelerators of all clients")?;
        let whole = self.read_bytes > 0 && self.read_bytes.is_multiple_of(SECTOR);
        let what = || format!("{} is not a multiple of 4096", self.read_bytes);
        require(whole, "read_bytes", what, "use 1MiB")?;
        let alone = self.records.format != Format::Jpeg || self.records.samples_per_file == 1;
        let what = || "a JPEG file holds exactly one sample".into();
        require(alone, "records.samples_per_file", what, "use 1")?;
        let names = [&self.records.folder, &self.records.prefix];
        stay_below("records", names.into_iter().map(String::as_str))?;
        let what = || {
            format!(
                "the data set's {} samples are less than a batch of {} for each of {} accelerators",
                self.records.files * self.records.samples_per_file,
                self.batch,
                self.everywhere()
            )
        };
        let enough = self.task != Task::Run || self.steps() > 0;
        require(enough, "records.files", what, "use a larger data set or smaller batches")
    }
}

impl TrainingJob {
    /// Return the number of accelerators of all clients.
    fn everywhere(&self) -> u64 {
        (if self.all_accelerators == 0 { self.accelerators } else { self.all_accelerators }) as u64
    }

    /// Return the number of samples per accelerator and epoch. Samples that cannot be divided
    /// evenly among the accelerators are not read.
    pub fn shard(&self) -> u64 {
        self.records.files * self.records.samples_per_file / self.everywhere()
    }

    /// Return the number of steps per accelerator and epoch; a last, smaller batch is dropped.
    pub fn steps(&self) -> u64 {
        (self.shard() / self.batch).min(self.max_steps.unwrap_or(u64::MAX))
    }

    /// Return the number of batches that each reader may load ahead.
    pub fn ahead(&self) -> u64 {
        self.prefetch.div_ceil(self.reader_threads) as u64
    }
}

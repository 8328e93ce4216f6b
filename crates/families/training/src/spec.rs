//! The order for training reads.

use serde::Deserialize;
use storlab_base::Result;
use storlab_io::SECTOR;
use storlab_run::order::{Order, at_least_one, must, stay_below};
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
    pub interval_ns: u64,
    pub drain_timeout_ns: u64,
    pub seed: u64,
    pub task: Task,
    pub place: PlaceSpec,
    pub records: Records,
    pub accelerators: usize,
    /// Of the accelerators of all clients, the number of this order's first one.
    #[serde(default)]
    pub first_accelerator: usize,
    /// Of all clients; 0: those of this order.
    #[serde(default)]
    pub all_accelerators: usize,
    /// Of a data set that several clients make, which file is this one's first ...
    #[serde(default)]
    pub first_file: u64,
    /// ... and how many lie from each of its files to the next.
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
        let what = || format!("{} are fewer than those of this order", self.all_accelerators);
        must(counted, "all_accelerators", what, "count those of all clients")?;
        let whole = self.read_bytes > 0 && self.read_bytes.is_multiple_of(SECTOR);
        must(whole, "read_bytes", || "is no multiple of 4096".into(), "use 1MiB")?;
        let alone = self.records.format != Format::Jpeg || self.records.samples_per_file == 1;
        let what = || "a JPEG file has one sample".into();
        must(alone, "records.samples_per_file", what, "use 1")?;
        let names = [&self.records.folder, &self.records.prefix];
        stay_below("records", names.into_iter().map(String::as_str))?;
        let what = || {
            format!(
                "{} samples are less than a batch of {} for each of {} accelerators",
                self.records.files * self.records.samples_per_file,
                self.batch,
                self.everywhere()
            )
        };
        let enough = self.task != Task::Run || self.steps() > 0;
        must(enough, "records.files", what, "make the data set larger")
    }
}

impl TrainingJob {
    /// Accelerators of all clients.
    fn everywhere(&self) -> u64 {
        (if self.all_accelerators == 0 { self.accelerators } else { self.all_accelerators }) as u64
    }

    /// Samples of one accelerator in an epoch: what does not divide evenly is left out.
    pub fn shard(&self) -> u64 {
        self.records.files * self.records.samples_per_file / self.everywhere()
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

//! The order for checkpoints, as JSON from Python (`storlab/model/checkpoint_job.py`): change both
//! together.
//!
//! Sizes are bytes, times nanoseconds.

use serde::Deserialize;
use storlab_base::{Error, Result};
use storlab_io::SECTOR;
use storlab_s3::transfer::PlaceSpec;

/// What the run is for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Write and restore.
    #[default]
    Run,
    /// Remove the place with all checkpoints in it.
    Clean,
}

/// One file of every checkpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Below the checkpoint's directory.
    pub name: String,
    /// Who writes it.
    pub rank: usize,
    /// All of it.
    pub bytes: u64,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Data alone.
    Raw,
    /// A length, a JSON header, one tensor.
    Safetensors,
}

/// How a checkpoint gets on the device.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    /// When the kernel likes.
    None,
    /// Before it is published.
    Fsync,
}

/// How a checkpoint becomes visible.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Publish {
    /// Written aside, and given its name when it is whole.
    Rename,
    /// Written under its name.
    InPlace,
}

/// How a restore gets past the page cache.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Cold {
    /// By direct I/O.
    Direct,
    /// By asking the kernel to drop the files first.
    Drop,
    /// Not at all.
    AsIs,
}

/// See the module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, dead_code)] // ramp and drain belong to every order
pub struct CheckpointJob {
    pub version: u32,
    #[serde(default)]
    pub ramp_ns: u64,
    pub interval_ns: u64,
    #[serde(default)]
    pub drain_timeout_ns: u64,
    pub seed: u64,
    #[serde(default)]
    pub task: Task,
    pub place: PlaceSpec,
    pub files: Vec<FileSpec>,
    pub ranks: usize,
    pub format: Format,
    pub writes: u32,
    pub restores: u32,
    pub pause_ns: u64,
    pub sync: SyncMode,
    pub publish: Publish,
    pub keep_last: Option<u32>,
    pub io_bytes: u64,
    pub queue_depth: usize,
    /// Files get their whole length before their bytes.
    #[serde(default = "yes")]
    pub preallocate: bool,
    pub verify: bool,
    pub cold: Cold,
    pub part_size: u64,
    pub cpus: Option<Vec<usize>>,
}

fn yes() -> bool {
    true
}

impl CheckpointJob {
    /// Read and check.
    ///
    /// # Errors
    /// [`Error::Spec`] with the field that is wrong.
    pub fn from_json(text: &str) -> Result<Self> {
        let job: CheckpointJob = serde_json::from_str(text).map_err(|e| {
            Error::spec("job", e.to_string(), "see storlab/model/checkpoint_job.py")
        })?;
        job.check()?;
        Ok(job)
    }

    fn check(&self) -> Result<()> {
        let wrong = |field: &str, what: &str, fix: &str| Err(Error::spec(field, what, fix));
        if self.version != 1 {
            return wrong("version", "is not known", "use 1");
        }
        self.place.check()?;
        if self.ranks == 0 || self.queue_depth == 0 || self.interval_ns == 0 {
            return wrong("ranks, queue_depth, interval_ns", "one is 0", "use 1 or more");
        }
        if self.io_bytes == 0 || !self.io_bytes.is_multiple_of(SECTOR) || self.io_bytes > 1 << 30 {
            return wrong("io_bytes", "is no multiple of 4096 up to 1 GiB", "use 4MiB");
        }
        if self.part_size == 0 {
            return wrong("part_size", "is 0", "use 64MiB");
        }
        if self.keep_last == Some(0) {
            return wrong("keep_last", "is 0: no checkpoint would be left", "use 1 or more");
        }
        if self.files.iter().any(|file| file.rank >= self.ranks) {
            return wrong("files", "one has a rank that there is not", "number ranks from 0");
        }
        let unsafe_name = |name: &str| {
            name.is_empty() || name.split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        if self.files.iter().any(|file| unsafe_name(&file.name)) {
            return wrong("files", "one has a name that leads elsewhere", "use relative names");
        }
        Ok(())
    }

    /// Of one checkpoint.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

//! Job description (JSON) of one checkpoint run.

use serde::Deserialize;
use storlab_base::Result;
use storlab_io::SECTOR;
use storlab_run::order::{Order, at_least_one, require, stay_below};
use storlab_s3::transfer::PlaceSpec;

/// Purpose of a run: write and restore checkpoints, or remove them.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Write and restore checkpoints.
    #[default]
    Run,
    /// Remove all checkpoints. If they are stored as files, also remove the directory that contains
    /// them.
    Clean,
}

/// File that every checkpoint contains.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Path relative to the checkpoint's directory.
    pub name: String,
    /// Number of the rank (thread) that writes and reads the file.
    pub rank: usize,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Format of checkpoint files.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Plain data without a header.
    Raw,
    /// safetensors: a length, a JSON header, and one tensor.
    Safetensors,
}

/// Whether checkpoints are flushed before they are published.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    /// No flush: the kernel writes data back at any later time.
    None,
    /// Every checkpoint is flushed before it is published.
    Fsync,
}

/// How a checkpoint becomes visible under its final name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Publish {
    /// Written under a temporary name, and renamed when it is complete.
    Rename,
    /// Written under its final name from the start.
    InPlace,
}

/// How a restore treats the page cache.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Cold {
    /// Read with direct I/O.
    Direct,
    /// Buffered reads, after the kernel was asked to evict the files from the page cache.
    Drop,
    /// Buffered reads, which the page cache may serve.
    AsIs,
}

/// Job description of one checkpoint run: files, ranks, durability and restores.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct CheckpointJob {
    pub interval_ns: u64,
    #[serde(default)]
    pub drain_timeout_ns: u64,
    pub seed: u64,
    #[serde(default)]
    pub task: Task,
    pub place: PlaceSpec,
    pub files: Vec<FileSpec>,
    pub ranks: usize,
    /// Number of this job's first rank, counted over all clients.
    #[serde(default)]
    pub first_rank: usize,
    pub format: Format,
    pub writes: u32,
    pub restores: u32,
    pub pause_ns: u64,
    pub sync: SyncMode,
    pub publish: Publish,
    pub keep_last: Option<u32>,
    pub io_bytes: u64,
    pub queue_depth: usize,
    /// Whether files are preallocated to their full length before data is written.
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

impl Order for CheckpointJob {
    fn check(&self) -> Result<()> {
        self.place.check()?;
        at_least_one(&[("ranks", self.ranks as u64), ("queue_depth", self.queue_depth as u64)])?;
        let io = self.io_bytes;
        let whole = io > 0 && io.is_multiple_of(SECTOR) && io <= 1 << 30;
        let what = || format!("{io} is not a multiple of 4096 up to 1 GiB");
        require(whole, "io_bytes", what, "use 4MiB")?;
        require(self.part_size > 0, "part_size", || "is 0".into(), "use 64MiB")?;
        let what = || "0 would delete every checkpoint".into();
        require(self.keep_last != Some(0), "keep_last", what, "use 1 or more")?;
        let ranked = self.files.iter().all(|file| file.rank < self.ranks);
        let what = || format!("a file has a rank outside 0 to {}", self.ranks.saturating_sub(1));
        require(ranked, "files", what, "use one of these ranks")?;
        stay_below("files", self.files.iter().map(|file| file.name.as_str()))
    }
}

impl CheckpointJob {
    /// Return the size of one checkpoint in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

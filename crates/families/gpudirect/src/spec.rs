//! Job description (JSON) of one `gpudirect` run.

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{Pattern, Result, Share, gcd};
use storlab_run::arming::ARM_TIMEOUT_NS;
use storlab_run::mix::Mix;
use storlab_run::order::{
    Arrival, ArrivalKind, Member, MemberKind, Order, WeightedSize, alignment, at_least_one,
    bearable_buffers, one_window, require, require_short, whole_sectors,
};

use crate::cuda::GPU_PAGE;

/// Purpose of a run: generate load, or only report what the machine has.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Generate load and measure it.
    #[default]
    Load,
    /// Report GPUs, libraries and cuFile's capabilities without load.
    Probe,
}

/// Data path between storage and memory; `path` in a study.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// cuFile moves data between storage and GPU memory.
    #[default]
    Direct,
    /// Bounce buffer in pinned host memory: the read and the copy to the GPU run one after the
    /// other.
    Bounce,
    /// Like `Bounce`, but some I/Os are copied while others are read.
    BounceOverlapped,
    /// Host memory only; no GPU is used.
    Host,
}

impl Route {
    /// Return the name of the path as written in studies and results.
    pub fn name(self) -> &'static str {
        match self {
            Route::Direct => "direct",
            Route::Bounce => "bounce",
            Route::BounceOverlapped => "bounce-overlapped",
            Route::Host => "host",
        }
    }
}

/// cuFile API used by [`Route::Direct`].
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// One blocking call per I/O (`cuFileRead`, `cuFileWrite`).
    #[default]
    Sync,
    /// Many I/Os per call (`cuFileBatchIOSubmit`).
    Batch,
    /// I/Os enqueued on CUDA streams (`cuFileReadAsync`, `cuFileWriteAsync`).
    Async,
}

/// Candidates (paths or sonames) for each library; the first one that loads is used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Libraries {
    /// Candidates for the cuFile library.
    pub cufile: Vec<String>,
    /// Candidates for the CUDA driver library.
    pub cuda: Vec<String>,
}

/// Job description of one run: files, data path, load, window and verification.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct GpuDirectJob {
    /// Purpose of the run: load, or probe.
    #[serde(rename = "do")]
    pub task: Task,
    /// Files or block devices to read and write.
    pub members: Vec<Member>,
    /// Data path between storage and memory.
    pub path: Route,
    /// cuFile API; used by the direct path only.
    pub api: Api,
    /// Percentages of reads and writes.
    pub mix: Mix,
    /// Access pattern: distribution of offsets within a file.
    pub offsets: Pattern,
    /// Sizes of operations with their weights.
    pub block_sizes: Vec<WeightedSize>,
    /// Number of worker threads.
    pub workers: usize,
    /// Number of consecutive workers that share a file.
    pub workers_per_file: usize,
    /// Maximum number of I/Os that each worker keeps in flight; the entries of a batch.
    pub queue_depth: usize,
    /// CUDA ordinals of the GPUs; worker `w` uses `gpus[w % len]`.
    pub gpus: Vec<u32>,
    /// Whether GPU buffers are registered with cuFile.
    pub register: bool,
    /// Arrival process: closed loop, or open loop with a rate.
    pub arrival: Arrival,
    /// CPUs to pin workers to: worker `w` runs on `cpus[w % len]`; `None` leaves them unpinned.
    pub cpus: Option<Vec<usize>>,
    /// Number of bytes per file that are verified; 0 disables verification.
    pub verify_bytes: u64,
    /// File that records which files earlier runs verified; `None` verifies every file in each run.
    pub checked: Option<PathBuf>,
    /// Candidates for the libraries to load.
    pub libraries: Libraries,
    /// Whether files are opened with `O_DIRECT`.
    pub direct: bool,
    /// Length of the ramp before the window, in nanoseconds.
    pub ramp_ns: u64,
    /// Length of a window limited by time, in nanoseconds.
    pub window_ns: Option<u64>,
    /// Length of a window limited by bytes moved, summed over all workers.
    pub window_bytes: Option<u64>,
    /// Length of an interval (one sample), in nanoseconds.
    pub interval_ns: u64,
    /// How long to wait for operations in flight when the load ends, in nanoseconds.
    pub drain_timeout_ns: u64,
    /// Timeout of `cuFileDriverOpen`, in nanoseconds.
    pub open_timeout_ns: u64,
    /// How long workers may get ready without progress before the run fails, in nanoseconds.
    pub arm_timeout_ns: u64,
    /// Seed of offsets, mix and content.
    pub seed: u64,
}

impl Default for GpuDirectJob {
    fn default() -> Self {
        GpuDirectJob {
            task: Task::default(),
            members: Vec::new(),
            path: Route::default(),
            api: Api::default(),
            mix: Mix { read: 100.0, write: 0.0, trim: 0.0 },
            offsets: Pattern::Uniform,
            block_sizes: vec![WeightedSize { bytes: 1 << 20, weight: 1.0 }],
            workers: 1,
            workers_per_file: 1,
            queue_depth: 1,
            gpus: vec![0],
            register: true,
            arrival: Arrival { kind: ArrivalKind::Closed, rate_iops: None },
            cpus: None,
            verify_bytes: 0,
            checked: None,
            libraries: Libraries::default(),
            direct: true,
            ramp_ns: 0,
            window_ns: None,
            window_bytes: None,
            interval_ns: 1_000_000_000,
            drain_timeout_ns: 30_000_000_000,
            open_timeout_ns: 30_000_000_000,
            arm_timeout_ns: ARM_TIMEOUT_NS,
            seed: 0,
        }
    }
}

/// Maximum number of entries that cuFile accepts in one batch.
const BATCH_MAX: usize = 128;
const WORKERS_MAX: usize = 65_535;
const DEPTH_MAX: usize = 4096;
/// Granularity of cuFile's direct I/O, in bytes. It does not depend on the host's page size.
const GRAIN: u64 = 4096;
const LARGE_PAGE: u64 = 2 << 20;
const BLOCK_MAX: u64 = 1 << 30;

impl Order for GpuDirectJob {
    fn check(&self) -> Result<()> {
        if self.task == Task::Probe {
            return Ok(());
        }
        self.check_shape()?;
        self.check_window()?;
        self.check_path()?;
        self.check_sizes()
    }
}

impl GpuDirectJob {
    fn check_shape(&self) -> Result<()> {
        at_least_one(&[
            ("workers", self.workers as u64),
            ("workers_per_file", self.workers_per_file as u64),
            ("queue_depth", self.queue_depth as u64),
        ])?;
        let what = || "no file or device is given".into();
        require(!self.members.is_empty(), "members", what, "name at least one")?;
        let real = self.members.iter().all(|m| m.kind != MemberKind::Null);
        let what = || "null targets are not supported".into();
        require(real, "members", what, "name files or devices")?;
        let what = || format!("{} is too many", self.workers);
        require(self.workers <= WORKERS_MAX, "workers", what, "use at most 65,535")?;
        let what = || format!("data path {} needs a GPU, but none is given", self.path.name());
        require(
            self.path == Route::Host || !self.gpus.is_empty(),
            "gpu",
            what,
            "list GPUs, such as [0]",
        )?;
        self.mix.check()?;
        let what = || "trims are not supported".into();
        require(self.mix.trim == 0.0, "mix", what, "use reads and writes")?;
        self.arrival.check()
    }

    fn check_window(&self) -> Result<()> {
        one_window(self.window_ns, self.window_bytes)?;
        require_short(&[
            ("ramp_ns", self.ramp_ns),
            ("window_ns", self.window_ns.unwrap_or(0)),
            ("drain_timeout_ns", self.drain_timeout_ns),
            ("open_timeout_ns", self.open_timeout_ns),
            ("arm_timeout_ns", self.arm_timeout_ns),
        ])
    }

    fn check_path(&self) -> Result<()> {
        let (depth, api) = (self.queue_depth, self.api);
        let direct = self.path == Route::Direct;
        let what = || format!("path {} does not use this cuFile API", self.path.name());
        require(direct || api == Api::Sync, "api", what, "use sync, or path direct")?;
        let deep = (direct && api != Api::Sync) || self.path == Route::BounceOverlapped;
        let what = || format!("is {depth}, but on this path each worker has one I/O in flight");
        require(deep || depth == 1, "queue_depth", what, "use 1")?;
        let most = if api == Api::Batch { BATCH_MAX } else { DEPTH_MAX };
        let what = || format!("{depth} is too many");
        require(
            depth <= most,
            "queue_depth",
            what,
            "use at most 128 with api = batch, and 4,096 otherwise",
        )
    }

    fn check_sizes(&self) -> Result<()> {
        let field = "block_size";
        let what = || "the list is empty".into();
        require(!self.block_sizes.is_empty(), field, what, "give at least one size")?;
        for WeightedSize { bytes, weight } in &self.block_sizes {
            let what = || format!("{bytes} bytes with weight {weight} are out of bounds");
            let good = (1..=BLOCK_MAX).contains(bytes) && *weight > 0.0;
            require(good, field, what, "use 1 byte to 1 GiB, and a weight above 0")?;
            whole_sectors(field, *bytes, self.direct)?;
        }
        let bytes = self.longest_block();
        let what = || "an offset is not a multiple of 512 bytes".into();
        let aligned =
            self.members.iter().all(|m| m.offset.is_multiple_of(alignment(1, self.direct)));
        require(aligned, "members", what, "use an aligned region, or direct = false")?;
        let small = self.members.iter().find(|m| self.space_of(m) < bytes);
        let what = || {
            format!("{} is too small for a block of {bytes} bytes", small.map_or("", |m| &m.name))
        };
        require(small.is_none(), "size", what, "use larger files or smaller blocks")?;
        // The overlapped path allocates its buffers in large pages, so each worker needs at least
        // one large page.
        let least = if self.path == Route::BounceOverlapped { LARGE_PAGE } else { 0 };
        let needed = self.workers as u64 * (self.queue_depth as u64 * bytes).max(least);
        let which = "workers x queue_depth x block_size";
        let needed = if self.path == Route::Direct { 0 } else { needed };
        bearable_buffers(needed, which, "lower queue_depth, workers or block_size")
    }

    /// Return the largest block size in bytes.
    pub fn longest_block(&self) -> u64 {
        self.block_sizes.iter().map(|size| size.bytes).max().unwrap_or(0)
    }

    /// Return the greatest common divisor of all block sizes, in bytes.
    pub fn unit(&self) -> u64 {
        self.block_sizes.iter().fold(0, |unit, size| gcd(unit, size.bytes)).max(1)
    }

    /// Return the number of bytes of a file that I/Os can reach: its size, rounded down to the
    /// alignment.
    pub fn space_of(&self, member: &Member) -> u64 {
        member.size / self.alignment() * self.alignment()
    }

    /// Return whether all lengths and offsets of I/Os are multiples of 4 KiB.
    pub fn in_whole_pages(&self) -> bool {
        self.alignment() == GRAIN && self.members.iter().all(|m| m.offset.is_multiple_of(GRAIN))
    }

    /// Return the alignment of offsets in bytes.
    fn alignment(&self) -> u64 {
        alignment(self.unit(), self.direct)
    }

    /// Return the index of a worker's file, and the worker's position among all workers of that
    /// file.
    pub fn place_of(&self, worker: usize) -> (usize, Share) {
        let member_of = |worker: usize| worker / self.workers_per_file % self.members.len();
        let member = member_of(worker);
        let sharers = |upto: usize| (0..upto).filter(|&w| member_of(w) == member).count() as u64;
        (member, Share { index: sharers(worker), count: sharers(self.workers) })
    }

    /// Return the index into `gpus` of the GPU that a worker uses.
    pub fn gpu_of(&self, worker: usize) -> usize {
        worker % self.gpus.len().max(1)
    }

    /// Return the distance between the starts of a worker's I/O buffers, in bytes.
    pub fn stride(&self) -> usize {
        self.longest_block().next_multiple_of(GRAIN) as usize
    }

    /// Return the size of the GPU memory that one worker allocates for its buffers, in bytes.
    pub fn gpu_bytes_of_worker(&self) -> usize {
        let (slots, buffers) = (self.queue_depth, self.own_buffers());
        buffers * (slots * self.stride() / buffers.max(1)).next_multiple_of(GPU_PAGE)
    }

    /// Return the number of GPU buffers that a worker allocates.
    ///
    /// Reads of all slots share one buffer. With the async API each slot has its own buffer, also
    /// for writes. The reason is cuFile's compatibility mode: it has one bounce buffer per
    /// registered buffer, and moved wrong data when several streams used parts of one registered
    /// buffer. In an unregistered buffer, it accepts I/O at the beginning only.
    pub fn own_buffers(&self) -> usize {
        if self.on_streams() { self.queue_depth } else { usize::from(self.reads()) }
    }

    /// Return whether I/Os are enqueued on CUDA streams (cuFile's async API).
    pub fn on_streams(&self) -> bool {
        self.path == Route::Direct && self.api == Api::Async
    }

    /// Return whether data moves into or out of a GPU.
    pub fn uses_gpu(&self) -> bool {
        self.path != Route::Host
    }

    /// Return whether the mix contains writes.
    pub fn writes(&self) -> bool {
        self.mix.writes()
    }

    /// Return whether the mix contains reads.
    pub fn reads(&self) -> bool {
        self.mix.reads()
    }

    /// Return the number of bytes, in whole blocks, that a worker moves in a window limited by
    /// bytes; `None` for a window limited by time.
    pub fn window_bytes_of(&self, worker: usize) -> Option<u64> {
        let share = Share { index: worker as u64, count: self.workers as u64 };
        Some(share.of(self.window_bytes?.div_ceil(self.unit())) * self.unit())
    }
}

#[cfg(test)]
pub(crate) mod tests;

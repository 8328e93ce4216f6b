//! The order for one run of storage to GPU memory.

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{Pattern, Result, Share, gcd};
use storlab_run::arming::ARM_TIMEOUT_NS;
use storlab_run::mix::Mix;
use storlab_run::order::{
    Arrival, ArrivalKind, Member, MemberKind, Order, WeightedSize, alignment, at_least_one,
    bearable, bearable_buffers, must, one_window, whole_sectors,
};

use crate::cuda::GPU_PAGE;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Load, measured.
    #[default]
    Load,
    /// Tell what is there.
    Probe,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// By cuFile, from storage to GPU memory.
    #[default]
    Direct,
    /// Into pinned memory of the host, then a copy to the GPU, one after the other.
    Bounce,
    /// The same, with copies of some I/Os while others are read.
    BounceOverlapped,
    /// Into memory of the host only.
    Host,
}

impl Route {
    /// The word of studies and results.
    pub fn name(self) -> &'static str {
        match self {
            Route::Direct => "direct",
            Route::Bounce => "bounce",
            Route::BounceOverlapped => "bounce-overlapped",
            Route::Host => "host",
        }
    }
}

/// Which calls of cuFile.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// A call for each I/O, which returns when that is done.
    #[default]
    Sync,
    /// Many I/Os by one call.
    Batch,
    /// I/Os on streams of the GPU.
    Async,
}

/// Where libraries may be, as paths or as names for the loader: the first that can be had is used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Libraries {
    /// Of cuFile.
    pub cufile: Vec<String>,
    /// Of the CUDA driver.
    pub cuda: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct GpuDirectJob {
    /// Load or probe.
    #[serde(rename = "do")]
    pub task: Task,
    /// Files or devices.
    pub members: Vec<Member>,
    /// Which way the data goes.
    pub path: Route,
    /// Of the direct path.
    pub api: Api,
    /// Operation kinds.
    pub mix: Mix,
    /// Where operations go.
    pub offsets: Pattern,
    /// Lengths of operations.
    pub block_sizes: Vec<WeightedSize>,
    /// Threads.
    pub workers: usize,
    /// Workers that share a file.
    pub workers_per_file: usize,
    /// Entries of a batch, or I/Os in flight.
    pub queue_depth: usize,
    /// Worker `w` uses `gpus[w % len]`.
    pub gpus: Vec<u32>,
    /// GPU buffers are registered with cuFile.
    pub register: bool,
    /// When operations are due.
    pub arrival: Arrival,
    /// Worker `w` is pinned to `cpus[w % len]`.
    pub cpus: Option<Vec<usize>>,
    /// So much of each file is checked; 0: nothing is.
    pub verify_bytes: u64,
    /// Remembers from run to run what was checked; `None`: nothing does.
    pub checked: Option<PathBuf>,
    /// Where to look for them.
    pub libraries: Libraries,
    /// `O_DIRECT`.
    pub direct: bool,
    /// Load before the window.
    pub ramp_ns: u64,
    /// Window by time.
    pub window_ns: Option<u64>,
    /// Window by bytes, over all workers.
    pub window_bytes: Option<u64>,
    /// Length of a sample.
    pub interval_ns: u64,
    /// How long to wait for operations in flight when the load ends.
    pub drain_timeout_ns: u64,
    /// How long the driver of cuFile may take to open.
    pub open_timeout_ns: u64,
    /// How long workers that get ready may say nothing.
    pub arm_timeout_ns: u64,
    /// Of offsets, mix and content.
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

/// What cuFile takes in one batch.
const BATCH_MAX: usize = 128;
const WORKERS_MAX: usize = 65_535;
const DEPTH_MAX: usize = 4096;
/// What cuFile moves directly, whatever the pages of the machine.
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
        must(!self.members.is_empty(), "members", || "there are none".into(), "name a file")?;
        let real = self.members.iter().all(|m| m.kind != MemberKind::Null);
        must(real, "members", || "some are null".into(), "name files or devices")?;
        let what = || format!("{} are too many", self.workers);
        must(self.workers <= WORKERS_MAX, "workers", what, "use 65,535 at most")?;
        let what = || "workers that use a GPU have none".into();
        must(self.path == Route::Host || !self.gpus.is_empty(), "gpu", what, "name a GPU: [0]")?;
        self.mix.check()?;
        must(self.mix.trim == 0.0, "mix", || "has trims".into(), "use reads and writes")?;
        self.arrival.check()
    }

    fn check_window(&self) -> Result<()> {
        one_window(self.window_ns, self.window_bytes)?;
        bearable(&[
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
        let what = || format!("the path {} has none", self.path.name());
        must(direct || api == Api::Sync, "api", what, "use sync, or the path direct")?;
        let deep = (direct && api != Api::Sync) || self.path == Route::BounceOverlapped;
        let what = || format!("is {depth}, and each worker has one I/O at a time here");
        must(deep || depth == 1, "queue_depth", what, "use 1")?;
        let most = if api == Api::Batch { BATCH_MAX } else { DEPTH_MAX };
        let what = || format!("{depth} are too many");
        must(depth <= most, "queue_depth", what, "a batch has at most 128 entries, a worker 4,096")
    }

    fn check_sizes(&self) -> Result<()> {
        let field = "block_size";
        must(!self.block_sizes.is_empty(), field, || "there is none".into(), "give one")?;
        for WeightedSize { bytes, weight } in &self.block_sizes {
            let what = || format!("{bytes} bytes with weight {weight}");
            let good = (1..=BLOCK_MAX).contains(bytes) && *weight > 0.0;
            must(good, field, what, "use 1 byte to 1 GiB, and a weight above 0")?;
            whole_sectors(field, *bytes, self.direct)?;
        }
        let bytes = self.longest_block();
        let what = || "do not begin at a multiple of 512 bytes".into();
        let aligned =
            self.members.iter().all(|m| m.offset.is_multiple_of(alignment(1, self.direct)));
        must(aligned, "members", what, "move the region, or use direct = false")?;
        let small = self.members.iter().find(|m| self.space_of(m) < bytes);
        let what = || {
            format!("{} has no room for a block of {bytes} bytes", small.map_or("", |m| &m.name))
        };
        must(small.is_none(), "size", what, "make the files larger or the block smaller")?;
        // The overlapped path has its buffers on large pages.
        let least = if self.path == Route::BounceOverlapped { LARGE_PAGE } else { 0 };
        let needed = self.workers as u64 * (self.queue_depth as u64 * bytes).max(least);
        let which = "workers x queue_depth x block_size";
        let needed = if self.path == Route::Direct { 0 } else { needed };
        bearable_buffers(needed, which, "lower queue_depth, workers or block_size")
    }

    /// Length of the longest operation.
    pub fn longest_block(&self) -> u64 {
        self.block_sizes.iter().map(|size| size.bytes).max().unwrap_or(0)
    }

    /// The largest length of which all lengths are multiples.
    pub fn unit(&self) -> u64 {
        self.block_sizes.iter().fold(0, |unit, size| gcd(unit, size.bytes)).max(1)
    }

    /// Bytes of a member that I/Os can reach.
    pub fn space_of(&self, member: &Member) -> u64 {
        member.size / self.alignment() * self.alignment()
    }

    /// Every operation is of whole pages, also where it goes.
    pub fn in_whole_pages(&self) -> bool {
        self.alignment() == GRAIN && self.members.iter().all(|m| m.offset.is_multiple_of(GRAIN))
    }

    /// What offsets are multiples of, besides the unit.
    fn alignment(&self) -> u64 {
        alignment(self.unit(), self.direct)
    }

    /// The member that a worker uses, and its place among those that use it too.
    pub fn place_of(&self, worker: usize) -> (usize, Share) {
        let member_of = |worker: usize| worker / self.workers_per_file % self.members.len();
        let member = member_of(worker);
        let sharers = |upto: usize| (0..upto).filter(|&w| member_of(w) == member).count() as u64;
        (member, Share { index: sharers(worker), count: sharers(self.workers) })
    }

    /// Index into `gpus` of a worker's.
    pub fn gpu_of(&self, worker: usize) -> usize {
        worker % self.gpus.len().max(1)
    }

    /// Between the buffers of a worker.
    pub fn stride(&self) -> usize {
        self.longest_block().next_multiple_of(GRAIN) as usize
    }

    /// Buffers of one worker's own, in memory of a GPU.
    pub fn gpu_bytes_of_worker(&self) -> usize {
        let (slots, buffers) = (self.queue_depth, self.own_buffers());
        buffers * (slots * self.stride() / buffers.max(1)).next_multiple_of(GPU_PAGE)
    }

    /// Over how many buffers of its own a worker's slots are spread. Reads land in one. On streams
    /// each slot has its own, for writes too: in its compatibility mode cuFile has one bounce
    /// buffer for each that is registered, and moved wrong data where several streams used one; of
    /// one that is not registered it takes the beginning only.
    pub fn own_buffers(&self) -> usize {
        if self.on_streams() { self.queue_depth } else { usize::from(self.reads()) }
    }

    /// Operations are done by streams of the GPU.
    pub fn on_streams(&self) -> bool {
        self.path == Route::Direct && self.api == Api::Async
    }

    /// It moves data into or out of a GPU.
    pub fn uses_gpu(&self) -> bool {
        self.path != Route::Host
    }

    /// It writes.
    pub fn writes(&self) -> bool {
        self.mix.writes()
    }

    /// It reads.
    pub fn reads(&self) -> bool {
        self.mix.reads()
    }

    /// Bytes that a worker moves in a window by bytes, in whole blocks.
    pub fn window_bytes_of(&self, worker: usize) -> Option<u64> {
        let share = Share { index: worker as u64, count: self.workers as u64 };
        Some(share.of(self.window_bytes?.div_ceil(self.unit())) * self.unit())
    }
}

#[cfg(test)]
pub(crate) mod tests;

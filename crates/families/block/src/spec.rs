//! Job description (JSON) of one block run.

use std::path::PathBuf;

use serde::Deserialize;
use storlab_base::{CHUNK_BYTES, Pattern, PayloadSpec, Result, Share, gcd};
use storlab_io::{Access, BackendKind};
use storlab_run::mix::Mix;
use storlab_run::order::{
    Arrival, Member, Order, WeightedSize, alignment, bearable_buffers, one_window, require,
    require_short, whole_sectors,
};
use storlab_run::sampling::Kind;

/// How a run assigns the target's files or devices ("members") to jobs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum LayoutKind {
    /// Jobs are spread over the members; a job with several members uses them in turn, one block at
    /// a time.
    Jbod,
    /// Every job uses all members, striped in chunks.
    Stripe,
    /// Each job has its own member: job `j` uses member `j`.
    PerJob,
}

/// Backend that a job requests.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// The fastest backend that the kernel permits.
    Auto,
    /// The named backend.
    #[serde(untagged)]
    Given(BackendKind),
}

/// System call used for flushes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SyncKind {
    /// Jobs send no flushes.
    None,
    /// `fsync`: data and metadata.
    Fsync,
    /// `fdatasync`: data, and the metadata needed to read it back.
    Fdatasync,
}

/// When, and by which system call, a job flushes its files or devices.
#[derive(Clone, Debug, Deserialize)]
pub struct Sync {
    /// System call used for flushes.
    pub kind: SyncKind,
    /// Number of writes of a job between two flushes; 0 disables flushes during the load.
    pub every_writes: u64,
    /// Whether every file or device is flushed once after the load.
    #[serde(rename = "final")]
    pub at_end: bool,
}

/// Parameters of verify mode, which detects lost, torn, stale and misplaced writes.
#[derive(Clone, Debug, Deserialize)]
pub struct VerifySpec {
    /// Path of the state file, which records the last issued and the last acknowledged write of
    /// every block.
    pub state: PathBuf,
    /// Size of a verification block in bytes.
    pub block: u64,
    /// Whether reads are checked during the load.
    pub check_reads: bool,
}

/// Job description of one block run: files, layout, load, window and verification.
#[derive(Clone, Debug, Deserialize)]
pub struct BlockJob {
    /// Backend that submits the I/O.
    pub backend: BackendChoice,
    /// Files or block devices to read and write.
    pub members: Vec<Member>,
    /// How the files or devices are assigned to jobs.
    pub layout: LayoutKind,
    /// Chunk size of layout `stripe`, in bytes.
    pub stripe_chunk: Option<u64>,
    /// Whether the files or devices are opened with `O_DIRECT`.
    pub direct: bool,
    /// Number of worker threads.
    pub jobs: usize,
    /// Operations that each job keeps in flight.
    pub queue_depth: usize,
    /// Maximum number of operations submitted with one system call.
    pub batch: usize,
    /// CPUs to pin workers to: job `j` runs on `cpus[j % len]`; `None` leaves them unpinned.
    pub cpus: Option<Vec<usize>>,
    /// Percentages of operations by kind.
    pub mix: Mix,
    /// Sizes of operations with their weights.
    pub block_sizes: Vec<WeightedSize>,
    /// Access pattern: distribution of offsets.
    pub offsets: Pattern,
    /// Arrival process: closed loop, or open loop with a rate.
    pub arrival: Arrival,
    /// When, and by which system call, each job flushes.
    pub sync: Sync,
    /// Compressibility and deduplicability of written data.
    pub payload: PayloadSpec,
    /// Parameters of verify mode; `None` disables it.
    pub verify: Option<VerifySpec>,
    /// Length of the ramp before the window, in nanoseconds.
    pub ramp_ns: u64,
    /// Length of a window limited by time, in nanoseconds.
    pub window_ns: Option<u64>,
    /// Length of a window limited by bytes moved, summed over all jobs.
    pub window_bytes: Option<u64>,
    /// Length of an interval (one sample), in nanoseconds.
    pub interval_ns: u64,
    /// How long to wait for operations in flight when the load ends, in nanoseconds.
    pub drain_timeout_ns: u64,
    /// Seed of offsets, mix and payload.
    pub seed: u64,
}

const BLOCK_MAX: u64 = 1 << 30;

impl Order for BlockJob {
    fn check(&self) -> Result<()> {
        let (most, members) = (usize::from(u16::MAX), self.members.len());
        let some = |number: usize| (1..=most).contains(&number);
        require(
            some(members),
            "members",
            || format!("the target has {members} files or devices"),
            "use 1 to 65,535",
        )?;
        let what = || format!("{} and {} are out of bounds", self.jobs, self.batch);
        let fix = "use 1 to 65,535 jobs, and a batch of at least 1";
        require(some(self.jobs) && self.batch > 0, "jobs, batch", what, fix)?;
        let what = || format!("{} is out of bounds", self.queue_depth);
        require(some(self.queue_depth), "queue_depth", what, "use 1 to 65,535")?;
        one_window(self.window_ns, self.window_bytes)?;
        require_short(&[
            ("ramp_ns", self.ramp_ns),
            ("window_ns", self.window_ns.unwrap_or(0)),
            ("drain_timeout_ns", self.drain_timeout_ns),
        ])?;
        self.mix.check()?;
        self.arrival.check()?;
        let followed = self.verify.is_none() || self.mix.trim <= 0.0;
        let what = || "verify mode cannot check trimmed blocks".into();
        require(followed, "mix.trim", what, "use 0, or turn verify off")?;
        self.check_verify()?;
        self.check_sizes()
    }
}

impl BlockJob {
    /// Check that every operation consists of whole verification blocks, because a partial one
    /// would not be verified.
    fn check_verify(&self) -> Result<()> {
        let Some(granule) = self.verify.as_ref().map(|v| v.block.max(1)) else { return Ok(()) };
        let whole = |bytes: u64| bytes.is_multiple_of(granule);
        let members = self.members.iter().all(|m| whole(m.offset) && whole(m.size));
        for (field, fits) in [
            ("block_sizes", whole(self.unit())),
            ("stripe_chunk", self.stripe_chunk.is_none_or(whole)),
            ("window_bytes", self.window_bytes.is_none_or(whole)),
            ("members", members),
        ] {
            let what = || format!("is not a multiple of the verification block ({granule} bytes)");
            require(fits, field, what, "use such a multiple, or turn verify off")?;
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<()> {
        let field = "block_sizes";
        require(
            !self.block_sizes.is_empty(),
            field,
            || "the list is empty".into(),
            "give at least one size",
        )?;
        for WeightedSize { bytes, weight } in &self.block_sizes {
            let what = || format!("{bytes} bytes with weight {weight} are out of bounds");
            let good = (1..=BLOCK_MAX).contains(bytes) && *weight > 0.0;
            require(good, field, what, "use 1 byte to 1 GiB, and a weight above 0")?;
            whole_sectors(
                field,
                *bytes,
                self.direct && self.backend != BackendChoice::Given(BackendKind::Null),
            )?;
        }
        let aligned = self.members.iter().all(|m| m.offset % self.alignment() == 0);
        let what = || format!("an offset is not a multiple of {} bytes", self.alignment());
        require(aligned, "members", what, "use an aligned region, or direct = false")?;
        let cut = |chunk: u64| chunk > 0 && chunk.is_multiple_of(self.alignment());
        let what = || format!("is not a multiple of {} bytes", self.alignment());
        let fix = "use such a multiple, or direct = false";
        require(self.stripe_chunk.is_none_or(cut), "stripe_chunk", what, fix)?;
        let fix = "lower queue_depth, jobs or block_size";
        bearable_buffers(self.buffer_bytes(), "jobs x queue_depth x block_size", fix)
    }

    /// Return the bytes of the buffers of all jobs.
    pub fn buffer_bytes(&self) -> u64 {
        (self.jobs * (self.read_slots() + self.write_slots())) as u64 * self.longest_block()
    }

    /// Return the settings that must be equal in all groups of a run: times, backend and O_DIRECT.
    pub fn times(&self) -> impl PartialEq + use<> {
        let times = [self.ramp_ns, self.window_ns.unwrap_or(0), self.interval_ns];
        (times, self.drain_timeout_ns, self.backend, self.direct)
    }

    /// Return the largest block size in bytes.
    pub fn longest_block(&self) -> u64 {
        self.block_sizes.iter().map(|s| s.bytes).max().unwrap_or(0)
    }

    /// Return the greatest common divisor of all block sizes, in bytes.
    pub fn unit(&self) -> u64 {
        self.block_sizes.iter().fold(0, |unit, s| gcd(unit, s.bytes)).max(1)
    }

    /// Return the alignment of offsets and lengths in bytes.
    pub fn alignment(&self) -> u64 {
        alignment(self.unit(), self.direct)
    }

    /// Return the number of bytes that job `index` moves in a window limited by bytes.
    ///
    /// The blocks are divided evenly among jobs; if they do not divide evenly, the first jobs move
    /// one more. The last job also moves the remainder that is smaller than a block.
    pub fn window_bytes_of(&self, index: usize) -> Option<u64> {
        let (total, unit) = (self.window_bytes?, self.unit());
        let share = Share { index: index as u64, count: self.jobs as u64 };
        let rest = if index + 1 == self.jobs { total % unit } else { 0 };
        let rest = rest.next_multiple_of(self.alignment()).min(unit);
        Some(share.of(total / unit) * unit + rest)
    }

    /// Return the number of read buffers per job.
    pub fn read_slots(&self) -> usize {
        if self.mix.reads() { self.queue_depth } else { 0 }
    }

    /// Return the number of write buffers per job. With deduplication there may be more write
    /// buffers than the queue depth, so that chunks repeat at the requested rate.
    pub fn write_slots(&self) -> usize {
        if !self.mix.writes() {
            return 0;
        }
        let chunks_per_slot = (self.longest_block() as usize).div_ceil(CHUNK_BYTES);
        let wanted =
            if self.payload.dedupe_percent > 0.0 { 256usize.div_ceil(chunks_per_slot) } else { 0 };
        self.queue_depth.max(wanted)
    }

    /// Return whether operations are issued in an open loop.
    pub fn open_loop(&self) -> bool {
        self.arrival.open_loop()
    }

    /// Return whether files or devices are opened for reading, writing and `O_DIRECT`.
    pub fn access(&self) -> Access {
        Access {
            read: self.mix.reads(),
            write: self.mix.writes() || self.mix.trim > 0.0,
            direct: self.direct,
        }
    }

    /// Return the kinds of operations that this load issues.
    pub fn kinds(&self) -> Vec<Kind> {
        let syncs = self.sync.kind != SyncKind::None && self.sync.every_writes > 0;
        self.mix.kinds(syncs)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Return a valid order for tests: 4 KiB uniform reads of members of 1 MiB.
    pub(crate) fn job_json(layout: &str, members: usize, jobs: usize, chunk: Option<u64>) -> Value {
        let members: Vec<Value> = (0..members)
            .map(|i| {
                json!({"path": format!("m{i}"), "name": format!("m{i}"), "kind": "file",
                            "size": 1 << 20, "offset": 0})
            })
            .collect();
        json!({
            "version": 1, "backend": "null", "members": members, "layout": layout,
            "stripe_chunk": chunk, "direct": false, "jobs": jobs, "queue_depth": 4, "batch": 1,
            "cpus": null, "mix": {"read": 100.0, "write": 0.0, "trim": 0.0},
            "block_sizes": [{"bytes": 4096, "weight": 1.0}],
            "offsets": {"kind": "uniform", "theta": 1.1, "hot_space_percent": 10.0,
                        "hot_access_percent": 90.0},
            "arrival": {"kind": "closed", "rate_iops": null},
            "sync": {"kind": "none", "every_writes": 0, "final": false},
            "payload": {"compress_percent": 0.0, "dedupe_percent": 0.0}, "verify": null,
            "ramp_ns": 0, "window_ns": 100_000_000, "window_bytes": null,
            "interval_ns": 20_000_000, "drain_timeout_ns": 5_000_000_000u64, "seed": 1
        })
    }

    pub(crate) fn job_with(
        layout: &str,
        members: usize,
        jobs: usize,
        chunk: Option<u64>,
    ) -> BlockJob {
        BlockJob::from_json(&job_json(layout, members, jobs, chunk).to_string()).unwrap()
    }

    fn refused(change: impl Fn(&mut Value), names: &str) {
        let mut job = job_json("jbod", 1, 1, None);
        change(&mut job);
        let error = BlockJob::from_json(&job.to_string()).unwrap_err().to_string();
        assert!(error.contains(names), "{error}");
    }

    #[test]
    fn impossible_orders_name_the_field() {
        refused(|j| j["queue_depth"] = json!(0), "queue_depth");
        refused(|j| j["mix"]["read"] = json!(90.0), "mix");
        refused(|j| j["window_bytes"] = json!(4096), "window_ns");
        refused(|j| j["arrival"]["kind"] = json!("poisson"), "rate_iops");
        refused(|j| j["window_ns"] = json!(0), "window_ns");
        refused(|j| j["ramp_ns"] = json!(u64::MAX), "ramp_ns");
        refused(|j| j["jobs"] = json!(100_000), "jobs");
        refused(|j| j["block_sizes"][0]["bytes"] = json!(0), "block_sizes");
        refused(|j| j["members"] = json!([]), "members");
        refused(|j| j["version"] = json!(2), "version");
        refused(|j| j["queue_depth"] = json!("many"), "job");
    }

    #[test]
    fn direct_io_needs_sectors() {
        let change = |j: &mut Value| {
            j["direct"] = json!(true);
            j["backend"] = json!("auto");
            j["block_sizes"][0]["bytes"] = json!(1000);
        };
        refused(change, "O_DIRECT");
    }

    #[test]
    fn buffers_larger_than_memory_are_refused() {
        let change = |j: &mut Value| {
            j["queue_depth"] = json!(65_535);
            j["jobs"] = json!(64);
            j["block_sizes"][0]["bytes"] = json!(1 << 30);
        };
        refused(change, "queue_depth");
    }

    #[test]
    fn flushes_are_no_part_of_the_rate_and_trims_move_nothing() {
        let mut job = job_json("jbod", 1, 1, None);
        job["mix"] = json!({"read": 40.0, "write": 40.0, "trim": 20.0});
        job["sync"] = json!({"kind": "fsync", "every_writes": 1, "final": false});
        let kinds = BlockJob::from_json(&job.to_string()).unwrap().kinds();
        let counted: Vec<_> = kinds.iter().map(|kind| (kind.moves, kind.apart)).collect();
        assert_eq!(counted, [(true, false), (true, false), (false, false), (false, true)]);
    }

    #[test]
    fn a_stripe_is_cut_at_whole_sectors() {
        let chunk = |bytes: u64| {
            move |j: &mut Value| {
                *j = job_json("stripe", 2, 1, Some(bytes));
                j["direct"] = json!(true);
                j["backend"] = json!("auto");
            }
        };
        for bytes in [0, 4096 + 512] {
            refused(chunk(bytes), "stripe_chunk");
        }
        let mut job = job_json("jbod", 1, 1, None);
        chunk(8192)(&mut job);
        BlockJob::from_json(&job.to_string()).unwrap();
    }

    #[test]
    fn the_unit_divides_all_sizes() {
        let mut job = job_json("jbod", 1, 1, None);
        job["block_sizes"] =
            json!([{"bytes": 12288, "weight": 1.0}, {"bytes": 8192, "weight": 2.0}]);
        let job = BlockJob::from_json(&job.to_string()).unwrap();
        assert_eq!((job.unit(), job.longest_block()), (4096, 12288));
    }
}

//! Parts that the orders of all workload families have in common. An order is the JSON that
//! describes a run. Python writes it from the `Job` class of each family, so change both together.
//!
//! Sizes are in bytes, times in nanoseconds.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use storlab_base::{Error, Result};

use crate::host_memory;

/// Version of the format of orders.
const VERSION: u32 = 1;
/// Longest accepted time in ns. The sum of a few such times fits into 64 bits.
const TIME_MAX_NS: u64 = 1_000_000_000_000_000_000;
/// Sector size of a block device in bytes: smallest and largest.
const SECTOR: u64 = 512;
const LARGE_SECTOR: u64 = 4096;
/// Buffers may take at most the process's memory divided by this number.
const MEMORY_SHARE: u64 = 2;

/// Fields that the order of every family has.
#[derive(Deserialize)]
struct Common {
    /// Version of the order's format.
    version: u32,
    /// Length of a sample interval, in ns.
    interval_ns: u64,
}

/// Order of a workload family: the description of the work of one run.
pub trait Order: DeserializeOwned {
    /// Check the fields that are specific to the family.
    ///
    /// # Errors
    /// [`Error::Spec`] with the field that is missing or out of range.
    fn check(&self) -> Result<()>;

    /// Parse and check an order in JSON.
    ///
    /// # Errors
    /// [`Error::Spec`] if the JSON cannot be parsed, has another version, or fails
    /// [`Order::check`].
    fn from_json(text: &str) -> Result<Self> {
        let failed = |e: serde_json::Error| {
            Error::spec(
                "job",
                e.to_string(),
                "write and run the job with the same version of storlab",
            )
        };
        let fields: Value = serde_json::from_str(text).map_err(failed)?;
        let Common { version, interval_ns } = Common::deserialize(&fields).map_err(failed)?;
        require(version == VERSION, "version", || format!("{version} is not supported"), "use 1")?;
        require(interval_ns > 0, "interval_ns", || "is 0".into(), "use a longer time")?;
        let order = Self::deserialize(fields).map_err(failed)?;
        order.check()?;
        Ok(order)
    }
}

/// Return an error for `field` unless `good` is true.
///
/// # Errors
/// [`Error::Spec`] with `field`, `what` and `fix` if `good` is false.
pub fn require(good: bool, field: &str, what: impl FnOnce() -> String, fix: &str) -> Result<()> {
    if good {
        return Ok(());
    }
    Err(Error::spec(field, what(), fix))
}

/// Check that all numbers, such as counts and divisors, are at least 1. Each has the name of its
/// field.
///
/// # Errors
/// [`Error::Spec`] with the first field that is 0.
pub fn at_least_one(numbers: &[(&str, u64)]) -> Result<()> {
    numbers.iter().try_for_each(|&(field, number)| {
        require(number > 0, field, || "is 0".into(), "use 1 or more")
    })
}

/// Check that all times are short enough to be added to a clock. Each has the name of its field.
///
/// # Errors
/// [`Error::Spec`] with the first field that is longer than about 30 years.
pub fn require_short(times: &[(&str, u64)]) -> Result<()> {
    times.iter().try_for_each(|&(field, ns)| {
        require(ns <= TIME_MAX_NS, field, || "is longer than 30 years".into(), "use a shorter time")
    })
}

/// Check that file names, relative to a directory, stay within that directory.
///
/// # Errors
/// [`Error::Spec`] with the first name that does not.
pub fn stay_below<'n>(field: &str, mut names: impl Iterator<Item = &'n str>) -> Result<()> {
    let leads_out = |part: &str| matches!(part, "" | "." | "..");
    names.try_for_each(|name| {
        let what = || format!("{name:?} is not a path within the directory");
        require(!name.split('/').any(leads_out), field, what, "use relative paths without . or ..")
    })
}

/// Check that the measure window of a load is given either as a time or as a number of bytes.
///
/// # Errors
/// [`Error::Spec`] if both or neither are given, or if the window is empty.
pub fn one_window(window_ns: Option<u64>, window_bytes: Option<u64>) -> Result<()> {
    let (windows, what) = ("window_ns, window_bytes", || "both or neither are set".into());
    require(
        window_ns.is_some() != window_bytes.is_some(),
        windows,
        what,
        "set exactly one of them",
    )?;
    let open = window_ns != Some(0) && window_bytes != Some(0);
    require(open, windows, || "is 0".into(), "use a longer window")
}

/// Check that the size of operations is a multiple of 512 bytes if they bypass the page cache.
///
/// # Errors
/// [`Error::Spec`] for `field` if `direct` is set and the size is not a multiple of 512 bytes.
pub fn whole_sectors(field: &str, bytes: u64, direct: bool) -> Result<()> {
    let what = || format!("{bytes} bytes are not aligned as O_DIRECT requires");
    let whole = !direct || bytes.is_multiple_of(SECTOR);
    require(whole, field, what, "use a multiple of 512, or direct = false")
}

/// Return the alignment of offsets and lengths, in bytes. With `O_DIRECT` it is 4,096, which suits
/// every device, or 512 if `unit`, which all sizes are multiples of, is not a multiple of 4,096.
/// Without `O_DIRECT` it is 1.
pub fn alignment(unit: u64, direct: bool) -> u64 {
    match direct {
        true if unit.is_multiple_of(LARGE_SECTOR) => LARGE_SECTOR,
        true => SECTOR,
        false => 1,
    }
}

/// Check that buffers of `needed` bytes fit into memory. `which` describes the buffers in the
/// message.
///
/// # Errors
/// [`Error::Spec`] for `queue_depth` if the buffers exceed the allowed part of memory.
pub fn bearable_buffers(needed: u64, which: &str, fix: &str) -> Result<()> {
    let memory = host_memory();
    let needed_mb = needed / 1_000_000;
    let what =
        || format!("{which} need {needed_mb} MB of the {memory}; buffers may take half of it");
    require(needed <= memory.bytes / MEMORY_SHARE, "queue_depth", what, fix)
}

/// Kind of a file or device of a target.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// Existing regular file.
    File,
    /// Block device.
    BlockDevice,
    /// No storage: every I/O completes at once.
    Null,
}

/// File or device of a target. The run touches only the bytes from `offset` to `offset + size`.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// Path of the file or device.
    pub path: PathBuf,
    /// Name of the file or device in messages.
    pub name: String,
    /// Kind of the file or device.
    pub kind: MemberKind,
    /// Number of bytes that the run may touch.
    pub size: u64,
    /// First byte that the run may touch.
    #[serde(default)]
    pub offset: u64,
}

/// Size of operations, with its frequency relative to other sizes.
#[derive(Clone, Debug, Deserialize)]
pub struct WeightedSize {
    /// Size of an operation in bytes.
    pub bytes: u64,
    /// Frequency relative to the other sizes.
    pub weight: f64,
}

/// Rule by which operations start: closed loop or a kind of open loop.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    /// Closed loop: the next operation starts when one ends.
    Closed,
    /// Open loop: operations start at even distances.
    Constant,
    /// Open loop: the times between starts are exponentially distributed.
    Poisson,
}

/// Highest rate of an open loop, in operations per second.
const RATE_MAX: f64 = 1e9;

/// Rule by which operations start, and their rate.
#[derive(Clone, Debug, Deserialize)]
pub struct Arrival {
    /// Closed loop, or kind of open loop.
    pub kind: ArrivalKind,
    /// Operations per second over all jobs; `None` in a closed loop.
    pub rate_iops: Option<f64>,
}

impl Arrival {
    /// Return whether operations start by a schedule (open loop).
    pub fn open_loop(&self) -> bool {
        self.kind != ArrivalKind::Closed
    }

    /// Check that an open loop has a valid rate.
    ///
    /// # Errors
    /// [`Error::Spec`] if the rate is missing, not positive, or above 1e9 operations per second.
    pub fn check(&self) -> Result<()> {
        let paced = self.rate_iops.is_some_and(|rate| rate > 0.0 && rate <= RATE_MAX);
        let what = || match self.rate_iops {
            Some(rate) => format!("{rate} operations per second is out of range"),
            None => "an open loop needs a rate".into(),
        };
        require(
            !self.open_loop() || paced,
            "arrival.rate_iops",
            what,
            "use a rate above 0, up to 1e9",
        )
    }
}

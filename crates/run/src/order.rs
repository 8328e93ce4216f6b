//! Common part of the orders of all workload families. Python writes orders as JSON from the `Job`
//! class of each family: change both together.
//!
//! Sizes are in bytes, times in nanoseconds.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use storlab_base::{Error, Result};

use crate::host_memory;

/// Format version of every order.
const VERSION: u32 = 1;
/// Upper bound of times: sums of a few of them fit into 64 bits.
const TIME_MAX_NS: u64 = 1_000_000_000_000_000_000;
/// Smallest and largest sector size of block devices.
const SECTOR: u64 = 512;
const LARGE_SECTOR: u64 = 4096;
/// Buffers may take the machine's memory divided by this.
const MEMORY_SHARE: u64 = 2;

/// Fields in the order of every family.
#[derive(Deserialize)]
struct Common {
    /// Version of the order's format.
    version: u32,
    /// Length of a sample interval.
    interval_ns: u64,
}

/// Order: the description of the work that a run executes.
pub trait Order: DeserializeOwned {
    /// Check the fields of this family.
    ///
    /// # Errors
    /// [`Error::Spec`] names the field that is missing or out of range.
    fn check(&self) -> Result<()>;

    /// Parse and check an order in JSON.
    ///
    /// # Errors
    /// [`Error::Spec`] if the JSON cannot be parsed, has another version, or fails
    /// [`Order::check`].
    fn from_json(text: &str) -> Result<Self> {
        let failed = |e: serde_json::Error| {
            Error::spec("job", e.to_string(), "this job was written by another version of storlab")
        };
        let fields: Value = serde_json::from_str(text).map_err(failed)?;
        let Common { version, interval_ns } = Common::deserialize(&fields).map_err(failed)?;
        require(version == VERSION, "version", || format!("{version} is not known"), "use 1")?;
        require(interval_ns > 0, "interval_ns", || "is 0".into(), "use more")?;
        let order = Self::deserialize(fields).map_err(failed)?;
        order.check()?;
        Ok(order)
    }
}

/// Check one condition of an order.
///
/// # Errors
/// [`Error::Spec`] if `good` is false.
pub fn require(good: bool, field: &str, what: impl FnOnce() -> String, fix: &str) -> Result<()> {
    if good {
        return Ok(());
    }
    Err(Error::spec(field, what(), fix))
}

/// Check that all numbers are at least 1, for counts and divisors.
///
/// # Errors
/// [`Error::Spec`] names the first field that is 0.
pub fn at_least_one(numbers: &[(&str, u64)]) -> Result<()> {
    numbers.iter().try_for_each(|&(field, number)| {
        require(number > 0, field, || "is 0".into(), "use 1 or more")
    })
}

/// Check that all times are short enough to be added to a clock.
///
/// # Errors
/// [`Error::Spec`] names the first field that is longer than about 30 years.
pub fn require_short(times: &[(&str, u64)]) -> Result<()> {
    times.iter().try_for_each(|&(field, ns)| {
        require(ns <= TIME_MAX_NS, field, || "is longer than 30 years".into(), "use less")
    })
}

/// Check that all file names stay below their directory.
///
/// # Errors
/// [`Error::Spec`] names the first one that leads out of it.
pub fn stay_below<'n>(field: &str, mut names: impl Iterator<Item = &'n str>) -> Result<()> {
    let leads_out = |part: &str| matches!(part, "" | "." | "..");
    names.try_for_each(|name| {
        let what = || format!("{name:?} leads out of its directory");
        require(!name.split('/').any(leads_out), field, what, "use relative names")
    })
}

/// Check the measure window of a load, which is given either as time or as bytes.
///
/// # Errors
/// [`Error::Spec`] if both or neither are given, or if the window is empty.
pub fn one_window(window_ns: Option<u64>, window_bytes: Option<u64>) -> Result<()> {
    let (windows, what) = ("window_ns, window_bytes", || "give exactly one of them".into());
    require(window_ns.is_some() != window_bytes.is_some(), windows, what, "remove one")?;
    let open = window_ns != Some(0) && window_bytes != Some(0);
    require(open, windows, || "is 0".into(), "use more")
}

/// Check the size of operations that bypass the page cache.
///
/// # Errors
/// [`Error::Spec`] if `direct` is set and the size is not a multiple of 512 bytes.
pub fn whole_sectors(field: &str, bytes: u64, direct: bool) -> Result<()> {
    let what = || format!("{bytes} bytes cannot be read with O_DIRECT: they are not aligned");
    let whole = !direct || bytes.is_multiple_of(SECTOR);
    require(whole, field, what, "use a multiple of 512, or direct = false")
}

/// Return the alignment of offsets and lengths, in bytes. With `O_DIRECT` it is 4,096, which suits
/// every device, or 512 if `unit` (the operations' granularity) is not a multiple of 4,096; without
/// `O_DIRECT` it is 1.
pub fn alignment(unit: u64, direct: bool) -> u64 {
    match direct {
        true if unit.is_multiple_of(LARGE_SECTOR) => LARGE_SECTOR,
        true => SECTOR,
        false => 1,
    }
}

/// Check that buffers of `needed` bytes fit into memory; `which` names the factors of that size for
/// the message.
///
/// # Errors
/// [`Error::Spec`] for `queue_depth` if they exceed the allowed share of memory.
pub fn bearable_buffers(needed: u64, which: &str, fix: &str) -> Result<()> {
    let memory = host_memory();
    let what = || format!("{which} need {} MB of the {memory}", needed / 1_000_000);
    require(needed <= memory.bytes / MEMORY_SHARE, "queue_depth", what, fix)
}

/// Kind of a member of a target.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// Existing regular file.
    File,
    /// Block device.
    BlockDevice,
    /// Null target: every I/O completes at once.
    Null,
}

/// File or device of a target; the run touches only `[offset, offset + size)` of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// Path to open.
    pub path: PathBuf,
    /// Name in messages.
    pub name: String,
    /// Kind of the member.
    pub kind: MemberKind,
    /// Bytes that the run may touch.
    pub size: u64,
    /// Start of the range that the run may touch.
    #[serde(default)]
    pub offset: u64,
}

/// A block size and its relative frequency.
#[derive(Clone, Debug, Deserialize)]
pub struct WeightedSize {
    /// Size of the I/O.
    pub bytes: u64,
    /// Weight relative to the other sizes.
    pub weight: f64,
}

/// Arrival process: closed loop or a kind of open loop.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    /// Closed loop: the next operation starts when one ends.
    Closed,
    /// Open loop with evenly spaced starts.
    Constant,
    /// Open loop with exponentially distributed gaps.
    Poisson,
}

/// Highest rate of an open loop, in operations per second.
const RATE_MAX: f64 = 1e9;

/// Arrival process and rate of operations.
#[derive(Clone, Debug, Deserialize)]
pub struct Arrival {
    /// Closed loop or kind of open loop.
    pub kind: ArrivalKind,
    /// Operations per second over all jobs; open loop only.
    pub rate_iops: Option<f64>,
}

impl Arrival {
    /// Return whether operations are due by a schedule.
    pub fn open_loop(&self) -> bool {
        self.kind != ArrivalKind::Closed
    }

    /// Check that an open loop has a valid rate.
    ///
    /// # Errors
    /// [`Error::Spec`] if it has no rate, or one that is not positive or above 1e9 per second.
    pub fn check(&self) -> Result<()> {
        let paced = self.rate_iops.is_some_and(|rate| rate > 0.0 && rate <= RATE_MAX);
        let what = || match self.rate_iops {
            Some(rate) => format!("open loop of {rate} operations per second"),
            None => "open loop has no rate".into(),
        };
        require(!self.open_loop() || paced, "arrival.rate_iops", what, "give one of up to 1e9")
    }
}

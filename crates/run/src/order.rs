//! What the orders of all families have in common. Python writes them as JSON, each by the `Job` of
//! its family: change both together.
//!
//! Sizes are bytes, times nanoseconds.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use storlab_base::{Error, Result};

use crate::host_memory;

/// The version of every order.
const VERSION: u32 = 1;
/// Sums of a few of them fit into 64 bits.
const TIME_MAX_NS: u64 = 1_000_000_000_000_000_000;
/// The smallest of block devices, and the largest.
const SECTOR: u64 = 512;
const LARGE_SECTOR: u64 = 4096;
/// Buffers may take one part in so many of the machine's memory.
const MEMORY_SHARE: u64 = 2;

/// In the order of every family.
#[derive(Deserialize)]
struct Common {
    /// Of the order's format.
    version: u32,
    /// Length of a sample.
    interval_ns: u64,
}

/// What a run is asked to do.
pub trait Order: DeserializeOwned {
    /// Whether the rest of it can be carried out.
    ///
    /// # Errors
    /// [`Error::Spec`] with the field that is wrong.
    fn check(&self) -> Result<()>;

    /// From JSON.
    ///
    /// # Errors
    /// [`Error::Spec`] for what is no such JSON, or an order that cannot be carried out.
    fn from_json(text: &str) -> Result<Self> {
        let Common { version, interval_ns } = parsed(text)?;
        must(version == VERSION, "version", || format!("{version} is not known"), "use 1")?;
        must(interval_ns > 0, "interval_ns", || "is 0".into(), "use more")?;
        let order: Self = parsed(text)?;
        order.check()?;
        Ok(order)
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|e| Error::spec("job", e.to_string(), "give the order of this storlab"))
}

/// One condition of an order.
///
/// # Errors
/// [`Error::Spec`] where it does not hold.
pub fn must(good: bool, field: &str, what: impl FnOnce() -> String, fix: &str) -> Result<()> {
    if good {
        return Ok(());
    }
    Err(Error::spec(field, what(), fix))
}

/// Numbers that divide something, or are so many of a thing.
///
/// # Errors
/// [`Error::Spec`] for the first that is 0.
pub fn at_least_one(numbers: &[(&str, u64)]) -> Result<()> {
    numbers
        .iter()
        .try_for_each(|&(field, number)| must(number > 0, field, || "is 0".into(), "use 1 or more"))
}

/// Times that can be added to a clock.
///
/// # Errors
/// [`Error::Spec`] for the first that is longer than anybody waits.
pub fn bearable(times: &[(&str, u64)]) -> Result<()> {
    times.iter().try_for_each(|&(field, ns)| {
        must(ns <= TIME_MAX_NS, field, || "is longer than 30 years".into(), "use less")
    })
}

/// Names of files below a place.
///
/// # Errors
/// [`Error::Spec`] for the first that leads out of it.
pub fn stay_below<'n>(field: &str, mut names: impl Iterator<Item = &'n str>) -> Result<()> {
    let leads_out = |part: &str| matches!(part, "" | "." | "..");
    names.try_for_each(|name| {
        let what = || format!("{name:?} leads elsewhere");
        must(!name.split('/').any(leads_out), field, what, "use relative names")
    })
}

/// The measure window of a load.
///
/// # Errors
/// [`Error::Spec`] where it is not given by time or by bytes, one of them, or is empty.
pub fn one_window(window_ns: Option<u64>, window_bytes: Option<u64>) -> Result<()> {
    let (windows, what) = ("window_ns, window_bytes", || "give exactly one of them".into());
    must(window_ns.is_some() != window_bytes.is_some(), windows, what, "remove one")?;
    let open = window_ns != Some(0) && window_bytes != Some(0);
    must(open, windows, || "is 0".into(), "use more")
}

/// A length of operations that go past the page cache, where they do.
///
/// # Errors
/// [`Error::Spec`] where that is no whole number of sectors.
pub fn whole_sectors(field: &str, bytes: u64, direct: bool) -> Result<()> {
    let what = || format!("{bytes} bytes cannot be read with O_DIRECT");
    let whole = !direct || bytes.is_multiple_of(SECTOR);
    must(whole, field, what, "use a multiple of 512, or direct = false")
}

/// What `O_DIRECT` wants offsets and lengths to be multiples of: 4,096 bytes satisfy every device,
/// and operations that are no multiple of them say that 512 do. Without it, anything goes.
pub fn alignment(unit: u64, direct: bool) -> u64 {
    match direct {
        true if unit.is_multiple_of(LARGE_SECTOR) => LARGE_SECTOR,
        true => SECTOR,
        false => 1,
    }
}

/// Buffers of `needed` bytes, which are the product that `which` names.
///
/// # Errors
/// [`Error::Spec`] for `queue_depth` where they would take too much of the machine's memory.
pub fn bearable_buffers(needed: u64, which: &str, fix: &str) -> Result<()> {
    let memory = host_memory();
    let what = || format!("{which} need {} MB of the {memory}", needed / 1_000_000);
    must(needed <= memory.bytes / MEMORY_SHARE, "queue_depth", what, fix)
}

/// What a member of a target is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// A regular file that exists.
    File,
    /// A block device.
    BlockDevice,
    /// Nothing: every I/O completes at once.
    Null,
}

/// One file or device; the run touches `[offset, offset + size)` of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// What to open.
    pub path: PathBuf,
    /// What to call it in messages.
    pub name: String,
    /// File, device or nothing.
    pub kind: MemberKind,
    /// Bytes of it that the run may touch.
    pub size: u64,
    /// Where they begin.
    #[serde(default)]
    pub offset: u64,
}

/// A block size and its relative frequency.
#[derive(Clone, Debug, Deserialize)]
pub struct WeightedSize {
    /// Length of the I/O.
    pub bytes: u64,
    /// Relative to the other sizes.
    pub weight: f64,
}

/// Closed or open loop.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    /// The next operation starts when one ends.
    Closed,
    /// Evenly spaced starts.
    Constant,
    /// Exponentially distributed gaps.
    Poisson,
}

/// Operations per second of an open loop.
const RATE_MAX: f64 = 1e9;

/// When operations are due.
#[derive(Clone, Debug, Deserialize)]
pub struct Arrival {
    /// Closed or open loop.
    pub kind: ArrivalKind,
    /// Operations per second over all jobs; open loop only.
    pub rate_iops: Option<f64>,
}

impl Arrival {
    /// Operations are due by a schedule.
    pub fn open_loop(&self) -> bool {
        self.kind != ArrivalKind::Closed
    }

    /// An open loop has a rate.
    ///
    /// # Errors
    /// [`Error::Spec`] where it has none, or one that no machine has.
    pub fn check(&self) -> Result<()> {
        let paced = self.rate_iops.is_some_and(|rate| rate > 0.0 && rate <= RATE_MAX);
        let what = || match self.rate_iops {
            Some(rate) => format!("open loop of {rate} operations per second"),
            None => "open loop has no rate".into(),
        };
        must(!self.open_loop() || paced, "arrival.rate_iops", what, "give one of up to 1e9")
    }
}

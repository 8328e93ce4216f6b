//! What the orders of all families have in common. Python writes them as JSON, each by the `Job` of
//! its family: change both together.
//!
//! Sizes are bytes, times nanoseconds.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use storlab_base::{Error, Result};

/// The version of every order.
const VERSION: u32 = 1;
/// Sums of a few of them fit into 64 bits.
const TIME_MAX_NS: u64 = 1_000_000_000_000_000_000;

/// What a run is asked to do.
pub trait Order: DeserializeOwned {
    /// Of the order's format.
    fn version(&self) -> u32;

    /// Length of a sample.
    fn interval_ns(&self) -> u64;

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
        let order: Self = serde_json::from_str(text)
            .map_err(|e| Error::spec("job", e.to_string(), "give the order of this storlab"))?;
        let version = order.version();
        must(version == VERSION, "version", || format!("{version} is not known"), "use 1")?;
        must(order.interval_ns() > 0, "interval_ns", || "is 0".into(), "use more")?;
        order.check()?;
        Ok(order)
    }
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
    /// [`Error::Spec`] where it has none.
    pub fn check(&self) -> Result<()> {
        let paced = self.rate_iops.is_some_and(|rate| rate > 0.0 && rate.is_finite());
        let what = || "open loop has no rate".into();
        must(!self.open_loop() || paced, "arrival.rate_iops", what, "give a rate")
    }
}

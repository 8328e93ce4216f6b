//! What orders of several families have in common (`storlab/model/job.py`).

use serde::Deserialize;

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

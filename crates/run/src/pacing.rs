//! Due times of operations. In an open loop they follow a schedule that does not wait for the
//! device.

use rand_core::Rng as _;
use storlab_base::{Rng, stream};

use crate::order::{Arrival, ArrivalKind};

/// Largest number of steps in which operations that were never sent are recorded. After an hour at
/// a million operations per second, one step per operation could take minutes.
const STEPS: f64 = 1e6;

/// Due times of the operations of one job, in ns on the run's clock.
pub enum Pacing {
    /// Closed loop: there is no schedule. An operation starts when another ends.
    Closed,
    /// Open loop with one operation every `gap_ns`.
    Constant {
        /// Start of the schedule.
        start_ns: f64,
        /// Time between two operations, in ns.
        gap_ns: f64,
        /// Number of operations that the schedule has passed.
        count: u64,
    },
    /// Open loop with exponentially distributed times between operations.
    Poisson {
        /// Due time of the next operation.
        due_ns: f64,
        /// Mean time between two operations, in ns.
        gap_ns: f64,
        /// Random generator of the times between operations.
        rng: Rng,
    },
}

impl Pacing {
    /// Create the schedule of job `index` of `jobs` jobs, which divide the rate evenly. Constant
    /// schedules of several jobs are interleaved, so that the operations of all jobs together are
    /// evenly spaced.
    pub fn new(arrival: &Arrival, index: usize, jobs: usize, start_ns: u64, seed: u64) -> Self {
        let Some(rate) = arrival.rate_iops.filter(|_| arrival.kind != ArrivalKind::Closed) else {
            return Pacing::Closed;
        };
        let gap_ns = 1e9 * jobs as f64 / rate;
        let start_ns = start_ns as f64;
        if arrival.kind == ArrivalKind::Constant {
            let start_ns = start_ns + gap_ns * index as f64 / jobs as f64;
            return Pacing::Constant { start_ns, gap_ns, count: 0 };
        }
        let mut rng = stream(seed, "arrival", index as u64);
        Pacing::Poisson { due_ns: start_ns + exponential(&mut rng) * gap_ns, gap_ns, rng }
    }

    /// Return the due time of the next operation; `None` in a closed loop.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        match self {
            Pacing::Closed => None,
            Pacing::Constant { start_ns, gap_ns, count } => {
                Some((start_ns + gap_ns * *count as f64) as u64)
            }
            Pacing::Poisson { due_ns, .. } => Some(*due_ns as u64),
        }
    }

    /// Consume all operations that are due before `end_ns`. Yields due times, each with the number
    /// of operations that it stands for: 1 unless more than a million operations are left.
    pub fn rest(&mut self, end_ns: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let group = (self.left(end_ns) as f64 / STEPS).ceil().max(1.0) as u64;
        std::iter::from_fn(move || {
            let due_ns = self.due_ns().filter(|&due| due < end_ns)?;
            let count = group.min(self.left(end_ns));
            self.skip(count);
            Some((due_ns, count))
        })
    }

    /// Return how many operations are due before `end_ns`, at least 1. For random times this is an
    /// estimate.
    fn left(&self, end_ns: u64) -> u64 {
        let of_gap = |due_ns: f64, gap_ns: f64| ((end_ns as f64 - due_ns) / gap_ns).ceil();
        let count = match *self {
            Pacing::Closed => 0.0,
            Pacing::Constant { start_ns, gap_ns, count } => {
                of_gap(start_ns + gap_ns * count as f64, gap_ns)
            }
            Pacing::Poisson { due_ns, gap_ns, .. } => of_gap(due_ns, gap_ns),
        };
        count.max(1.0) as u64
    }

    fn skip(&mut self, operations: u64) {
        match self {
            Pacing::Constant { count, .. } => *count += operations,
            // The sum of many random times is close to their number times the mean.
            Pacing::Poisson { due_ns, gap_ns, .. } if operations > 1 => {
                *due_ns += *gap_ns * operations as f64;
            }
            Pacing::Poisson { .. } | Pacing::Closed => self.advance(),
        }
    }

    /// Advance the schedule by one operation.
    #[inline]
    pub fn advance(&mut self) {
        match self {
            Pacing::Closed => {}
            Pacing::Constant { count, .. } => *count += 1,
            Pacing::Poisson { due_ns, gap_ns, rng } => *due_ns += exponential(rng) * *gap_ns,
        }
    }
}

fn exponential(rng: &mut Rng) -> f64 {
    // 53 random bits give a number in (0, 1], so that its logarithm is finite.
    let unit = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -unit.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_times(kind: ArrivalKind, index: usize, jobs: usize, n: usize) -> Vec<u64> {
        let arrival = Arrival { kind, rate_iops: Some(1000.0) };
        let mut pacing = Pacing::new(&arrival, index, jobs, 5_000, 1);
        (0..n)
            .map(|_| {
                let due = pacing.due_ns().unwrap();
                pacing.advance();
                due
            })
            .collect()
    }

    #[test]
    fn constant_jobs_interleave_evenly() {
        let mut all = due_times(ArrivalKind::Constant, 0, 2, 50);
        all.extend(due_times(ArrivalKind::Constant, 1, 2, 50));
        all.sort_unstable();
        assert!(all.windows(2).all(|w| (w[1] - w[0]).abs_diff(1_000_000) <= 1), "{all:?}");
    }

    #[test]
    fn poisson_has_the_rate_and_the_spread() {
        let due = due_times(ArrivalKind::Poisson, 0, 1, 200_000);
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((var.sqrt() / mean - 1.0).abs() < 0.02, "{}", var.sqrt());
    }

    #[test]
    fn closed_loop_has_no_schedule() {
        let arrival = Arrival { kind: ArrivalKind::Closed, rate_iops: Some(5.0) };
        assert!(Pacing::new(&arrival, 0, 1, 0, 1).due_ns().is_none());
    }
    fn rest(kind: ArrivalKind, rate: f64, end_ns: u64) -> Vec<(u64, u64)> {
        let arrival = Arrival { kind, rate_iops: Some(rate) };
        let mut pacing = Pacing::new(&arrival, 1, 2, 5_000, 1);
        let rest = pacing.rest(end_ns).collect();
        assert!(pacing.due_ns().is_none_or(|due| due >= end_ns));
        rest
    }

    #[test]
    fn what_is_left_is_taken_one_by_one() {
        for kind in [ArrivalKind::Constant, ArrivalKind::Poisson] {
            let due = due_times(kind, 1, 2, 5_000);
            let end_ns = 3_000_000_000;
            let expected: Vec<_> =
                due.into_iter().filter(|&due| due < end_ns).map(|due| (due, 1)).collect();
            assert_eq!(rest(kind, 1000.0, end_ns), expected);
        }
        let closed = Arrival { kind: ArrivalKind::Closed, rate_iops: None };
        assert_eq!(Pacing::new(&closed, 0, 1, 0, 1).rest(u64::MAX - 1).count(), 0);
    }

    #[test]
    fn millions_are_taken_in_groups() {
        // A total of 1e9 operations per second for an hour, half of them in this job.
        let end_ns = 3_600_000_000_000;
        for kind in [ArrivalKind::Constant, ArrivalKind::Poisson] {
            let groups = rest(kind, 1e9, end_ns);
            assert!(groups.len() <= STEPS as usize + 1, "{}", groups.len());
            let all: u64 = groups.iter().map(|(_, count)| count).sum();
            assert!(all.abs_diff(end_ns / 2) < end_ns / 1000, "{kind:?}: {all}");
        }
    }
}

//! Start of a run's load, and its measure window.

use std::time::Duration;

use storlab_base::TimeSource;

/// Start of the load, and start and end of the measure window, in ns on the run's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Start of the load, which begins with the ramp.
    pub load_start_ns: u64,
    /// Start of the measure window.
    pub start_ns: u64,
    /// End of the measure window; `u64::MAX` if it is not known yet because the window ends after a
    /// number of bytes.
    pub end_ns: u64,
}

impl Window {
    /// Wait until the load starts. Return the current time after the wait.
    pub fn wait_for_start(&self, clock: &impl TimeSource) -> u64 {
        loop {
            let now = clock.now_ns();
            if now >= self.load_start_ns {
                return now;
            }
            std::thread::sleep(Duration::from_nanos(self.load_start_ns - now));
        }
    }

    /// Return the number of the interval of `length_ns` that contains `now`. Intervals are counted
    /// from the window's start, so numbers are negative in the ramp. After the window, this is the
    /// number of its last interval.
    pub fn interval_at(&self, now: u64, length_ns: u64) -> i64 {
        if now < self.start_ns {
            return -(((self.start_ns - now - 1) / length_ns) as i64) - 1;
        }
        ((now.min(self.end_ns - 1) - self.start_ns) / length_ns) as i64
    }

    /// Return the end of the interval of `length_ns` that contains `now`.
    pub fn next_boundary(&self, now: u64, length_ns: u64) -> u64 {
        let next = self.interval_at(now, length_ns) + 1;
        let length = length_ns.saturating_mul(next.unsigned_abs());
        if next <= 0 {
            self.start_ns.saturating_sub(length)
        } else {
            self.start_ns.saturating_add(length).min(self.end_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_counted_from_the_start_and_end_with_the_window() {
        let window = Window { load_start_ns: 0, start_ns: 1000, end_ns: 1300 };
        let numbers = [899, 900, 999, 1000, 1099, 1100, 1299, 1300, 5000];
        assert_eq!(numbers.map(|now| window.interval_at(now, 100)), [-2, -1, -1, 0, 0, 1, 2, 2, 2]);
        let ends = [899, 900, 999, 1000, 1250, 1300];
        let boundaries = [900, 1000, 1000, 1100, 1300, 1300];
        assert_eq!(ends.map(|now| window.next_boundary(now, 100)), boundaries);
    }
}

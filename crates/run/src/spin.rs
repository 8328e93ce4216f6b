//! Test of how much CPU time the machine gives to a program that uses all cores.

use std::time::Duration;

use serde::Serialize;
use storlab_base::{Clock, TimeSource};

use crate::cpu::{MachineCpu, RunQueue, available_cores};

/// Shortest time in ns between two clock readings that counts as an interruption. It is longer than
/// interrupts take, and shorter than a time slice of another program.
const GAP_NS: u64 = 100_000;

/// CPU time that threads lost although they wanted to run all the time.
#[derive(Clone, Debug, Serialize)]
pub struct Spin {
    /// Number of threads: one per core that this process may run on.
    pub threads: usize,
    /// Duration of the test in ns.
    pub length_ns: u64,
    /// Longest time in which a thread did not run, in ns.
    pub largest_gap_ns: u64,
    /// Time in which threads did not run, in percent of all threads' time.
    pub lost_percent: f64,
    /// Time that threads waited in run queues because of other programs, in percent of all threads'
    /// time; `None` if the kernel does not report it.
    pub waited_percent: Option<f64>,
    /// Time that the hypervisor gave to other guests, in percent of all cores' time; `None` if it
    /// is not reported.
    pub steal_percent: Option<f64>,
}

#[derive(Clone, Copy, Default)]
struct Gaps {
    largest_ns: u64,
    sum_ns: u64,
    waited_ns: Option<u64>,
}

/// Keep every core busy for `length`, and measure when the threads did not run.
pub fn spin(length: Duration) -> Spin {
    let (threads, length_ns) = (available_cores(), length.as_nanos().max(1) as u64);
    let clock = Clock::new();
    let before = MachineCpu::now();
    let gaps: Vec<Gaps> = std::thread::scope(|scope| {
        let until_ns = clock.now_ns() + length_ns;
        let all: Vec<_> =
            (0..threads).map(|_| scope.spawn(move || watch(&clock, until_ns))).collect();
        all.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let machine = MachineCpu::now().zip(before).and_then(|(end, begin)| end.percent_since(begin));
    let percent = |ns: u64| ns as f64 * 100.0 / (length_ns * threads as u64) as f64;
    let waited: Option<u64> = gaps.iter().map(|gaps| gaps.waited_ns).sum();
    Spin {
        threads,
        length_ns,
        largest_gap_ns: gaps.iter().map(|gaps| gaps.largest_ns).max().unwrap_or(0),
        lost_percent: percent(gaps.iter().map(|gaps| gaps.sum_ns).sum()),
        waited_percent: waited.map(percent),
        steal_percent: machine.map(|(_, stolen)| stolen),
    }
}

fn watch(clock: &impl TimeSource, until_ns: u64) -> Gaps {
    let queue = RunQueue::of_this_thread();
    let waited_ns = queue.waited_ns();
    let mut gaps = Gaps::default();
    let mut last = clock.now_ns();
    while last < until_ns {
        let now = clock.now_ns();
        gaps.add(now.min(until_ns).saturating_sub(last));
        last = now;
    }
    gaps.waited_ns = queue.waited_ns().zip(waited_ns).map(|(now, then)| now - then);
    gaps
}

impl Gaps {
    fn add(&mut self, gap_ns: u64) {
        self.largest_ns = self.largest_ns.max(gap_ns);
        if gap_ns >= GAP_NS {
            self.sum_ns += gap_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Clock that runs evenly except for one stop.
    struct Stopped(Cell<u64>);

    impl TimeSource for Stopped {
        fn now_ns(&self) -> u64 {
            let now = self.0.get();
            self.0.set(now + if now == 500 { 40_000_000 } else { 100 });
            now
        }
    }

    #[test]
    fn gaps_are_times_in_which_the_clock_went_on_alone() {
        let gaps = watch(&Stopped(Cell::new(0)), 90_000_000);
        assert_eq!((gaps.largest_ns, gaps.sum_ns), (40_000_000, 40_000_000));
        let cut = watch(&Stopped(Cell::new(400)), 30_000_000);
        assert_eq!((cut.largest_ns, cut.sum_ns), (29_999_500, 29_999_500));
    }

    #[test]
    fn every_core_is_kept_busy() {
        let spun = spin(Duration::from_millis(20));
        assert_eq!(spun.threads, available_cores());
        assert!((0.0..=100.0).contains(&spun.lost_percent), "{spun:?}");
        assert!(spun.largest_gap_ns <= spun.length_ns);
    }
}

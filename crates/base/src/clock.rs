//! The run's clock, and the only place where the Rust side reads time.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, so that meters and Python share them. Where the
//! kernel itself trusts the time-stamp counter, it is read directly: about 9 ns less for each
//! reading than through the vDSO.

use std::sync::OnceLock;
use std::time::Duration;

/// Anything that tells time in ns: the machine's clock, or a simulation's.
pub trait TimeSource {
    /// Now, in ns.
    fn now_ns(&self) -> u64;
}

/// A reading of both clocks at (nearly) the same moment.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ticks: u64,
    ns: u64,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// `ns = at.ns + (ticks - at.ticks) * ns_per_tick_q32 >> 32`
    Tsc {
        at: Pair,
        ns_per_tick_q32: u64,
    },
    Monotonic,
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: Source,
}

static FIRST_PAIR: OnceLock<Option<Pair>> = OnceLock::new();
/// Short enough not to be felt, long enough for 2 ppm with vDSO readings good to about 50 ns.
const CALIBRATION_NS: u64 = 25_000_000;

impl Clock {
    /// Note the first reading for the calibration. Call it early: the longer ago it is when the
    /// first [`Clock::new`] comes, the better the frequency, and the less that call has to wait.
    pub fn prepare() {
        FIRST_PAIR.get_or_init(|| tsc_is_trusted().then(read_pair));
    }

    /// A clock anchored now. The first one of a process may take 25 ms, for the calibration.
    pub fn new() -> Self {
        Self::prepare();
        let Some(first) = FIRST_PAIR.get().copied().flatten() else {
            return Clock { source: Source::Monotonic };
        };
        let passed = monotonic_ns().saturating_sub(first.ns);
        if passed < CALIBRATION_NS {
            std::thread::sleep(Duration::from_nanos(CALIBRATION_NS - passed));
        }
        let at = read_pair();
        let ns = u128::from(at.ns - first.ns);
        let ticks = u128::from(at.ticks.wrapping_sub(first.ticks).max(1));
        Clock { source: Source::Tsc { at, ns_per_tick_q32: ((ns << 32) / ticks) as u64 } }
    }

    /// `tsc` or `clock_monotonic`.
    pub fn source_name(&self) -> &'static str {
        match self.source {
            Source::Tsc { .. } => "tsc",
            Source::Monotonic => "clock_monotonic",
        }
    }

    /// Ticks per ns of the counter, 0 where the clock has none.
    pub fn ghz(&self) -> f64 {
        match self.source {
            Source::Tsc { ns_per_tick_q32, .. } => 2f64.powi(32) / ns_per_tick_q32 as f64,
            Source::Monotonic => 0.0,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl TimeSource for Clock {
    #[inline]
    fn now_ns(&self) -> u64 {
        match self.source {
            Source::Tsc { at, ns_per_tick_q32 } => {
                // Signed: another core's counter may be a few ticks behind the anchor.
                let ticks = i128::from(read_ticks().wrapping_sub(at.ticks) as i64);
                at.ns.wrapping_add_signed(((ticks * i128::from(ns_per_tick_q32)) >> 32) as i64)
            }
            Source::Monotonic => monotonic_ns(),
        }
    }
}

/// `CLOCK_MONOTONIC` in ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, in ns since 1970: for dates that go to other machines, never for durations.
pub fn wall_clock_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// CPU time that the calling thread has used, in ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// What the given kernel clock says, in ns: of a thread's CPU time, say.
#[allow(unsafe_code)]
pub fn clock_ns(id: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is a valid timespec to write to. The call cannot fail for these clocks.
    unsafe { libc::clock_gettime(id, &raw mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// The closest of a few tries: an interrupt between the two readings would skew the calibration.
fn read_pair() -> Pair {
    let once = || {
        let before = read_ticks();
        let ns = monotonic_ns();
        let after = read_ticks();
        (
            after.wrapping_sub(before),
            Pair { ticks: before.wrapping_add(after.wrapping_sub(before) / 2), ns },
        )
    };
    let mut best = once();
    for _ in 0..9 {
        let next = once();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

/// The kernel measures whether the counters of all cores agree; it says so by using them.
fn tsc_is_trusted() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline]
fn read_ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_clock_monotonic() {
        let clock = Clock::new();
        for _ in 0..50 {
            let before = monotonic_ns();
            let now = clock.now_ns();
            let after = monotonic_ns();
            // 1 us covers the calibration error over the test's life, not a missed unit.
            assert!(now + 1_000 >= before && now <= after + 1_000, "{before} {now} {after}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn never_runs_backwards_on_one_thread() {
        let clock = Clock::new();
        let mut last = clock.now_ns();
        for _ in 0..100_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_wall_clock_counts_ns_since_1970() {
        let before = wall_clock_ns();
        // 2020-01-01 and 2100-01-01: seconds, microseconds or a monotonic clock lie outside.
        assert!((1_577_836_800_000_000_000..4_102_444_800_000_000_000).contains(&before));
    }

    #[test]
    fn thread_cpu_time_counts_work_and_not_sleep() {
        let start = thread_cpu_ns();
        std::thread::sleep(Duration::from_millis(20));
        let slept = thread_cpu_ns() - start;
        let mut sum = 0u64;
        while thread_cpu_ns() - start - slept < 5_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(slept < 10_000_000, "{slept}");
    }
}

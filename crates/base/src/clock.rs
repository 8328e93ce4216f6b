//! Clock of a run. No other Rust code reads the time.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, which meters and Python read too. If the kernel
//! itself uses the processor's time-stamp counter (TSC), this clock reads the counter directly,
//! which is about 9 ns faster per reading than the vDSO. The counter's rate is measured against
//! `CLOCK_MONOTONIC_RAW`, which is never slewed: twice at the start, and again at the end of each
//! run.
//!
//! The counter is used on x86-64 only. Other processors read `CLOCK_MONOTONIC` through the vDSO,
//! which on aarch64 reads the counter `cntvct_el0` itself. Tests can select the vDSO on x86-64 as
//! well (see `arch`).

use std::sync::Mutex;
use std::time::Duration;

use crate::arch::is_x86_64;
use crate::lock;

/// Source of time in ns: the machine's clock, or a simulated one.
pub trait TimeSource {
    /// Return the current time in ns.
    fn now_ns(&self) -> u64;

    /// Adjust this clock to the kernel's clock, whose rate NTP and other time services change
    /// slightly. Called between operations, about once per interval.
    fn follow(&mut self) {}
}

/// Readings of the time-stamp counter and of a kernel clock at (nearly) the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    ticks: u64,
    ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Time-stamp counter: `ns = at.ns + (ticks - at.ticks) * ns_per_tick_q32 >> 32`.
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
    /// Readings of the counter and of `CLOCK_MONOTONIC` when the clock was created or last
    /// adjusted.
    seen: Pair,
}

/// State of this process's calibration of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Unread,
    /// The counter was read once, so its rate is still unknown.
    Read(Pair),
    /// Two calibration stretches gave the same rate, which was still valid at `seen`.
    Known {
        seen: Pair,
        ns_per_tick_q32: u64,
    },
    /// The counter cannot be used: the kernel does not use it, or its rate is not constant.
    Unfit,
}

static COUNTER: Mutex<Counter> = Mutex::new(Counter::Unread);
/// Length of each of the two calibration stretches, in ns. It is too short to be noticed, and long
/// enough for 4 ppm if readings are exact to 50 ns.
const STRETCH_NS: u64 = 12_500_000;
/// Number of calibration attempts before the counter is rejected. A machine that was suspended
/// between two readings needs two attempts.
const TRIES: usize = 5;
/// Tolerance for equality of two calibrated rates: they may differ by 1 part in this number (50
/// ppm).
const ONE_IN: u64 = 20_000;
/// Tolerated difference between two clocks that are read at the same moment, in ns.
const READING_NS: u64 = 2_000;
/// Shortest time between two adjustments to the kernel's clock, in ns. Over shorter times the error
/// of the readings would dominate.
const FOLLOW_NS: u64 = 100_000_000;
/// Largest correction of the clock's rate, as 1 part in this number (500 ppm). The kernel slews its
/// own clock by at most as much.
const SLEW_ONE_IN: u64 = 2_000;
/// Largest difference between two rates that slewing can explain, as 1 part in this number: twice
/// 500 ppm plus a margin.
const FAR_ONE_IN: u64 = 800;

impl Clock {
    /// Take the first reading for the calibration of the counter, at the beginning of a run.
    /// [`Clock::recheck`] reports only changes after this call. The earlier this call comes, the
    /// less the first [`Clock::new`] has to wait.
    pub fn prepare() {
        lock(&COUNTER).look();
    }

    /// Create a clock anchored at the current time. The first call in a process, or the first after
    /// the machine was suspended or migrated, may take 25 ms for the calibration.
    pub fn new() -> Self {
        let rate = lock(&COUNTER).ns_per_tick_q32();
        let seen = read_pair(libc::CLOCK_MONOTONIC);
        let source = match rate {
            Some(ns_per_tick_q32) => Source::Tsc { at: seen, ns_per_tick_q32 },
            None => Source::Monotonic,
        };
        Clock { source, seen }
    }

    /// Compare the counter with the kernel's clock at the end of a run. If they diverged, return a
    /// message for the user; clocks that this process creates later then read the kernel's clock.
    pub fn recheck() -> Option<String> {
        lock(&COUNTER).recheck(tsc_is_trusted())
    }

    /// Return the name of the source that a new clock would use: `tsc` or `clock_monotonic`.
    pub fn in_use() -> &'static str {
        match *lock(&COUNTER) {
            Counter::Unfit => Source::Monotonic.name(),
            _ => "tsc",
        }
    }

    /// Return the name of this clock's source: `tsc` or `clock_monotonic`.
    pub fn source_name(&self) -> &'static str {
        self.source.name()
    }

    /// Return the rate of the time-stamp counter in ticks per ns; 0 if the clock does not use the
    /// counter.
    pub fn ghz(&self) -> f64 {
        match self.source {
            Source::Tsc { ns_per_tick_q32, .. } => 2f64.powi(32) / ns_per_tick_q32 as f64,
            Source::Monotonic => 0.0,
        }
    }
}

impl Source {
    /// Return this source adjusted to the kernel's clock. The new rate is that of the kernel's
    /// clock between `seen` and `now`, plus a correction that removes the current offset within the
    /// same length of time. The clock never jumps: it continues from its present value.
    fn followed(self, seen: Pair, now: Pair) -> Source {
        let Source::Tsc { at, ns_per_tick_q32 } = self else { return self };
        let kernels = rate(seen, now);
        if kernels.abs_diff(ns_per_tick_q32) > ns_per_tick_q32 / FAR_ONE_IN {
            return self; // suspended or migrated; `recheck` reports that after the run
        }
        let ns = expected_ns(at, now, ns_per_tick_q32);
        let most = i128::from(kernels / SLEW_ONE_IN);
        let apart = i128::from(now.ns) - i128::from(ns);
        let passed = i128::from(now.ns.saturating_sub(seen.ns).max(1));
        let more = (apart * i128::from(kernels) / passed).clamp(-most, most) as i64;
        let ns_per_tick_q32 = kernels.saturating_add_signed(more);
        Source::Tsc { at: Pair { ticks: now.ticks, ns }, ns_per_tick_q32 }
    }

    fn name(&self) -> &'static str {
        match self {
            Source::Tsc { .. } => "tsc",
            Source::Monotonic => "clock_monotonic",
        }
    }
}

impl Counter {
    /// Update the calibration state. A rate that still predicts the kernel's clock is confirmed as
    /// of now; a wrong one is discarded.
    fn look(&mut self) {
        match *self {
            Counter::Unread => *self = first_reading(),
            Counter::Known { seen, ns_per_tick_q32 } => {
                let now = read_pair(libc::CLOCK_MONOTONIC_RAW);
                *self = if foretold(seen, now, ns_per_tick_q32) {
                    Counter::Known { seen: now, ns_per_tick_q32 }
                } else {
                    Counter::Read(now)
                };
            }
            Counter::Read(_) | Counter::Unfit => {}
        }
    }

    /// Return the counter's rate in ns per tick times 2^32. Calibrates again if the old rate is no
    /// longer valid. `None` if the counter cannot be used.
    fn ns_per_tick_q32(&mut self) -> Option<u64> {
        self.look();
        for _ in 0..TRIES {
            match *self {
                Counter::Read(first) => *self = measured(first),
                Counter::Known { ns_per_tick_q32, .. } => return Some(ns_per_tick_q32),
                Counter::Unread | Counter::Unfit => return None,
            }
        }
        *self = Counter::Unfit;
        None
    }

    fn recheck(&mut self, trusted: bool) -> Option<String> {
        let Counter::Known { seen, ns_per_tick_q32 } = *self else { return None };
        let now = read_pair(libc::CLOCK_MONOTONIC_RAW);
        let held = foretold(seen, now, ns_per_tick_q32);
        if trusted && held {
            return None;
        }
        *self = Counter::Unfit;
        let why = if held {
            "the kernel has stopped using the processor's time-stamp counter as its clock"
                .to_owned()
        } else {
            let apart_ns = now.ns.abs_diff(expected_ns(seen, now, ns_per_tick_q32));
            format!(
                "the processor's time-stamp counter and the kernel's clock differ by {:.3} ms (was \
                 the machine suspended or migrated?)",
                apart_ns as f64 / 1e6
            )
        };
        Some(format!("{why}: times of this run may be wrong; later runs read the kernel's clock"))
    }
}

fn first_reading() -> Counter {
    if tsc_is_trusted() {
        Counter::Read(read_pair(libc::CLOCK_MONOTONIC_RAW))
    } else {
        Counter::Unfit
    }
}

/// Measure the counter's rate over two stretches, and accept it if both stretches agree.
fn measured(first: Pair) -> Counter {
    let middle = pair_after(first);
    let last = pair_after(middle);
    let rates = (rate(first, middle), rate(middle, last));
    if rates.0.abs_diff(rates.1) > rates.1 / ONE_IN {
        return Counter::Read(last);
    }
    Counter::Known { seen: last, ns_per_tick_q32: rate(first, last) }
}

/// Take a reading one calibration stretch after `earlier`, or now if more time has passed.
fn pair_after(earlier: Pair) -> Pair {
    let passed = clock_ns(libc::CLOCK_MONOTONIC_RAW).saturating_sub(earlier.ns);
    std::thread::sleep(Duration::from_nanos(STRETCH_NS.saturating_sub(passed)));
    read_pair(libc::CLOCK_MONOTONIC_RAW)
}

fn rate(from: Pair, to: Pair) -> u64 {
    let ns = u128::from(to.ns.saturating_sub(from.ns));
    let ticks = u128::from(to.ticks.wrapping_sub(from.ticks).max(1));
    ((ns << 32) / ticks) as u64
}

/// Return the time in ns that the kernel's clock should show at the counter value of `now`,
/// computed from the reading `from` and the counter's rate.
fn expected_ns(from: Pair, now: Pair, ns_per_tick_q32: u64) -> u64 {
    let ticks = u128::from(now.ticks.wrapping_sub(from.ticks));
    from.ns.wrapping_add(((ticks * u128::from(ns_per_tick_q32)) >> 32) as u64)
}

fn foretold(from: Pair, now: Pair, ns_per_tick_q32: u64) -> bool {
    let apart = now.ns.abs_diff(expected_ns(from, now, ns_per_tick_q32));
    apart <= READING_NS + now.ns.saturating_sub(from.ns) / ONE_IN
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
                // The difference is signed: another core's counter may be a few ticks behind the
                // anchor.
                let ticks = i128::from(read_ticks().wrapping_sub(at.ticks) as i64);
                at.ns.wrapping_add_signed(((ticks * i128::from(ns_per_tick_q32)) >> 32) as i64)
            }
            Source::Monotonic => monotonic_ns(),
        }
    }

    #[cold]
    fn follow(&mut self) {
        if self.source == Source::Monotonic {
            return;
        }
        let now = read_pair(libc::CLOCK_MONOTONIC);
        if now.ns.saturating_sub(self.seen.ns) >= FOLLOW_NS {
            self.source = self.source.followed(self.seen, now);
            self.seen = now;
        }
    }
}

/// Return `CLOCK_MONOTONIC` in ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Return `CLOCK_REALTIME` in ns since 1970. Use it for dates that go to other machines, never for
/// durations.
pub fn wall_clock_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Return the CPU time that the calling thread has used, in ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Read a kernel clock, in ns. Uses libc because rustix cannot read the CPU clocks of other
/// threads.
#[allow(unsafe_code, clippy::disallowed_methods)]
pub fn clock_ns(id: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is valid for writes of a timespec. The call cannot fail for the clocks used
    // here.
    unsafe { libc::clock_gettime(id, &raw mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// Make up to `tries` attempts, each of which returns its duration and a value, and return the
/// value of the shortest attempt. An interrupt during an attempt lengthens it and skews its value.
/// Stops after the first attempt shorter than `enough`.
pub fn narrowest<T>(tries: usize, enough: u64, mut once: impl FnMut() -> (u64, T)) -> T {
    let mut best = once();
    for _ in 1..tries {
        if best.0 < enough {
            break;
        }
        let next = once();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

fn read_pair(clock: libc::clockid_t) -> Pair {
    narrowest(10, 0, || {
        let before = read_ticks();
        let ns = clock_ns(clock);
        let width = read_ticks().wrapping_sub(before);
        (width, Pair { ticks: before.wrapping_add(width / 2), ns })
    })
}

/// Return whether the kernel uses the time-stamp counter as its clock. It does so only if the
/// counters of all cores agree.
fn tsc_is_trusted() -> bool {
    is_x86_64()
        && std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, clippy::disallowed_methods)]
#[inline]
fn read_ticks() -> u64 {
    // SAFETY: every x86-64 processor has the `rdtsc` instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::PORTABLE;

    /// Return the reading after a minute in which the counter ran while the clock stood still.
    fn suspended(pair: Pair) -> Pair {
        Pair { ticks: pair.ticks.wrapping_sub(180_000_000_000), ..pair }
    }

    fn agrees_with_the_kernel(clock: &Clock) {
        for _ in 0..50 {
            let before = monotonic_ns();
            let now = clock.now_ns();
            let after = monotonic_ns();
            // 50 us: 100 ms at 500 ppm, the most by which the kernel slews its clock.
            assert!(now + 50_000 >= before && now <= after + 50_000, "{before} {now} {after}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn known(counter: &mut Counter) -> (Pair, u64) {
        counter.ns_per_tick_q32().unwrap();
        let Counter::Known { seen, ns_per_tick_q32 } = *counter else { panic!("{counter:?}") };
        (seen, ns_per_tick_q32)
    }

    fn never_runs_backwards(clock: &Clock) {
        let mut last = clock.now_ns();
        for _ in 0..100_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn agrees_with_clock_monotonic() {
        agrees_with_the_kernel(&Clock::new());
    }

    #[test]
    fn the_portable_clock_is_the_kernels() {
        let mut clock = Clock { source: Source::Monotonic, seen: Pair { ticks: 0, ns: 0 } };
        clock.follow();
        agrees_with_the_kernel(&clock);
        never_runs_backwards(&clock);
        assert_eq!((clock.source_name(), clock.ghz()), ("clock_monotonic", 0.0));
    }

    /// All tests are run a second time with this variable set.
    #[test]
    fn where_the_portable_branches_are_taken_no_counter_is_read() {
        if is_x86_64() {
            assert!(std::env::var_os(PORTABLE).is_none());
            return;
        }
        Clock::prepare();
        assert_eq!(Clock::new().source_name(), "clock_monotonic");
        assert_eq!(Clock::in_use(), "clock_monotonic");
        assert_eq!(Clock::recheck(), None);
    }

    #[test]
    fn a_machine_suspended_after_the_first_reading_is_calibrated_anew() {
        if !tsc_is_trusted() {
            return;
        }
        let (_, right) = known(&mut Counter::Unread);
        let now = read_pair(libc::CLOCK_MONOTONIC_RAW);
        for first in [suspended(now), Pair { ns: now.ns - 60_000_000_000, ..now }] {
            let (_, rate) = known(&mut Counter::Read(first));
            assert!(rate.abs_diff(right) <= right / ONE_IN, "{rate} {right}");
        }
    }

    #[test]
    fn a_machine_suspended_between_two_runs_is_calibrated_anew() {
        if !tsc_is_trusted() {
            return;
        }
        let (first, right) = known(&mut Counter::Unread);
        let mut counter = Counter::Known { seen: suspended(first), ns_per_tick_q32: right };
        assert!(known(&mut counter).1.abs_diff(right) <= right / ONE_IN);
        assert_eq!(counter.recheck(true), None);
    }

    #[test]
    fn a_rate_of_a_slewed_clock_does_not_stay() {
        if !tsc_is_trusted() {
            return;
        }
        let (first, right) = known(&mut Counter::Unread);
        // 500 ppm is the most that the kernel slews its clock; the difference shows after 0.1 s.
        let mut counter = Counter::Known { seen: first, ns_per_tick_q32: right + right / 2000 };
        std::thread::sleep(Duration::from_millis(100));
        assert!(known(&mut counter).1.abs_diff(right) <= right / ONE_IN);
    }

    #[test]
    fn a_counter_that_parts_from_the_kernels_clock_in_a_run_is_told_and_given_up() {
        if !tsc_is_trusted() {
            return;
        }
        let (first, right) = known(&mut Counter::Unread);
        let sound = Counter::Known { seen: first, ns_per_tick_q32: right };
        let parted = Counter::Known { seen: suspended(first), ns_per_tick_q32: right };
        for (begun, trusted, words) in [(parted, true, "suspended"), (sound, false, "stopped")] {
            let mut counter = begun;
            let note = counter.recheck(trusted).unwrap();
            assert!(note.contains(words) && note.contains("later runs"), "{note}");
            assert_eq!(counter.ns_per_tick_q32(), None);
            assert_eq!(counter.recheck(trusted), None);
        }
        assert_eq!({ sound }.recheck(true), None);
    }

    /// Simulate a 3 GHz counter read every second for `seconds`. The clock starts with a rate that
    /// is wrong by 4 ppm, and the kernel's clock is slewed by `ppm` in each second. Return the
    /// largest difference between the two after the first minute, with or without adjusting.
    fn most_apart_ns(seconds: u64, ppm: impl Fn(u64) -> f64, follows: bool) -> u64 {
        let mut kernel = Pair { ticks: 1 << 40, ns: 5_000_000_000 };
        let rate = ((1u64 << 32) as f64 / 3.0 * (1.0 + 4e-6)) as u64;
        let mut source = Source::Tsc { at: kernel, ns_per_tick_q32: rate };
        let (mut most, mut last_ns) = (0, kernel.ns);
        for second in 0..seconds {
            let seen = kernel;
            kernel.ticks += 3_000_000_000;
            kernel.ns += (1e9 * (1.0 + ppm(second) / 1e6)) as u64;
            let Source::Tsc { at, ns_per_tick_q32 } = source else { unreachable!() };
            let ns = expected_ns(at, kernel, ns_per_tick_q32);
            assert!(ns > last_ns, "it never runs backwards");
            last_ns = ns;
            if second > 60 {
                most = most.max(ns.abs_diff(kernel.ns));
            }
            if follows {
                source = source.followed(seen, kernel);
            }
        }
        most
    }

    #[test]
    fn a_clock_that_follows_stays_with_a_slewed_one_for_a_day() {
        let day = 86_400;
        let steady = |_| -40.0;
        let waves = |second: u64| 400.0 * (second as f64 / 3000.0).sin();
        let steps = |second: u64| if (second / 600).is_multiple_of(2) { 0.0 } else { 500.0 };
        assert!(most_apart_ns(day, steady, false) > 3_000_000_000);
        assert!(most_apart_ns(day, steady, true) < 1_000);
        assert!(most_apart_ns(day, waves, true) < 1_000_000);
        // A step of 500 ppm is followed within two seconds.
        assert!(most_apart_ns(day, steps, true) < 2_000_000);
    }

    #[test]
    fn a_clock_follows_from_where_it_is() {
        let mut clock = Clock::new();
        let Source::Tsc { at, ns_per_tick_q32 } = clock.source else { return };
        // As if the clock were 20 us ahead.
        let ahead = Pair { ns: at.ns + 20_000, ..at };
        clock.source = Source::Tsc { at: ahead, ns_per_tick_q32 };
        std::thread::sleep(Duration::from_millis(110));
        let before = clock.now_ns();
        clock.follow();
        let after = clock.now_ns();
        assert!(after >= before, "it never runs backwards");
        let Source::Tsc { at: followed, .. } = clock.source else { panic!("{clock:?}") };
        assert_ne!(followed, ahead);
    }

    #[test]
    fn never_runs_backwards_on_one_thread() {
        never_runs_backwards(&Clock::new());
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

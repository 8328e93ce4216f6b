//! An emulated accelerator: takes a batch, computes for its time, takes the next one.
//!
//! It keeps a schedule: a step begins when the one before ended or its batch was there, whichever
//! came later, and ends its compute time after that, whenever its thread was woken. So a thread
//! that the kernel runs late does not move the steps behind it, and how late it was is known.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::Serialize;
use storlab_base::monotonic_ns;
use storlab_run::cpu::sharpen_timers;
use storlab_run::fixed::Ledger;

use super::cadence::take_precedence;
use super::lane::LOOK;
use super::order::Epoch;
use super::shared::Shared;

/// Place of `step` in the counters.
pub const STEP: usize = 1;
/// Place of `wake` in the counters: how late a thread was at the end of its step's computing.
pub const WAKE: usize = 2;

/// One epoch of one accelerator; times on the run's clock.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct EpochTimes {
    /// Which accelerator.
    pub accelerator: usize,
    /// Done.
    pub steps: u64,
    /// Asked for its first batch.
    pub start_ns: u64,
    /// End of its first step.
    pub first_end_ns: u64,
    /// End of its last step.
    pub end_ns: u64,
    /// Spent computing, as measured.
    pub compute_ns: u64,
    /// Of it, in the first step.
    pub first_compute_ns: u64,
    /// Spent waiting for batches.
    pub wait_ns: u64,
    /// Of it, for the first batch.
    pub first_wait_ns: u64,
    /// Spent waiting for the other accelerators, of all clients.
    pub barrier_ns: u64,
    /// From `start_ns` to the end of the last step, on schedule.
    pub scheduled_ns: u64,
    /// Of it, until the end of the first step.
    pub first_scheduled_ns: u64,
    /// By how much the thread came after the end of computing, sum of the steps.
    pub late_ns: u64,
    /// Of the batches that it took.
    pub bytes: u64,
    /// The run ended in the midst of it.
    #[serde(skip)]
    pub stopped: bool,
}

/// Compute through all epochs; each is announced by the coordinator and reported to it.
pub fn run(shared: &Arc<Shared>, index: usize, mut ledger: Ledger, report: &Sender<EpochTimes>) {
    sharpen_timers();
    take_precedence();
    for epoch in 0..shared.job.epochs {
        if !shared.wait_for_epoch(epoch) {
            return;
        }
        let times = run_epoch(shared, index, epoch, &mut ledger);
        ledger.cross(monotonic_ns());
        if report.send(times).is_err() || times.stopped {
            return;
        }
    }
}

fn run_epoch(shared: &Arc<Shared>, index: usize, epoch: u32, ledger: &mut Ledger) -> EpochTimes {
    let job = &shared.job;
    let lane = &shared.lanes[index];
    let stopping = || shared.control.stopping();
    let number = job.first_accelerator + index;
    let mut times = EpochTimes { accelerator: number, ..EpochTimes::default() };
    // Before the clock is read: of many files it takes a while that is not the storage's.
    let order = Epoch::new(job, epoch, number);
    times.start_ns = monotonic_ns();
    times.end_ns = times.start_ns;
    lane.begin(epoch, order);
    let mut free_ns = times.start_ns; // on schedule
    let mut woken = None;
    for step in 0..job.steps() {
        let asked_ns = times.end_ns; // of the step before
        let Some(batch) = lane.take(step, &stopping).filter(|batch| !batch.stopped) else {
            times.stopped = true;
            return times;
        };
        let taken_ns = monotonic_ns();
        let due_ns = free_ns.max(batch.ready_ns) + job.computation_ns;
        let turn = job.barrier.then(|| shared.announce(due_ns));
        // Here, since a new interval asks for memory, which may take a while and now has a while.
        record_wake(ledger, woken.take());
        ledger.record(STEP, 0, taken_ns - asked_ns, taken_ns);
        sleep_until(due_ns, &stopping);
        let computed_ns = monotonic_ns();
        let late_ns = computed_ns.saturating_sub(due_ns);
        woken = Some((late_ns, computed_ns));
        let met = turn.map_or(Some(due_ns), |turn| shared.end_of(turn, &stopping));
        let Some(end_ns) = met.filter(|end_ns| sleep_until(*end_ns, &stopping)) else {
            times.stopped = true;
            return times;
        };
        free_ns = end_ns;
        times.end_ns = monotonic_ns();
        times.steps += 1;
        times.bytes += batch.bytes;
        times.wait_ns += taken_ns - asked_ns;
        times.compute_ns += computed_ns - taken_ns;
        times.barrier_ns += times.end_ns - computed_ns;
        times.scheduled_ns = free_ns - times.start_ns;
        times.late_ns += late_ns;
        if step == 0 {
            times.first_end_ns = times.end_ns;
            times.first_compute_ns = computed_ns - taken_ns;
            times.first_wait_ns = taken_ns - asked_ns;
            times.first_scheduled_ns = times.scheduled_ns;
        }
    }
    record_wake(ledger, woken);
    times
}

/// How late a thread was, and when it was there.
fn record_wake(ledger: &mut Ledger, woken: Option<(u64, u64)>) {
    if let Some((late_ns, computed_ns)) = woken {
        ledger.record(WAKE, 0, late_ns, computed_ns);
    }
}

/// Nothing is computed: the time passes. False when the run is to end.
fn sleep_until(until_ns: u64, stopping: &dyn Fn() -> bool) -> bool {
    loop {
        let now = monotonic_ns();
        if now >= until_ns {
            return true;
        }
        if stopping() {
            return false;
        }
        std::thread::sleep(Duration::from_nanos(until_ns - now).min(LOOK));
    }
}

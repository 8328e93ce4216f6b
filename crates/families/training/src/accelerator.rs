//! Emulated accelerator: takes a batch, sleeps for its compute time, and takes the next one.
//!
//! It keeps a schedule. A step begins when the previous one ended or its batch arrived, whichever
//! is later, and ends one compute time after that, regardless of when the thread woke up. So a late
//! wake-up does not delay later steps, and the lateness is measured.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde::Serialize;
use storlab_base::monotonic_ns;
use storlab_run::cpu::sharpen_timers;
use storlab_run::fixed::WorkerRecorder;

use super::cadence::take_precedence;
use super::lane::LOOK;
use super::order::Epoch;
use super::shared::Shared;

/// Index of operation `step` in the counters.
pub const STEP: usize = 1;
/// Index of operation `wake` in the counters: how late a thread woke up after its compute time.
pub const WAKE: usize = 2;

/// Times of one accelerator in one epoch, in nanoseconds; points in time are on the run's clock.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct EpochTimes {
    /// Number of the accelerator among those of all clients.
    pub accelerator: usize,
    /// Number of completed steps.
    pub steps: u64,
    /// Time at which the accelerator asked for its first batch.
    pub start_ns: u64,
    /// Time at which the first step ended.
    pub first_end_ns: u64,
    /// Time at which the last step ended.
    pub end_ns: u64,
    /// Time spent computing, as measured by the thread.
    pub compute_ns: u64,
    /// Part of `compute_ns` that belongs to the first step.
    pub first_compute_ns: u64,
    /// Time spent waiting for batches.
    pub wait_ns: u64,
    /// Part of `wait_ns` spent waiting for the first batch.
    pub first_wait_ns: u64,
    /// Time spent at the barrier, waiting for the other accelerators of all clients.
    pub barrier_ns: u64,
    /// Duration from `start_ns` to the end of the last step by the schedule, without late wake-ups.
    pub scheduled_ns: u64,
    /// Part of `scheduled_ns` until the end of the first step.
    pub first_scheduled_ns: u64,
    /// Time by which the thread woke up too late after the compute time, summed over all steps.
    pub late_ns: u64,
    /// Bytes of the batches that the accelerator took.
    pub bytes: u64,
    /// Whether the run ended during the epoch.
    #[serde(skip)]
    pub stopped: bool,
}

/// Run all epochs of one accelerator. The coordinator opens each epoch; the accelerator's times are
/// sent to it with `report`.
pub fn run(
    shared: &Arc<Shared>,
    index: usize,
    mut recorder: WorkerRecorder,
    report: &Sender<EpochTimes>,
) {
    sharpen_timers();
    take_precedence();
    for epoch in 0..shared.job.epochs {
        if !shared.wait_for_epoch(epoch) {
            return;
        }
        let times = run_epoch(shared, index, epoch, &mut recorder);
        recorder.cross(monotonic_ns());
        if report.send(times).is_err() || times.stopped {
            return;
        }
    }
}

fn run_epoch(
    shared: &Arc<Shared>,
    index: usize,
    epoch: u32,
    recorder: &mut WorkerRecorder,
) -> EpochTimes {
    let job = &shared.job;
    let lane = &shared.lanes[index];
    let stopping = || shared.control.stopping();
    let number = job.first_accelerator + index;
    let mut times = EpochTimes { accelerator: number, ..EpochTimes::default() };
    // Build the order before reading the clock: with many files this takes time that is not due to
    // storage.
    let order = Epoch::new(job, epoch, number);
    times.start_ns = monotonic_ns();
    times.end_ns = times.start_ns;
    lane.begin(epoch, order);
    let mut free_ns = times.start_ns; // scheduled end of the previous step
    let mut woken = None;
    for step in 0..job.steps() {
        let asked_ns = times.end_ns; // actual end of the previous step
        let Some(batch) = lane.take(step, &stopping).filter(|batch| !batch.stopped) else {
            times.stopped = true;
            return times;
        };
        let taken_ns = monotonic_ns();
        let due_ns = free_ns.max(batch.ready_ns) + job.computation_ns;
        let turn = job.barrier.then(|| shared.announce(due_ns));
        // Record the previous wake-up here, during the compute time: it may be the first record of
        // a new interval, and handing over the statistics of the old interval may allocate memory
        // and take a while.
        record_wake(recorder, woken.take());
        recorder.record(STEP, 0, taken_ns - asked_ns, taken_ns);
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
    record_wake(recorder, woken);
    times
}

/// Record how late a thread woke up, and when (`woken`: lateness and time, in nanoseconds).
fn record_wake(recorder: &mut WorkerRecorder, woken: Option<(u64, u64)>) {
    if let Some((late_ns, computed_ns)) = woken {
        recorder.record(WAKE, 0, late_ns, computed_ns);
    }
}

/// Sleep until `until_ns`, instead of computing. Return false if the run is stopping.
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

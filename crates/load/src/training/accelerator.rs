//! An emulated accelerator: takes a batch, computes for its time, takes the next one.

use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use storlab_base::monotonic_ns;

use super::lane::LOOK;
use super::order::Epoch;
use super::Shared;
use crate::fixed::Ledger;

/// Place of `step` in the counters.
pub const STEP: usize = 1;

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
    /// Spent waiting for the other accelerators.
    pub barrier_ns: u64,
    /// Of the batches that it took.
    pub bytes: u64,
    /// The run ended in the midst of it.
    #[serde(skip)]
    pub stopped: bool,
}

/// Compute through all epochs; each is announced by the coordinator and reported to it.
pub fn run(shared: &Arc<Shared>, index: usize, mut ledger: Ledger, report: &Sender<EpochTimes>) {
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
    let mut times = EpochTimes { accelerator: index, ..EpochTimes::default() };
    times.start_ns = monotonic_ns();
    times.end_ns = times.start_ns;
    lane.begin(epoch, Epoch::new(job, epoch, index));
    for step in 0..job.steps() {
        let asked_ns = monotonic_ns();
        let Some(batch) = lane.take(step, &stopping).filter(|batch| !batch.stopped) else {
            times.stopped = true;
            return times;
        };
        let taken_ns = monotonic_ns();
        ledger.record(STEP, 0, taken_ns - asked_ns, taken_ns);
        compute(job.computation_ns, &stopping);
        let computed_ns = monotonic_ns();
        if job.barrier && !shared.meeting.wait(&stopping) {
            times.stopped = true;
            return times;
        }
        times.end_ns = monotonic_ns();
        times.steps += 1;
        times.bytes += batch.bytes;
        times.wait_ns += taken_ns - asked_ns;
        times.compute_ns += computed_ns - taken_ns;
        times.barrier_ns += times.end_ns - computed_ns;
        if step == 0 {
            times.first_end_ns = times.end_ns;
            times.first_compute_ns = computed_ns - taken_ns;
            times.first_wait_ns = taken_ns - asked_ns;
        }
    }
    times
}

/// Nothing is computed: the time passes.
fn compute(length_ns: u64, stopping: &dyn Fn() -> bool) {
    let until = monotonic_ns() + length_ns;
    loop {
        let now = monotonic_ns();
        if now >= until || stopping() {
            return;
        }
        std::thread::sleep(Duration::from_nanos(until - now).min(LOOK));
    }
}

//! The worker's phases: interval by interval through ramp and window, then the drain.

use std::time::Duration;

use storlab_base::{Result, TimeSource, lock, thread_cpu_ns};
use storlab_io::Backend;
use storlab_run::cpu::available_cores;
use storlab_run::recorder::Reading;

use super::{GRACE_NS, Worker, WorkerEnd};
use crate::spec::BackendKind;

impl<B: Backend, T: TimeSource> Worker<'_, B, T> {
    /// A boundary has passed: hand over the interval that ended.
    #[cold]
    pub(super) fn cross(&mut self, now: u64) {
        let (backend, clock) = (&self.backend, &self.clock);
        let read = || reading(backend, clock);
        self.schedule.cross(&mut self.recorder, self.shared, now, read);
    }

    pub(super) fn reading(&self) -> Reading {
        reading(&self.backend, &self.clock)
    }

    /// Threads that it, and what helps it, can be on at once.
    pub(super) fn helped_by(&self) -> usize {
        match self.shared.backend {
            BackendKind::Posix => available_cores(),
            _ => 1,
        }
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Nothing new is started; wait for what is in flight. After an early stop the kernel is asked
    /// to give up; where it cannot, within the time-out, the buffers are left to it.
    pub(super) fn drain(mut self, mut now: u64) -> Result<WorkerEnd> {
        let (recorder, draw) = (&mut self.recorder, &mut self.draw);
        self.schedule.end(recorder, self.shared, now, || draw.kind() as usize);
        let give_up = now + self.shared.job.drain_timeout_ns;
        let mut ask_at = if self.shared.control.stopping() { now + GRACE_NS } else { give_up };
        let mut hung = false;
        while self.in_flight() > 0 && now < give_up + GRACE_NS {
            if now >= give_up && !hung {
                self.fail_as_hung();
                hung = true;
            }
            if self.shared.control.stopping() {
                ask_at = ask_at.min(now + GRACE_NS);
            }
            if now >= ask_at {
                self.backend.cancel_all();
                ask_at = u64::MAX;
            }
            let until = ask_at.min(give_up + GRACE_NS).min(now + GRACE_NS);
            let limit = Duration::from_nanos(until.saturating_sub(now).max(1));
            now = self.hand_in(true, Some(limit), usize::MAX)?;
        }
        let (backend, clock) = (&self.backend, &self.clock);
        self.recorder.finish(self.shared, || reading(backend, clock));
        if let Some(report) = self.verify_report.take() {
            lock(&self.shared.verified).get_or_insert_default().merge(report);
        }
        let end = self.schedule.worker_end(&self.recorder);
        if self.in_flight() > 0 {
            self.fail_as_hung();
            self.backend.abandon();
        }
        Ok(end)
    }

    fn fail_as_hung(&self) {
        self.shared.fail_as_hung(self.index, self.in_flight());
    }
}

fn reading(backend: &impl Backend, clock: &impl TimeSource) -> Reading {
    Reading { used_ns: thread_cpu_ns() + backend.helper_cpu_ns(), at_ns: clock.now_ns() }
}

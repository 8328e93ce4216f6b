//! The worker's phases: interval by interval through ramp and window, then the drain.

use std::time::Duration;

use storlab_base::{Error, OpKind, Result, TimeSource, lock, thread_cpu_ns};
use storlab_io::Backend;
use storlab_run::cpu::{Spent, available_cores};

use super::{GRACE_NS, KindStats, KindTable, Message, Report, Worker, WorkerEnd};
use crate::spec::BackendKind;

impl<B: Backend, T: TimeSource> Worker<'_, B, T> {
    /// The end of the interval that `now` lies in.
    pub(super) fn next_boundary(&self, now: u64) -> u64 {
        self.window.next_boundary(now, self.shared.job.interval_ns)
    }

    /// Number of the interval that `now` lies in.
    pub(super) fn interval_at(&self, now: u64) -> i64 {
        self.window.interval_at(now, self.shared.job.interval_ns)
    }

    /// A boundary has passed: hand over the interval that ended.
    #[cold]
    pub(super) fn cross(&mut self, now: u64) {
        let next = self.interval_at(now);
        let over = now >= self.window.end_ns;
        self.shared.cpu.pass(&self.window, now);
        if next != self.interval || (over && !self.open_loop) {
            self.hand_over();
        }
        let used_ns = self.cpu_now();
        if let Some(cpu) = self.cpu.as_mut().filter(|_| over) {
            cpu.close(used_ns, self.clock.now_ns());
        }
        let missed = over && self.interval < 0;
        self.interval = next;
        if missed && !self.open_loop {
            self.hand_over(); // it came to see the window when that was over
        }
        // What was due in an open loop's window is still sent after it, but not for ever.
        let give_up = self.window.end_ns.saturating_add(self.shared.job.drain_timeout_ns);
        self.issuing &= !over || (self.open_loop && now < give_up);
        self.boundary_ns = match (over, self.issuing) {
            (false, _) => self.next_boundary(now),
            (true, true) => give_up,
            (true, false) => u64::MAX,
        };
    }

    pub(super) fn hand_over(&mut self) {
        let used_ns = self.cpu_now();
        let now = self.clock.now_ns();
        let spent = self.cpu.as_mut().map_or_else(Spent::default, |cpu| cpu.take(used_ns, now));
        let fresh = self.empty_stats();
        let kinds = std::mem::replace(&mut self.stats, fresh);
        let report = Report { job: self.index, interval: self.interval, spent, kinds };
        self.shared.send(Message::Interval(Box::new(report)));
    }

    pub(super) fn empty_stats(&self) -> KindTable {
        let mut table: KindTable = OpKind::ALL.iter().map(|_| None).collect();
        for kind in self.shared.job.kinds() {
            table[kind.place] = Some(Box::new(KindStats::new(self.open_loop)));
        }
        table
    }

    pub(super) fn cpu_now(&self) -> u64 {
        thread_cpu_ns() + self.backend.helper_cpu_ns()
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
        self.count_unserved(now);
        let give_up = now + self.shared.job.drain_timeout_ns;
        let mut ask_at = if self.shared.control.stopping() { now + GRACE_NS } else { give_up };
        self.issuing = false;
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
        if self.interval >= 0 && self.boundary_ns != u64::MAX || self.open_loop {
            self.hand_over();
        }
        if let Some(report) = self.verify_report.take() {
            lock(&self.shared.verified).get_or_insert_default().merge(report);
        }
        let end =
            WorkerEnd { last_completion_ns: self.last_completion_ns, unserved: self.unserved };
        if self.in_flight() > 0 {
            self.fail_as_hung();
            self.backend.abandon();
        }
        Ok(end)
    }

    fn fail_as_hung(&self) {
        let waited_ms = self.shared.job.drain_timeout_ns / 1_000_000;
        let (job, outstanding) = (self.index, self.in_flight());
        self.shared.fail(Error::Hung { job, outstanding, waited_ms });
    }

    /// Open loop: what was due and never sent counts with the time that it has waited already, or a
    /// collapse would look better than a slow device.
    fn count_unserved(&mut self, now: u64) {
        let endless = self.window.end_ns == u64::MAX;
        if !self.open_loop || endless || self.shared.control.stopping() {
            return;
        }
        while let Some(due) = self.pacing.due_ns().filter(|&due| due < self.window.end_ns) {
            self.pacing.advance();
            if due < self.window.start_ns {
                continue;
            }
            self.unserved += 1;
            let kind = self.draw.kind();
            if let Some(stats) = self.stats[kind as usize].as_deref_mut() {
                stats.late += 1;
                if let Some(intended) = &mut stats.intended {
                    intended.record(now.saturating_sub(due));
                }
            }
        }
    }
}

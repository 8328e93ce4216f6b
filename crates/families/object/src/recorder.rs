//! What one worker measures, interval by interval.

use std::sync::Arc;

use storlab_base::{monotonic_ns, thread_cpu_ns};
use storlab_run::cpu::WorkerCpu;
use storlab_run::sampling::{KindStats, KindTable, Report};
use storlab_run::timed::Message;
use storlab_run::window::Window;

use super::kind::ObjectKind;
use super::shared::Shared;

/// A request that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Success {
    /// What it did.
    pub kind: ObjectKind,
    /// When it was sent.
    pub start_ns: u64,
    /// When it was due; 0 in closed loop.
    pub due_ns: u64,
    /// When the first byte of the answer's body was there.
    pub first_byte_ns: Option<u64>,
    /// Moved.
    pub bytes: u64,
}

/// See the module.
pub struct Recorder {
    shared: Arc<Shared>,
    index: usize,
    window: Window,
    open_loop: bool,
    stats: KindTable,
    interval: i64,
    boundary_ns: u64,
    cpu: WorkerCpu,
    last_completion_ns: u64,
}

impl Recorder {
    /// Of worker `index`, for a window that is known.
    pub fn new(shared: &Arc<Shared>, index: usize, window: Window) -> Self {
        let length_ns = shared.job.interval_ns;
        let open_loop = shared.job.open_loop();
        Recorder {
            shared: shared.clone(),
            index,
            window,
            open_loop,
            stats: empty(shared),
            interval: window.interval_at(window.load_start_ns, length_ns),
            boundary_ns: window.next_boundary(window.load_start_ns, length_ns),
            cpu: WorkerCpu::begin(&window, 1, thread_cpu_ns(), monotonic_ns()),
            last_completion_ns: 0,
        }
    }

    /// When [`Recorder::tick`] has something to do next.
    pub fn boundary_ns(&self) -> u64 {
        self.boundary_ns
    }

    /// When the last request succeeded.
    pub fn last_completion_ns(&self) -> u64 {
        self.last_completion_ns
    }

    /// Hand over the interval that ended, if one did.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        if now >= self.boundary_ns {
            self.cross(now);
        }
    }

    #[cold]
    fn cross(&mut self, now: u64) {
        let length_ns = self.shared.job.interval_ns;
        let next = self.window.interval_at(now, length_ns);
        let over = now >= self.window.end_ns;
        self.shared.cpu.pass(&self.window, now);
        if next != self.interval || (over && !self.open_loop) {
            self.hand_over();
        }
        if over {
            self.cpu.close(thread_cpu_ns(), monotonic_ns());
        }
        let missed = over && self.interval < 0;
        self.interval = next;
        if missed && !self.open_loop {
            self.hand_over(); // it came to see the window when that was over
        }
        self.boundary_ns = if over { u64::MAX } else { self.window.next_boundary(now, length_ns) };
    }

    fn hand_over(&mut self) {
        let spent = self.cpu.take(thread_cpu_ns(), monotonic_ns());
        let kinds = std::mem::replace(&mut self.stats, empty(&self.shared));
        let report = Report { job: self.index, interval: self.interval, spent, kinds };
        self.shared.send(Message::Interval(Box::new(report)));
    }

    /// The load is over: hand over what has not been.
    pub fn finish(&mut self) {
        if (self.interval >= 0 && self.boundary_ns != u64::MAX) || self.open_loop {
            self.hand_over();
        }
    }

    /// Inside the window; due inside it; in the ramp, which is for the live view: the collector
    /// keeps it out of rows and totals.
    fn place(&self, due_ns: u64, now: u64) -> (bool, bool, bool) {
        let Window { start_ns, end_ns, .. } = self.window;
        let inside = now >= start_ns && now < end_ns;
        let due = self.open_loop && due_ns >= start_ns && due_ns < end_ns;
        (inside, due, now < start_ns)
    }

    fn stats(&mut self, kind: ObjectKind) -> Option<&mut KindStats> {
        self.stats.get_mut(kind as usize)?.as_deref_mut()
    }

    /// A request ended well, now.
    pub fn succeed(&mut self, done: &Success, now: u64) {
        self.tick(now);
        self.last_completion_ns = now;
        let (inside, due, ramp) = self.place(done.due_ns, now);
        let open_loop = self.open_loop;
        let Some(stats) = self.stats(done.kind).filter(|_| inside || due || ramp) else { return };
        if inside || ramp {
            stats.operations += 1;
            stats.bytes += done.bytes;
        } else {
            stats.late += 1;
        }
        if due || ramp || !open_loop {
            stats.latency.record(now.saturating_sub(done.start_ns));
            if let (Some(first), Some(ttfb)) = (done.first_byte_ns, &mut stats.ttfb) {
                ttfb.record(first.saturating_sub(done.start_ns));
            }
        }
        if let (true, Some(intended)) = (due || ramp, &mut stats.intended) {
            intended.record(now.saturating_sub(done.due_ns));
        }
    }

    /// An attempt at a request failed, now. Attempts that are tried again count too: they are
    /// something that the store did.
    pub fn fail(&mut self, kind: ObjectKind, error: &str, due_ns: u64, now: u64) {
        self.tick(now);
        let (inside, due, ramp) = self.place(due_ns, now);
        if let Some(stats) = self.stats(kind).filter(|_| inside || due || ramp) {
            stats.fail(error);
        }
    }

    /// Open loop: a request that was due in the window and never sent counts with the time that it
    /// has waited already, or a collapse would look better than a slow store.
    pub fn unserved(&mut self, kind: ObjectKind, due_ns: u64, now: u64) {
        if let Some(stats) = self.stats(kind) {
            stats.late += 1;
            if let Some(intended) = &mut stats.intended {
                intended.record(now.saturating_sub(due_ns));
            }
        }
    }
}

fn empty(shared: &Shared) -> KindTable {
    let open_loop = shared.job.open_loop();
    let mut table: KindTable = ObjectKind::ALL.iter().map(|_| None).collect();
    for kind in shared.job.kinds() {
        let stats = match kind {
            ObjectKind::Get => KindStats::with_ttfb(open_loop),
            _ => KindStats::new(open_loop),
        };
        table[kind as usize] = Some(Box::new(stats));
    }
    table
}

//! What one worker of a timed run measures, interval by interval.

use storlab_base::{monotonic_ns, thread_cpu_ns};

use crate::cpu::{Spent, WorkerCpu};
use crate::sampling::{KindStats, KindTable, Report};
use crate::timed::{Message, Timed};
use crate::window::Window;

/// An operation that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Success {
    /// Of its kind, in tables.
    pub place: usize,
    /// When it was sent.
    pub start_ns: u64,
    /// When it was due; 0 in closed loop.
    pub due_ns: u64,
    /// When the first byte of the answer's body was there.
    pub first_byte_ns: Option<u64>,
    /// Moved.
    pub bytes: u64,
}

/// A worker's CPU time, read just before `at_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// CPU time so far.
    pub used_ns: u64,
    /// On the run's clock.
    pub at_ns: u64,
}

impl Reading {
    /// Of a worker that is one thread, the calling one.
    pub fn of_this_thread() -> Self {
        Reading { used_ns: thread_cpu_ns(), at_ns: monotonic_ns() }
    }
}

/// Where the end of an operation lies.
#[derive(Clone, Copy)]
struct Place {
    inside: bool,
    /// It was due inside the window.
    due: bool,
    /// For the live view: the collector keeps it out of rows and totals.
    ramp: bool,
}

impl Place {
    #[inline]
    fn counts(self) -> bool {
        self.inside || self.due || self.ramp
    }
}

/// See the module.
pub struct Recorder {
    index: usize,
    window: Window,
    interval_ns: u64,
    open_loop: bool,
    empty: KindTable,
    stats: KindTable,
    interval: i64,
    boundary_ns: u64,
    cpu: Option<WorkerCpu>,
    last_completion_ns: u64,
}

impl Recorder {
    /// Of worker `index`, whose window is not known yet; `empty`: counters of all its kinds.
    pub fn new(index: usize, interval_ns: u64, open_loop: bool, empty: KindTable) -> Self {
        Recorder {
            index,
            window: Window::default(),
            interval_ns,
            open_loop,
            stats: empty.clone(),
            empty,
            interval: -1,
            boundary_ns: 0,
            cpu: None,
            last_completion_ns: 0,
        }
    }

    /// The load begins; `threads`: that the worker can be on at once.
    pub fn begin(&mut self, window: Window, threads: usize, reading: Reading) {
        self.window = window;
        self.interval = window.interval_at(window.load_start_ns, self.interval_ns);
        self.boundary_ns = window.next_boundary(window.load_start_ns, self.interval_ns);
        self.cpu = Some(WorkerCpu::begin(&window, threads, reading.used_ns, reading.at_ns));
    }

    /// When [`Recorder::cross`] is due next.
    #[inline]
    pub fn boundary_ns(&self) -> u64 {
        self.boundary_ns
    }

    /// The window is over, and there is something to do at `at_ns` still.
    pub fn look_again_at(&mut self, at_ns: u64) {
        self.boundary_ns = at_ns;
    }

    /// When the last operation succeeded.
    pub fn last_completion_ns(&self) -> u64 {
        self.last_completion_ns
    }

    /// A boundary has passed: hand over the interval that ended. True when the window is over.
    #[cold]
    pub fn cross(&mut self, timed: &Timed, now: u64, read: impl Fn() -> Reading) -> bool {
        let next = self.window.interval_at(now, self.interval_ns);
        let over = now >= self.window.end_ns;
        timed.cpu.pass(&self.window, now);
        if next != self.interval || (over && !self.open_loop) {
            self.hand_over(timed, read());
        }
        if let Some(cpu) = self.cpu.as_mut().filter(|_| over) {
            let Reading { used_ns, at_ns } = read();
            cpu.close(used_ns, at_ns);
        }
        let missed = over && self.interval < 0;
        self.interval = next;
        if missed && !self.open_loop {
            self.hand_over(timed, read()); // it came to see the window when that was over
        }
        self.boundary_ns =
            if over { u64::MAX } else { self.window.next_boundary(now, self.interval_ns) };
        over
    }

    fn hand_over(&mut self, timed: &Timed, Reading { used_ns, at_ns }: Reading) {
        let spent = self.cpu.as_mut().map_or_else(Spent::default, |cpu| cpu.take(used_ns, at_ns));
        let kinds = std::mem::replace(&mut self.stats, self.empty.clone());
        let report = Report { job: self.index, interval: self.interval, spent, kinds };
        timed.send(Message::Interval(Box::new(report)));
    }

    /// The load is over: hand over what has not been.
    pub fn finish(&mut self, timed: &Timed, read: impl Fn() -> Reading) {
        if (self.interval >= 0 && self.boundary_ns != u64::MAX) || self.open_loop {
            self.hand_over(timed, read());
        }
    }

    #[inline]
    fn place(&self, due_ns: u64, now: u64) -> Place {
        let Window { start_ns, end_ns, .. } = self.window;
        Place {
            inside: now >= start_ns && now < end_ns,
            due: self.open_loop && due_ns >= start_ns && due_ns < end_ns,
            ramp: now < start_ns,
        }
    }

    #[inline]
    fn stats(&mut self, place: usize) -> Option<&mut KindStats> {
        self.stats.get_mut(place)?.as_deref_mut()
    }

    /// An operation ended well, now.
    #[inline]
    pub fn succeed(&mut self, done: &Success, now: u64) {
        self.last_completion_ns = now;
        let place = self.place(done.due_ns, now);
        let open_loop = self.open_loop;
        let Some(stats) = self.stats(done.place).filter(|_| place.counts()) else { return };
        if place.inside || place.ramp {
            stats.operations += 1;
            stats.bytes += done.bytes;
        } else {
            stats.late += 1;
        }
        let due = place.due || place.ramp;
        if due || !open_loop {
            stats.latency.record(now.saturating_sub(done.start_ns));
            if let (Some(first), Some(ttfb)) = (done.first_byte_ns, &mut stats.ttfb) {
                ttfb.record(first.saturating_sub(done.start_ns));
            }
        }
        if let (true, Some(intended)) = (due, &mut stats.intended) {
            intended.record(now.saturating_sub(done.due_ns));
        }
    }

    /// An attempt at an operation failed, now. Attempts that are tried again count too: they are
    /// something that the target did.
    pub fn fail(&mut self, place: usize, error: &str, due_ns: u64, now: u64) {
        let counts = self.place(due_ns, now).counts();
        if let Some(stats) = self.stats(place).filter(|_| counts) {
            stats.fail(error);
        }
    }

    /// Open loop: an operation that was due in the window and never sent counts with the time that
    /// it has waited already, or a collapse would look better than a slow target.
    pub fn unserved(&mut self, place: usize, due_ns: u64, now: u64) {
        if let Some(stats) = self.stats(place) {
            stats.late += 1;
            if let Some(intended) = &mut stats.intended {
                intended.record(now.saturating_sub(due_ns));
            }
        }
    }
}

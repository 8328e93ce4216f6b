//! Measurements of one worker of a timed run, per interval.

pub use crate::cpu::Reading;
use crate::cpu::{Spent, WorkerCpu};
use crate::sampling::{KindStats, KindTable, Tables, Unfinished};
use crate::timed::{Message, Timed};
use crate::window::Window;

/// Operation that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Success {
    /// Index of its kind in a [`KindTable`].
    pub place: usize,
    /// Time of submission, in ns on the run's clock.
    pub start_ns: u64,
    /// Due time, in ns on the run's clock; 0 in a closed loop.
    pub due_ns: u64,
    /// Time at which the first byte of the answer's body arrived; `None` for operations without
    /// one.
    pub first_byte_ns: Option<u64>,
    /// Bytes read or written.
    pub bytes: u64,
}

/// Position in time of an operation relative to the window.
#[derive(Clone, Copy)]
struct WindowPosition {
    inside: bool,
    /// Open loop: the operation was due inside the window.
    due: bool,
    /// The operation ended in the ramp. It then counts in the live view only: the collector does
    /// not use intervals of the ramp for rows and totals.
    ramp: bool,
}

impl WindowPosition {
    #[inline]
    fn counts(self) -> bool {
        self.inside || self.due || self.ramp
    }
}

/// Batch of operations that have equal values and are not counted yet, for example all operations
/// that one system call completed. Counting the batch costs little more than counting one
/// operation.
#[derive(Clone, Copy, Default)]
struct PendingBatch {
    done: Success,
    end_ns: u64,
    count: u64,
}

/// Recorder of one worker of a timed run. It counts operations by interval and kind.
pub struct Recorder {
    window: Window,
    interval_ns: u64,
    open_loop: bool,
    tables: Tables,
    interval: i64,
    boundary_ns: u64,
    cpu: Option<WorkerCpu>,
    alike: PendingBatch,
    last_completion_ns: u64,
    unfinished: Vec<Unfinished>,
}

impl Recorder {
    /// Create the recorder of worker `index`, before its window is known. `empty` is a table with a
    /// counter, at 0, for each kind of operation that the worker performs.
    pub fn new(index: usize, interval_ns: u64, open_loop: bool, empty: KindTable) -> Self {
        Recorder {
            window: Window::default(),
            interval_ns,
            open_loop,
            unfinished: vec![Unfinished::default(); empty.len()],
            tables: Tables::new(index, empty),
            interval: -1,
            boundary_ns: 0,
            cpu: None,
            alike: PendingBatch::default(),
            last_completion_ns: 0,
        }
    }

    /// Start recording when the load begins. `cores` is the number of cores that the worker and its
    /// helper threads can use at once.
    pub fn begin(&mut self, window: Window, cores: usize, reading: Reading) {
        self.window = window;
        self.interval = window.interval_at(window.load_start_ns, self.interval_ns);
        self.boundary_ns = window.next_boundary(window.load_start_ns, self.interval_ns);
        self.cpu = Some(WorkerCpu::begin(&window, cores, reading));
    }

    /// Return the time at which [`Recorder::cross`] must be called next.
    #[inline]
    pub fn boundary_ns(&self) -> u64 {
        self.boundary_ns
    }

    /// Let [`Recorder::cross`] be called once more at `at_ns`, although the window is over.
    pub fn look_again_at(&mut self, at_ns: u64) {
        self.boundary_ns = at_ns;
    }

    /// Return the time at which the last operation succeeded.
    pub fn last_completion_ns(&self) -> u64 {
        self.last_completion_ns
    }

    /// Return the operations of a closed loop that were in flight when the window ended, by kind as
    /// in a [`KindTable`]. Complete only after [`Recorder::finish`].
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// Hand over the counters of the interval that ended before `now`. Returns true if the window
    /// is over.
    #[cold]
    pub fn cross(&mut self, timed: &Timed, now: u64, read: impl Fn() -> Reading) -> bool {
        let next = self.window.interval_at(now, self.interval_ns);
        let over = now >= self.window.end_ns;
        timed.cpu.pass(&self.window, now);
        if next != self.interval || (over && !self.open_loop) {
            self.hand_over(timed, read());
        }
        if let Some(cpu) = self.cpu.as_mut().filter(|_| over) {
            cpu.close(read());
        }
        let missed = over && self.interval < 0;
        self.interval = next;
        if missed && !self.open_loop {
            self.hand_over(timed, read()); // the worker was late: the window is already over
        }
        self.boundary_ns =
            if over { u64::MAX } else { self.window.next_boundary(now, self.interval_ns) };
        over
    }

    fn hand_over(&mut self, timed: &Timed, reading: Reading) {
        self.settle();
        let spent = self.cpu.as_mut().map_or_else(Spent::default, |cpu| cpu.take(reading));
        timed.send(Message::Interval(self.tables.take(self.interval, spent)));
    }

    /// Hand over the remaining counters to the coordinator when the load has ended.
    pub fn finish(&mut self, timed: &Timed, read: impl Fn() -> Reading) {
        self.settle();
        if (self.interval >= 0 && self.boundary_ns != u64::MAX) || self.open_loop {
            self.hand_over(timed, read());
        }
    }

    #[inline]
    fn place(&self, due_ns: u64, now: u64) -> WindowPosition {
        let Window { start_ns, end_ns, .. } = self.window;
        WindowPosition {
            inside: now >= start_ns && now < end_ns,
            due: self.open_loop && due_ns >= start_ns && due_ns < end_ns,
            ramp: now < start_ns,
        }
    }

    #[inline]
    fn stats(&mut self, place: usize) -> Option<&mut KindStats> {
        self.tables.current().get_mut(place)?.as_deref_mut()
    }

    /// Record an operation that succeeded at `now`.
    #[inline]
    pub fn succeed(&mut self, done: &Success, now: u64) {
        if now != self.alike.end_ns || *done != self.alike.done {
            self.settle();
            self.alike = PendingBatch { done: *done, end_ns: now, count: 0 };
            self.last_completion_ns = now;
        }
        self.alike.count += 1;
    }

    /// Add the pending batch of equal operations to the counters.
    fn settle(&mut self) {
        let PendingBatch { done, end_ns, count } = std::mem::take(&mut self.alike);
        let place = self.place(done.due_ns, end_ns);
        let open_loop = self.open_loop;
        let Some(stats) = self.stats(done.place).filter(|_| count > 0 && place.counts()) else {
            self.count_unfinished(done.place, done.start_ns, end_ns, count);
            return;
        };
        if place.inside || place.ramp {
            stats.operations += count;
            stats.bytes += done.bytes * count;
        } else {
            stats.late += count;
        }
        let due = place.due || place.ramp;
        if due || !open_loop {
            stats.latency.record_n(end_ns.saturating_sub(done.start_ns), count);
            if let (Some(first), Some(ttfb)) = (done.first_byte_ns, &mut stats.ttfb) {
                ttfb.record_n(first.saturating_sub(done.start_ns), count);
            }
        }
        if let (true, Some(intended)) = (due, &mut stats.intended) {
            intended.record_n(end_ns.saturating_sub(done.due_ns), count);
        }
    }

    /// Count operations as unfinished if the window of a closed loop ended while they were in
    /// flight. They must not enter a histogram of completed operations, because that would bias it:
    /// the longer an operation takes, the more likely it is in flight at a given moment.
    #[cold]
    fn count_unfinished(&mut self, place: usize, start_ns: u64, end_ns: u64, count: u64) {
        let window_end_ns = self.window.end_ns;
        if self.open_loop || count == 0 || start_ns >= window_end_ns || end_ns < window_end_ns {
            return;
        }
        if let Some(unfinished) = self.unfinished.get_mut(place) {
            unfinished.add(Unfinished { operations: count, longest_ns: end_ns - start_ns });
        }
    }

    /// Record that an operation, first sent at `start_ns`, failed at `now` and is not retried. A
    /// closed loop counts it as unfinished if it was in flight at the window's end. Call
    /// [`Recorder::fail`] as well to count its error.
    pub fn give_up(&mut self, place: usize, start_ns: u64, now: u64) {
        self.count_unfinished(place, start_ns, now, 1);
    }

    /// Record a failed attempt at an operation. Attempts that are retried count too, because the
    /// target caused them.
    pub fn fail(&mut self, place: usize, error: &str, due_ns: u64, now: u64) {
        let counts = self.place(due_ns, now).counts();
        if let Some(stats) = self.stats(place).filter(|_| counts) {
            stats.fail(error);
        }
    }

    /// Record that an operation of an open loop timed out and is not retried. If it was due in the
    /// window, the time since it was due enters the histogram as a lower bound of its latency.
    /// Otherwise percentiles would improve with every operation that hangs.
    pub fn time_out(&mut self, place: usize, due_ns: u64, now: u64) {
        let WindowPosition { due, ramp, .. } = self.place(due_ns, now);
        let stats = self.stats(place).filter(|_| due || ramp);
        if let Some(intended) = stats.and_then(|stats| stats.intended.as_mut()) {
            intended.record(now.saturating_sub(due_ns));
        }
    }

    /// Record `count` operations of an open loop that were due in the window and never sent. Their
    /// waiting time until `now` counts as latency. Otherwise an overloaded target would look better
    /// than a slow one.
    pub fn unserved(&mut self, place: usize, due_ns: u64, now: u64, count: u64) {
        if let Some(stats) = self.stats(place) {
            stats.late += count;
            if let Some(intended) = &mut stats.intended {
                intended.record_n(now.saturating_sub(due_ns), count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::{Kind, empty_table};

    const KIND: Kind = Kind::new(0, "read");

    fn recorder(open_loop: bool) -> Recorder {
        let mut empty = empty_table(&[KIND], open_loop);
        if let Some(stats) = &mut empty[0] {
            stats.ttfb = Some(storlab_base::Histogram::new());
        }
        let mut recorder = Recorder::new(0, 1000, open_loop, empty);
        let window = Window { load_start_ns: 1000, start_ns: 2000, end_ns: 4000 };
        recorder.begin(window, 1, Reading { used_ns: 0, helpers_ns: 0, at_ns: 1000 });
        recorder
    }

    /// Return batches in the ramp, inside the window and after its end. Neighbouring batches differ
    /// in one value only.
    fn batches() -> Vec<(Success, u64)> {
        let mut all = Vec::new();
        for now in [1500, 2500, 3999, 4000, 4500] {
            for (start_ns, bytes, count) in [(1100, 512, 3), (1100, 4096, 1), (1200, 4096, 5)] {
                let first_byte_ns = (count > 1).then_some(1300);
                let done = Success { place: 0, start_ns, due_ns: 3500, first_byte_ns, bytes };
                all.extend(std::iter::repeat_n((done, now), count));
                all.push((Success { due_ns: 5000, ..done }, now));
            }
        }
        all
    }

    fn figures(recorder: &mut Recorder) -> impl PartialEq + std::fmt::Debug {
        recorder.settle();
        let stats = recorder.stats(0).unwrap();
        let histograms = [Some(&stats.latency), stats.intended.as_ref(), stats.ttfb.as_ref()];
        let buckets = histograms.map(|histogram| histogram.map(storlab_base::Histogram::buckets));
        (stats.operations, stats.bytes, stats.late, buckets)
    }

    #[test]
    fn operations_that_are_alike_count_as_one_by_one() {
        for open_loop in [false, true] {
            let (mut together, mut single) = (recorder(open_loop), recorder(open_loop));
            for (done, now) in batches() {
                together.succeed(&done, now);
                single.succeed(&done, now);
                single.settle();
                assert_eq!(together.last_completion_ns(), now);
            }
            let (together, single) = (figures(&mut together), figures(&mut single));
            assert_eq!(together, single, "open loop: {open_loop}");
        }
    }

    #[test]
    fn a_time_out_counts_from_its_due_time_in_open_loop() {
        // An operation may be due and time out in the ramp (live view only), be due before the
        // window, be due and time out in it, or be due in it and time out after it.
        for (due_ns, now, counts) in
            [(1100, 1900, true), (1900, 2500, false), (2500, 3500, true), (3500, 9000, true)]
        {
            let mut recorder = recorder(true);
            recorder.fail(0, "time-out", due_ns, now);
            recorder.time_out(0, due_ns, now);
            let stats = recorder.stats(0).unwrap();
            let intended = stats.intended.as_ref().unwrap();
            assert_eq!(intended.count(), u64::from(counts), "due at {due_ns}");
            assert!(!counts || intended.max_ns().abs_diff(now - due_ns) <= 5);
            assert_eq!((stats.operations, stats.late, stats.latency.count()), (0, 0, 0));
        }
        let mut closed = recorder(false);
        closed.time_out(0, 0, 2500);
        assert!(closed.stats(0).unwrap().is_empty());
    }

    #[test]
    fn none_is_counted_twice_or_where_there_was_none() {
        let mut recorder = recorder(false);
        recorder.settle();
        assert!(recorder.stats(0).unwrap().is_empty());
        let done = Success { bytes: 512, start_ns: 2100, ..Success::default() };
        for _ in 0..3 {
            recorder.succeed(&done, 2200);
        }
        recorder.settle();
        recorder.succeed(&done, 2200); // equal to operations that are already counted
        recorder.settle();
        recorder.settle();
        let stats = recorder.stats(0).unwrap();
        assert_eq!((stats.operations, stats.bytes, stats.latency.count()), (4, 2048, 4));
    }
}

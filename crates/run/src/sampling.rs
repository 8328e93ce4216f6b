//! Counters of workers per interval, and their merging into rows of samples.
//!
//! Each worker has counters of its own and hands them over at the end of an interval, so workers
//! share nothing while operations run. An interval is encoded as soon as all workers have passed
//! it, so memory stays bounded however long the run is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde::Serialize;
use storlab_base::{Coarse, Histogram};

use crate::cpu::Spent;

/// Operations of one kind that a closed loop had in flight when the window ended. They are not
/// counted as completed operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Number of operations.
    pub operations: u64,
    /// Longest time from submission to end among the operations in flight, in ns.
    pub longest_ns: u64,
}

impl Unfinished {
    /// Add the count of `other`, and keep the longer time.
    pub fn add(&mut self, other: Unfinished) {
        self.operations += other.operations;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Counters of one kind of operation in one interval.
#[derive(Clone, Debug)]
pub struct KindStats {
    /// Operations completed inside the window.
    pub operations: u64,
    /// Bytes read or written by the operations completed inside the window.
    pub bytes: u64,
    /// Open loop: number of operations that were due inside the window but completed after it.
    pub late: u64,
    /// Closed loop: operations in flight at the window's end. They are counted after it, and
    /// therefore appear in totals only.
    pub unfinished: Unfinished,
    /// Latency from submission to completion, in ns.
    pub latency: Histogram,
    /// Open loop: latency from intended start to completion, in ns.
    pub intended: Option<Histogram>,
    /// Time to the first byte of the answer's body, in ns; `None` for kinds of operation without
    /// one.
    pub ttfb: Option<Histogram>,
    /// Number of failed operations by kind of error. They are not counted in `operations`.
    pub errors: BTreeMap<String, u64>,
}

impl KindStats {
    /// Create counters that are all 0.
    pub fn new(open_loop: bool) -> Self {
        KindStats {
            operations: 0,
            bytes: 0,
            late: 0,
            unfinished: Unfinished::default(),
            latency: Histogram::new(),
            intended: open_loop.then(Histogram::new),
            ttfb: None,
            errors: BTreeMap::new(),
        }
    }

    /// Return whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.operations == 0 && self.late == 0 && self.latency.is_empty() && self.errors.is_empty()
    }

    /// Count one error of this kind.
    pub fn fail(&mut self, kind: &str) {
        match self.errors.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.errors.insert(kind.to_owned(), 1)),
        }
    }

    /// Return counters that are all 0, with the same set of histograms.
    fn blank(&self) -> KindStats {
        KindStats {
            ttfb: self.ttfb.as_ref().map(|_| Histogram::new()),
            ..KindStats::new(self.intended.is_some())
        }
    }

    /// Reset all counters to 0. Histograms keep their memory.
    fn clear(&mut self) {
        (self.operations, self.bytes, self.late) = (0, 0, 0);
        self.errors.clear();
        self.latency.clear();
        for histogram in [&mut self.intended, &mut self.ttfb].into_iter().flatten() {
            histogram.clear();
        }
    }

    fn add(&mut self, other: &KindStats) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.late += other.late;
        self.unfinished.add(other.unfinished);
        self.latency.add(&other.latency);
        if let (Some(sum), Some(latency)) = (&mut self.intended, &other.intended) {
            sum.add(latency);
        }
        if let Some(latency) = &other.ttfb {
            self.ttfb.get_or_insert_with(Histogram::new).add(latency);
        }
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
    }
}

/// Counters by kind of operation: the index is [`Kind::place`]; `None` for kinds that the load does
/// not have.
pub type KindTable = Vec<Option<Box<KindStats>>>;

/// Create a table with counters, all 0, for the operation kinds `kinds`.
pub fn empty_table(kinds: &[Kind], open_loop: bool) -> KindTable {
    let places = kinds.iter().map(|kind| kind.place + 1).max().unwrap_or(0);
    let mut table: KindTable = (0..places).map(|_| None).collect();
    for kind in kinds {
        table[kind.place] = Some(Box::new(KindStats::new(open_loop)));
    }
    table
}

/// Kind of operation: its index in a [`KindTable`] and its name in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Index in a [`KindTable`].
    pub place: usize,
    /// Name of the kind in results.
    pub name: &'static str,
    /// Whether operations of this kind transfer their bytes. A trim, for example, does not.
    pub moves: bool,
    /// Whether operations of this kind, such as flushes, are counted separately and excluded from
    /// sums over kinds.
    pub apart: bool,
    /// Index of the group of workers whose operations these are; 0 if workers form no groups.
    pub group: usize,
}

impl Kind {
    /// Create a kind of operation that transfers its bytes.
    pub const fn new(place: usize, name: &'static str) -> Self {
        Kind { place, name, moves: true, apart: false, group: 0 }
    }

    /// Create a kind of operation that is counted separately and transfers no bytes, such as a
    /// flush.
    pub const fn apart(place: usize, name: &'static str) -> Self {
        Kind { place, name, moves: false, apart: true, group: 0 }
    }
}

/// Workers with a load of their own, whose operations are also counted apart from those of other
/// groups. The kinds of all groups have different places in a [`KindTable`].
#[derive(Clone, Debug)]
pub struct LoadGroup {
    /// Name of the group in results.
    pub name: Arc<str>,
    /// Whether the group's operations start by a schedule (open loop).
    pub open_loop: bool,
}

/// Name of flushes in results.
const FLUSH: &str = "sync";

/// Return the kinds that are included in sums, with their counters.
fn summed<'t>(
    kinds: &'t [Kind],
    table: &'t KindTable,
) -> impl Iterator<Item = (Kind, &'t KindStats)> {
    let kinds = kinds.iter().filter(|kind| !kind.apart);
    kinds.filter_map(move |kind| Some((*kind, table.get(kind.place)?.as_deref()?)))
}

/// Return the number of operations in a table, and of the bytes that they transferred.
fn done(kinds: &[Kind], table: &KindTable) -> (u64, u64) {
    summed(kinds, table).fold((0, 0), |(operations, bytes), (kind, stats)| {
        let moved = if kind.moves { stats.bytes } else { 0 };
        (operations + stats.operations, bytes + moved)
    })
}

/// Counters that a worker hands over at the end of an interval.
pub struct Report {
    /// Index of the worker.
    pub job: usize,
    /// Number of the interval; negative during the ramp.
    pub interval: i64,
    /// CPU time that the worker used in the interval.
    pub spent: Spent,
    /// Counters by kind.
    pub kinds: KindTable,
    /// Channel by which the report returns to its worker for reuse; `None` if it is not reused.
    home: Option<SyncSender<Box<Report>>>,
}

impl Report {
    /// Create a report of worker `job` for the first interval.
    pub fn new(job: usize, kinds: KindTable) -> Self {
        Report { job, interval: 0, spent: Spent::default(), kinds, home: None }
    }

    /// Reset the report and return it to its worker for reuse. It is dropped if the worker has
    /// ended.
    pub fn recycle(mut self: Box<Self>) {
        if let Some(home) = self.home.clone() {
            self.kinds.iter_mut().flatten().for_each(|stats| stats.clear());
            let _ = home.try_send(self);
        }
    }

    /// Return a report whose counters are all 0, for the same worker.
    fn blank(&self) -> Report {
        let blank = |stats: &Option<Box<KindStats>>| Some(Box::new(stats.as_ref()?.blank()));
        let kinds = self.kinds.iter().map(blank).collect();
        Report { home: self.home.clone(), ..Report::new(self.job, kinds) }
    }

    /// Return whether the report contains neither completed nor failed operations.
    pub fn is_empty(&self) -> bool {
        self.kinds.iter().flatten().all(|stats| stats.is_empty())
    }
}

/// Number of spare reports per worker. `python/storlab/lab/plan/memory.py` includes them in its
/// estimate of memory.
const SPARE: usize = 2;

/// Counters of one worker. They are handed over as a whole and come back for reuse, so that a
/// worker allocates no memory between operations: an allocation may take as long as an operation.
pub struct Tables {
    current: Box<Report>,
    spare: Receiver<Box<Report>>,
}

impl Tables {
    /// Create the counters of worker `job`. `empty` is a table with a counter, at 0, for each kind
    /// of operation that the worker performs.
    pub fn new(job: usize, empty: KindTable) -> Self {
        let (home, spare) = sync_channel(SPARE);
        let current = Box::new(Report { home: Some(home), ..Report::new(job, empty) });
        for _ in 0..SPARE {
            // Clearing the report touches its memory, so that the kernel allocates it before the
            // load.
            Box::new(current.blank()).recycle();
        }
        Tables { current, spare }
    }

    /// Return the counters of the current interval.
    #[inline]
    pub fn current(&mut self) -> &mut KindTable {
        &mut self.current.kinds
    }

    /// Take the counters of the interval that ended, and continue with a spare set. Memory is
    /// allocated only if no spare set has come back yet.
    pub fn take(&mut self, interval: i64, spent: Spent) -> Box<Report> {
        let next = self.spare.try_recv().unwrap_or_else(|_| Box::new(self.current.blank()));
        let mut ended = std::mem::replace(&mut self.current, next);
        (ended.interval, ended.spent) = (interval, spent);
        ended
    }
}

/// Row of samples: one interval and one kind of operation, over all jobs or those of one group.
#[derive(Clone, Debug)]
pub struct Row {
    /// Number of the interval, from 0.
    pub interval: u32,
    /// Start of the interval, in ns on the run's clock.
    pub start_ns: u64,
    /// End of the interval, in ns on the run's clock.
    pub end_ns: u64,
    /// Kind of operation.
    pub kind: &'static str,
    /// Group whose operations the row counts; `None` for those of all workers.
    pub group: Option<Arc<str>>,
    /// Number of completed operations.
    pub operations: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Latencies as an `HdrHistogram` in V2 encoding.
    pub latency: Vec<u8>,
    /// Latencies from the intended start as an `HdrHistogram` in V2 encoding; `None` in a closed
    /// loop.
    pub intended: Option<Vec<u8>>,
    /// CPU time of all workers in the interval, in ns. Only the first row of an interval has it, so
    /// that sums over rows are right.
    pub worker_cpu_ns: u64,
    /// Times to the first byte as an `HdrHistogram` in V2 encoding; `None` for kinds of operation
    /// without an answer's body.
    pub ttfb: Option<Vec<u8>>,
    /// Number of failed operations.
    pub errors: u64,
}

/// Rates and latency of the last interval that all jobs have passed. Kinds that are counted
/// separately are not included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    /// Operations per second; `None` before all jobs have passed the first interval.
    pub operations_s: Option<f64>,
    /// Bytes per second; `None` before all jobs have passed the first interval.
    pub bytes_s: Option<f64>,
    /// 99th percentile of latency in ns; `None` before the first interval, or if no operation
    /// completed in the last one.
    pub latency_p99_ns: Option<u64>,
    /// Coarse histogram from which `latency_p99_ns` is computed.
    pub latency_bins: Option<Coarse>,
    /// 99th percentile of the latency of flushes, in ns; `None` if no flush completed.
    pub flush_p99_ns: Option<u64>,
}

/// Operations and bytes of each worker inside the window, in order of workers. Sums over all kinds
/// except those that are counted separately.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct ByWorker {
    /// Number of completed operations of each worker.
    pub operations: Vec<u64>,
    /// Bytes read or written by each worker.
    pub bytes: Vec<u64>,
}

impl ByWorker {
    fn of(jobs: usize) -> Self {
        ByWorker { operations: vec![0; jobs], bytes: vec![0; jobs] }
    }

    fn add(&mut self, report: &Report, kinds: &[Kind]) {
        let (operations, bytes) = done(kinds, &report.kinds);
        self.operations[report.job] += operations;
        self.bytes[report.job] += bytes;
    }
}

#[derive(Default)]
struct Pending {
    kinds: KindTable,
    cpu_ns: u64,
}

/// Merges the reports of workers into rows and totals.
pub struct Collector {
    interval_ns: u64,
    open_loop: bool,
    groups: Vec<LoadGroup>,
    kinds: Vec<Kind>,
    passed: Vec<i64>,
    pending: BTreeMap<i64, Pending>,
    next: i64,
    rows: Vec<Row>,
    totals: KindTable,
    workers: Vec<Spent>,
    by_worker: ByWorker,
    live: Live,
}

/// Initial value of a worker's last interval. It is below the number of every interval of the ramp,
/// so that reports of the ramp count as progress.
const NOTHING_YET: i64 = i64::MIN;

impl Collector {
    /// Create the collector for `jobs` workers, whose load has the operation kinds `kinds`.
    pub fn new(jobs: usize, interval_ns: u64, open_loop: bool, kinds: Vec<Kind>) -> Self {
        Collector {
            interval_ns,
            open_loop,
            groups: Vec::new(),
            totals: empty_table(&kinds, open_loop),
            kinds,
            passed: vec![NOTHING_YET; jobs],
            pending: BTreeMap::new(),
            next: 0,
            rows: Vec::new(),
            workers: vec![Spent::default(); jobs],
            by_worker: ByWorker::of(jobs),
            live: Live::default(),
        }
    }

    /// Count the operations of these groups of workers apart, too. [`Kind::group`] is the index of a
    /// group in `groups`.
    #[must_use]
    pub fn with_groups(mut self, groups: Vec<LoadGroup>) -> Self {
        self.groups = groups;
        for kind in self.kinds.clone() {
            self.totals[kind.place] = Some(Box::new(self.empty(kind)));
        }
        self
    }

    /// Return counters, all 0, for operations of this kind.
    fn empty(&self, kind: Kind) -> KindStats {
        KindStats::new(self.groups.get(kind.group).map_or(self.open_loop, |group| group.open_loop))
    }

    /// Return the sums over groups of the counters in `table`, by name of the kind.
    ///
    /// A sum has latencies from the intended start only if all groups with this kind are open loops,
    /// because those of a part of the operations would be mistaken for those of all.
    fn over_groups(&self, table: &KindTable) -> Vec<(&'static str, KindStats)> {
        let mut sums: Vec<(&'static str, KindStats)> = Vec::new();
        for &kind in &self.kinds {
            let own = self.empty(kind);
            let stats = table.get(kind.place).and_then(Option::as_deref).unwrap_or(&own);
            match sums.iter_mut().find(|(name, _)| *name == kind.name) {
                Some((_, sum)) => {
                    if own.intended.is_none() {
                        sum.intended = None;
                    }
                    sum.add(stats);
                }
                None => sums.push((kind.name, stats.clone())),
            }
        }
        sums
    }

    /// Add a report of a worker. Call this in order of interval for each worker, at most once per
    /// interval.
    pub fn add(&mut self, report: &Report, window_start_ns: u64) {
        self.passed[report.job] = report.interval;
        let pending = self.pending.entry(report.interval).or_default();
        pending.cpu_ns += report.spent.cpu_ns;
        if report.interval >= 0 {
            self.workers[report.job].add(report.spent);
            self.by_worker.add(report, &self.kinds);
        }
        pending.kinds.resize_with(self.totals.len(), || None);
        for (stats, reported) in pending.kinds.iter_mut().zip(&report.kinds) {
            match (stats, reported) {
                (Some(stats), Some(reported)) => stats.add(reported),
                (stats @ None, Some(reported)) => *stats = Some(reported.clone()),
                (_, None) => {}
            }
        }
        self.close_passed(window_start_ns);
    }

    /// Add the operations that a worker had in flight in a closed loop at the window's end, by kind
    /// as in a [`KindTable`].
    pub fn add_unfinished(&mut self, unfinished: &[Unfinished]) {
        for (total, &more) in self.totals.iter_mut().zip(unfinished) {
            if let Some(total) = total {
                total.unfinished.add(more);
            }
        }
    }

    /// Record that a worker has ended, so that intervals no longer wait for its reports.
    pub fn end_job(&mut self, job: usize, window_start_ns: u64) {
        self.passed[job] = i64::MAX;
        self.close_passed(window_start_ns);
    }

    fn close_passed(&mut self, window_start_ns: u64) {
        let all_passed = self.passed.iter().copied().min().unwrap_or(NOTHING_YET);
        // If all jobs have ended, `all_passed` is `i64::MAX`, so the last interval with a report is
        // the limit.
        let last = self.pending.keys().next_back().copied().unwrap_or(NOTHING_YET);
        self.close_until(all_passed.min(last), window_start_ns, u64::MAX);
    }

    /// Complete all intervals that are still open at the end of the window.
    pub fn finish(&mut self, window_start_ns: u64, window_end_ns: u64) {
        let length = window_end_ns.saturating_sub(window_start_ns);
        let count = length.div_ceil(self.interval_ns) as i64;
        let last = self.pending.keys().next_back().copied().unwrap_or(-1);
        self.close_until((count - 1).max(last), window_start_ns, window_end_ns);
        if let Some(row) = self.rows.last() {
            // The last interval of a window that ends after a number of bytes may be shorter than
            // the others.
            let (interval, end) = (row.interval, window_end_ns.max(row.start_ns + 1));
            for row in self.rows.iter_mut().rev().take_while(|r| r.interval == interval) {
                row.end_ns = end;
            }
        }
    }

    fn close_until(&mut self, last: i64, window_start_ns: u64, window_end_ns: u64) {
        while let Some(entry) = self.pending.first_entry() {
            if *entry.key() >= 0 || *entry.key() > last {
                break;
            }
            let ramp = entry.remove();
            self.live = self.live_of(&ramp);
        }
        while self.next <= last {
            let pending = self.pending.remove(&self.next).unwrap_or_default();
            self.live = self.live_of(&pending);
            let start_ns = window_start_ns + self.next as u64 * self.interval_ns;
            let end_ns = (start_ns + self.interval_ns).min(window_end_ns);
            self.close(&pending, start_ns, end_ns);
            self.next += 1;
        }
    }

    fn close(&mut self, pending: &Pending, start_ns: u64, end_ns: u64) {
        let interval = self.next as u32;
        let row = |kind: &'static str, group: Option<Arc<str>>, stats: &KindStats| Row {
            interval,
            start_ns,
            end_ns,
            kind,
            group,
            operations: stats.operations,
            bytes: stats.bytes,
            latency: stats.latency.to_v2(),
            intended: stats.intended.as_ref().map(Histogram::to_v2),
            worker_cpu_ns: 0,
            ttfb: stats.ttfb.as_ref().map(Histogram::to_v2),
            errors: stats.errors.values().sum(),
        };
        let first = self.rows.len();
        if !self.groups.is_empty() {
            let sums = self.over_groups(&pending.kinds);
            self.rows.extend(sums.iter().map(|(name, stats)| row(name, None, stats)));
        }
        for &kind in &self.kinds {
            let empty = self.empty(kind);
            let counted = pending.kinds.get(kind.place).and_then(Option::as_deref);
            let stats = counted.unwrap_or(&empty);
            if let Some(total) = &mut self.totals[kind.place] {
                total.add(stats);
            }
            let group = self.groups.get(kind.group).map(|group| group.name.clone());
            self.rows.push(row(kind.name, group, stats));
        }
        if let Some(row) = self.rows.get_mut(first) {
            row.worker_cpu_ns = pending.cpu_ns;
        }
    }

    fn live_of(&self, pending: &Pending) -> Live {
        let seconds = self.interval_ns as f64 / 1e9;
        let mut merged = Histogram::new();
        let (operations, bytes) = done(&self.kinds, &pending.kinds);
        for (_, stats) in summed(&self.kinds, &pending.kinds) {
            merged.add(stats.intended.as_ref().unwrap_or(&stats.latency));
        }
        Live {
            operations_s: Some(operations as f64 / seconds),
            bytes_s: Some(bytes as f64 / seconds),
            latency_p99_ns: (!merged.is_empty()).then(|| merged.percentile(99.0)),
            latency_bins: (!merged.is_empty()).then(|| merged.coarse()),
            flush_p99_ns: self.flush_p99_ns(pending),
        }
    }

    fn flush_p99_ns(&self, pending: &Pending) -> Option<u64> {
        let flushes = self.kinds.iter().filter(|kind| kind.apart && kind.name == FLUSH);
        let mut latency = Histogram::new();
        for stats in flushes.filter_map(|kind| pending.kinds.get(kind.place)?.as_deref()) {
            latency.add(&stats.latency);
        }
        (!latency.is_empty()).then(|| latency.percentile(99.0))
    }

    /// Return the rates and latency of the last interval that all jobs have passed.
    pub fn live(&self) -> Live {
        self.live
    }

    /// Return the CPU time, and the waiting time in run queues, of each worker inside the window.
    pub fn workers(&self) -> &[Spent] {
        &self.workers
    }

    /// Return the operations and bytes of each worker inside the window.
    pub fn by_worker(&self) -> &ByWorker {
        &self.by_worker
    }

    /// Return the counters of each kind of operation over the whole window and all workers.
    pub fn totals(&self) -> Vec<(&'static str, Cow<'_, KindStats>)> {
        if self.groups.is_empty() {
            let stats = |kind: &Kind| self.totals[kind.place].as_deref().map(Cow::Borrowed);
            return self.kinds.iter().filter_map(|k| Some((k.name, stats(k)?))).collect();
        }
        let sums = self.over_groups(&self.totals);
        sums.into_iter().map(|(name, stats)| (name, Cow::Owned(stats))).collect()
    }

    /// Return the counters over the whole window of each group of workers, by group and kind of
    /// operation; empty if workers form no groups.
    pub fn totals_by_group(&self) -> impl Iterator<Item = (&str, &'static str, &KindStats)> {
        self.kinds.iter().filter_map(|kind| {
            let group = &*self.groups.get(kind.group)?.name;
            Some((group, kind.name, self.totals[kind.place].as_deref()?))
        })
    }

    /// Return all rows, in order of interval.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: [Kind; 1] = [Kind::new(0, "read")];

    fn report(job: usize, interval: i64, operations: u64) -> Report {
        let mut stats = KindStats::new(false);
        stats.operations = operations;
        stats.bytes = operations * 10;
        for _ in 0..operations {
            stats.latency.record(100);
        }
        let spent = Spent { cpu_ns: 5, busy_ns: 4, waited_ns: Some(2) };
        Report { interval, spent, ..Report::new(job, vec![Some(Box::new(stats))]) }
    }

    #[test]
    fn tables_are_used_in_turn_and_come_back_empty() {
        let mut tables = Tables::new(3, empty_table(&READS, true));
        let fill = |tables: &mut Tables, interval: i64| {
            let stats = tables.current()[0].as_mut().unwrap();
            assert!(stats.is_empty() && stats.intended.as_ref().unwrap().is_empty());
            stats.operations = 1;
            stats.fail("time-out");
            stats.latency.record(5);
            stats.intended.as_mut().unwrap().record(7);
            let report = tables.take(interval, Spent::default());
            assert_eq!((report.job, report.interval, report.is_empty()), (3, interval, false));
            report
        };
        // Reports that are kept elsewhere are replaced; those that come back are reused.
        let kept: Vec<_> = (0..5).map(|interval| fill(&mut tables, interval)).collect();
        kept.into_iter().for_each(Report::recycle);
        let first = fill(&mut tables, 5);
        let place: *const Report = &raw const *first;
        first.recycle();
        let places = (6..12).map(|interval| {
            let report = fill(&mut tables, interval);
            let place: *const Report = &raw const *report;
            report.recycle();
            place
        });
        assert!(places.collect::<Vec<_>>().contains(&place));
        let last = fill(&mut tables, 12);
        drop(tables);
        last.recycle();
    }

    #[test]
    fn an_interval_closes_when_every_job_has_passed_it() {
        let mut collector = Collector::new(2, 1000, false, READS.to_vec());
        collector.add(&report(0, 0, 3), 0);
        assert!(collector.rows.is_empty());
        collector.add(&report(1, 0, 4), 0);
        assert_eq!(collector.rows.len(), 1);
        assert_eq!(collector.rows[0].operations, 7);
        assert_eq!(collector.by_worker().operations, [3, 4]);
        assert_eq!(collector.live().latency_bins.unwrap()[13], 7, "100 ns");
    }

    #[test]
    fn a_trim_is_an_operation_that_moves_nothing() {
        let trims = vec![Kind { moves: false, ..Kind::new(0, "trim") }];
        let mut collector = Collector::new(1, 1000, false, trims);
        collector.add(&report(0, 0, 3), 0);
        assert_eq!(*collector.by_worker(), ByWorker { operations: vec![3], bytes: vec![0] });
        let live = collector.live();
        assert!(live.operations_s > Some(0.0) && live.bytes_s == Some(0.0), "{live:?}");
        assert_eq!(collector.rows[0].bytes, 30, "what it was about");
    }

    #[test]
    fn what_is_apart_is_counted_and_in_no_sum() {
        let kinds = vec![READS[0], Kind::apart(1, "sync")];
        let mut collector = Collector::new(1, 1_000_000_000, false, kinds);
        let mut flushes = KindStats::new(false);
        flushes.operations = 5;
        flushes.latency.record_n(1_000_000, 5);
        let mut report = report(0, 0, 3);
        report.kinds.push(Some(Box::new(flushes)));
        collector.add(&report, 0);
        let live = collector.live();
        assert!((live.operations_s.unwrap() - 3.0).abs() < 1e-9, "{live:?}");
        assert_eq!(live.latency_p99_ns, Some(100));
        assert_eq!(live.latency_bins.unwrap().iter().sum::<u64>(), 3);
        assert_eq!(collector.by_worker().operations, [3]);
        let rows: Vec<_> = collector.rows.iter().map(|row| (row.kind, row.operations)).collect();
        assert_eq!(rows, [("read", 3), ("sync", 5)]);
    }

    #[test]
    fn groups_are_counted_apart_and_together() {
        let kinds = vec![READS[0], Kind { group: 1, ..Kind::new(1, "read") }];
        let group = |name: &str, open_loop| LoadGroup { name: name.into(), open_loop };
        let groups = vec![group("deep", false), group("paced", true)];
        let mut collector = Collector::new(2, 1000, true, kinds).with_groups(groups);
        collector.add(&report(0, 0, 3), 0);
        let mut paced = KindStats::new(true);
        (paced.operations, paced.bytes) = (4, 8);
        paced.latency.record_n(1_000_000, 4);
        let own = report(1, 0, 0);
        collector.add(&Report { kinds: vec![None, Some(Box::new(paced))], ..own }, 0);
        collector.finish(0, 1000);
        let rows: Vec<_> = collector
            .rows
            .iter()
            .map(|r| (r.group.as_deref(), r.operations, r.bytes, r.worker_cpu_ns))
            .collect();
        assert_eq!(rows, [(None, 7, 38, 10), (Some("deep"), 3, 30, 0), (Some("paced"), 4, 8, 0)]);
        let intended: Vec<bool> = collector.rows.iter().map(|r| r.intended.is_some()).collect();
        assert_eq!(intended, [false, false, true], "the whole has operations without due times");
        let totals = collector.totals();
        assert_eq!((totals.len(), totals[0].0, totals[0].1.latency.count()), (1, "read", 7));
        let apart: Vec<_> =
            collector.totals_by_group().map(|(g, k, s)| (g, k, s.latency.count())).collect();
        assert_eq!(apart, [("deep", "read", 3), ("paced", "read", 4)]);
        assert_eq!(collector.by_worker().operations, [3, 4]);
    }

    #[test]
    fn a_job_that_has_ended_holds_nobody_back() {
        let mut collector = Collector::new(2, 1000, false, READS.to_vec());
        collector.add(&report(0, 0, 3), 0);
        collector.add(&report(1, 0, 4), 0);
        collector.add(&report(1, 1, 5), 0);
        collector.end_job(0, 0);
        collector.add(&report(1, 2, 6), 0);
        let operations: Vec<u64> = collector.rows.iter().map(|r| r.operations).collect();
        assert_eq!(operations, [7, 5, 6]);
        assert!(collector.pending.is_empty());
        collector.end_job(1, 0);
        collector.finish(0, 3000);
        assert_eq!(collector.rows.len(), 3);
    }

    #[test]
    fn a_stall_shows_as_empty_intervals() {
        let mut collector = Collector::new(1, 1000, false, READS.to_vec());
        collector.add(&report(0, 0, 3), 50);
        collector.add(&report(0, 3, 2), 50);
        collector.finish(50, 4050);
        let operations: Vec<u64> = collector.rows.iter().map(|r| r.operations).collect();
        assert_eq!(operations, [3, 0, 0, 2]);
        assert_eq!(collector.rows[3].start_ns, 3050);
        assert_eq!(collector.totals()[0].1.operations, 5);
        let spent = Spent { cpu_ns: 10, busy_ns: 8, waited_ns: Some(4) };
        assert_eq!(collector.workers(), [spent]);
        assert_eq!(*collector.by_worker(), ByWorker { operations: vec![5], bytes: vec![50] });
    }

    #[test]
    fn the_ramp_is_seen_but_not_counted() {
        let mut collector = Collector::new(1, 1_000_000_000, false, READS.to_vec());
        let live = collector.live();
        assert_eq!((live.operations_s, live.bytes_s), (None, None), "no interval has passed");
        collector.add(&report(0, -1, 9), 0);
        assert!((collector.live().operations_s.unwrap() - 9.0).abs() < 1e-9);
        collector.finish(0, 1_000_000_000);
        assert_eq!(collector.totals()[0].1.operations, 0);
        assert_eq!(*collector.by_worker(), ByWorker::of(1));
    }

    #[test]
    fn a_window_by_bytes_ends_where_it_ends() {
        let mut collector = Collector::new(1, 1000, false, READS.to_vec());
        collector.add(&report(0, 0, 1), 0);
        collector.add(&report(0, 1, 1), 0);
        collector.finish(0, 1300);
        let ends: Vec<u64> = collector.rows.iter().map(|r| r.end_ns).collect();
        assert_eq!(ends, [1000, 1300]);
    }
}

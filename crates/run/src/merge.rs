//! Merging of the samples of many clients: clocks are aligned, windows intersected, histograms
//! added.
//!
//! Every client has its own clock, and its own window at nearly the same time. The intervals are
//! summed on a common grid, which begins with the latest window start. Each interval of a client is
//! added to the grid interval in which it begins. An interval that exceeds the common window by
//! more than the tolerated skew is not added, but counted as left out. Memory use depends on the
//! grid, not on the number of clients.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use storlab_base::{Counts, Error, Histogram, Result};

use crate::outcome::Totals;
use crate::sampling::{KindStats, Unfinished};

/// Steps per interval. Start times are rounded to steps, and an interval may exceed the common
/// window by `TOLERANCE` steps. For intervals of 1 s a step is 25 ms and the tolerance 50 ms.
const STEPS: i64 = 40;
const TOLERANCE: i64 = 2;
/// Largest accepted time in ns, so that sums of a few times do not overflow.
const MOST_NS: i64 = i64::MAX / 8;
/// Kind of error under which all errors are counted, because merged rows do not distinguish kinds.
const ANY_ERROR: &str = "any kind";

/// Row of samples: one interval and one kind of operation, either of one client or of all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MergeRow<K, B> {
    pub interval: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub kind: K,
    pub operations: u64,
    pub bytes: u64,
    pub latency: B,
    pub intended: Option<B>,
    pub worker_cpu_ns: u64,
    pub ttfb: Option<B>,
    pub errors: u64,
}

/// Samples of one client, with times of its own clock.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct MergeClient<'c, K, B> {
    pub name: &'c str,
    /// Time of the client's clock minus time of the controller's clock, in ns.
    pub offset_ns: i64,
    pub window_ns: (u64, u64),
    pub rows: Vec<MergeRow<K, B>>,
}

impl<K, B> MergeClient<'_, K, B> {
    /// Convert a time of the client's clock to the controller's clock.
    fn here(&self, at_ns: u64) -> Result<i64> {
        let (offset_ns, name) = (self.offset_ns, self.name);
        time(at_ns, name)?
            .checked_sub(offset_ns)
            .filter(|at| (0..=MOST_NS).contains(at))
            .ok_or_else(|| {
                wrong(
                    "offset_ns",
                    format!("{offset_ns} ns moves times of client {name} out of the clock's range"),
                )
            })
    }
}

/// Window of a client, and the intervals seen so far, while its rows are added.
struct Joined {
    start_ns: i64,
    /// Start of the client's window, in steps.
    window: i64,
    seen: BTreeSet<GridKey>,
}

/// Merged samples of all clients, with times of the controller's clock.
#[derive(Clone, Debug, Serialize)]
pub struct Merged {
    /// Start of the common window, in ns.
    pub window_start_ns: u64,
    /// End of the common window, in ns. It is shortened to whole intervals if some clients lack the
    /// last one, and equal to `window_start_ns` if the windows do not overlap.
    pub window_end_ns: u64,
    /// Length of the common window divided by the length of the longest client's window.
    pub kept_share: f64,
    /// Number of clients.
    pub clients: usize,
    /// Number of client intervals that were not added to any sum.
    pub left_out: u64,
    /// Sums of the rows by kind of operation. All errors are counted as `any kind`; late and
    /// unfinished operations are missing.
    pub totals: BTreeMap<String, Totals>,
    /// Merged rows, sorted by interval, then by kind.
    #[serde(skip)]
    pub rows: Vec<MergeRow<String, Vec<u8>>>,
}

/// Key under which intervals of clients are summed before the grid is known. Intervals with equal
/// keys are in the same grid interval wherever the grid begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct GridKey {
    /// Start of the client's window, in steps.
    window: i64,
    /// Number of the interval within the client's window.
    interval: i64,
    /// Length of the interval, in steps.
    length: i64,
}

/// Sum of the [`KindStats`] of many clients.
#[derive(Clone, Default)]
struct KindSum {
    operations: u64,
    bytes: u64,
    errors: u64,
    latency: Counts,
    intended: Option<Counts>,
    ttfb: Option<Counts>,
}

impl KindSum {
    fn add_row<K, B: AsRef<[u8]>>(&mut self, row: &MergeRow<K, B>) -> Result<()> {
        self.operations += row.operations;
        self.bytes += row.bytes;
        self.errors += row.errors;
        self.latency.add_v2(row.latency.as_ref())?;
        for (sum, encoded) in [(&mut self.intended, &row.intended), (&mut self.ttfb, &row.ttfb)] {
            if let Some(encoded) = encoded {
                sum.get_or_insert_default().add_v2(encoded.as_ref())?;
            }
        }
        Ok(())
    }

    fn add(&mut self, other: &KindSum) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.add(&other.latency);
        for (sum, latency) in [(&mut self.intended, &other.intended), (&mut self.ttfb, &other.ttfb)]
        {
            if let Some(latency) = latency {
                sum.get_or_insert_default().add(latency);
            }
        }
    }

    fn stats(&self) -> KindStats {
        let any_error = (self.errors > 0).then(|| (ANY_ERROR.to_owned(), self.errors));
        KindStats {
            operations: self.operations,
            bytes: self.bytes,
            late: 0,
            unfinished: Unfinished::default(),
            latency: self.latency.histogram(),
            intended: self.intended.as_ref().map(Counts::histogram),
            ttfb: self.ttfb.as_ref().map(Counts::histogram),
            errors: any_error.into_iter().collect(),
        }
    }
}

#[derive(Default)]
struct Cell {
    clients: u64,
    worker_cpu_ns: u64,
    kinds: BTreeMap<String, KindSum>,
}

impl Cell {
    fn add(&mut self, other: &Cell) {
        self.clients += other.clients;
        self.worker_cpu_ns += other.worker_cpu_ns;
        for (kind, sum) in &other.kinds {
            self.kinds.entry(kind.clone()).or_default().add(sum);
        }
    }
}

/// Merges the samples of many clients into one common window. The order of the clients does not
/// matter.
pub struct Merger {
    interval_ns: i64,
    step_ns: i64,
    clients: BTreeSet<String>,
    /// Number of clients that have at least one interval.
    measured: u64,
    /// Latest start and earliest end of all windows, in ns.
    common: Option<(i64, i64)>,
    /// Latest window start, in steps.
    latest: i64,
    longest_ns: i64,
    cells: BTreeMap<GridKey, Cell>,
}

impl Merger {
    /// Create a merger for samples with intervals of `interval_ns`.
    ///
    /// # Errors
    /// [`Error::Spec`] if the interval is too short to be divided into steps.
    pub fn new(interval_ns: u64) -> Result<Self> {
        let interval_ns = time(interval_ns, "interval_ns")?;
        if interval_ns < STEPS {
            return Err(wrong("interval_ns", format!("{interval_ns} ns is too short")));
        }
        Ok(Merger {
            interval_ns,
            step_ns: interval_ns / STEPS,
            clients: BTreeSet::new(),
            measured: 0,
            common: None,
            latest: i64::MIN,
            longest_ns: 0,
            cells: BTreeMap::new(),
        })
    }

    /// Add the samples of clients. Rows of one interval and kind are added one after the other, so
    /// that their sum stays in the processor's cache. The sums of all intervals would not fit into
    /// it.
    ///
    /// # Errors
    /// [`Error::Spec`] if a client was added before, a window or time is invalid, or a histogram
    /// cannot be decoded. After an invalid time or histogram, the sums may contain some of the
    /// clients.
    pub fn add<K: AsRef<str>, B: AsRef<[u8]>>(
        &mut self,
        clients: &[MergeClient<'_, K, B>],
    ) -> Result<()> {
        let mut joined = Vec::with_capacity(clients.len());
        for client in clients {
            joined.push(self.join(client)?);
        }
        let rows = clients.iter().map(|client| client.rows.len()).max().unwrap_or(0);
        for number in 0..rows {
            for (client, own) in clients.iter().zip(&mut joined) {
                if let Some(row) = client.rows.get(number) {
                    self.add_row(client, own, row)?;
                }
            }
        }
        self.measured += joined.iter().filter(|own| !own.seen.is_empty()).count() as u64;
        Ok(())
    }

    /// Register a client with its window.
    fn join<K, B>(&mut self, client: &MergeClient<'_, K, B>) -> Result<Joined> {
        let (start_ns, end_ns) =
            (client.here(client.window_ns.0)?, client.here(client.window_ns.1)?);
        let name = client.name;
        if end_ns < start_ns {
            return Err(wrong("window", format!("the window of {name} ends before it begins")));
        }
        if !self.clients.insert(name.to_owned()) {
            return Err(wrong("client", format!("{name} was added before")));
        }
        let (latest, earliest) = self.common.unwrap_or((start_ns, end_ns));
        self.common = Some((latest.max(start_ns), earliest.min(end_ns)));
        self.longest_ns = self.longest_ns.max(end_ns - start_ns);
        let window = rounded(start_ns, self.step_ns);
        self.latest = self.latest.max(window);
        Ok(Joined { start_ns, window, seen: BTreeSet::new() })
    }

    fn add_row<K: AsRef<str>, B: AsRef<[u8]>>(
        &mut self,
        client: &MergeClient<'_, K, B>,
        own: &mut Joined,
        row: &MergeRow<K, B>,
    ) -> Result<()> {
        let (start_ns, end_ns) = (client.here(row.start_ns)?, client.here(row.end_ns)?);
        let place = GridKey {
            window: own.window,
            interval: rounded(start_ns - own.start_ns, self.interval_ns),
            length: rounded(end_ns - start_ns, self.step_ns),
        };
        let cell = self.cells.entry(place).or_default();
        cell.clients += u64::from(own.seen.insert(place));
        cell.worker_cpu_ns += row.worker_cpu_ns;
        let kind = row.kind.as_ref();
        let sum = match cell.kinds.get_mut(kind) {
            Some(sum) => sum,
            None => cell.kinds.entry(kind.to_owned()).or_default(),
        };
        sum.add_row(row)
    }

    /// Return the merged samples of all clients added so far.
    pub fn finish(&self) -> Merged {
        let (start_ns, end_ns) = self.common.unwrap_or_default();
        let end_ns = end_ns.max(start_ns);
        let mut grid: BTreeMap<i64, Cell> = BTreeMap::new();
        let mut left_out = 0;
        for (place, cell) in &self.cells {
            match self.index_of(*place, end_ns) {
                Some(index) if end_ns > start_ns => grid.entry(index).or_default().add(cell),
                _ => left_out += cell.clients,
            }
        }
        // Keep the last interval only if all clients have it.
        while let Some(last) = grid.last_entry().filter(|last| last.get().clients < self.measured) {
            left_out += last.remove().clients;
        }
        let intervals = grid.last_key_value().map_or(0, |(&last, _)| last + 1);
        let kept_end_ns = end_ns.min(start_ns + intervals * self.interval_ns);
        let mut merged = Merged {
            window_start_ns: start_ns as u64,
            window_end_ns: kept_end_ns as u64,
            kept_share: (kept_end_ns - start_ns) as f64 / self.longest_ns.max(1) as f64,
            clients: self.clients.len(),
            left_out,
            totals: BTreeMap::new(),
            rows: Vec::new(),
        };
        let mut totals = Cell::default();
        for (index, cell) in &grid {
            totals.add(cell);
            self.push_rows(&mut merged, *index, cell);
        }
        merged.totals = totals
            .kinds
            .iter()
            .map(|(kind, sum)| (kind.clone(), Totals::from(&sum.stats())))
            .collect();
        merged
    }

    /// Return the number of the grid interval to which a client's interval belongs; `None` if it is
    /// outside the common window, which ends at `end_ns`.
    fn index_of(&self, place: GridKey, end_ns: i64) -> Option<i64> {
        let GridKey { window, interval, length } = place;
        let tolerance_ns = TOLERANCE * self.step_ns;
        let after_ns = interval * self.interval_ns;
        let from_start_ns = (window - self.latest) * self.step_ns + after_ns + tolerance_ns;
        let ends_ns = window * self.step_ns + after_ns + length * self.step_ns;
        let inside = from_start_ns >= 0 && ends_ns <= end_ns + tolerance_ns;
        inside.then_some(from_start_ns / self.interval_ns)
    }

    fn push_rows(&self, merged: &mut Merged, index: i64, cell: &Cell) {
        let start_ns = merged.window_start_ns + (index * self.interval_ns) as u64;
        let end_ns = (start_ns + self.interval_ns as u64).min(merged.window_end_ns);
        let mut worker_cpu_ns = cell.worker_cpu_ns;
        for (kind, sum) in &cell.kinds {
            let stats = sum.stats();
            merged.rows.push(MergeRow {
                interval: index as u32,
                start_ns,
                end_ns: end_ns.max(start_ns),
                kind: kind.clone(),
                operations: stats.operations,
                bytes: stats.bytes,
                latency: stats.latency.to_v2(),
                intended: stats.intended.as_ref().map(Histogram::to_v2),
                worker_cpu_ns: std::mem::take(&mut worker_cpu_ns),
                ttfb: stats.ttfb.as_ref().map(Histogram::to_v2),
                errors: sum.errors,
            });
        }
    }
}

/// Divide `ns` by `unit_ns` and round to the nearest whole number.
fn rounded(ns: i64, unit_ns: i64) -> i64 {
    (ns + unit_ns / 2).div_euclid(unit_ns)
}

fn time(ns: u64, whose: &str) -> Result<i64> {
    i64::try_from(ns).ok().filter(|ns| *ns <= MOST_NS).ok_or_else(|| {
        wrong("rows", format!("{ns} ns of {whose} is not a time of CLOCK_MONOTONIC"))
    })
}

fn wrong(field: &str, what: String) -> Error {
    Error::spec(field, what, "pass the fields of a run's outcome unchanged")
}

#[cfg(test)]
mod tests;

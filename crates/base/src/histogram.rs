//! Latency histograms: `HdrHistogram` with 3 significant digits from 1 ns to 1 h, so that all of
//! them merge.

use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::error::{Error, Result};

const MAX_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// A histogram of ns. Longer than 1 h counts as 1 h.
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Empty.
    ///
    /// # Panics
    /// Never: the bounds are constants that the library accepts.
    pub fn new() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, MAX_NS, DIGITS);
        Histogram(inner.expect("constant bounds"))
    }

    /// Count one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.0.saturating_record(value_ns);
    }

    /// Count a value several times.
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        self.0.saturating_record_n(value_ns, count);
    }

    /// Add all of another's counts.
    pub fn add(&mut self, other: &Histogram) {
        if !other.is_empty() {
            // Same bounds, so that it cannot fail.
            let _ = self.0.add(&other.0);
        }
    }

    /// Forget everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Smallest value, to 3 digits; 0 when empty.
    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    /// Largest value, to 3 digits; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// Mean; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Standard deviation of the population; 0 when empty.
    pub fn stdev_ns(&self) -> f64 {
        self.0.stdev()
    }

    /// The value that `percent` of all values do not exceed; 0 when empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// `(lowest, highest, count)` of each bucket that is not empty.
    pub fn buckets(&self) -> Vec<(u64, u64, u64)> {
        self.0
            .iter_recorded()
            .map(|v| {
                let value = v.value_iterated_to();
                let lowest = self.0.lowest_equivalent(value);
                (lowest, self.0.highest_equivalent(value), v.count_at_value())
            })
            .collect()
    }

    /// `HdrHistogram` V2 encoding, not compressed.
    ///
    /// # Panics
    /// Never: writing to memory does not fail.
    pub fn to_v2(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).expect("writing to memory");
        bytes
    }

    /// From the V2 encoding, whatever its bounds.
    ///
    /// # Errors
    /// `Error::Spec` when the bytes are not such an encoding.
    pub fn from_v2(bytes: &[u8]) -> Result<Self> {
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).map_err(|e| {
                Error::spec(
                    "histogram",
                    format!("not HdrHistogram V2: {e}"),
                    "read it from a samples file",
                )
            })?;
        let mut histogram = Histogram::new();
        for v in read.iter_recorded() {
            histogram.record_n(v.value_iterated_to(), v.count_at_value());
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_one_says_zero() {
        let h = Histogram::new();
        assert_eq!((h.count(), h.min_ns(), h.max_ns(), h.percentile(99.0)), (0, 0, 0, 0));
        assert!(h.mean_ns().abs() < f64::EPSILON);
    }

    #[test]
    fn damage_is_refused() {
        let mut bytes = Histogram::new().to_v2();
        bytes[0] ^= 0xff;
        assert!(Histogram::from_v2(&bytes).is_err());
        assert!(Histogram::from_v2(b"short").is_err());
    }

    #[test]
    fn longer_than_an_hour_counts_as_an_hour() {
        let mut h = Histogram::new();
        h.record(u64::MAX);
        assert_eq!(h.count(), 1);
        assert!(h.max_ns() >= MAX_NS && h.max_ns() < MAX_NS + MAX_NS / 500);
    }

    proptest! {
        #[test]
        fn percentiles_hold_to_three_digits(
            mut values in prop::collection::vec(1u64..MAX_NS, 1..200),
            p in 0.0f64..100.0,
        ) {
            let mut h = Histogram::new();
            for &v in &values { h.record(v); }
            values.sort_unstable();
            let rank = ((p / 100.0 * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            prop_assert!((h.percentile(p) as f64 - exact).abs() <= exact * 0.001 + 1.0);
        }

        #[test]
        fn merging_is_recording_together(
            a in prop::collection::vec(1u64..MAX_NS, 0..100),
            b in prop::collection::vec(1u64..MAX_NS, 0..100),
        ) {
            let mut both = Histogram::new();
            let (mut left, mut right) = (Histogram::new(), Histogram::new());
            for &v in &a { left.record(v); both.record(v); }
            for &v in &b { right.record(v); both.record(v); }
            left.add(&right);
            prop_assert_eq!(left.buckets(), both.buckets());
        }

        #[test]
        fn v2_round_trip(values in prop::collection::vec(1u64..MAX_NS, 0..200)) {
            let mut h = Histogram::new();
            for &v in &values { h.record(v); }
            let back = Histogram::from_v2(&h.to_v2()).unwrap();
            prop_assert_eq!(back.buckets(), h.buckets());
            prop_assert_eq!(back.count(), h.count());
        }
    }
}

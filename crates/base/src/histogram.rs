//! Latency histograms: `HdrHistogram` with 3 significant digits from 1 ns to 1 h. All histograms
//! have equal bounds, so they can be merged.

use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::error::{Error, Result};

const MAX_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;
const COMPACT_DIGITS: u8 = 2;
/// Length in bytes of the header of the `HdrHistogram` V2 encoding: cookie, payload length, offset,
/// digits, bounds and ratio.
const V2_HEADER: usize = 40;
const V2_COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
/// Number of index bits within one power of two: 10 for 3 significant digits and a lowest value of
/// 1.
const HALF_BITS: u32 = 10;

/// Number of bins of [`Coarse`]: two per doubling of the latency, up to 1 h.
const COARSE_BINS: usize = 84;
/// Counts per bin, as [`Histogram::coarse`] returns them.
pub type Coarse = [u64; COARSE_BINS];

/// Histogram of times in ns. Values above 1 h count as 1 h.
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Create an empty histogram.
    ///
    /// # Panics
    /// Never: the bounds are constants that the library accepts.
    pub fn new() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, MAX_NS, DIGITS);
        Histogram(inner.expect("constant bounds"))
    }

    /// Create an empty histogram with 2 significant digits. It takes 37 KB instead of 270 KB, which
    /// matters in tables of many histograms.
    ///
    /// # Panics
    /// Never: the bounds are constants that the library accepts.
    pub fn compact() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, MAX_NS, COMPACT_DIGITS);
        Histogram(inner.expect("constant bounds"))
    }

    /// Record one value, in ns.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.0.saturating_record(value_ns);
    }

    /// Record a value `count` times.
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        self.0.saturating_record_n(value_ns, count);
    }

    /// Add all counts of another histogram to this one.
    pub fn add(&mut self, other: &Histogram) {
        if !other.is_empty() {
            // Cannot fail, because the bounds are equal.
            let _ = self.0.add(&other.0);
        }
    }

    /// Remove all values. The memory stays allocated, and all of it is overwritten.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Return whether no value has been recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Return the number of recorded values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Return the smallest recorded value, to 3 digits; 0 if empty.
    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    /// Return the largest recorded value, to 3 digits; 0 if empty.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// Return the mean of all recorded values; 0 if empty.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Return the standard deviation of the population; 0 if empty.
    pub fn stdev_ns(&self) -> f64 {
        self.0.stdev()
    }

    /// Return the percentile in ns: the value that `percent` of all values do not exceed. 0 if
    /// empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// Return `(lowest, highest, count)` of each bucket that is not empty, with values in ns.
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

    /// Return the counts in coarse bins. Bin `n` begins at 2^(n/2) ns. A bucket that overlaps two
    /// bins counts in the bin that contains its middle.
    pub fn coarse(&self) -> Coarse {
        let mut bins = [0; COARSE_BINS];
        for recorded in self.0.iter_recorded() {
            let middle = self.0.median_equivalent(recorded.value_iterated_to()).max(1);
            let bin = (2.0 * (middle as f64).log2()) as usize;
            bins[bin.min(COARSE_BINS - 1)] += recorded.count_at_value();
        }
        bins
    }

    /// Encode the histogram in the uncompressed `HdrHistogram` V2 format.
    ///
    /// # Panics
    /// Never: writing to memory does not fail.
    pub fn to_v2(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).expect("writing to memory");
        bytes
    }

    /// Decode a histogram in `HdrHistogram` V2 format, whatever its bounds.
    ///
    /// # Errors
    /// `Error::Spec` if the bytes are not a valid encoding.
    pub fn from_v2(bytes: &[u8]) -> Result<Self> {
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).map_err(not_v2)?;
        let mut histogram = Histogram::new();
        for v in read.iter_recorded() {
            histogram.record_n(v.value_iterated_to(), v.count_at_value());
        }
        Ok(histogram)
    }
}

/// Sum of many encoded histograms. Adding to it is faster than adding to a [`Histogram`], and its
/// memory grows with the largest value.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// Add all counts of a histogram in `HdrHistogram` V2 format.
    ///
    /// # Errors
    /// `Error::Spec` if the bytes are not a valid encoding; some counts may have been added by
    /// then.
    pub fn add_v2(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(mut counts) = counts_of_own(bytes) else {
            return self.add_v2(&in_own_bounds(bytes)?);
        };
        let mut place = 0_usize;
        while !counts.is_empty() {
            let count = next_count(&mut counts).ok_or_else(|| not_v2("cut short"))?;
            // Always add, even zeros: a branch here would be mispredicted often.
            let added = count.max(0).unsigned_abs();
            if place >= self.0.len() {
                self.make_room(place, added)?;
            }
            if let Some(sum) = self.0.get_mut(place) {
                *sum = sum.saturating_add(added);
            }
            place = place.saturating_add(places_of(count));
        }
        Ok(())
    }

    fn make_room(&mut self, place: usize, added: u64) -> Result<()> {
        if added > 0 {
            lowest_at(place).ok_or_else(|| not_v2("too many counts"))?;
            self.0.resize((place + 1).next_multiple_of(1 << HALF_BITS), 0);
        }
        Ok(())
    }

    /// Add all counts of another sum to this one.
    pub fn add(&mut self, other: &Counts) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (count, added) in self.0.iter_mut().zip(&other.0) {
            *count = count.saturating_add(*added);
        }
    }

    /// Return the sum as a histogram.
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (place, &count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            if let Some(value) = lowest_at(place) {
                histogram.record_n(value, count);
            }
        }
        histogram
    }
}

/// Summary of a latency distribution in ns, equal to what [`Histogram`] computes. All fields are 0
/// if the distribution is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest value, to 3 digits.
    pub max_ns: u64,
}

impl Figures {
    /// Summarise a histogram in V2 format without decoding it to a [`Histogram`]. This saves time
    /// in cluster runs, which have a histogram per client, second and kind of operation. `places`
    /// is scratch memory, reused between calls.
    ///
    /// # Errors
    /// `Error::Spec` if the bytes are not a valid encoding.
    pub fn of_v2(bytes: &[u8], places: &mut Vec<(usize, u64, u64)>) -> Result<Self> {
        places.clear();
        each_count(bytes, &mut |place, lowest, count| places.push((place, lowest, count)))?;
        let total = places.iter().fold(0_u64, |sum, (.., count)| sum.saturating_add(*count));
        let target = |share: f64| ((share * total as f64).ceil() as u64).max(1);
        let (half, most) = (target(0.5), target(0.99));
        let (mut figures, mut passed) = (Figures::default(), 0_u64);
        for &(place, lowest, count) in places.iter() {
            let width = width_at(place);
            let highest = lowest + (width - 1);
            figures.mean_ns += (lowest + (width >> 1)) as f64 * count as f64 / total as f64;
            figures.p50_ns = if passed < half { highest } else { figures.p50_ns };
            figures.p99_ns = if passed < most { highest } else { figures.p99_ns };
            figures.max_ns = highest;
            passed = passed.saturating_add(count);
        }
        Ok(figures)
    }
}

fn not_v2(why: impl std::fmt::Display) -> Error {
    let what = format!("the bytes are not a histogram in HdrHistogram V2 format: {why}");
    Error::spec("histogram", what, "read it from a samples file")
}

/// Call `take` with index, lowest value and count of each bucket that is not empty.
fn each_count(bytes: &[u8], take: &mut impl FnMut(usize, u64, u64)) -> Result<()> {
    let Some(mut counts) = counts_of_own(bytes) else {
        return each_count(&in_own_bounds(bytes)?, take);
    };
    let mut place = 0_usize;
    while !counts.is_empty() {
        let count = next_count(&mut counts).ok_or_else(|| not_v2("cut short"))?;
        if count > 0 {
            let lowest = lowest_at(place).ok_or_else(|| not_v2("too many counts"))?;
            take(place, lowest, count.unsigned_abs());
        }
        place = place.saturating_add(places_of(count));
    }
    Ok(())
}

/// Convert a V2 encoding with any bounds to one with the bounds of [`Histogram`].
fn in_own_bounds(bytes: &[u8]) -> Result<Vec<u8>> {
    let own = Histogram::from_v2(bytes)?.to_v2();
    // Without this check, `each_count` would recurse forever if the library wrote an unexpected
    // header.
    let written = counts_of_own(&own).is_some();
    if written { Ok(own) } else { Err(not_v2("unsupported bounds")) }
}

/// Return the number of buckets that a decoded number stands for: 1 if it is a count, more if it is
/// the length of a run of empty buckets.
fn places_of(count: i64) -> usize {
    let empty = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count > 0 { 1 } else { empty.max(1) }
}

/// Return the encoded counts, without the header, if the bounds and digits equal those of
/// [`Histogram`]; otherwise `None`.
fn counts_of_own(bytes: &[u8]) -> Option<&[u8]> {
    let (header, counts) = bytes.split_at_checked(V2_HEADER)?;
    let length = (counts.len() as u32).to_be_bytes();
    let mut own = Vec::with_capacity(V2_HEADER);
    own.extend(V2_COOKIE);
    own.extend(length);
    own.extend(0_u32.to_be_bytes());
    own.extend(u32::from(DIGITS).to_be_bytes());
    own.extend(1_u64.to_be_bytes());
    own.extend(MAX_NS.to_be_bytes());
    own.extend(1.0_f64.to_be_bytes());
    (header == own).then_some(counts)
}

/// Decode the next number of an encoding: zigzag LEB128 of at most 9 bytes, the last of which has 8
/// bits. A positive number is a count; a negative one is the length of a run of empty buckets.
#[inline]
fn next_count(bytes: &mut &[u8]) -> Option<i64> {
    let (&byte, rest) = bytes.split_first()?;
    if byte & 0x80 == 0 {
        *bytes = rest; // the common case
        return Some(signed(u64::from(byte)));
    }
    let mut zigzag = 0_u64;
    for place in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let last = place == 8;
        let bits = if last { byte } else { byte & 0x7f };
        zigzag |= u64::from(bits) << (7 * place);
        if last || byte & 0x80 == 0 {
            break;
        }
    }
    Some(signed(zigzag))
}

fn signed(zigzag: u64) -> i64 {
    (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
}

/// Return the lowest value that bucket `place` counts; `None` beyond the last bucket.
fn lowest_at(place: usize) -> Option<u64> {
    let (place, half) = (place as u64, 1 << HALF_BITS);
    let value = match place >> HALF_BITS {
        0 => place,
        power @ 1..64 => ((place & (half - 1)) | half) << (power - 1),
        _ => return None,
    };
    // The highest power of two has all its buckets, even those above 1 h.
    (value < (MAX_NS + 1).next_power_of_two()).then_some(value)
}

/// Return the number of distinct values that bucket `place` counts.
fn width_at(place: usize) -> u64 {
    1 << (place >> HALF_BITS).saturating_sub(1)
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
    fn coarse_bins_hold_every_value_once() {
        let mut h = Histogram::new();
        h.record_n(0, 2);
        h.record_n(1_000, 3);
        h.record_n(1_030, 4);
        h.record_n(1_500, 5);
        h.record(u64::MAX);
        let filled: Vec<_> = h.coarse().into_iter().enumerate().filter(|bin| bin.1 > 0).collect();
        assert_eq!(filled, [(0, 2), (19, 3), (20, 4), (21, 5), (COARSE_BINS - 1, 1)]);
    }

    #[test]
    fn compact_ones_are_small_and_keep_two_digits() {
        let (mut one, mut other) = (Histogram::compact(), Histogram::compact());
        let values = [1_u64, 999, 50_123_456, MAX_NS];
        for value in values {
            one.record(value);
            other.record(value);
        }
        one.add(&other);
        let read = Histogram::from_v2(&one.to_v2()).unwrap();
        assert!(one.to_v2().len() < 100 && read.count() == 8);
        for (at, value) in [(25.0, 1), (50.0, 999), (75.0, 50_123_456), (100.0, MAX_NS)] {
            let percentile = read.percentile(at) as f64;
            assert!((percentile / value as f64 - 1.0).abs() <= 0.01, "{at}: {percentile}");
            assert_eq!(one.percentile(at).min(MAX_NS), read.percentile(at).min(MAX_NS));
        }
    }

    #[test]
    fn damage_is_refused() {
        let mut bytes = Histogram::new().to_v2();
        bytes[0] ^= 0xff;
        assert!(Histogram::from_v2(&bytes).is_err());
        assert!(Histogram::from_v2(b"short").is_err());
        assert!(Counts::default().add_v2(&bytes).is_err());
        assert!(Counts::default().add_v2(b"short").is_err());
    }

    #[test]
    fn an_encoding_of_other_bounds_is_added_too() {
        let mut other = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1000, 2).unwrap();
        other.record(500).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&other, &mut bytes).unwrap();
        assert!(counts_of_own(&bytes).is_none());
        let mut counts = Counts::default();
        counts.add_v2(&bytes).unwrap();
        counts.add_v2(&bytes).unwrap();
        assert_eq!(counts.histogram().count(), 2);
    }

    #[test]
    fn longer_than_an_hour_counts_as_an_hour() {
        let mut h = Histogram::new();
        h.record(u64::MAX);
        assert_eq!(h.count(), 1);
        assert!(h.max_ns() >= MAX_NS && h.max_ns() < MAX_NS + MAX_NS / 500);
        let mut counts = Counts::default();
        counts.add_v2(&h.to_v2()).unwrap();
        assert_eq!(counts.histogram().max_ns(), h.max_ns());
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
        fn adding_an_encoding_is_adding_what_it_holds(
            values in prop::collection::vec((0u64..2 * MAX_NS, 1u64..1 << 40), 0..200),
            more in prop::collection::vec(1u64..MAX_NS, 0..50),
        ) {
            let (mut h, mut decoded) = (Histogram::new(), Histogram::new());
            for &(v, n) in &values { h.record_n(v, n); }
            for &v in &more { decoded.record(v); }
            let (mut added, mut others) = (Counts::default(), Counts::default());
            added.add_v2(&decoded.to_v2()).unwrap();
            let bytes = h.to_v2();
            prop_assert!(counts_of_own(&bytes).is_some());
            others.add_v2(&bytes).unwrap();
            added.add(&others);
            decoded.add(&Histogram::from_v2(&bytes).unwrap());
            let added = added.histogram();
            prop_assert_eq!(added.buckets(), decoded.buckets());
            prop_assert_eq!((added.min_ns(), added.max_ns()), (decoded.min_ns(), decoded.max_ns()));
            prop_assert_eq!(added.to_v2(), decoded.to_v2());
        }

        #[test]
        fn figures_are_those_of_the_histogram(
            values in prop::collection::vec((0u64..2 * MAX_NS, 1u64..1 << 40), 0..200),
            quick in prop::collection::vec((1u64..5_000_000, 1u64..100), 0..200),
        ) {
            let mut h = Histogram::new();
            for &(v, n) in values.iter().chain(&quick) { h.record_n(v, n); }
            let figures = Figures::of_v2(&h.to_v2(), &mut Vec::new()).unwrap();
            let (p50_ns, p99_ns) = (h.percentile(50.0), h.percentile(99.0));
            let (mean_ns, max_ns) = (h.mean_ns(), h.max_ns());
            prop_assert_eq!(figures, Figures { mean_ns, p50_ns, p99_ns, max_ns });
        }

        #[test]
        fn a_damaged_encoding_is_refused_or_read(
            values in prop::collection::vec(1u64..MAX_NS, 1..20),
            at in 0usize..4000,
            flip in 1u8..=255,
            cut in 0usize..100,
        ) {
            let mut h = Histogram::new();
            for &v in &values { h.record(v); }
            let mut bytes = h.to_v2();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let _ = Counts::default().add_v2(&bytes); // must return, with or without an error
            let _ = Figures::of_v2(&bytes, &mut Vec::new());
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

//! Distributions of object sizes. The size of an object is a function of a seed and the object's
//! index, so sizes need not be stored.

use rand_core::Rng as _;
use serde::Deserialize;
use storlab_base::{Error, Result, Rng, normal, stream};
use storlab_run::order::WeightedSize;

/// Distribution of object sizes, as described in the job.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SizesSpec {
    /// All objects have the same size.
    Fixed {
        /// List with exactly one size.
        sizes: Vec<WeightedSize>,
    },
    /// Several sizes, drawn by weight.
    Weighted {
        /// List with at least one size.
        sizes: Vec<WeightedSize>,
    },
    /// Uniform distribution between two bounds.
    Uniform {
        /// Smallest size in bytes.
        low: u64,
        /// Largest size in bytes.
        high: u64,
    },
    /// Log-normal distribution: many small objects and few large ones.
    Lognormal {
        /// Median size in bytes.
        median: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Smallest size in bytes.
        low: u64,
        /// Largest size in bytes.
        high: u64,
    },
}

/// Maximum number of draws outside the bounds; after that, the nearer bound is used.
const TRIES: usize = 1000;

/// Sampler of object sizes, for the pool or for the objects that a run writes.
#[derive(Clone, Debug)]
pub struct Sizes {
    seed: u64,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    Fixed(u64),
    /// Bounds that divide the 64-bit random numbers among the sizes: upper bound, and size in
    /// bytes.
    Weighted(Vec<(u64, u64)>),
    Uniform {
        low: u64,
        high: u64,
    },
    Lognormal {
        median: f64,
        sigma: f64,
        low: u64,
        high: u64,
    },
}

impl Sizes {
    /// Create the sampler. `field` is the field that error messages name.
    pub fn new(spec: &SizesSpec, seed: u64, field: &str) -> Result<Self> {
        let wrong = |what: String, fix: &str| Err(Error::spec(field, what, fix));
        let law = match *spec {
            SizesSpec::Fixed { ref sizes } | SizesSpec::Weighted { ref sizes } => {
                if sizes.is_empty() {
                    return wrong("the list has no size".into(), "give at least one size");
                }
                let good = |weight: f64| weight > 0.0 && weight.is_finite();
                if let Some(bad) = sizes.iter().find(|s| !good(s.weight)) {
                    let what = format!("{} bytes have weight {}", bad.bytes, bad.weight);
                    return wrong(what, "use a weight above 0");
                }
                match &sizes[..] {
                    [only] => Law::Fixed(only.bytes),
                    _ => weighted(sizes.iter().map(|s| (s.bytes, s.weight))),
                }
            }
            SizesSpec::Uniform { low, high } => {
                if low > high {
                    let what = format!("low ({low} bytes) is larger than high ({high} bytes)");
                    return wrong(what, "swap them");
                }
                Law::Uniform { low, high }
            }
            SizesSpec::Lognormal { median, sigma, low, high } => {
                if !(low <= median && median <= high) {
                    let what = format!("the median {median} is not between {low} and {high} bytes");
                    return wrong(what, "widen the bounds");
                }
                if !(sigma > 0.0 && sigma.is_finite()) || median == 0 {
                    let what = format!("median {median} or sigma {sigma} is not above 0");
                    return wrong(what, "use a finite number above 0 for both");
                }
                Law::Lognormal { median: median as f64, sigma, low, high }
            }
        };
        Ok(Sizes { seed, law })
    }

    /// Return the size in bytes of object `index` of a series. The pool is one series; the objects
    /// written by each worker are another.
    pub fn of(&self, series: u64, index: u64) -> u64 {
        if let Law::Fixed(bytes) = self.law {
            return bytes;
        }
        let seed = self.seed ^ series.rotate_left(32);
        let mut random = stream(seed, "object-size", index);
        match self.law {
            Law::Fixed(bytes) => bytes,
            Law::Weighted(ref bounds) => {
                let draw = random.next_u64();
                let drawn = bounds.iter().find(|(bound, _)| draw < *bound);
                drawn.or(bounds.last()).map_or(0, |&(_, bytes)| bytes)
            }
            Law::Uniform { low, high } => {
                // The bias is below 2^-40 for sizes below 16 MiB, which is not observable.
                let span = u128::from(high - low) + 1;
                low + ((u128::from(random.next_u64()) * span) >> 64) as u64
            }
            Law::Lognormal { median, sigma, low, high } => {
                lognormal(&mut random, median, sigma, low, high)
            }
        }
    }

    /// Return an upper bound of all sizes, in bytes.
    pub fn largest(&self) -> u64 {
        match self.law {
            Law::Fixed(bytes) => bytes,
            Law::Weighted(ref bounds) => bounds.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0),
            Law::Uniform { high, .. } | Law::Lognormal { high, .. } => high,
        }
    }
}

fn weighted(sizes: impl Iterator<Item = (u64, f64)> + Clone) -> Law {
    let total: f64 = sizes.clone().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let bounds = sizes.map(|(bytes, weight)| {
        sum += weight / total;
        ((sum * 2f64.powi(64)) as u64, bytes)
    });
    Law::Weighted(bounds.collect())
}

fn lognormal(random: &mut Rng, median: f64, sigma: f64, low: u64, high: u64) -> u64 {
    let mut last = median;
    for _ in 0..TRIES {
        last = median * (sigma * normal(random)).exp();
        if last >= low as f64 && last < high as f64 + 1.0 {
            return last as u64;
        }
    }
    (last as u64).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sizes(spec: Value) -> Sizes {
        Sizes::new(&serde_json::from_value(spec).unwrap(), 7, "sizes").unwrap()
    }

    fn refused(spec: Value, names: &str) {
        let spec: SizesSpec = serde_json::from_value(spec).unwrap();
        let message = Sizes::new(&spec, 7, "pool.sizes").unwrap_err().to_string();
        assert!(message.starts_with("pool.sizes: ") && message.contains(names), "{message}");
    }

    #[test]
    fn impossible_laws_are_refused() {
        refused(json!({"kind": "fixed", "sizes": []}), "no size");
        let size = json!({"bytes": 1, "weight": 0.0});
        refused(json!({"kind": "weighted", "sizes": [size]}), "weight 0");
        refused(json!({"kind": "uniform", "low": 9, "high": 8}), "low (9 bytes)");
        let far = json!({"kind": "lognormal", "median": 5, "sigma": 1.0, "low": 6, "high": 9});
        refused(far, "median 5");
        let flat = json!({"kind": "lognormal", "median": 5, "sigma": 0.0, "low": 1, "high": 9});
        refused(flat, "sigma 0");
    }

    #[test]
    fn an_object_keeps_its_size_and_series_differ() {
        let law = sizes(json!({"kind": "uniform", "low": 0, "high": 1u64 << 40}));
        let again = law.clone();
        assert!((0..100).all(|i| law.of(0, i) == again.of(0, i)));
        assert!((0..100).all(|i| law.of(0, i) != law.of(1, i)));
    }

    #[test]
    fn weights_hold() {
        let spec = [json!({"bytes": 4096, "weight": 7.0}), json!({"bytes": 9, "weight": 3.0})];
        let law = sizes(json!({"kind": "weighted", "sizes": spec}));
        let n = 40_000u64;
        let large = (0..n).filter(|&i| law.of(0, i) == 4096).count() as f64;
        let sigma = (n as f64 * 0.7 * 0.3).sqrt();
        assert!((large - n as f64 * 0.7).abs() < 5.0 * sigma, "{large}");
        assert_eq!(law.largest(), 4096);
    }

    #[test]
    fn uniform_reaches_both_ends_and_all_between() {
        let law = sizes(json!({"kind": "uniform", "low": 10, "high": 19}));
        let mut counts = [0u32; 10];
        for i in 0..20_000 {
            counts[law.of(3, i) as usize - 10] += 1;
        }
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 2000.0).powi(2) / 2000.0).sum();
        assert!(chi < 9.0 + 5.0 * 18f64.sqrt(), "{chi}");
    }

    #[test]
    fn lognormal_has_its_median_and_spread_within_bounds() {
        let spec = json!({"kind": "lognormal", "median": 1 << 20, "sigma": 1.2,
                          "low": 1 << 10, "high": 1u64 << 40});
        let law = sizes(spec);
        let mut logs: Vec<f64> = (0..20_001).map(|i| (law.of(0, i) as f64).ln()).collect();
        logs.sort_by(f64::total_cmp);
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let var = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / logs.len() as f64;
        assert!((logs[10_000] - f64::from(1 << 20).ln()).abs() < 0.06, "{}", logs[10_000]);
        assert!((var.sqrt() / 1.2 - 1.0).abs() < 0.03, "{}", var.sqrt());
        let tight = sizes(json!({"kind": "lognormal", "median": 100, "sigma": 2.0,
                                 "low": 90, "high": 110}));
        let all: Vec<u64> = (0..5_000).map(|i| tight.of(0, i)).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&90), Some(&110)));
        let at_a_bound = all.iter().filter(|&&s| s == 90 || s == 110).count();
        assert!(at_a_bound < 700, "{at_a_bound}: clamped instead of drawn again");
    }
}

//! Draw kind and object of the next request, each from its own seeded random stream.

use rand_core::Rng as _;
use storlab_base::{Error, Offsets, Result, Rng, Share, below, stream};

use super::kind::ObjectKind;
use super::pool::{Object, Objects};
use super::spec::ObjectJob;

/// Number of draws to try when deletes have removed most pool objects. After that, the drawn index
/// is taken modulo the number of remaining objects.
const TRIES: usize = 64;

/// Random generator of one worker's requests.
pub struct Draw {
    /// Bounds that divide the 64-bit random numbers among the kinds: upper bound and kind.
    kinds: Vec<(u64, ObjectKind)>,
    /// Sampler of object indices in the pool (the objects written before the run).
    keys: Option<Offsets>,
    kind_rng: Rng,
    object_rng: Rng,
    range_rng: Rng,
    shard_rng: Rng,
}

impl Draw {
    /// Create the request generator of worker `index`.
    pub fn new(job: &ObjectJob, index: usize) -> Result<Self> {
        let index = index as u64;
        let objects = job.pool.as_ref().map_or(0, |pool| pool.objects);
        // The seed alone determines which objects are hot, so that all workers agree.
        let share = Share { index, count: u64::MAX };
        let keys = (objects > 0)
            .then(|| Offsets::new(&job.keys, objects, 1, 1, share, job.seed))
            .transpose()
            .map_err(about_keys)?;
        Ok(Draw {
            kinds: bounds(job),
            keys,
            kind_rng: stream(job.seed, "object-kind", index),
            object_rng: stream(job.seed, "object-written", index),
            range_rng: stream(job.seed, "object-range", index),
            shard_rng: stream(job.seed, "object-shard", index),
        })
    }

    /// Draw the kind of the next request.
    pub fn kind(&mut self) -> ObjectKind {
        let draw = self.kind_rng.next_u64();
        let drawn = self.kinds.iter().find(|(bound, _)| draw < *bound);
        drawn.or(self.kinds.last()).map_or(ObjectKind::Get, |&(_, kind)| kind)
    }

    /// Draw the object of the next GET or HEAD and pin it, so that it is not deleted meanwhile.
    /// `None` if no object exists.
    ///
    /// If objects that the run wrote may be read, they are drawn in proportion to their share of
    /// all objects, each with the same probability. Objects of the pool follow the job's
    /// distribution.
    pub fn readable(&mut self, objects: &Objects) -> Option<Object> {
        let (live, joined) = (objects.live(), objects.joined());
        if joined > 0 && below(&mut self.object_rng, live + joined) >= live {
            let pinned = objects.pin_written(self.object_rng.next_u64());
            if pinned.is_some() {
                return pinned;
            }
        }
        let keys = self.keys.as_mut()?;
        let drawn = (0..TRIES).find_map(|_| objects.pin(keys.next(1)));
        drawn.or_else(|| {
            (0..TRIES).find_map(|_| {
                let live = objects.live();
                (live > 0).then(|| objects.pin(keys.next(1) % live)).flatten()
            })
        })
    }

    /// Draw the byte range of a GET: `want` bytes within an object of `size` bytes. Return offset
    /// and length.
    pub fn range(&mut self, size: u64, want: u64) -> (u64, u64) {
        let len = want.min(size);
        (below(&mut self.range_rng, size - len + 1), len)
    }

    /// Draw one of the pool's shards (key prefixes), for a listing.
    pub fn shard(&mut self, shards: u64) -> u64 {
        below(&mut self.shard_rng, shards)
    }
}

/// Rename the field `offsets` of an error to `keys`, the field that users know.
fn about_keys(error: Error) -> Error {
    match error {
        Error::Spec { field, what, fix } => {
            Error::Spec { field: field.replacen("offsets", "keys", 1), what, fix }
        }
        other => other,
    }
}

fn bounds(job: &ObjectJob) -> Vec<(u64, ObjectKind)> {
    let total: f64 = job.mix.shares().iter().sum();
    let mut sum = 0.0;
    let shares = ObjectKind::ALL.into_iter().zip(job.mix.shares());
    shares
        .filter(|&(_, share)| share > 0.0)
        .map(|(kind, share)| {
            sum += share / total;
            ((sum * 2f64.powi(64)) as u64, kind)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::spec::tests::job_with;

    const POOL: u64 = 1000;

    /// Count how often two workers draw each object of the pool.
    fn counts(keys: &Value, draws: u64) -> Vec<u64> {
        let job = job_with(|j| {
            j["pool"]["objects"] = json!(POOL);
            j["keys"] = keys.clone();
        });
        let objects = Objects::new(&job, false).unwrap();
        let mut counts = vec![0; POOL as usize];
        for worker in 0..2 {
            let mut draw = Draw::new(&job, worker).unwrap();
            for _ in 0..draws / 2 {
                let Some(Object::Pool(index)) = draw.readable(&objects) else { panic!() };
                counts[index as usize] += 1;
            }
        }
        counts
    }

    fn chi_square(seen: &[u64], expected: impl Fn(usize) -> f64) -> f64 {
        let term = |(i, &n): (usize, &u64)| (n as f64 - expected(i)).powi(2) / expected(i);
        seen.iter().enumerate().map(term).sum()
    }

    #[test]
    fn uniform_keys_are_uniform() {
        let counts = counts(&json!({"kind": "uniform"}), 200_000);
        let chi = chi_square(&counts, |_| 200.0);
        // 999 degrees of freedom: mean 999, sigma 44.7. Both tails are tested: too uniform is
        // suspicious as well.
        assert!((chi - 999.0).abs() < 5.0 * 44.7, "{chi}");
        // The hottest tenth gets about a tenth of the draws. In a tool with defective "random" keys
        // it gets 31.5 %.
        let mut sorted = counts;
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let hottest = sorted[..100].iter().sum::<u64>() as f64 / 200_000.0;
        assert!(hottest < 0.115, "{hottest}");
    }

    #[test]
    fn zipf_keys_follow_the_law_and_are_scattered() {
        let mut counts = counts(&json!({"kind": "zipf", "theta": 1.0}), 400_000);
        let hottest = (0..POOL as usize).max_by_key(|&i| counts[i]).unwrap();
        let neighbours = counts[(hottest + 1) % 1000] + counts[(hottest + 999) % 1000];
        assert!(counts[hottest] > 4 * neighbours, "hot objects stand side by side");
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: f64 = (1..=POOL).map(|k| 1.0 / k as f64).sum();
        let law = |rank: usize| 400_000.0 / total / (rank + 1) as f64;
        // Compare only the hottest objects, because sampling noise cannot change their order.
        for (rank, &seen) in counts[..10].iter().enumerate() {
            let expected = law(rank);
            assert!((seen as f64 - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {seen}");
        }
    }

    #[test]
    fn hot_objects_get_their_share() {
        let keys = json!({"kind": "hot_cold", "hot_space_percent": 10.0,
                          "hot_access_percent": 80.0});
        let mut counts = counts(&keys, 100_000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot = counts[..100].iter().sum::<u64>() as f64;
        assert!((hot - 80_000.0).abs() < 5.0 * 16_000f64.sqrt(), "{hot}");
    }

    #[test]
    fn mixes_hold_their_percentages() {
        let percents = [40.0, 25.0, 15.0, 10.0, 7.5, 2.5];
        let job = job_with(|j| {
            j["mix"] = json!({"get": 40, "put": 25, "head": 15, "list": 10, "delete": 7.5,
                              "multi_delete": 2.5});
        });
        let mut draw = Draw::new(&job, 0).unwrap();
        let mut counts = [0u32; 6];
        for _ in 0..100_000 {
            counts[draw.kind() as usize] += 1;
        }
        // Tolerance: five standard deviations of a binomial with n = 100,000.
        for (count, percent) in counts.into_iter().zip(percents) {
            let share: f64 = percent / 100.0;
            let sigma = (100_000.0 * share * (1.0 - share)).sqrt();
            assert!((f64::from(count) - 100_000.0 * share).abs() < 5.0 * sigma, "{counts:?}");
        }
    }

    #[test]
    fn objects_that_joined_are_as_likely_as_those_of_the_pool() {
        let job = job_with(|j| {
            j["pool"]["objects"] = json!(100);
            j["join_pool"] = json!(true);
        });
        let objects = Objects::new(&job, false).unwrap();
        for serial in 0..300 {
            objects.add(Object::Written { worker: 0, serial });
        }
        let mut draw = Draw::new(&job, 0).unwrap();
        let mut counts = [0u64; 400];
        for _ in 0..80_000 {
            match draw.readable(&objects).unwrap() {
                Object::Pool(index) => counts[index as usize] += 1,
                Object::Written { serial, .. } => counts[100 + serial as usize] += 1,
            }
        }
        let chi = chi_square(&counts, |_| 200.0);
        assert!(chi < 399.0 + 5.0 * 28.3, "{chi}");
    }

    #[test]
    fn a_pool_that_deletes_have_shrunk_is_still_drawn_from() {
        let job = job_with(|j| j["pool"]["objects"] = json!(POOL));
        let objects = Objects::new(&job, true).unwrap();
        objects.take(POOL as usize - 1);
        let mut draw = Draw::new(&job, 0).unwrap();
        for _ in 0..50 {
            let object = draw.readable(&objects).unwrap();
            assert_eq!(object, Object::Pool(0));
            objects.unpin(object);
        }
        objects.take(1);
        assert_eq!(draw.readable(&objects), None);
    }

    #[test]
    fn a_law_that_cannot_be_names_its_field() {
        for (field, value) in [("theta", -1.0), ("hot_space_percent", 0.0)] {
            let job = job_with(|j| {
                let kind = if field == "theta" { "zipf" } else { "hot_cold" };
                j["keys"]["kind"] = json!(kind);
                j["keys"][field] = json!(value);
            });
            let message = Draw::new(&job, 0).err().unwrap().to_string();
            assert!(message.starts_with(&format!("keys.{field}")), "{message}");
        }
    }

    #[test]
    fn ranges_lie_within_the_object() {
        let mut draw = Draw::new(&job_with(|_| ()), 0).unwrap();
        let mut ends = [false; 2];
        for _ in 0..1000 {
            let (at, len) = draw.range(20, 10);
            assert!(len == 10 && at <= 10);
            ends = [ends[0] || at == 0, ends[1] || at == 10];
        }
        assert_eq!(ends, [true, true]);
        assert_eq!(draw.range(5, 10), (0, 5));
    }
}

//! Tests against a `HashMap`, with budgets that force several passes.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::lookup::lines::unmix;
use crate::merge::{Run, merge};

/// Size of the buffers of one worker in bytes.
const SCATTER_BYTES: usize = (SHARDS * BLOCK + FREQUENT) * size_of::<u64>();

/// Values and counts as the files of a vocabulary store them.
type Files = (Vec<u8>, Vec<u8>);

fn expected(values: &[u32], threshold: u64) -> Files {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for value in values {
        *counts.entry(*value).or_default() += 1;
    }
    let mut kept: Vec<(u32, u64)> = counts.into_iter().filter(|(_, n)| *n >= threshold).collect();
    kept.sort_unstable_by_key(|(value, count)| (u64::MAX - count, *value));
    let values = kept.iter().flat_map(|(value, _)| value.to_le_bytes()).collect();
    (values, kept.iter().flat_map(|(_, count)| count.to_le_bytes()).collect())
}

fn distinct(values: &[u32]) -> u64 {
    values.iter().collect::<HashSet<_>>().len() as u64
}

/// Run one counting pass, with the values divided between workers.
fn pass<'b>(
    counting: Counting<'b>,
    values: &[u32],
    threshold: u64,
    workers: usize,
) -> Result<Sorted<'b>> {
    let share = values.len().div_ceil(workers).max(1);
    thread::scope(|scope| {
        let work = |share: &[u32]| {
            let mut scatter = counting.scatter()?;
            share.chunks(1000).try_for_each(|piece| counting.add(&mut scatter, piece))?;
            counting.flush(&mut scatter)
        };
        let threads: Vec<_> =
            values.chunks(share).map(|share| scope.spawn(move || work(share))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    Ok(counting.finish(threshold, workers))
}

/// Run all passes, and merge them. Return the files, the number of passes and of distinct values.
fn count(
    budget: &Budget,
    values: &[u32],
    threshold: u64,
    workers: usize,
    limit: u32,
) -> Result<(Files, usize, u64)> {
    let (mut first, mut distinct, mut passes) = (0, 0, Vec::new());
    while first < SHARDS {
        let counting = Counting::with_limit(budget, first, limit);
        let sorted = pass(counting, values, threshold, workers)?;
        assert!(sorted.end > first);
        first = sorted.end;
        distinct += sorted.distinct();
        let kept = sorted.kept() as usize;
        let (mut values, mut counts) = (Vec::new(), Vec::new());
        sorted.write(&mut values, &mut counts).unwrap();
        assert_eq!((values.len(), counts.len()), (4 * kept, 8 * kept));
        passes.push((values, counts));
    }
    let mut runs: Vec<_> = passes.iter().map(|(v, c)| Run::new(&v[..], &c[..])).collect();
    let (mut values, mut counts) = (Vec::new(), Vec::new());
    let kept = merge(&mut runs, &mut values, &mut counts).unwrap();
    assert_eq!(values.len() as u64, 4 * kept);
    Ok(((values, counts), passes.len(), distinct))
}

fn columns() -> impl Strategy<Value = Vec<u32>> {
    let few = (0..6u32).prop_map(|value| value.wrapping_sub(3));
    let some = (0..2000u32).prop_map(|value| value << 13);
    let skewed = prop_oneof![8 => few.clone(), 2 => some.clone(), 1 => any::<u32>()];
    // Values of one shard that fill consecutive lines.
    let crowd = (0..600u32).prop_map(|hash| unmix(0x00ff_fe00 + hash));
    prop_oneof![
        prop::collection::vec(few, 0..9000),
        prop::collection::vec(some, 0..9000),
        prop::collection::vec(any::<u32>(), 0..9000),
        prop::collection::vec(skewed, 0..30_000),
        prop::collection::vec(crowd, 0..3000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_are_those_of_a_map(
        values in columns(),
        threshold in 0u64..5,
        workers in 1usize..5,
        tables in prop_oneof![Just(1 << 30), 14_000usize..60_000],
        limit in prop_oneof![Just(LIMIT), 1u32..9],
    ) {
        let budget = Budget::new(workers * SCATTER_BYTES + tables);
        let (files, passes, counts) = count(&budget, &values, threshold, workers, limit).unwrap();
        prop_assert_eq!(files, expected(&values, threshold));
        prop_assert_eq!(counts, distinct(&values));
        prop_assert!(passes == 1 || tables < 1 << 30);
        prop_assert!(budget.peak() <= budget.limit());
        prop_assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_budget_that_is_short_takes_several_passes() {
    let values: Vec<u32> = (0..40_000u32).map(|value| value % 20_000).collect();
    // One worker only: of two, one might find no work and free its buffers, leaving more for the
    // tables.
    let budget = Budget::new(SCATTER_BYTES + 100_000);
    let (files, passes, counts) = count(&budget, &values, 2, 1, LIMIT).unwrap();
    assert_eq!(files, expected(&values, 2));
    assert!((2..64).contains(&passes), "{passes} passes");
    assert_eq!(counts, 20_000);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_shard_that_does_not_fit_is_an_error_that_names_the_memory() {
    let values: Vec<u32> = (0..100_000).collect();
    let budget = Budget::new(SCATTER_BYTES + 500);
    let error = count(&budget, &values, 0, 1, LIMIT).unwrap_err().to_string();
    assert!(error.starts_with("memory_bytes: is 295"), "{error}");
    let error = count(&Budget::new(1000), &values, 0, 1, LIMIT).unwrap_err().to_string();
    assert!(error.ends_with("set a larger memory"), "{error}");
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_shard_that_was_counted_before_is_left_out() {
    let values: Vec<u32> = (0..5000).collect();
    let budget = Budget::new(1 << 30);
    let sorted = pass(Counting::new(&budget, 200), &values, 0, 1).unwrap();
    let own = values.iter().filter(|value| (mix(**value) >> HASH_BITS) as usize >= 200).count();
    assert_eq!((sorted.end, sorted.kept()), (SHARDS, own as u64));
}

#[test]
fn a_pass_without_values_is_empty() {
    let budget = Budget::new(1 << 30);
    let sorted = pass(Counting::new(&budget, 0), &[], 0, 2).unwrap();
    assert_eq!((sorted.end, sorted.kept(), sorted.distinct()), (SHARDS, 0, 0));
}

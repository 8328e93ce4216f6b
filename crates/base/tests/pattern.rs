//! Tests of offsets: bounds, alignment, evenness, coverage, skew.

use std::collections::HashSet;

use proptest::prelude::*;
use storlab_base::{Error, Offsets, Pattern, Share};

const ONE: Share = Share { index: 0, count: 1 };

fn offsets(pattern: &Pattern, space: u64, unit: u64, max_len: u64, share: Share) -> Offsets {
    Offsets::new(pattern, space, unit, max_len, share, 42).expect("a sound order")
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Uniform),
        Just(Pattern::Sequential),
        (0.01f64..4.0).prop_map(|theta| Pattern::Zipf { theta }),
        (0.1f64..=100.0, 0.0f64..=100.0).prop_map(|(hot_space_percent, hot_access_percent)| {
            Pattern::HotCold { hot_space_percent, hot_access_percent }
        }),
        Just(Pattern::Permutation),
    ]
}

proptest! {
    #[test]
    fn stays_inside_and_aligned(
        pattern in any_pattern(),
        unit in prop_oneof![Just(512u64), Just(520), Just(4096), 1u64..10_000],
        longest in 1u64..9,
        blocks in 4u64..600,
        rest in 0u64..20_000,
        lens in prop::collection::vec(1u64..9, 60),
        index in 0u64..4,
        seed: u64,
    ) {
        let max_len = unit * longest;
        let space = max_len * blocks + rest;
        let share = Share { index, count: 4 };
        let mut offsets = Offsets::new(&pattern, space, unit, max_len, share, seed).unwrap();
        for len in lens {
            let len = len.min(longest) * unit;
            let offset = offsets.next(len);
            prop_assert!(offset + len <= space, "{offset} + {len} > {space}");
            prop_assert_eq!(offset % unit, 0);
        }
    }

    #[test]
    fn equal_seeds_give_equal_offsets(pattern in any_pattern(), seed: u64) {
        let share = Share { index: 1, count: 2 };
        let stream = |seed| {
            let mut offsets =
                Offsets::new(&pattern, 1 << 24, 4096, 4096, share, seed).unwrap();
            (0..100).map(|_| offsets.next(4096)).collect::<Vec<_>>()
        };
        prop_assert_eq!(stream(seed), stream(seed));
        if pattern != Pattern::Sequential && !matches!(pattern, Pattern::Zipf { .. }) {
            prop_assert_ne!(stream(seed), stream(seed ^ 1));
        }
    }

    #[test]
    fn a_pass_visits_every_slot_once(
        slots in 1u64..700, jobs in 1u64..9, rest in 0u64..4096, seed: u64
    ) {
        prop_assume!(jobs <= slots);
        let len = 8192;
        let mut orders = Vec::new();
        let mut streams: Vec<_> = (0..jobs)
            .map(|index| {
                let share = Share { index, count: jobs };
                let space = slots * len + rest;
                Offsets::new(&Pattern::Permutation, space, 4096, len, share, seed).unwrap()
            })
            .collect();
        for _pass in 0..3 {
            let mut order = Vec::new();
            for (index, stream) in (0u64..).zip(&mut streams) {
                for _ in (index..slots).step_by(jobs as usize) {
                    order.push(stream.next(len));
                }
            }
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..slots).map(|slot| slot * len).collect::<Vec<_>>());
            orders.push(order);
        }
        if slots > 20 {
            prop_assert_ne!(&orders[0], &orders[1]);
        }
    }

    #[test]
    fn sequential_jobs_cover_the_whole_space(
        blocks in 1u64..300, jobs in 1u64..9, rest in 0u64..16
    ) {
        prop_assume!(jobs <= blocks);
        let (unit, len) = (512, 512 * 16);
        let space = blocks * len + rest * unit;
        let mut covered = HashSet::new();
        for index in 0..jobs {
            let share = Share { index, count: jobs };
            let mut stream = offsets(&Pattern::Sequential, space, unit, len, share);
            let first = stream.next(len);
            let mut at = first;
            loop {
                covered.extend((at..at + len).step_by(unit as usize));
                let next = stream.next(len);
                if next == first {
                    break;
                }
                prop_assert!(next > at && next <= at + len);
                at = next;
            }
        }
        prop_assert_eq!(covered.len() as u64, space / unit);
    }
}

#[test]
fn uniform_is_even_and_jobs_are_independent() {
    let (places, draws) = (1000u64, 500_000);
    let mut counts = vec![0u32; places as usize];
    let mut equal = 0;
    let space = places * 4096 + 100;
    let mut other = offsets(&Pattern::Uniform, space, 4096, 4096, Share { index: 1, count: 2 });
    let mut stream = offsets(&Pattern::Uniform, space, 4096, 4096, Share { index: 0, count: 2 });
    for _ in 0..draws {
        let offset = stream.next(4096);
        counts[(offset / 4096) as usize] += 1;
        equal += u32::from(offset == other.next(4096));
    }
    let expected = f64::from(draws) / places as f64;
    let chi: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
    // 999 degrees of freedom: sigma 44.7.
    assert!((chi - 999.0).abs() < 5.0 * 44.7, "{chi}");
    assert!((f64::from(equal) - expected).abs() < 5.0 * expected.sqrt(), "{equal}");
}

#[test]
fn uniform_reaches_the_very_end_with_long_blocks() {
    let mut stream = offsets(&Pattern::Uniform, 10 * 4096, 4096, 8 * 4096, ONE);
    let seen: HashSet<u64> = (0..200).map(|_| stream.next(8 * 4096) / 4096).collect();
    assert_eq!(seen, HashSet::from([0, 1, 2]));
}

#[test]
fn zipf_ratios_and_hot_places_shared_by_jobs() {
    for theta in [0.8, 1.0, 1.3] {
        let places = 10_000u64;
        let hottest = |index| {
            let share = Share { index, count: 2 };
            let mut stream = offsets(&Pattern::Zipf { theta }, places * 4096, 4096, 4096, share);
            let mut counts = vec![0u32; places as usize];
            for _ in 0..1_000_000 {
                counts[(stream.next(4096) / 4096) as usize] += 1;
            }
            let mut order: Vec<usize> = (0..places as usize).collect();
            order.sort_by_key(|&place| std::cmp::Reverse(counts[place]));
            (order[..4].to_vec(), order.iter().map(|&p| f64::from(counts[p])).collect::<Vec<_>>())
        };
        let (hot, counts) = hottest(0);
        let (others, _) = hottest(1);
        assert_eq!(hot, others, "theta {theta}");
        assert!(hot[0].abs_diff(hot[1]) > 1, "scattered, not side by side: {hot:?}");
        for rank in [2, 4, 10] {
            let ratio = counts[0] / counts[rank - 1];
            let theory = (rank as f64).powf(theta);
            let sigma = (1.0 / counts[0] + 1.0 / counts[rank - 1]).sqrt();
            assert!(
                (ratio / theory - 1.0).abs() < 5.0 * sigma,
                "theta {theta} rank {rank}: {ratio}"
            );
        }
    }
}

#[test]
fn hot_places_get_their_share() {
    let pattern = Pattern::HotCold { hot_space_percent: 10.0, hot_access_percent: 90.0 };
    let (places, draws) = (1000u64, 200_000u64);
    let mut counts = vec![0u64; places as usize];
    for index in 0..2 {
        let mut stream = offsets(&pattern, places * 4096, 4096, 4096, Share { index, count: 2 });
        for _ in 0..draws {
            counts[(stream.next(4096) / 4096) as usize] += 1;
        }
    }
    let hottest_first: Vec<usize> = {
        let mut order: Vec<usize> = (0..places as usize).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(counts[place]));
        order
    };
    let all = (2 * draws) as f64;
    let hot: u64 = hottest_first[..100].iter().map(|&place| counts[place]).sum();
    assert!((hot as f64 - 0.9 * all).abs() < 5.0 * (all * 0.09).sqrt(), "{hot}");
    // Hot positions get 3,600 draws each, cold ones 44: the groups are distinct, and each is even.
    assert!(counts[hottest_first[99]] > 3000 && counts[hottest_first[100]] < 100);
    // Scattered: hot positions lie in both halves of the space.
    let low = hottest_first[..100].iter().filter(|&&place| place < 500).count();
    assert!((25..=75).contains(&low), "{low}");
}

#[test]
fn extreme_hot_shares_work() {
    for (space, access) in [(100.0, 0.0), (100.0, 100.0), (0.001, 100.0), (50.0, 0.0)] {
        let pattern = Pattern::HotCold { hot_space_percent: space, hot_access_percent: access };
        let mut stream = offsets(&pattern, 100 * 512, 512, 512, ONE);
        let seen: HashSet<u64> = (0..3000).map(|_| stream.next(512)).collect();
        let places = if space < 0.01 { 1 } else { space as usize };
        assert_eq!(seen.len(), places, "{space} {access}");
    }
}

#[test]
fn python_json_is_understood() {
    for (kind, expected) in [
        ("uniform", Pattern::Uniform),
        ("sequential", Pattern::Sequential),
        ("permutation", Pattern::Permutation),
        ("zipf", Pattern::Zipf { theta: 1.1 }),
        ("hot_cold", Pattern::HotCold { hot_space_percent: 10.0, hot_access_percent: 90.0 }),
    ] {
        let json = format!(
            r#"{{"kind":"{kind}","theta":1.1,"hot_space_percent":10.0,"hot_access_percent":90}}"#
        );
        assert_eq!(serde_json::from_str::<Pattern>(&json).unwrap(), expected);
    }
}

#[test]
fn impossible_orders_name_the_field() {
    let four = Share { index: 3, count: 4 };
    let zipf = |theta| Pattern::Zipf { theta };
    let hot = |hot_space_percent, hot_access_percent| Pattern::HotCold {
        hot_space_percent,
        hot_access_percent,
    };
    for (pattern, space, unit, len, share, wanted) in [
        (Pattern::Uniform, 4095, 4096, 4096, ONE, "members.size"),
        (Pattern::Uniform, 8192, 0, 4096, ONE, "block_sizes"),
        (Pattern::Uniform, 8192, 512, 0, ONE, "block_sizes"),
        (Pattern::Uniform, 8192, 4096, 6000, ONE, "block_sizes"),
        (Pattern::Uniform, 8192, 4096, 4096, Share { index: 0, count: 0 }, "jobs"),
        (Pattern::Sequential, 3 * 4096, 4096, 4096, four, "jobs"),
        (Pattern::Permutation, 3 * 4096, 4096, 4096, four, "jobs"),
        (zipf(0.0), 8192, 4096, 4096, ONE, "offsets.theta"),
        (zipf(f64::NAN), 8192, 4096, 4096, ONE, "offsets.theta"),
        (zipf(f64::INFINITY), 8192, 4096, 4096, ONE, "offsets.theta"),
        (hot(0.0, 50.0), 8192, 4096, 4096, ONE, "offsets.hot_space_percent"),
        (hot(f64::NAN, 50.0), 8192, 4096, 4096, ONE, "offsets.hot_space_percent"),
        (hot(10.0, 100.5), 8192, 4096, 4096, ONE, "offsets.hot_access_percent"),
    ] {
        match Offsets::new(&pattern, space, unit, len, share, 1) {
            Err(Error::Spec { field, .. }) => assert_eq!(field, wanted, "{pattern:?}"),
            other => panic!("{pattern:?}: {other:?}"),
        }
    }
}

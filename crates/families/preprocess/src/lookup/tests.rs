//! Tests that compare lookups with those of a `HashMap`.

use std::collections::HashMap;

use proptest::prelude::*;

use super::lines::unmix;
use super::*;

fn assert_finds(vocabulary: &[u32], first_id: u32, wanted: &[u32]) {
    let entries = vocabulary.len() as u64;
    let lookup = Lookup::build(entries, vocabulary.iter().copied(), first_id);
    let oracle: HashMap<u32, u32> = vocabulary.iter().copied().zip(first_id..).collect();
    let mut ids = vec![u32::MAX; wanted.len()];
    lookup.find(wanted, &mut ids);
    let expected: Vec<u32> =
        wanted.iter().map(|value| oracle.get(value).copied().unwrap_or(0)).collect();
    assert_eq!(ids, expected);
}

fn values() -> impl Strategy<Value = u32> {
    // The last alternative has hashes at the end of the table, whose lines overflow into the first
    // one.
    prop_oneof![any::<u32>(), 0u32..50, (0u32..200).prop_map(|hash| unmix(u32::MAX - hash))]
}

proptest! {
    #[test]
    fn ids_are_those_of_a_map(
        vocabulary in prop::collection::hash_set(values(), 0..600),
        wanted in prop::collection::vec(values(), 0..300),
        first_id in prop_oneof![Just(1u32), 1u32..(1 << 31) - 600],
    ) {
        let vocabulary: Vec<u32> = vocabulary.into_iter().collect();
        let wanted: Vec<u32> = vocabulary.iter().step_by(3).copied().chain(wanted).collect();
        assert_finds(&vocabulary, first_id, &wanted);
    }

    #[test]
    fn a_hash_leads_back_to_its_value(value: u32) {
        prop_assert_eq!(unmix(mix(value)), value);
    }
}

#[test]
fn a_table_that_no_near_cache_holds_finds_the_same() {
    let vocabulary: Vec<u32> = (0..40_000).map(|n: u32| n.wrapping_mul(0x0001_0003)).collect();
    assert!(Lookup::bytes_for(40_000) > NEAR_BYTES);
    let wanted: Vec<u32> = vocabulary.iter().flat_map(|value| [*value, !*value]).skip(7).collect();
    assert_finds(&vocabulary, 7, &wanted);
}

#[test]
fn the_last_id_is_found() {
    assert_finds(&[5, 0, 9], (1 << 31) - 3, &[9, 0, 5, 1]);
}

#[test]
fn doubled_lines_keep_what_is_at_home() {
    let mut lines = Lines::new(4);
    let all = lines.as_mut_slice();
    (1..=20u32).for_each(|key| put(&mut all[home(mix(key), 4)], key, key + 100));
    put(&mut all[(home(mix(21), 4) + 1) % 4], 21, 121);
    assert_eq!(lines.double(21, mix), [(21, 121)]);
    assert_eq!(lines.count(), 8);
    let number_of = |key| find(&lines.as_slice()[home(mix(key), 8)], key);
    (1..=20).for_each(|key| assert_eq!(number_of(key), key + 100));
    assert_eq!(lines.as_slice().as_ptr().align_offset(64), 0);
}

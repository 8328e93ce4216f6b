//! Tests that compare a merge with a plain sort.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn run(mut entries: Vec<(u32, u64)>) -> (Vec<u8>, Vec<u8>) {
    entries.sort_unstable_by_key(|(value, count)| (u64::MAX - count, *value));
    let values = entries.iter().flat_map(|(value, _)| value.to_le_bytes()).collect();
    (values, entries.iter().flat_map(|(_, count)| count.to_le_bytes()).collect())
}

proptest! {
    #[test]
    fn runs_become_one(
        entries in prop::collection::hash_map(any::<u32>(), (1u64..4, any::<bool>()), 0..500),
        parts in 1usize..9,
    ) {
        let entries: HashMap<u32, u64> =
            entries
                .into_iter()
                .map(|(v, (n, big))| (v, if big { u64::MAX - n } else { n }))
                .collect();
        let mut shares = vec![Vec::new(); parts];
        for (number, entry) in entries.iter().enumerate() {
            shares[number % parts].push((*entry.0, *entry.1));
        }
        let files: Vec<_> = shares.into_iter().map(run).collect();
        let mut runs: Vec<_> = files.iter().map(|(v, c)| Run::new(&v[..], &c[..])).collect();
        let (mut values, mut counts) = (Vec::new(), Vec::new());
        let kept = merge(&mut runs, &mut values, &mut counts).unwrap();
        prop_assert_eq!(kept, entries.len() as u64);
        prop_assert_eq!((values, counts), run(entries.into_iter().collect()));
    }
}

#[test]
fn a_run_with_fewer_counts_than_values_is_refused() {
    let (values, counts) = run(vec![(3, 9), (4, 1)]);
    for (values, counts) in [(&values[..], &counts[..8]), (&values[..4], &counts[..])] {
        let mut runs = [Run::new(values, counts)];
        let error = merge(&mut runs, &mut io::sink(), &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn no_runs_are_an_empty_one() {
    let none: &mut [Run<&[u8]>] = &mut [];
    assert_eq!(merge(none, &mut io::sink(), &mut io::sink()).unwrap(), 0);
}

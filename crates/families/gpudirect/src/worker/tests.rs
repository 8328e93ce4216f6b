use super::*;

#[test]
fn the_last_places_are_kept() {
    let mut places = Places::new(3);
    for offset in 0..8 {
        places.add((offset, 4096));
    }
    let mut kept: Vec<u64> = places.all.iter().map(|&(offset, _)| offset).collect();
    kept.sort_unstable();
    assert_eq!(kept, [5, 6, 7]);
    let mut none = Places::new(0);
    none.add((1, 4096));
    assert!(none.all.is_empty());
}

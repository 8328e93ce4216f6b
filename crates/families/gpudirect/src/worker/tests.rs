use super::*;

#[test]
fn the_last_places_are_kept() {
    let mut places = Places::new(3);
    for offset in 0..8 {
        places.add(offset);
    }
    let mut kept = places.all.clone();
    kept.sort_unstable();
    assert_eq!(kept, [5, 6, 7]);
    let mut none = Places::new(0);
    none.add(1);
    assert!(none.all.is_empty());
}

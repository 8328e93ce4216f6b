//! Against the definition, rounded by other means.

use proptest::prelude::*;

use super::*;

/// The half next to a number, by comparison with the middles between halves.
fn nearest_half(number: f64) -> u16 {
    let value = |bits: u16| f64::from(half::f16::from_bits(bits));
    let (mut low, mut high) = (0, 0x7c00);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if value(middle) <= number {
            low = middle;
        } else {
            high = middle;
        }
    }
    // Exact: halves have 11 bits.
    let middle = f64::midpoint(value(low), value(high));
    let up = number > middle || (number == middle && low % 2 == 1);
    if up {
        high
    } else {
        low
    }
}

fn assert_dense(dense: &Dense, x: i32) {
    let logarithm = if x <= -3 { 0.0 } else { (f64::from(x) + 3.0).ln() };
    assert_eq!(dense.half(x), nearest_half(logarithm), "{x}");
    assert_eq!(dense.float(x).to_bits(), (logarithm as f32).to_bits(), "{x}");
}

#[test]
fn boundaries() {
    let dense = Dense::new();
    for x in [i32::MIN, -4, -3, -2, -1, 0, 1, 65535, 65536, i32::MAX - 1, i32::MAX] {
        assert_dense(&dense, x);
    }
    for bits in 0..31 {
        (-5..5).for_each(|beside| assert_dense(&dense, (1 << bits) + beside));
    }
    assert_eq!([dense.half(-2), dense.half(-1), dense.half(0)], [0, 0x398c, 0x3c65]);
    assert_eq!(dense.half(i32::MAX), 0x4d5f);
}

#[test]
fn where_a_half_ends() {
    let dense = Dense::new();
    for cell in &dense.halves[8 << CELL_BITS..31 << CELL_BITS] {
        let x = (cell.above - 3) as i32;
        (-1..2).for_each(|beside| assert_dense(&dense, x.saturating_add(beside)));
    }
}

/// Two roundings, by way of a float, would give the half below or above.
#[test]
fn numbers_are_rounded_once() {
    let middle = 1.0 + 2f64.powi(-11);
    assert_eq!(half_bits(middle), 0x3c00);
    assert_eq!(half_bits(middle + 2f64.powi(-40)), 0x3c01);
    assert_eq!(half_bits(middle + 2f64.powi(-10)), 0x3c02);
    assert_eq!(half_bits(middle + 2f64.powi(-10) - 2f64.powi(-40)), 0x3c01);
    assert_eq!(half_bits(2.0 - 2f64.powi(-40)), 0x4000);
}

proptest! {
    #[test]
    fn any_integer(bits in 0u32..32, x: i32) {
        assert_dense(&Dense::new(), x >> bits);
    }
}

//! Tests against the definition, with an independent rounding.

use std::cmp::Ordering;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

static DENSE: LazyLock<Dense> = LazyLock::new(Dense::new);

/// Return the half (float16) nearest to a number, by comparison with the midpoints between halves.
fn nearest_half(number: f64) -> u16 {
    let value = |bits: u16| f64::from(half::f16::from_bits(bits));
    let (mut low, mut high) = (0, 0x7c00);
    while high - low > 1 {
        let middle = u16::midpoint(low, high);
        if value(middle) <= number {
            low = middle;
        } else {
            high = middle;
        }
    }
    // The midpoint is exact: halves have 11 bits.
    let middle = f64::midpoint(value(low), value(high));
    match number.total_cmp(&middle) {
        Ordering::Less => low,
        Ordering::Equal => low + low % 2,
        Ordering::Greater => high,
    }
}

fn assert_dense(x: i32) {
    let dense = &DENSE;
    let logarithm = if x <= -3 { 0.0 } else { (f64::from(x) + 3.0).ln() };
    assert_eq!(dense.half(x), nearest_half(logarithm), "{x}");
    assert_eq!(dense.float(x).to_bits(), (logarithm as f32).to_bits(), "{x}");
}

#[test]
fn boundaries() {
    for x in [i32::MIN, -4, -3, -2, -1, 0, 1, 65535, 65536, i32::MAX - 1, i32::MAX] {
        assert_dense(x);
    }
    for bits in 0..31 {
        (-5..5).for_each(|beside| assert_dense((1 << bits) + beside));
    }
    assert_eq!([-2, -1, 0].map(|x| DENSE.half(x)), [0, 0x398c, 0x3c65]);
    assert_eq!(DENSE.half(i32::MAX), 0x4d5f);
}

#[test]
fn where_a_half_ends() {
    for cell in &DENSE.halves[8 << CELL_BITS..31 << CELL_BITS] {
        let x = (cell.above - 3) as i32;
        (-1..2).for_each(|beside| assert_dense(x.saturating_add(beside)));
    }
}

/// Rounding twice, by way of float32, would give a different half.
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
        assert_dense(x >> bits);
    }
}

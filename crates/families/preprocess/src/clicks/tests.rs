//! Tests of generated rows with a simple parser, and of the frequencies of values.

use std::collections::HashMap;

use super::*;

fn text(seed: u64, file: u32, block: u64, rows: u64) -> String {
    let mut text = Vec::new();
    Text::new().write(seed, file, block, rows, &mut text);
    String::from_utf8(text).unwrap()
}

struct Row {
    label: u8,
    integers: Vec<Option<i32>>,
    categories: Vec<Option<u32>>,
}

fn parse(line: &str) -> Row {
    let fields: Vec<&str> = line.split('\t').collect();
    assert_eq!(fields.len(), 40, "{line}");
    let integer = |field: &&str| (!field.is_empty()).then(|| field.parse().unwrap());
    let category = |field: &&str| {
        let digits = |field: &str| {
            field.len() == 8 && field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        assert!(field.is_empty() || digits(field), "{line}");
        (!field.is_empty()).then(|| u32::from_str_radix(field, 16).unwrap())
    };
    Row {
        label: fields[0].parse().unwrap(),
        integers: fields[1..14].iter().map(integer).collect(),
        categories: fields[14..].iter().map(category).collect(),
    }
}

fn rows() -> Vec<Row> {
    let text: String = (0..4).map(|block| text(7, 0, block, BLOCK_ROWS)).collect();
    assert!(text.ends_with('\n'));
    text.lines().map(parse).collect()
}

/// Return whether a count is within five standard deviations of a binomial distribution.
fn is_near(count: usize, of: usize, per_1000: u64) -> bool {
    let (count, of, share) = (count as f64, of as f64, per_1000 as f64 / 1000.0);
    (count - of * share).abs() <= 5.0 * (of * share * (1.0 - share)).sqrt() + 1e-9
}

#[test]
fn labels_and_empty_fields_come_as_often_as_they_should() {
    let rows = rows();
    let clicked = rows.iter().filter(|row| row.label == 1).count();
    assert!(is_near(clicked, rows.len(), CLICKED), "{clicked}");
    assert!(rows.iter().all(|row| row.label < 2));
    for (column, (per_1000, largest, _)) in INTEGERS.into_iter().enumerate() {
        let values = || rows.iter().map(|row| row.integers[column]);
        let empty = values().filter(Option::is_none).count();
        assert!(is_near(empty, rows.len(), per_1000), "I{}: {empty}", column + 1);
        let lowest = if column == 1 { -3 } else { 0 };
        assert_eq!(values().flatten().min(), Some(lowest), "I{}", column + 1);
        assert!(values().flatten().all(|v| i64::from(v) <= largest as i64), "I{}", column + 1);
    }
    for (column, (per_1000, cardinality)) in CATEGORIES.into_iter().enumerate() {
        let empty = rows.iter().filter(|row| row.categories[column].is_none()).count();
        assert!(is_near(empty, rows.len(), per_1000), "C{}: {empty}", column + 1);
        if cardinality < 200 {
            let mut seen: Vec<u32> = rows.iter().filter_map(|row| row.categories[column]).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len() as u64, cardinality, "C{}", column + 1);
        }
    }
}

#[test]
fn common_values_are_common_and_rare_ones_many() {
    let rows = rows();
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for value in rows.iter().filter_map(|row| row.categories[0]) {
        *counts.entry(value).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let top = counts.values().copied().max().unwrap();
    assert!((all / 20..all / 8).contains(&top), "the commonest value came {top} times of {all}");
    let once = counts.values().filter(|&&count| count == 1).count();
    assert!((all / 8..all / 2).contains(&once), "{once} values of {all} came once");
}

#[test]
fn integers_are_small_with_long_tails() {
    let rows = rows();
    for (column, low, high) in [(0, 0, 4), (4, 1_000, 10_000), (5, 10, 100), (11, 0, 1)] {
        let mut values: Vec<i32> = rows.iter().filter_map(|row| row.integers[column]).collect();
        values.sort_unstable();
        let median = values[values.len() / 2];
        assert!((low..=high).contains(&median), "I{}: {median}", column + 1);
        assert!(*values.last().unwrap() > 20 * median, "I{}", column + 1);
    }
}

#[test]
fn a_row_is_about_as_long_as_criteos() {
    let bytes = text(1, 0, 0, BLOCK_ROWS).len() as u64;
    assert!((235..255).contains(&(bytes / BLOCK_ROWS)), "{bytes}");
}

#[test]
fn rows_follow_from_seed_file_and_place() {
    let whole = text(7, 1, 2, 100);
    assert!(whole.starts_with(&text(7, 1, 2, 40)));
    for other in [text(8, 1, 2, 100), text(7, 2, 2, 100), text(7, 1, 3, 100)] {
        assert_ne!(whole, other);
    }
    // Existing data sets must stay valid: if these bytes change, change VERSION too.
    assert_eq!(xxhash_rust::xxh3::xxh3_64(whole.as_bytes()), 0xbf83_79da_c4e5_51ab);
}

#[test]
fn longest_fields_fit() {
    let longest = INTEGERS.iter().map(|(_, largest, _)| largest.to_string().len()).max();
    assert!(longest <= Some(9));
    let Text { integers, categories } = Text::new();
    for octaves in integers.iter().chain(&categories) {
        for random in [0, u64::from(u32::MAX), u64::MAX, 0x8000_0000_ffff_ffff] {
            let _ = octaves.draw(random);
        }
        let &(first, count) = octaves.ranks.last().unwrap();
        assert_eq!(octaves.draw(u64::MAX), Some((first + count - 1) as u32));
    }
}

#[test]
fn digits_are_those_of_the_standard_library() {
    for value in [0, 7, 9, 10, 15, 0x9abc_def0, 0x0f1e_2d3c, u32::MAX] {
        assert_eq!(hexadecimal(value).as_slice(), format!("{value:08x}").as_bytes());
    }
    for value in [0, 5, 10, 99, 100, -3, 23_159_456, i32::MAX, i32::MIN] {
        let mut text = Vec::new();
        write_decimal(value, &mut text);
        assert_eq!(text, value.to_string().as_bytes());
    }
}

#[test]
fn distinct_ranks_have_distinct_values() {
    let mut values: Vec<u32> = (0..100_000).map(|rank| category(3, rank)).collect();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), 100_000);
    let mut values: Vec<i32> = (0..100).map(|rank| integer(1, rank)).collect();
    values.sort_unstable();
    assert!(values.into_iter().eq(-3..97));
}

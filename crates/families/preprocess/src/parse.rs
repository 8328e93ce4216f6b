//! Parser of click logs, one line at a time: puts the forty fields into columns, or finds the
//! reason why the line is malformed.
//!
//! Fields have six bytes on average, so searching for delimiters would cost more than examining
//! eight bytes at once. An integer and a category each take one load of eight bytes.

use serde::{Deserialize, Serialize};

use super::columns::{CATEGORIES, Columns, INTEGERS};

/// Number of fields in a line of a click log.
pub const FIELDS: usize = 1 + INTEGERS + CATEGORIES;
/// Number of bytes that must be readable after the end of a line, because fields are loaded as
/// eight bytes at once.
pub const PADDING: usize = 8;

const TAB: u8 = b'\t';
const LF: u8 = b'\n';
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Reason why a line is malformed. If several fields are invalid, the leftmost one determines the
/// reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The line does not have forty fields.
    Fields,
    /// The label is neither `0` nor `1`.
    Label,
    /// An integer field is neither empty nor a 32-bit integer.
    Integer,
    /// A category is neither empty nor eight hexadecimal digits.
    Category,
}

impl Reason {
    /// Return the name of the reason in results.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Fields => "fields",
            Reason::Label => "label",
            Reason::Integer => "integer",
            Reason::Category => "category",
        }
    }
}

/// Parse the line that begins at `at`. Return the position of the next line; `None` if the line is
/// malformed, which leaves `columns` unchanged.
///
/// `data` must contain the line's end and [`PADDING`] more bytes.
pub fn line(data: &[u8], at: usize, columns: &mut Columns) -> Option<usize> {
    let label = match (data[at], data[at + 1]) {
        (b'0', TAB) => 0,
        (b'1', TAB) => 1,
        _ => return None,
    };
    let mut present = 0u64;
    let next = fields(data, at + 2, columns, &mut present);
    if next.is_some() {
        columns.end_row(label, present);
    } else {
        columns.undo(present);
    }
    next
}

fn fields(data: &[u8], mut at: usize, columns: &mut Columns, present: &mut u64) -> Option<usize> {
    for column in 0..INTEGERS {
        let (value, length) = match short_integer(load(data, at)) {
            Some(fields) => fields,
            None => long_integer(data, at)?,
        };
        let there = length > 0;
        columns.put(column, value as u32, there);
        *present |= u64::from(there) << column;
        at += length + 1;
    }
    for column in INTEGERS..INTEGERS + CATEGORIES {
        let end = if column + 1 == INTEGERS + CATEGORIES { LF } else { TAB };
        if data[at] == end {
            at += 1;
            continue;
        }
        let value = hexadecimal(load(data, at))?;
        if data[at + 8] != end {
            return None;
        }
        columns.put(column, value, true);
        *present |= 1 << column;
        at += 9;
    }
    Some(at)
}

#[inline]
fn load(data: &[u8], at: usize) -> u64 {
    let bytes: [u8; 8] = data[at..at + 8].try_into().unwrap_or_default();
    u64::from_le_bytes(bytes)
}

/// Set the high bit of each byte that is at least `least`, and clear all other bits. All bytes must
/// be below 128.
#[inline]
fn at_least(bytes: u64, least: u8) -> u64 {
    bytes.wrapping_add(ONES * u64::from(0x80 - least)) & HIGHS
}

/// Parse up to seven digits followed by a tab. Return the value and the number of digits; `None`
/// for any other input.
#[inline]
fn short_integer(bytes: u64) -> Option<(i32, usize)> {
    let tabs = bytes ^ (ONES * u64::from(TAB));
    let hits = tabs.wrapping_sub(ONES) & !tabs & HIGHS;
    if hits == 0 {
        return None;
    }
    let length = hits.trailing_zeros() as usize / 8;
    // Move the digits to the end of the eight bytes, and put zero digits before them.
    let digits = (bytes << (56 - 8 * length) << 8) | (ZEROS >> (8 * length));
    if digits & HIGHS != 0 || at_least(digits, b'0') & !at_least(digits, b'9' + 1) != HIGHS {
        return None;
    }
    let ones = digits - ZEROS;
    let tens = ones.wrapping_mul(10).wrapping_add(ones >> 8);
    let low = (tens & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((tens >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    Some(((low.wrapping_add(high) >> 32) as i32, length))
}

/// Parse an integer of any length followed by a tab, digit by digit. Return the value and its
/// length in characters; `None` if it is not a 32-bit integer.
#[cold]
fn long_integer(data: &[u8], at: usize) -> Option<(i32, usize)> {
    let negative = data[at] == b'-';
    let first = at + usize::from(negative);
    let mut value = 0i64;
    let mut end = first;
    while data[end].is_ascii_digit() {
        value = (value * 10 + i64::from(data[end] - b'0')).min(1 << 32);
        end += 1;
    }
    if end == first || data[end] != TAB {
        return None;
    }
    let value = i32::try_from(if negative { -value } else { value }).ok()?;
    Some((value, end - at))
}

/// Parse eight hexadecimal digits, the most significant one first; `None` for any other input.
#[inline]
fn hexadecimal(bytes: u64) -> Option<u32> {
    let small = bytes | (ONES * 0x20);
    let digit = at_least(bytes & !HIGHS, b'0') & !at_least(bytes & !HIGHS, b'9' + 1);
    let letter = at_least(small & !HIGHS, b'a') & !at_least(small & !HIGHS, b'f' + 1);
    if (digit | letter) & !bytes != HIGHS {
        return None;
    }
    let nibbles = (bytes & (ONES * 0x0f)) + 9 * ((bytes >> 6) & ONES);
    let nibbles = nibbles.swap_bytes();
    let pairs = (nibbles | (nibbles >> 4)) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs | (pairs >> 8)) & 0x0000_ffff_0000_ffff;
    Some((quads | (quads >> 16)) as u32)
}

/// Return the reason why a line is malformed, and the number of the invalid field, counted from 1.
/// `line` must not include its line feed.
pub fn diagnose(line: &[u8]) -> (Reason, Option<usize>) {
    if line.split(|&byte| byte == TAB).count() != FIELDS {
        return (Reason::Fields, None);
    }
    let wrong = line.split(|&byte| byte == TAB).enumerate().find_map(|(index, field)| {
        let reason = match index {
            0 => (!matches!(field, b"0" | b"1")).then_some(Reason::Label),
            1..=INTEGERS => (!is_integer(field)).then_some(Reason::Integer),
            _ => (!is_category(field)).then_some(Reason::Category),
        };
        reason.map(|reason| (reason, Some(index + 1)))
    });
    wrong.unwrap_or((Reason::Fields, None))
}

fn is_integer(field: &[u8]) -> bool {
    let digits = field.strip_prefix(b"-").unwrap_or(field);
    let number = || std::str::from_utf8(field).ok()?.parse::<i32>().ok();
    field.is_empty() || digits.iter().all(u8::is_ascii_digit) && number().is_some()
}

fn is_category(field: &[u8]) -> bool {
    field.is_empty() || field.len() == 8 && field.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Option<(usize, Columns)> {
        let mut columns = Columns::new(4);
        let mut data = text.as_bytes().to_vec();
        data.push(LF);
        data.extend([0; PADDING]);
        line(&data, 0, &mut columns).map(|next| (next, columns))
    }

    fn row(integers: &[&str], categories: &[&str]) -> String {
        let integers = integers.iter().chain([""].iter().cycle()).take(INTEGERS);
        let categories = categories.iter().chain([""].iter().cycle()).take(CATEGORIES);
        ["1"].iter().chain(integers).chain(categories).copied().collect::<Vec<_>>().join("\t")
    }

    #[test]
    fn fields_go_where_they_belong() {
        let text = row(
            &["7", "", "-3", "1234567", "12345678", "-2147483648"],
            &["0000000a", "", "FFffFF09"],
        );
        let (next, columns) = parsed(&text).unwrap();
        assert_eq!(next, text.len() + 1);
        assert_eq!(columns.rows(), 1);
        let integers: Vec<i32> =
            (0..6).flat_map(|c| columns.values(c).to_vec()).map(|v| v as i32).collect();
        assert_eq!(integers, [7, -3, 1_234_567, 12_345_678, i32::MIN]);
        assert_eq!(columns.values(INTEGERS), [10]);
        assert_eq!(columns.values(INTEGERS + 2), [0xffff_ff09]);
        assert!(columns.values(INTEGERS + 1).is_empty());
    }

    #[test]
    fn a_malformed_line_leaves_nothing_behind() {
        let mut columns = Columns::new(4);
        let mut data = row(&["1", "2"], &["0000000a", "x"]).into_bytes();
        data.push(LF);
        data.extend([0; PADDING]);
        assert_eq!(line(&data, 0, &mut columns), None);
        assert_eq!(columns.rows(), 0);
        assert!((0..INTEGERS + CATEGORIES).all(|c| columns.values(c).is_empty()));
    }

    #[test]
    fn the_first_wrong_field_says_why() {
        let cases = [
            (row(&["1e5"], &[]), Reason::Integer, Some(2)),
            (row(&["", "-"], &["zz"]), Reason::Integer, Some(3)),
            (row(&["2147483648"], &[]), Reason::Integer, Some(2)),
            (row(&["+1"], &[]), Reason::Integer, Some(2)),
            (row(&[], &["0000000"]), Reason::Category, Some(15)),
            (row(&[], &["00000000a"]), Reason::Category, Some(15)),
            (row(&[], &["0000000g"]), Reason::Category, Some(15)),
            (row(&[], &[]).replacen('1', "2", 1), Reason::Label, Some(1)),
            (row(&[], &[]).replacen('1', "", 1), Reason::Label, Some(1)),
            (String::new(), Reason::Fields, None),
            ("1\t2".to_owned(), Reason::Fields, None),
            (row(&[], &[]) + "\t", Reason::Fields, None),
        ];
        for (text, reason, field) in cases {
            assert!(parsed(&text).is_none(), "{text:?}");
            assert_eq!(diagnose(text.as_bytes()), (reason, field), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_parsed_or_diagnosed(
            at in 0..FIELDS,
            field in "[0-9a-fA-F+. \u{10}-\u{1f}-]{0,12}|-?[0-9]{1,12}|[0-9a-f]{8}",
        ) {
            let mut all = row(&[], &[]).split('\t').map(str::to_owned).collect::<Vec<_>>();
            all[at] = field.clone();
            let text = all.join("\t");
            prop_assume!(!text.contains('\n'));
            let good = match at {
                0 => field == "0" || field == "1",
                1..=INTEGERS => is_integer(field.as_bytes()),
                _ => is_category(field.as_bytes()),
            };
            match parsed(&text) {
                None => {
                    prop_assert!(!good);
                    prop_assert_eq!(diagnose(text.as_bytes()).1, Some(at + 1));
                }
                Some((_, columns)) => {
                    prop_assert!(good);
                    let expected: Vec<u32> = match at {
                        0 => vec![],
                        1..=INTEGERS => field.parse::<i32>().iter().map(|v| *v as u32).collect(),
                        _ => u32::from_str_radix(&field, 16).into_iter().collect(),
                    };
                    if at > 0 {
                        prop_assert_eq!(columns.values(at - 1), &expected[..]);
                    }
                }
            }
        }
    }
}

//! Encoding for paths and queries as S3 signs them: everything but the unreserved characters of
//! RFC 3986, once.

/// Which bytes stand for themselves; the slash in keys only.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] =
            (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'-' | b'.' | b'_' | b'~');
        byte += 1;
    }
    plain
};
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends a key; slashes stay.
pub(super) fn push_key(into: &mut Vec<u8>, key: &str) {
    push(into, key.as_bytes(), true);
}

/// Appends a name or value of a query.
pub(super) fn push_query(into: &mut Vec<u8>, text: &str) {
    push(into, text.as_bytes(), false);
}

fn push(into: &mut Vec<u8>, text: &[u8], slash: bool) {
    into.reserve(text.len());
    for &byte in text {
        if PLAIN[usize::from(byte)] || (slash && byte == b'/') {
            into.push(byte);
        } else {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            into.extend_from_slice(&[b'%', digits[0], digits[1]]);
        }
    }
}

/// Appends a query in canonical order, which is also how it is sent.
pub(super) fn push_sorted(into: &mut Vec<u8>, query: &[(&str, &str)]) {
    let encode = |text: &str| {
        let mut out = Vec::new();
        push_query(&mut out, text);
        out
    };
    if let [(name, value)] = query {
        push_query(into, name);
        into.push(b'=');
        push_query(into, value);
        return;
    }
    let mut pairs: Vec<_> = query.iter().map(|(n, v)| (encode(n), encode(v))).collect();
    pairs.sort_unstable();
    for (index, (name, value)) in pairs.iter().enumerate() {
        if index > 0 {
            into.push(b'&');
        }
        into.extend_from_slice(name);
        into.push(b'=');
        into.extend_from_slice(value);
    }
}

/// The text behind an encoded one, as stores send it with `encoding-type=url`: a plus is a space.
/// None: not the encoding of any text.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let digit = |at: usize| (digits[at] as char).to_digit(16);
                out.push((digit(0)? * 16 + digit(1)?) as u8);
            }
            b'+' => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> String {
        let mut out = Vec::new();
        push_key(&mut out, text);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn keys_keep_slashes_and_are_encoded_once() {
        assert_eq!(key("a/b c/é"), "a/b%20c/%C3%A9");
        assert_eq!(key("test$file.text"), "test%24file.text");
        assert_eq!(key("100%25/../+~-_."), "100%2525/../%2B~-_.");
    }

    #[test]
    fn queries_are_sorted_by_their_encoded_form() {
        let mut out = Vec::new();
        // '-' sorts before letters, and a longer name after its own beginning.
        push_sorted(&mut out, &[("b", "/ +"), ("a-b", "2"), ("a", "z"), ("a", "y"), ("B", "")]);
        assert_eq!(out, b"B=&a=y&a=z&a-b=2&b=%2F%20%2B");
        out.clear();
        push_sorted(&mut out, &[("uploads", "")]);
        assert_eq!(out, b"uploads=");
    }

    #[test]
    fn what_is_no_encoding_is_refused() {
        for odd in ["%", "%2", "%zz", "%ff", "a%+1"] {
            assert_eq!(decode(odd), None, "{odd}");
        }
        assert_eq!(decode("a+b%2b").as_deref(), Some("a b+"));
    }

    proptest! {
        #[test]
        fn any_key_comes_back(text in any::<String>()) {
            let encoded = key(&text);
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/%".contains(&b);
            prop_assert!(encoded.bytes().all(plain));
            prop_assert_eq!(decode(&encoded), Some(text));
        }

        #[test]
        fn any_query_value_comes_back(text in any::<String>()) {
            let mut out = Vec::new();
            push_query(&mut out, &text);
            let encoded = String::from_utf8(out).expect("ASCII");
            prop_assert!(!encoded.contains(['/', '&', '=', '+', '?', '#']));
            prop_assert_eq!(decode(&encoded), Some(text));
        }
    }
}

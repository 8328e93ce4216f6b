//! URL encoding of paths and queries in the form that S3 signs: every character except the
//! unreserved ones of RFC 3986 is encoded, once.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const IN_KEY: &AsciiSet = &IN_QUERY.remove(b'/');

/// Append a key, URL-encoded except for its slashes.
pub(super) fn push_key(into: &mut Vec<u8>, key: &str) {
    push(into, key, IN_KEY);
}

/// Append a name or value of a query, URL-encoded.
pub(super) fn push_query(into: &mut Vec<u8>, text: &str) {
    push(into, text, IN_QUERY);
}

fn push(into: &mut Vec<u8>, text: &str, encoded: &'static AsciiSet) {
    for part in utf8_percent_encode(text, encoded) {
        into.extend_from_slice(part.as_bytes());
    }
}

/// Append a query, URL-encoded and in canonical order. It is signed and sent in this order.
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

/// Decode URL-encoded text from an answer to a request with `encoding-type=url`, in which a plus
/// sign stands for a space.
///
/// Returns None if the text is not validly encoded.
pub(super) fn decode(text: &str) -> Option<String> {
    // The library accepts invalid escapes, so they are checked here.
    let is_byte =
        |after: &[u8]| after.iter().take(2).filter(|c| c.is_ascii_hexdigit()).count() == 2;
    if !text.as_bytes().split(|&byte| byte == b'%').skip(1).all(is_byte) {
        return None;
    }
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(Into::into)
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
        // '-' sorts before letters, and a name before any longer name that starts with it.
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

//! Listing of a bucket's objects, one page at a time.

use std::collections::BTreeSet;
use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::{S3Result, s3_error};

use crate::bucket::Bucket;
use crate::object::Object;

/// Maximum number of entries of a page, as in S3.
pub const PAGE: usize = 1000;

/// Parameters of one page of a listing.
#[derive(Debug, Default)]
pub struct Query {
    /// Prefix of the keys to list.
    pub prefix: String,
    /// Delimiter. Keys that contain it after the prefix are combined into one common prefix, which
    /// ends with the delimiter.
    pub delimiter: String,
    /// Position in the listing at which the page starts.
    pub from: From,
    /// Maximum number of entries of the page.
    pub limit: usize,
}

/// Position in a listing at which a page starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// Start of the listing.
    #[default]
    Start,
    /// After this key.
    Key(String),
    /// After all keys with this prefix.
    Prefix(String),
}

impl From {
    /// Encode the position as an opaque continuation token.
    pub fn token(&self) -> String {
        let (mark, text) = match self {
            From::Start => return String::new(),
            From::Key(key) => ('k', key),
            From::Prefix(prefix) => ('p', prefix),
        };
        format!("{mark}{}", URL_SAFE_NO_PAD.encode(text))
    }

    /// Decode a continuation token.
    ///
    /// # Errors
    /// `InvalidArgument` for a token that this server did not issue.
    pub fn of_token(token: &str) -> S3Result<Self> {
        let wrong =
            || s3_error!(InvalidArgument, "this server did not issue the continuation token");
        let decode = |text: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
            String::from_utf8(bytes).map_err(|_| wrong())
        };
        match token.split_at_checked(1) {
            Some(("k", text)) => Ok(From::Key(decode(text)?)),
            Some(("p", text)) => Ok(From::Prefix(decode(text)?)),
            _ => Err(wrong()),
        }
    }
}

/// Page of a listing.
#[derive(Debug, Default)]
pub struct Page {
    /// Objects with their keys, sorted by the bytes of the keys.
    pub objects: Vec<(String, Object)>,
    /// Common prefixes, sorted by their bytes.
    pub prefixes: BTreeSet<String>,
    /// Position of the next page; None on the last page.
    pub next: Option<From>,
}

/// Entry of a listing whose file metadata is not read yet.
enum Entry {
    Key(String),
    Prefix(String),
}

impl Bucket {
    /// Return one page of a listing of the bucket. The cost depends only on the length of the page.
    pub fn list(&self, query: &Query) -> Page {
        let (entries, next) = walk(&self.keys(), query);
        let mut page = Page { next, ..Page::default() };
        for entry in entries {
            match entry {
                Entry::Prefix(prefix) => {
                    page.prefixes.insert(prefix);
                }
                Entry::Key(key) => {
                    // Skip objects that were deleted after the keys were read.
                    if let Ok(object) = self.stat(&key) {
                        page.objects.push((key, object));
                    }
                }
            }
        }
        page
    }
}

/// Return the entries of a page, and the position of the next page; None on the last page.
fn walk(keys: &BTreeSet<Box<str>>, query: &Query) -> (Vec<Entry>, Option<From>) {
    let mut entries = Vec::new();
    let mut at = query.from.clone();
    if query.limit == 0 {
        return (entries, None);
    }
    while let Some(bound) = begin(&query.prefix, &at) {
        let mut jump = false;
        for key in keys.range::<str, _>((as_ref(&bound), Bound::Unbounded)) {
            if !key.starts_with(&query.prefix) {
                break;
            }
            if entries.len() == query.limit {
                return (entries, Some(at));
            }
            if let Some(prefix) = rolled_up(key, query) {
                at = From::Prefix(prefix.to_owned());
                entries.push(Entry::Prefix(prefix.to_owned()));
                jump = true;
                break;
            }
            entries.push(Entry::Key(key.to_string()));
            if entries.len() == query.limit {
                at = From::Key(key.to_string());
            }
        }
        if !jump {
            break;
        }
    }
    (entries, None)
}

/// Return the common prefix of a key: the key up to and including the delimiter. None if the
/// delimiter does not occur after the query's prefix.
fn rolled_up<'a>(key: &'a str, query: &Query) -> Option<&'a str> {
    if query.delimiter.is_empty() {
        return None;
    }
    let behind = query.prefix.len();
    key[behind..].find(&query.delimiter).map(|at| &key[..behind + at + query.delimiter.len()])
}

/// Return the lower bound of the keys that have the prefix and follow `from`; `None` if no key can.
fn begin(prefix: &str, from: &From) -> Option<Bound<String>> {
    let bound = match from {
        From::Start => Bound::Included(prefix.to_owned()),
        From::Key(key) => Bound::Excluded(key.clone()),
        From::Prefix(seen) => Bound::Included(after(seen)?),
    };
    let early = match &bound {
        Bound::Included(key) | Bound::Excluded(key) => key.as_str() < prefix,
        Bound::Unbounded => true,
    };
    Some(if early { Bound::Included(prefix.to_owned()) } else { bound })
}

/// Return the smallest string that is greater than every string with this prefix; `None` if there
/// is none.
fn after(prefix: &str) -> Option<String> {
    let mut head = prefix.to_owned();
    while let Some(last) = head.pop() {
        // The order of characters equals the order of their UTF-8 bytes. Surrogates are not
        // characters, so they are skipped.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            head.push(next);
            return Some(head);
        }
    }
    None
}

fn as_ref(bound: &Bound<String>) -> Bound<&str> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::names::{path_of, shard, shard_name};

    #[test]
    fn the_text_after_a_prefix_is_beyond_all_that_begin_with_it() {
        for prefix in ["a/", "\u{7f}", "\u{d7ff}", "z\u{10ffff}"] {
            let bound = after(prefix).expect("there is one");
            assert!(bound.as_str() > prefix, "{prefix:?}");
            assert!(bound > format!("{prefix}\u{10ffff}\u{10ffff}"), "{prefix:?}");
        }
        assert_eq!(after("\u{10ffff}"), None);
    }

    #[test]
    fn tokens_come_back_and_foreign_ones_are_refused() {
        for from in [From::Key("a/ä\n".into()), From::Prefix("p/".into()), From::Key(String::new())]
        {
            assert_eq!(From::of_token(&from.token()).expect("ours"), from);
        }
        for token in ["", "x", "k!", "p/w==", "ä"] {
            assert!(From::of_token(token).is_err(), "{token}");
        }
    }

    /// Return all pages of a listing.
    fn pages(keys: &BTreeSet<Box<str>>, mut query: Query) -> Vec<Vec<Entry>> {
        let mut pages = Vec::new();
        loop {
            let (entries, next) = walk(keys, &query);
            pages.push(entries);
            match next {
                // Via the token, as a client would.
                Some(next) => query.from = From::of_token(&next.token()).expect("ours"),
                None => return pages,
            }
        }
    }

    #[test]
    fn a_million_keys_page_in_order() {
        let name = |at: usize| format!("p{}/{at:07}", at / 100_000);
        let keys: BTreeSet<Box<str>> = (0..1_000_000).map(|at| name(at).into()).collect();
        let mut at = 0;
        let all = pages(&keys, Query { limit: PAGE, ..Query::default() });
        assert_eq!(all.len(), 1000);
        for entry in all.iter().flatten() {
            assert!(matches!(entry, Entry::Key(key) if *key == name(at)), "number {at}");
            at += 1;
        }
        assert_eq!(at, keys.len());
        let query = Query { limit: 3, delimiter: "/".to_owned(), ..Query::default() };
        assert_eq!(pages(&keys, query).iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3, 1]);
    }

    #[test]
    fn a_hundred_thousand_files_are_found_and_listed() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("bucket");
        Bucket::create(&root, None, Arc::default()).expect("made");
        let mut keys: Vec<String> = (0..100_000).map(|at| format!("k/{:x}", at * 7919)).collect();
        for key in &keys {
            let place = root.join("objects").join(shard_name(shard(key))).join(path_of(key));
            std::fs::write(place, b"").expect("written");
        }
        keys.sort();
        let bucket = Bucket::open(&root, None, Arc::default()).expect("opened");
        let mut query = Query { limit: PAGE, prefix: "k/".to_owned(), ..Query::default() };
        let mut listed = Vec::new();
        loop {
            let page = bucket.list(&query);
            listed.extend(page.objects.into_iter().map(|(key, _)| key));
            match page.next {
                Some(next) => query.from = next,
                None => break,
            }
        }
        assert!(listed == keys, "all of them, in order");
    }
}

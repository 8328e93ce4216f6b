//! Conversion of object keys to file names and back.
//!
//! A file name contains letters, digits, `-`, `_`, `~` and `.` of the key unchanged, and `%XX` for
//! every other byte. Neither `/` nor a leading `.` can appear. No key can therefore escape its
//! directory, and names that begin with a dot are reserved for the server. A name that is too long
//! for a file system is split into nested directories: each part except the last ends with `+`, and
//! each part except the first begins with `+`.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use xxhash_rust::xxh3::xxh3_64;

/// Number of directories over which the objects of a bucket are spread.
pub const SHARDS: usize = 256;
/// Maximum length of a name in bytes. File systems allow 255; the marks of a split name need two.
const NAME_BYTES: usize = 250;
/// Mark at the start and end of the parts of a split name. It never occurs in an encoded key.
const LINK: char = '+';
/// Characters that are encoded in a file name. A leading dot is encoded as well.
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~').remove(b'.');
const IN_URL: &AsciiSet = &IN_NAME.remove(b'/');

/// Return the shard of a key: the index of the directory that contains its object.
pub fn shard(key: &str) -> usize {
    xxh3_64(key.as_bytes()) as usize % SHARDS
}

/// Return the name of a shard's directory.
pub fn shard_name(shard: usize) -> String {
    format!("{shard:02x}")
}

/// Return the path of a key's object relative to the directory of its shard.
pub fn path_of(key: &str) -> PathBuf {
    let name = encode(key);
    if name.len() <= NAME_BYTES {
        return PathBuf::from(name);
    }
    let mut path = PathBuf::new();
    let links = name.len().div_ceil(NAME_BYTES);
    for (at, link) in name.as_bytes().chunks(NAME_BYTES).enumerate() {
        let mut text = String::with_capacity(link.len() + 2);
        if at > 0 {
            text.push(LINK);
        }
        text.extend(link.iter().map(|&byte| byte as char));
        if at + 1 < links {
            text.push(LINK);
        }
        path.push(text);
    }
    path
}

/// Return the key for a path relative to the directory of its shard; `None` if no key has this
/// path.
pub fn key_of(path: &Path) -> Option<String> {
    let mut name = String::new();
    for link in path {
        name.push_str(link.to_str()?.trim_matches(LINK));
    }
    let key = percent_decode_str(&name).decode_utf8().ok()?.into_owned();
    (path_of(&key) == path).then_some(key)
}

/// Percent-encode a key for its file name.
fn encode(key: &str) -> String {
    match key.strip_prefix('.') {
        Some(rest) => format!("%2E{}", utf8_percent_encode(rest, IN_NAME)),
        None => utf8_percent_encode(key, IN_NAME).to_string(),
    }
}

/// Percent-encode a key for a listing with `encoding-type=url`.
pub fn url_encode(key: &str) -> String {
    utf8_percent_encode(key, IN_URL).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Component;

    fn hard_keys() -> Vec<String> {
        let mut keys: Vec<String> = [
            "a",
            "a/b",
            ".",
            "..",
            "../../etc/passwd",
            "/",
            "//",
            "/etc/passwd",
            "a/../b",
            ".tmp",
            "a.b.c",
            "+",
            "a+",
            "%2F",
            "%",
            "naïve/日本語",
            "\u{1}\n\0",
            " ",
            "~-_",
        ]
        .map(String::from)
        .to_vec();
        for length in [249, 250, 251, 500, 501, 1024] {
            keys.push("k".repeat(length));
            keys.push(".".repeat(length));
            keys.push("/".repeat(length));
            keys.push("+".repeat(length));
        }
        keys
    }

    #[test]
    fn every_key_comes_back() {
        for key in hard_keys() {
            assert_eq!(key_of(&path_of(&key)).as_deref(), Some(key.as_str()), "{key:?}");
        }
    }

    #[test]
    fn no_key_leads_out_or_hides() {
        for key in hard_keys() {
            let path = path_of(&key);
            assert!(path.is_relative(), "{key:?}");
            for part in path.components() {
                let Component::Normal(name) = part else { panic!("{key:?} gives {path:?}") };
                assert!(!name.as_encoded_bytes().starts_with(b"."), "{key:?} gives {path:?}");
                assert!(name.len() <= 255, "{key:?} gives a name of {} bytes", name.len());
            }
        }
    }

    #[test]
    fn a_chain_is_never_taken_for_a_file() {
        let long = "k".repeat(600);
        let path = path_of(&long);
        for prefix in path.ancestors().skip(1).filter(|at| !at.as_os_str().is_empty()) {
            assert_eq!(key_of(prefix), None, "{prefix:?} is a directory");
        }
    }

    #[test]
    fn foreign_names_are_no_objects() {
        for name in [".tmp-1", "a b", "%2f", "%4", "a%41", "%FF", "a+"] {
            assert_eq!(key_of(Path::new(name)), None, "{name}");
        }
    }
}

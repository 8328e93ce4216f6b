//! AWS Signature Version 4.
//!
//! Source: the AWS documentation of Signature Version 4 for S3 (canonical request, string to sign,
//! signing key). Each thread caches the signing key of the day, because deriving it costs four
//! HMACs.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::HeaderValue;
use ring::hmac;

use crate::checksum::{hex, hmac_hex, sha256};
use crate::chunked::ChunkSigner;
use crate::spec::Credentials;

pub(super) const CONTENT_SHA256: &str = "x-amz-content-sha256";
const DATE: &str = "x-amz-date";
const TOKEN: &str = "x-amz-security-token";
const SECONDS_PER_DAY: u64 = 86_400;

/// Header field: name in lower case, and value.
pub(super) type Field<'a> = (&'a str, &'a [u8]);

/// Signer of requests with one pair of keys, for one region.
pub(super) struct Signer {
    /// Unique number of this signer, by which each thread finds its cached signing key.
    id: u64,
    credentials: Credentials,
    region: String,
    service: &'static str,
}

/// Parts of a request that are signed, apart from the header fields.
pub(super) struct Subject<'a> {
    pub(super) method: &'a str,
    /// Path, URL-encoded.
    pub(super) path: &'a [u8],
    /// Query, URL-encoded and sorted.
    pub(super) query: &'a [u8],
    /// Value of the header `x-amz-content-sha256`.
    pub(super) payload: &'a [u8],
}

/// Signing key of one day, with its scope (date, region and service). Each thread caches one.
struct Day {
    signer: u64,
    /// Date as `YYYYMMDD`.
    date: Vec<u8>,
    scope: Arc<str>,
    key: hmac::Key,
}

thread_local! {
    static DAY: RefCell<Option<Day>> = const { RefCell::new(None) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Signer {
    /// Create a signer. None if a key or token contains characters that are not allowed in a
    /// header.
    pub(super) fn new(
        credentials: Credentials,
        region: &str,
        service: &'static str,
    ) -> Option<Signer> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        for text in std::iter::once(&credentials.access_key).chain(&credentials.session_token) {
            HeaderValue::from_str(text).ok()?;
        }
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Some(Signer { id, credentials, region: region.to_owned(), service })
    }

    /// Return header fields that a signed request needs besides the signature: the time `stamp`
    /// and, for temporary credentials, the session token.
    pub(super) fn fields<'a>(&'a self, stamp: &'a [u8; 16]) -> impl Iterator<Item = Field<'a>> {
        let token = self.credentials.session_token.as_ref();
        let date = std::iter::once((DATE, &stamp[..]));
        date.chain(token.map(|token| (TOKEN, token.as_bytes())))
    }

    /// Append the `authorization` header to `head`.
    ///
    /// All of `fields` are signed; the caller includes the ones of [`Signer::fields`]. Returns a
    /// signer for the body's chunks if `with_chunks` is set.
    pub(super) fn sign(
        &self,
        stamp: &[u8; 16],
        subject: &Subject<'_>,
        fields: &mut [Field<'_>],
        with_chunks: bool,
        head: &mut Vec<u8>,
    ) -> Option<ChunkSigner> {
        // The sort is stable, so values of one name stay in the order in which they are sent.
        fields.sort_by_key(|(name, _)| *name);
        DAY.with_borrow_mut(|day| {
            let day = self.at(day, stamp);
            SCRATCH.with_borrow_mut(|scratch| {
                let names = canonical_request(scratch, subject, fields);
                for part in [
                    b"authorization: AWS4-HMAC-SHA256 Credential=",
                    self.credentials.access_key.as_bytes(),
                    b"/",
                    day.scope.as_bytes(),
                    b", SignedHeaders=",
                    &scratch[names],
                    b", Signature=",
                ] {
                    head.extend_from_slice(part);
                }
                let signature = day.signature(stamp, scratch);
                head.extend_from_slice(&signature);
                head.extend_from_slice(b"\r\n");
                with_chunks.then(|| {
                    ChunkSigner::new(day.key.clone(), *stamp, day.scope.clone(), signature)
                })
            })
        })
    }

    /// Return the signing key of the day of `stamp`. `kept` is the thread's cache.
    fn at<'d>(&self, kept: &'d mut Option<Day>, stamp: &[u8; 16]) -> &'d Day {
        let date = &stamp[..8];
        match kept.take() {
            Some(day) if day.signer == self.id && day.date == date => kept.insert(day),
            _ => kept.insert(self.day(date)),
        }
    }

    fn day(&self, date: &[u8]) -> Day {
        let text = String::from_utf8_lossy(date);
        let secret = &self.credentials.secret_key;
        Day {
            signer: self.id,
            date: date.to_vec(),
            scope: format!("{text}/{}/{}/aws4_request", self.region, self.service).into(),
            key: signing_key(secret, &text, &self.region, self.service),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}

impl Day {
    /// Return the signature of the canonical request in `scratch`, which is overwritten.
    fn signature(&self, stamp: &[u8; 16], scratch: &mut Vec<u8>) -> [u8; 64] {
        let hash = hex(&sha256(scratch));
        scratch.clear();
        for part in [b"AWS4-HMAC-SHA256\n", &stamp[..], b"\n", self.scope.as_bytes(), b"\n", &hash]
        {
            scratch.extend_from_slice(part);
        }
        hmac_hex(&self.key, scratch)
    }
}

/// Write the canonical request to `into`, and return the range of it that lists the names of the
/// signed headers.
fn canonical_request(
    into: &mut Vec<u8>,
    subject: &Subject<'_>,
    fields: &[Field<'_>],
) -> std::ops::Range<usize> {
    into.clear();
    for part in [subject.method.as_bytes(), subject.path, subject.query] {
        into.extend_from_slice(part);
        into.push(b'\n');
    }
    let mut last = "";
    for (name, value) in fields {
        if *name == last {
            into.pop();
            into.push(b',');
        } else {
            into.extend_from_slice(name.as_bytes());
            into.push(b':');
            last = name;
        }
        push_trimmed(into, value);
        into.push(b'\n');
    }
    into.push(b'\n');
    let begin = into.len();
    let mut last = "";
    for (name, _) in fields.iter().filter(|(name, _)| std::mem::replace(&mut last, name) != *name) {
        into.extend_from_slice(name.as_bytes());
        into.push(b';');
    }
    into.pop();
    let signed = begin..into.len();
    into.push(b'\n');
    into.extend_from_slice(subject.payload);
    signed
}

/// Append a header value without leading and trailing spaces, and with each run of spaces replaced
/// by one.
fn push_trimmed(into: &mut Vec<u8>, value: &[u8]) {
    let value = value.trim_ascii();
    if !value.contains(&b' ') {
        into.extend_from_slice(value);
        return;
    }
    let mut after_space = false;
    for &byte in value {
        let space = byte == b' ';
        if !(space && after_space) {
            into.push(byte);
        }
        after_space = space;
    }
}

/// Derive the signing key for a day, region and service.
fn signing_key(secret: &str, day: &str, region: &str, service: &str) -> hmac::Key {
    let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret}").as_bytes());
    [day, region, service, "aws4_request"].iter().fold(first, |key, part| {
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
    })
}

/// Format a Unix time in seconds as `20130524T000000Z`. Valid up to the year 9999.
pub(super) fn stamp(second: u64) -> [u8; 16] {
    let (days, rest) = (second / SECONDS_PER_DAY, second % SECONDS_PER_DAY);
    // Convert days to a date in the proleptic Gregorian calendar, with years that begin in March
    // (Hinnant 2013).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let mut out = *b"00000000T000000Z";
    let mut put = |at: usize, digits: usize, mut value: u64| {
        for place in (at..at + digits).rev() {
            out[place] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    };
    put(0, 4, year);
    put(4, 2, month);
    put(6, 2, day);
    put(9, 2, rest / 3_600);
    put(11, 2, rest / 60 % 60);
    put(13, 2, rest % 60);
    out
}

#[cfg(test)]
mod tests;

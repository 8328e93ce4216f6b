//! Signature version 4.
//!
//! Source: the AWS documentation of Signature Version 4 for S3 (canonical request, string to sign,
//! signing key). The key of the day is kept per thread: deriving it costs four HMACs.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;

use crate::checksum::{hex, hmac_hex, sha256, value};
use crate::chunked::ChunkSigner;
use crate::spec::Credentials;

pub(super) const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const SECONDS_PER_DAY: u64 = 86_400;

/// Signs requests with one pair of keys for one region.
pub(super) struct Signer {
    /// Tells the threads' caches whose they are.
    id: u64,
    credentials: Credentials,
    token: Option<HeaderValue>,
    region: String,
    service: &'static str,
}

/// What is signed, besides the headers.
pub(super) struct Subject<'a> {
    pub(super) method: &'a str,
    /// Encoded.
    pub(super) path: &'a [u8],
    /// Encoded and sorted.
    pub(super) query: &'a [u8],
    /// As in `x-amz-content-sha256`.
    pub(super) payload: &'a [u8],
}

/// What all requests of one second have in common, on one thread.
struct Moment {
    signer: u64,
    second: u64,
    stamp: [u8; 16],
    date: HeaderValue,
    scope: Arc<str>,
    key: hmac::Key,
}

thread_local! {
    static MOMENT: RefCell<Option<Moment>> = const { RefCell::new(None) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Signer {
    /// None: the keys cannot be part of a header.
    pub(super) fn new(
        credentials: Credentials,
        region: &str,
        service: &'static str,
    ) -> Option<Signer> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        HeaderValue::from_str(&credentials.access_key).ok()?;
        let token = match &credentials.session_token {
            Some(token) => Some(HeaderValue::from_str(token).ok()?),
            None => None,
        };
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Some(Signer { id, credentials, token, region: region.to_owned(), service })
    }

    /// Adds date, token and signature to `headers`; every header that is there is signed.
    /// `second` since 1970. The signer of the body's chunks, where one is asked for.
    pub(super) fn sign(
        &self,
        second: u64,
        subject: &Subject<'_>,
        headers: &mut HeaderMap,
        with_chunks: bool,
    ) -> Option<ChunkSigner> {
        MOMENT.with_borrow_mut(|moment| {
            let moment = self.at(moment, second);
            headers.insert(DATE, moment.date.clone());
            if let Some(token) = &self.token {
                headers.insert(TOKEN, token.clone());
            }
            SCRATCH.with_borrow_mut(|scratch| {
                let signed = canonical_request(scratch, subject, headers);
                let signed = scratch[signed].to_vec();
                let signature = moment.signature(scratch);
                headers.insert(
                    header::AUTHORIZATION,
                    self.authorization(&moment.scope, &signed, &signature),
                );
                with_chunks.then(|| {
                    ChunkSigner::new(
                        moment.key.clone(),
                        moment.stamp,
                        moment.scope.clone(),
                        signature,
                    )
                })
            })
        })
    }

    /// The moment of that second, of the last one where it still is that.
    fn at<'m>(&self, kept: &'m mut Option<Moment>, second: u64) -> &'m Moment {
        let fresh = match kept.take() {
            Some(moment) if moment.signer == self.id && moment.second == second => moment,
            Some(moment)
                if moment.signer == self.id
                    && moment.second / SECONDS_PER_DAY == second / SECONDS_PER_DAY =>
            {
                let stamp = stamp(second);
                Moment { second, stamp, date: value(stamp.to_vec()), ..moment }
            }
            _ => self.moment(second),
        };
        kept.insert(fresh)
    }

    fn moment(&self, second: u64) -> Moment {
        let stamp = stamp(second);
        let day = String::from_utf8_lossy(&stamp[..8]);
        Moment {
            signer: self.id,
            second,
            stamp,
            date: value(stamp.to_vec()),
            scope: format!("{day}/{}/{}/aws4_request", self.region, self.service).into(),
            key: signing_key(&self.credentials.secret_key, &day, &self.region, self.service),
        }
    }

    fn authorization(&self, scope: &str, signed: &[u8], signature: &[u8; 64]) -> HeaderValue {
        let key = self.credentials.access_key.as_bytes();
        let mut out = Vec::with_capacity(160 + key.len() + scope.len() + signed.len());
        for part in [
            b"AWS4-HMAC-SHA256 Credential=",
            key,
            b"/",
            scope.as_bytes(),
            b", SignedHeaders=",
            signed,
            b", Signature=",
            signature,
        ] {
            out.extend_from_slice(part);
        }
        let mut value = value(out);
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}

impl Moment {
    /// Of the canonical request in `scratch`, which it uses up.
    fn signature(&self, scratch: &mut Vec<u8>) -> [u8; 64] {
        let hash = hex(&sha256(scratch));
        scratch.clear();
        for part in
            [b"AWS4-HMAC-SHA256\n", &self.stamp[..], b"\n", self.scope.as_bytes(), b"\n", &hash]
        {
            scratch.extend_from_slice(part);
        }
        hmac_hex(&self.key, scratch)
    }
}

/// Writes the canonical request, and says where in it the names of the signed headers stand.
fn canonical_request(
    into: &mut Vec<u8>,
    subject: &Subject<'_>,
    headers: &HeaderMap,
) -> std::ops::Range<usize> {
    let mut named: Vec<(&str, &[u8])> = Vec::with_capacity(headers.len());
    named.extend(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    // Stable: values of one name stay in the order in which they are sent.
    named.sort_by_key(|(name, _)| *name);
    into.clear();
    for part in [subject.method.as_bytes(), subject.path, subject.query] {
        into.extend_from_slice(part);
        into.push(b'\n');
    }
    let mut last = "";
    for (name, value) in &named {
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
    for (name, _) in named.iter().filter(|(name, _)| !std::mem::replace(&mut last, name).eq(*name))
    {
        into.extend_from_slice(name.as_bytes());
        into.push(b';');
    }
    into.pop();
    let signed = begin..into.len();
    into.push(b'\n');
    into.extend_from_slice(subject.payload);
    signed
}

/// A header's value with each run of spaces as one, and none at its ends.
fn push_trimmed(into: &mut Vec<u8>, value: &[u8]) {
    let mut after_space = false;
    for &byte in value.trim_ascii() {
        let space = byte == b' ';
        if !(space && after_space) {
            into.push(byte);
        }
        after_space = space;
    }
}

/// The key of a day, region and service.
fn signing_key(secret: &str, day: &str, region: &str, service: &str) -> hmac::Key {
    let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret}").as_bytes());
    [day, region, service, "aws4_request"].iter().fold(first, |key, part| {
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
    })
}

/// `20130524T000000Z` for seconds since 1970, up to the year 9999.
fn stamp(second: u64) -> [u8; 16] {
    let (days, rest) = (second / SECONDS_PER_DAY, second % SECONDS_PER_DAY);
    // Days to a date in the proleptic Gregorian calendar, years from March on (Hinnant 2013).
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

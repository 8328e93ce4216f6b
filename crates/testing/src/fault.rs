//! Faults that the S3 test server can inject into its answers.

use std::collections::HashMap;
use std::sync::Mutex;

use http::Method;

/// Fault to inject into the handling of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Answer with this HTTP status and S3 error code, in an XML body.
    Refuse(u16, &'static str),
    /// Close the connection without an answer. If `Held::abrupt` is set, the connection is reset
    /// instead.
    Drop,
    /// Carry out the request, then close the connection without an answer.
    Lose,
    /// End the answer's body in the middle.
    Truncate,
    /// Close the connection in the middle of the answer's body.
    Corrupt,
    /// Never answer, but keep the connection open.
    Stall,
    /// Send the answer's body one byte at a time.
    Drip,
}

/// Request that the test server received.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    /// Key without the bucket.
    pub key: String,
    pub query: HashMap<String, String>,
    /// Number of the request since the server's start, from 0.
    pub number: usize,
    pub port: u16,
}

/// Return a function that chooses faults such that the first two attempts of every request fail:
/// the first with status 503, the second by a closed connection.
pub fn first_two_fail() -> impl Fn(&Seen) -> Fault + Send + Sync {
    let attempts: Mutex<HashMap<String, u32>> = Mutex::default();
    move |seen| {
        let mut query: Vec<_> = seen.query.iter().collect();
        query.sort();
        let what = format!("{} {} {query:?}", seen.method, seen.key);
        let mut attempts = attempts.lock().unwrap();
        let attempt = attempts.entry(what).or_default();
        *attempt += 1;
        match attempt {
            1 => Fault::Refuse(503, "SlowDown"),
            2 => Fault::Drop,
            _ => Fault::None,
        }
    }
}

pub type Judge = dyn Fn(&Seen) -> Fault + Send + Sync;

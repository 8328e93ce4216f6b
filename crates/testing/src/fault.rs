//! Faults that the test server can inject into requests.

use std::collections::HashMap;
use std::sync::Mutex;

use http::Method;

/// Fault injected into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Refuse the request with this status and S3 error code, in an XML body.
    Refuse(u16, &'static str),
    /// Close the connection without an answer, or reset it if `Held::abrupt` is set.
    Drop,
    /// Carry out the request, then close the connection without an answer.
    Lose,
    /// End the answer's body in the middle.
    Truncate,
    /// Flip one bit of the answer's body.
    Corrupt,
    /// Never answer.
    Stall,
    /// Send the answer's body one byte at a time.
    Drip,
}

/// Request as received by the server.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    /// Key without the bucket.
    pub key: String,
    pub query: HashMap<String, String>,
    /// Number of the request, from 0.
    pub number: usize,
    pub port: u16,
}

/// Return a judge that fails the first two attempts of every request: the first with 503, the
/// second by closing the connection.
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

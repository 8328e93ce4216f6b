//! What may go wrong with a request.

use std::collections::HashMap;
use std::sync::Mutex;

use http::Method;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Status and S3's code, with an XML body.
    Refuse(u16, &'static str),
    /// The connection is closed, or reset where the server is abrupt.
    Drop,
    /// It is carried out, and then the connection is closed.
    Lose,
    /// The answer's body ends in its middle.
    Truncate,
    /// One bit of the answer's body is wrong.
    Corrupt,
    /// No answer ever comes.
    Stall,
    /// The answer's body comes a byte at a time.
    Drip,
}

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    /// Without the bucket.
    pub key: String,
    pub query: HashMap<String, String>,
    /// From 0.
    pub number: usize,
    pub port: u16,
}

/// The first two attempts at everything.
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

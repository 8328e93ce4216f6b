//! Why a request did not succeed, in the words of results.

use std::io;

use crate::tls;

/// Why a request did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody listens.
    #[error("connection refused by {0}")]
    Refused(String),
    /// No way to the server, or no resources for one more connection.
    #[error("{what}")]
    Connect {
        /// With the endpoint.
        what: String,
        /// Of the system, where it gave one.
        errno: Option<i32>,
    },
    /// The connection was torn down.
    #[error("the connection was reset")]
    Reset,
    /// The server closed the connection before it answered.
    #[error("the connection was closed before the answer")]
    Closed,
    /// It took longer than it may.
    #[error("no answer in time")]
    TimeOut,
    /// No agreement about certificates or protocol versions.
    #[error("TLS: {0}")]
    Tls(String),
    /// What came is not HTTP, or not S3.
    #[error("protocol: {0}")]
    Protocol(String),
    /// The connection ended before the body did.
    #[error("the body was cut short with its connection")]
    ShortBody,
    /// The body is not what was stored.
    #[error("the body is wrong: {0}")]
    WrongBody(String),
    /// The store answered with an error.
    #[error("{}", answered(&self.kind(), message))]
    Http {
        /// Of HTTP.
        status: u16,
        /// S3's own, where the answer names one.
        code: Option<String>,
        /// For people; may be empty.
        message: String,
    },
}

impl Failure {
    /// The word under which results count it.
    pub fn kind(&self) -> String {
        match self {
            Failure::Refused(_) => "connection refused".to_owned(),
            Failure::Connect { .. } => "connection failed".to_owned(),
            Failure::Reset => "connection reset".to_owned(),
            Failure::Closed => "connection closed".to_owned(),
            Failure::TimeOut => "time-out".to_owned(),
            Failure::Tls(_) => "TLS".to_owned(),
            Failure::Protocol(_) => "protocol".to_owned(),
            Failure::ShortBody => "short body".to_owned(),
            Failure::WrongBody(_) => "wrong body".to_owned(),
            Failure::Http { status, code: Some(code), .. } => format!("{code} ({status})"),
            Failure::Http { status, code: None, .. } => format!("HTTP {status}"),
        }
    }

    /// Whether the same request may succeed when it is sent again.
    pub fn retryable(&self) -> bool {
        match self {
            Failure::Refused(_)
            | Failure::Connect { .. }
            | Failure::Reset
            | Failure::Closed
            | Failure::TimeOut
            | Failure::ShortBody => true,
            Failure::Http { status, code, .. } => {
                matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
                    || matches!(
                        code.as_deref(),
                        Some(
                            "RequestTimeout"
                                | "SlowDown"
                                | "ServiceUnavailable"
                                | "InternalError"
                                | "Throttling"
                        )
                    )
            }
            Failure::Tls(_) | Failure::Protocol(_) | Failure::WrongBody(_) => false,
        }
    }

    /// Whether it may be that no server was there to look at the request.
    pub fn unheard(&self) -> bool {
        match self {
            Failure::Refused(_)
            | Failure::Connect { .. }
            | Failure::Reset
            | Failure::Closed
            | Failure::Tls(_) => true,
            Failure::TimeOut
            | Failure::Protocol(_)
            | Failure::ShortBody
            | Failure::WrongBody(_)
            | Failure::Http { .. } => false,
        }
    }

    /// The errno that is nearest to it.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Failure::Refused(_) => Some(libc::ECONNREFUSED),
            Failure::Reset => Some(libc::ECONNRESET),
            Failure::Closed | Failure::ShortBody => Some(libc::ECONNABORTED),
            Failure::TimeOut => Some(libc::ETIMEDOUT),
            Failure::Connect { errno, .. } => *errno,
            Failure::Protocol(_) => Some(libc::EPROTO),
            _ => None,
        }
    }

    /// Of a connection that fails; `ended`: what it is where it simply ends.
    pub(crate) fn of_io(error: &io::Error, ended: Failure) -> Failure {
        if let Some(tls) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
            return Failure::Tls(tls::explain(tls));
        }
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Failure::Reset,
            io::ErrorKind::UnexpectedEof => ended,
            io::ErrorKind::TimedOut => Failure::TimeOut,
            _ => Failure::Protocol(error.to_string()),
        }
    }
}

fn answered(kind: &str, message: &str) -> String {
    if message.is_empty() {
        return kind.to_owned();
    }
    format!("{kind}: {message}")
}

/// What to do about an error of this kind; nothing where that depends.
pub fn advice(kind: &str) -> &'static str {
    let has = |word: &str| kind.contains(word);
    if has("refused") || has("connection failed") {
        "check that the store runs, and its endpoint"
    } else if has("RequestTimeTooSkewed") {
        "set this machine's clock"
    } else if has("InvalidToken") || has("ExpiredToken") {
        "renew the session token, or remove it where the keys need none"
    } else if has("(401)") || has("(403)") || has("HTTP 403") || has("HTTP 401") {
        "check the credentials, what they are allowed to do, and the region"
    } else if has("NoSuchBucket") {
        "make the bucket, or let the study make it with create_bucket"
    } else if has("TLS") {
        "name the authority of the server's certificate in ca_file"
    } else if has("(503)") || has("HTTP 503") || has("(429)") {
        "ask less of the store: fewer requests in flight, or a rate"
    } else if has("time-out") {
        "look at the store; request_timeout may be too short for these objects"
    } else {
        "look at the store's own log"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_results() {
        let http = |status, code: Option<&str>| Failure::Http {
            status,
            code: code.map(str::to_owned),
            message: String::new(),
        };
        let words = [
            (Failure::Refused("http://a".to_owned()), "connection refused", true),
            (Failure::Reset, "connection reset", true),
            (Failure::Closed, "connection closed", true),
            (Failure::TimeOut, "time-out", true),
            (Failure::Tls("x".to_owned()), "TLS", false),
            (Failure::WrongBody("x".to_owned()), "wrong body", false),
            (Failure::ShortBody, "short body", true),
            (Failure::Protocol("x".to_owned()), "protocol", false),
            (http(404, Some("NoSuchKey")), "NoSuchKey (404)", false),
            (http(503, Some("SlowDown")), "SlowDown (503)", true),
            (http(400, Some("RequestTimeout")), "RequestTimeout (400)", true),
            (http(500, None), "HTTP 500", true),
            (http(200, Some("ServiceUnavailable")), "ServiceUnavailable (200)", true),
            (http(200, Some("AccessDenied")), "AccessDenied (200)", false),
            (http(403, None), "HTTP 403", false),
        ];
        for (failure, word, retryable) in words {
            assert_eq!(failure.kind(), word);
            assert_eq!(failure.retryable(), retryable, "{word}");
        }
    }

    #[test]
    fn an_answer_without_a_message_ends_with_its_code() {
        let of = |message: &str| Failure::Http {
            status: 404,
            code: Some("NoSuchKey".to_owned()),
            message: message.to_owned(),
        };
        assert_eq!(of("").to_string(), "NoSuchKey (404)");
        assert_eq!(of("gone").to_string(), "NoSuchKey (404): gone");
    }
}

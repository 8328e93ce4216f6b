//! Reasons why an S3 request failed, and the names under which results count them.

use std::io;

use crate::tls::{self, TlsFault};

/// Reason why an S3 request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No process listens on the endpoint's port.
    #[error("connection refused by {0}")]
    Refused(String),
    /// Connecting failed: there is no route to the server, or the system has no resources for
    /// another connection.
    #[error("{what}")]
    Connect {
        /// Message that names the endpoint.
        what: String,
        /// Error number (errno) of the operating system, if there is one.
        errno: Option<i32>,
    },
    /// The connection was reset.
    #[error("the server or the network reset the connection")]
    Reset,
    /// The server closed the connection before it answered.
    #[error("the server closed the connection before it answered")]
    Closed,
    /// The request took longer than its time-out.
    #[error("no answer within the request's time-out")]
    TimeOut,
    /// An established connection failed with another error of the operating system, such as
    /// EHOSTUNREACH.
    #[error("the connection was lost: {what}")]
    Lost {
        /// Message of the operating system.
        what: String,
        /// Error number (errno) of the operating system.
        errno: Option<i32>,
    },
    /// The connection ended during the TLS handshake, before a request was sent.
    #[error("{0}: the connection ended during the TLS handshake")]
    Handshake(String),
    /// TLS failed, for example because of certificates or protocol versions.
    #[error("TLS: {what}")]
    Tls {
        /// Kind of TLS failure.
        fault: TlsFault,
        /// Message that also names the fix.
        what: String,
    },
    /// The answer is not valid HTTP, or not a valid S3 answer.
    #[error("protocol: {0}")]
    Protocol(String),
    /// The connection ended before the whole body was received.
    #[error("the connection ended before the whole body was received")]
    ShortBody,
    /// The received body differs from what was written.
    #[error("the received data differs from what was written: {0}")]
    WrongBody(String),
    /// The store answered with an HTTP error status.
    #[error("{}", answered(&self.kind(), message))]
    Http {
        /// HTTP status code.
        status: u16,
        /// S3 error code, such as `SlowDown`, if the answer has one.
        code: Option<String>,
        /// Message of the store; may be empty.
        message: String,
    },
}

impl Failure {
    /// Return the name under which results count failures of this kind.
    pub fn kind(&self) -> String {
        match self {
            Failure::Refused(_) => "connection refused".to_owned(),
            Failure::Connect { .. } => "connection failed".to_owned(),
            Failure::Reset => "connection reset".to_owned(),
            Failure::Closed => "connection closed".to_owned(),
            Failure::TimeOut => "time-out".to_owned(),
            Failure::Lost { .. } => "connection lost".to_owned(),
            Failure::Handshake(_) => "TLS handshake cut off".to_owned(),
            Failure::Tls { .. } => "TLS".to_owned(),
            Failure::Protocol(_) => "protocol".to_owned(),
            Failure::ShortBody => "short body".to_owned(),
            Failure::WrongBody(_) => "wrong body".to_owned(),
            Failure::Http { status, code: Some(code), .. } => format!("{code} ({status})"),
            Failure::Http { status, code: None, .. } => format!("HTTP {status}"),
        }
    }

    /// Return whether the same request may succeed if it is sent again.
    pub fn retryable(&self) -> bool {
        match self {
            Failure::Refused(_)
            | Failure::Connect { .. }
            | Failure::Lost { .. }
            | Failure::Handshake(_)
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
            Failure::Tls { .. } | Failure::Protocol(_) | Failure::WrongBody(_) => false,
        }
    }

    /// Return whether the store may have executed the request although no success was received.
    ///
    /// If so, the effects of a request that is not idempotent must be checked before it is sent
    /// again.
    pub fn may_be_done(&self) -> bool {
        match self {
            Failure::Refused(_)
            | Failure::Connect { .. }
            | Failure::Handshake(_)
            | Failure::Tls { .. } => false,
            // Codes such as SlowDown reject a request before it is executed.
            Failure::Http { status, code, .. } => match code.as_deref() {
                Some("SlowDown" | "ServiceUnavailable" | "Throttling") => false,
                _ => matches!(status, 200 | 408 | 500..),
            },
            Failure::Lost { .. }
            | Failure::Reset
            | Failure::Closed
            | Failure::TimeOut
            | Failure::Protocol(_)
            | Failure::ShortBody
            | Failure::WrongBody(_) => true,
        }
    }

    /// Return whether the request may have reached no server.
    pub fn may_not_have_reached_server(&self) -> bool {
        match self {
            Failure::Refused(_)
            | Failure::Connect { .. }
            | Failure::Lost { .. }
            | Failure::Handshake(_)
            | Failure::Reset
            | Failure::Closed
            | Failure::Tls { .. } => true,
            Failure::TimeOut
            | Failure::Protocol(_)
            | Failure::ShortBody
            | Failure::WrongBody(_)
            | Failure::Http { .. } => false,
        }
    }

    /// Return the error number (errno) that describes the failure best; None if there is none.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Failure::Refused(_) => Some(libc::ECONNREFUSED),
            Failure::Reset => Some(libc::ECONNRESET),
            Failure::Closed | Failure::ShortBody | Failure::Handshake(_) => {
                Some(libc::ECONNABORTED)
            }
            Failure::TimeOut => Some(libc::ETIMEDOUT),
            Failure::Connect { errno, .. } | Failure::Lost { errno, .. } => *errno,
            Failure::Protocol(_) => Some(libc::EPROTO),
            _ => None,
        }
    }

    /// Classify an I/O error of an established connection. `ended` is returned if the error is an
    /// end of stream.
    pub(crate) fn of_io(error: &io::Error, ended: Failure) -> Failure {
        if let Some(tls) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
            let (fault, what) = tls::explain(tls);
            return Failure::Tls { fault, what };
        }
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Failure::Reset,
            io::ErrorKind::UnexpectedEof => ended,
            io::ErrorKind::TimedOut => Failure::TimeOut,
            // Errors with an errno come from the network or the device; errors without one come
            // from protocol code.
            _ => match error.raw_os_error() {
                errno @ Some(_) => Failure::Lost { what: error.to_string(), errno },
                None => Failure::Protocol(error.to_string()),
            },
        }
    }

    /// Return a keyword for the kind of failure. Python selects its advice by the keyword, so do
    /// not change one here alone.
    pub fn fault(&self) -> &'static str {
        match self {
            Failure::Refused(_) => "refused",
            Failure::Connect { .. } => "unreachable",
            Failure::Lost { .. } => "lost",
            Failure::Handshake(_) => "handshake",
            Failure::Reset | Failure::Closed | Failure::ShortBody => "ended",
            Failure::TimeOut => "time-out",
            Failure::Tls { fault: TlsFault::Untrusted, .. } => "untrusted",
            Failure::Tls { fault: TlsFault::WrongName, .. } => "wrong-name",
            Failure::Tls { fault: TlsFault::Expired, .. } => "expired",
            Failure::Tls { .. } => "tls",
            Failure::Protocol(_) | Failure::WrongBody(_) | Failure::Http { .. } => "protocol",
        }
    }

    /// Return advice on how the user can fix a failure of this kind.
    pub fn advice(&self) -> &'static str {
        match self {
            Failure::Refused(_) | Failure::Connect { .. } => {
                "check that the store is running and that the endpoint is correct"
            }
            Failure::Lost { .. } => "check the network between this machine and the store",
            Failure::Handshake(_) => {
                "check that the endpoint's port expects TLS, and that no proxy or firewall on the \
                 way closes the connection"
            }
            Failure::Tls { fault: TlsFault::WrongName, .. } => {
                "use a host name in the endpoint that the server's certificate contains"
            }
            Failure::Tls { fault: TlsFault::Expired, .. } => {
                "renew the server's certificate, or correct this machine's clock"
            }
            Failure::Tls { .. } => {
                "set s3_options.ca_file to the certificate of the server's certificate authority"
            }
            Failure::TimeOut => {
                "check the store's load; request_timeout may be too short for objects of this size"
            }
            Failure::Http { status, code, .. } => http_advice(*status, code.as_deref()),
            Failure::Reset
            | Failure::Closed
            | Failure::Protocol(_)
            | Failure::ShortBody
            | Failure::WrongBody(_) => LOG,
        }
    }
}

fn answered(kind: &str, message: &str) -> String {
    if message.is_empty() {
        return kind.to_owned();
    }
    format!("{kind}: {message}")
}

const LOG: &str = "look for the cause in the store's log";

fn http_advice(status: u16, code: Option<&str>) -> &'static str {
    match (code, status) {
        (Some("RequestTimeTooSkewed"), _) => "correct this machine's clock",
        (Some("InvalidToken" | "InvalidTokenId" | "ExpiredToken" | "ExpiredTokenException"), _) => {
            "renew the session token, or remove it if the keys need none"
        }
        (_, 401 | 403) => "check the credentials, their permissions and the region",
        (Some("NoSuchBucket"), _) => "create the bucket, or set s3_options.create_bucket = true",
        (Some("SlowDown"), _) | (_, 429 | 503) => {
            "reduce the load: fewer requests in flight, or a limited rate"
        }
        _ => LOG,
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
            (Failure::Tls { fault: TlsFault::Other, what: "x".to_owned() }, "TLS", false),
            (Failure::Handshake("http://a".to_owned()), "TLS handshake cut off", true),
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

    /// Errors of the operating system on an established connection may be retried, because the
    /// network route may work again.
    #[test]
    fn a_path_that_is_gone_is_retried_and_no_fault_of_the_protocol() {
        for errno in
            [libc::EHOSTUNREACH, libc::ENETUNREACH, libc::ENETDOWN, libc::EHOSTDOWN, libc::ENOTCONN]
        {
            let error = io::Error::from_raw_os_error(errno);
            let failure = Failure::of_io(&error, Failure::Closed);
            assert!(failure.retryable() && failure.may_not_have_reached_server(), "{failure:?}");
            assert_eq!(failure.errno(), Some(errno));
            assert!(failure.may_be_done(), "{failure:?}");
        }
        let odd = Failure::of_io(&io::Error::other("odd"), Failure::Closed);
        assert!(!odd.retryable(), "{odd:?}");
    }

    #[test]
    fn what_never_reached_the_store_left_nothing_there() {
        let http = |status, code: &str| Failure::Http {
            status,
            code: Some(code.to_owned()),
            message: String::new(),
        };
        let never = [
            Failure::Refused(String::new()),
            Failure::Handshake(String::new()),
            Failure::Connect { what: String::new(), errno: None },
            http(403, "AccessDenied"),
            http(503, "SlowDown"),
        ];
        assert!(never.iter().all(|failure| !failure.may_be_done()));
        let perhaps = [
            Failure::Reset,
            Failure::Closed,
            Failure::TimeOut,
            Failure::ShortBody,
            http(500, "InternalError"),
            http(504, "GatewayTimeout"),
        ];
        assert!(perhaps.iter().all(Failure::may_be_done));
    }
}

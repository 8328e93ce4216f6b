//! Parser of the head of an HTTP/1.1 answer: status line and header fields.
//!
//! Source: RFC 9112, HTTP/1.1: status line and fields (4, 5), the end of the body (6.3), and
//! whether the connection persists (9.3).

use std::mem::MaybeUninit;

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use httparse::{EMPTY_HEADER, Header, Status};

use super::framing::Framing;
use crate::failure::Failure;

/// Maximum number of header fields in an answer.
const FIELDS: usize = 100;
/// Maximum length of a head in bytes. Heads of S3 answers are far shorter.
const HEAD_BYTES: usize = 256 << 10;

/// Parts of an answer's head that the connection needs.
#[derive(Debug)]
pub struct Head {
    pub status: StatusCode,
    /// Length of the head in bytes.
    pub length: usize,
    pub framing: Framing,
    /// Whether the connection can be used for another request.
    pub keeps: bool,
}

impl Head {
    /// Parse the head of an answer at the start of `bytes`. `method` is the method of its request.
    ///
    /// Returns None if the head is incomplete.
    ///
    /// # Errors
    /// [`Failure::Protocol`] if the bytes are not valid HTTP or the head is too long.
    pub fn parse(bytes: &[u8], method: &Method) -> Result<Option<Head>, Failure> {
        let mut fields = [MaybeUninit::uninit(); FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parser = httparse::ParserConfig::default();
        let parsed = parser
            .parse_response_with_uninit_headers(&mut response, bytes, &mut fields)
            .map_err(|e| odd(&e.to_string()))?;
        let Status::Complete(length) = parsed else {
            return if bytes.len() < HEAD_BYTES {
                Ok(None)
            } else {
                Err(odd("it exceeds 256 KiB"))
            };
        };
        let code = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = code.ok_or_else(|| odd("it has no status code"))?;
        let fields = &*response.headers;
        let framing = if *method == Method::HEAD || without_body(status) {
            Framing::Length(0)
        } else {
            framing_of(fields)?
        };
        // In HTTP/1.0 connections close by default, in HTTP/1.1 they stay open.
        let keeps = match response.version {
            Some(0) => has_token(fields, &CONNECTION, "keep-alive"),
            _ => !has_token(fields, &CONNECTION, "close"),
        };
        Ok(Some(Head { status, length, framing, keeps }))
    }
}

/// Call `take` with name and value of each header field of a complete head.
pub fn for_each_field(head: &[u8], mut take: impl FnMut(&str, &[u8])) {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    if response.parse(head).is_ok() {
        response.headers.iter().for_each(|field| take(field.name, field.value));
    }
}

fn odd(what: &str) -> Failure {
    Failure::Protocol(format!("the answer's HTTP head is invalid: {what}"))
}

fn without_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

fn framing_of(fields: &[Header<'_>]) -> Result<Framing, Failure> {
    if values(fields, &TRANSFER_ENCODING).next().is_some() {
        let last = values(fields, &TRANSFER_ENCODING).flat_map(tokens).last();
        let chunked = last.is_some_and(|token| token.eq_ignore_ascii_case(b"chunked"));
        return Ok(if chunked { Framing::chunked() } else { Framing::UntilClose });
    }
    let mut length = None;
    for token in values(fields, &CONTENT_LENGTH).flat_map(tokens) {
        let digits = std::str::from_utf8(token).ok().filter(|text| !text.starts_with('+'));
        let number: u64 = digits
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| odd("Content-Length is not a number"))?;
        if *length.get_or_insert(number) != number {
            return Err(odd("it has different values of Content-Length"));
        }
    }
    Ok(length.map_or(Framing::UntilClose, Framing::Length))
}

fn values<'f>(fields: &'f [Header<'_>], name: &HeaderName) -> impl Iterator<Item = &'f [u8]> {
    let named = move |field: &&Header<'_>| field.name.eq_ignore_ascii_case(name.as_str());
    fields.iter().filter(named).map(|field| field.value)
}

/// Split a header value at its commas.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn has_token(fields: &[Header<'_>], name: &HeaderName, token: &str) -> bool {
    values(fields, name).flat_map(tokens).any(|t| t.eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        let head = Head::parse(text.as_bytes(), &Method::GET);
        head.expect("HTTP").expect("whole")
    }

    /// Return the length of the body: None if it ends with the connection, `u64::MAX` if it is
    /// chunked.
    fn length(text: &str) -> Option<u64> {
        match head(text).framing {
            Framing::Length(length) => Some(length),
            Framing::UntilClose => None,
            Framing::Chunked(_) => Some(u64::MAX),
        }
    }

    #[test]
    fn where_bodies_end() {
        for (fields, wanted) in [
            ("200 OK\r\ncontent-length: 5\r\n\r\n", Some(5)),
            ("200 OK\r\nContent-Length: 5, 5\r\nCONTENT-LENGTH:5\r\n\r\n", Some(5)),
            ("200 OK\r\n\r\n", None),
            (
                "200 OK\r\nTransfer-Encoding: gzip, Chunked\r\ncontent-length: 5\r\n\r\n",
                Some(u64::MAX),
            ),
            ("200 OK\r\ntransfer-encoding: gzip\r\n\r\n", None),
            ("204 No Content\r\n\r\n", Some(0)),
            ("304 Not Modified\r\ncontent-length: 5\r\n\r\n", Some(0)),
        ] {
            assert_eq!(length(&format!("HTTP/1.1 {fields}")), wanted, "{fields}");
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        let head = Head::parse(answer, &Method::HEAD).expect("HTTP").expect("whole");
        assert!(head.framing.is_over() && head.length == answer.len());
    }

    #[test]
    fn which_connections_go_on() {
        for (start, wanted) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\n\r\n", true),
        ] {
            assert_eq!(head(start).keeps, wanted, "{start}");
        }
    }

    #[test]
    fn what_is_not_whole_and_what_is_no_head() {
        let whole = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        for end in 0..whole.len() {
            let part = Head::parse(&whole.as_bytes()[..end], &Method::GET);
            assert!(part.expect("HTTP").is_none(), "{end}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(FIELDS + 1));
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(HEAD_BYTES));
        for odd in [
            "SSH-2.0-OpenSSH_9.9\r\n",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 099 No\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            &many,
            &long,
        ] {
            let refused = Head::parse(odd.as_bytes(), &Method::GET).expect_err("odd");
            assert_eq!(refused.kind(), "protocol");
        }
    }
}

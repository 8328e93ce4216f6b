//! Blocking S3 client for single requests, for callers without a tokio runtime, such as the Python
//! code that prepares and cleans up.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HeaderName, HeaderValue};
use storlab_base::{Error, Result};
use tokio::runtime::{Builder, Runtime};

use crate::body::RequestBody;
use crate::checksum::{content_md5, sha256};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::request::{Call, PayloadHash};
use crate::store::Store;

/// Maximum length in bytes of an answer's body. These callers read listings and errors, not data.
const REPLY_BYTES: usize = 64 << 20;

/// Blocking client that sends one request at a time to the store's first endpoint, over a
/// connection that it keeps open.
#[derive(Debug)]
pub struct OneShot {
    runtime: Runtime,
    store: Store,
    kept: Option<Connection>,
}

/// Answer to a request, with any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status code.
    pub status: u16,
    /// Header fields, with names in lower case. Bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// Complete body.
    pub body: Bytes,
}

impl OneShot {
    /// Create a client. It connects when the first request is sent.
    ///
    /// # Errors
    /// [`Error::Io`] if the system cannot create the event loop.
    pub fn new(store: Store) -> Result<OneShot> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::io("start", "the S3 client", 0, e))?;
        Ok(OneShot { runtime, store, kept: None })
    }

    /// Return the first endpoint as the specification writes it.
    pub fn endpoint_name(&self) -> &str {
        self.store.endpoint_name(0)
    }

    /// Send a request with a signed body, and read the answer.
    ///
    /// If the server has closed the kept connection, the request is sent once more over a new one.
    /// A request that is not idempotent always gets a new connection.
    ///
    /// # Errors
    /// Any [`Failure`] that prevented a complete answer within `timeout`. An answer with an error
    /// status is a [`Reply`], not an error.
    pub fn request(
        &mut self,
        method: &str,
        key: Option<&str>,
        query: &[(String, String)],
        body: &[u8],
        timeout: Duration,
    ) -> std::result::Result<Reply, Failure> {
        let method = method
            .parse::<Method>()
            .map_err(|_| Failure::Protocol(format!("{method:?} is not an HTTP method")))?;
        self.send(Call::new(method, key), query, body, timeout)
    }

    /// Write an object if `condition` holds: the name and value of a header `if-match` or
    /// `if-none-match`.
    ///
    /// A store that does not support conditional writes ignores the condition and writes.
    ///
    /// # Errors
    /// [`Failure::Protocol`] if the condition is not a valid header; otherwise as for
    /// [`OneShot::request`].
    pub fn put_if(
        &mut self,
        key: &str,
        body: &[u8],
        condition: (&str, &str),
        timeout: Duration,
    ) -> std::result::Result<Reply, Failure> {
        let odd = || Failure::Protocol(format!("{condition:?} is not a valid HTTP header"));
        let name = HeaderName::from_bytes(condition.0.as_bytes()).map_err(|_| odd())?;
        let value = HeaderValue::from_str(condition.1).map_err(|_| odd())?;
        let headers = [(name, value)];
        let call = Call { headers: &headers, ..Call::new(Method::PUT, Some(key)) };
        self.send(call, &[], body, timeout)
    }

    fn send(
        &mut self,
        call: Call<'_>,
        query: &[(String, String)],
        body: &[u8],
        timeout: Duration,
    ) -> std::result::Result<Reply, Failure> {
        let OneShot { runtime, store, kept } = self;
        let query: Vec<(&str, &str)> =
            query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // Multi-delete requires content-md5, and some stores require it for every POST of XML.
        let mut headers = call.headers.to_vec();
        if !body.is_empty() {
            headers.push((HeaderName::from_static("content-md5"), content_md5(body)));
        }
        let call = Call {
            headers: &headers,
            payload: PayloadHash::Sha256(sha256(body)),
            content_length: body.len() as u64,
            query: &query,
            ..call
        };
        let body = Bytes::copy_from_slice(body);
        let body = || RequestBody::plain(body.clone());
        runtime.block_on(async {
            let exchange = exchange(store, kept, &call, &body, timeout);
            tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(Failure::TimeOut))
        })
    }
}

/// Send a request and read the whole answer. The connection is kept if that succeeds.
async fn exchange(
    store: &Store,
    kept: &mut Option<Connection>,
    call: &Call<'_>,
    body: &dyn Fn() -> RequestBody,
    timeout: Duration,
) -> std::result::Result<Reply, Failure> {
    let mut response = Connection::exchange(store, 0, kept, call, body, timeout).await?;
    let body = response.drain(REPLY_BYTES).await?;
    let status = response.status().as_u16();
    let headers = response.headers().to_pairs();
    *kept = response.into_connection();
    Ok(Reply { status, headers, body })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Addressing, Credentials, StoreSpec};

    const LONG: Duration = Duration::from_mins(1);

    fn client(port: u16) -> OneShot {
        let spec = StoreSpec {
            endpoints: vec![format!("http://127.0.0.1:{port}")],
            bucket: "bucket".to_owned(),
            region: "us-east-1".to_owned(),
            addressing: Addressing::Path,
            ca_file: None,
            verify_tls: true,
        };
        let credentials = Credentials {
            access_key: "access".to_owned(),
            secret_key: "secret".to_owned(),
            session_token: None,
        };
        OneShot::new(Store::new(&spec, Some(credentials)).expect("a store")).expect("a client")
    }

    fn read_request(stream: &mut TcpStream) -> Option<String> {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            text.push(byte[0]);
        }
        let text = String::from_utf8(text).expect("text");
        let length = text.split("content-length: ").nth(1).map_or(0, |rest| {
            rest.split("\r\n").next().and_then(|digits| digits.parse().ok()).expect("a length")
        });
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        Some(text + std::str::from_utf8(&body).expect("text"))
    }

    /// Start a server that answers `requests` requests per connection by echoing them, and then
    /// closes the connection without notice.
    fn server(requests: usize) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a client");
                counted.fetch_add(1, Ordering::SeqCst);
                for _ in 0..requests {
                    let Some(request) = read_request(&mut stream) else { break };
                    let head = format!(
                        "HTTP/1.1 418 Teapot\r\nX-Odd: \u{e9}\r\ncontent-length: {}\r\n\r\n",
                        request.len()
                    );
                    stream.write_all((head + &request).as_bytes()).expect("sent");
                }
            }
        });
        (port, connections)
    }

    #[test]
    fn a_reply_of_any_status_and_a_signed_request() {
        let (port, _) = server(1);
        let query = [("delete".to_owned(), String::new())];
        let reply = client(port).request("POST", None, &query, b"<Delete/>", LONG).expect("reply");
        assert_eq!(reply.status, 418);
        assert!(reply.headers.contains(&("x-odd".to_owned(), "\u{e9}".to_owned())));
        let sent = std::str::from_utf8(&reply.body).expect("text");
        assert!(sent.starts_with("POST /bucket?delete= HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("\r\nauthorization: AWS4-HMAC-SHA256 Credential=access/"), "{sent}");
        assert!(sent.contains("SignedHeaders=content-md5;host;x-amz-content-sha256;x-amz-date,"));
        assert!(sent.ends_with("<Delete/>") && !sent.contains("secret"), "{sent}");
    }

    #[test]
    fn a_condition_is_a_signed_header() {
        let (port, _) = server(1);
        let mut client = client(port);
        let reply = client.put_if("k", b"x", ("if-none-match", "*"), LONG).expect("reply");
        let sent = std::str::from_utf8(&reply.body).expect("text");
        assert!(sent.starts_with("PUT /bucket/k HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("\r\nif-none-match: *\r\n"), "{sent}");
        assert!(sent.contains("SignedHeaders=content-md5;host;if-none-match;x-amz-"), "{sent}");
        let odd = client.put_if("k", b"x", ("no header", "*"), LONG).expect_err("refused");
        assert_eq!(odd.kind(), "protocol");
    }

    #[test]
    fn the_connection_is_kept_and_replaced_when_it_is_gone() {
        let (port, connections) = server(2);
        let mut client = client(port);
        for _ in 0..5 {
            client.request("GET", Some("k"), &[], b"", LONG).expect("a reply");
        }
        assert_eq!(connections.load(Ordering::SeqCst), 3);
    }

    /// If the kept connection were used and turned out to be closed, the request would have to be
    /// sent twice.
    #[test]
    fn what_is_not_idempotent_gets_a_connection_of_its_own() {
        let (port, connections) = server(9);
        let mut client = client(port);
        let begin = [("uploads".to_owned(), String::new())];
        let complete = [("uploadId".to_owned(), "1".to_owned())];
        for (expected, query) in [(1, &[][..]), (1, &complete), (2, &begin), (3, &begin)] {
            client.request("POST", Some("k"), query, b"", LONG).expect("a reply");
            assert_eq!(connections.load(Ordering::SeqCst), expected, "{query:?}");
        }
        client.put_if("k", b"x", ("if-none-match", "*"), LONG).expect("a reply");
        assert_eq!(connections.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn silence_is_a_time_out_and_the_next_request_is_a_new_one() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = client(listener.local_addr().expect("bound").port());
        for _ in 0..2 {
            let answer = client.request("GET", None, &[], b"", Duration::from_millis(20));
            assert_eq!(answer.expect_err("silence"), Failure::TimeOut);
            listener.accept().expect("a connection of its own");
        }
        drop(listener);
        let refused = client.request("GET", None, &[], b"", LONG).expect_err("nobody");
        assert_eq!(refused.kind(), "connection refused");
        let odd = client.request("NO SUCH", None, &[], b"", LONG).expect_err("no method");
        assert_eq!(odd.kind(), "protocol");
    }
}

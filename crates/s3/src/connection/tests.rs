//! Tests of connections against servers in this process that behave well, badly, or not at all.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::addresses::Addresses;
use crate::body::Framing;
use crate::content::Content;
use crate::{Addressing, Call, PayloadHash, StoreSpec};

const LONG: Duration = Duration::from_mins(1);
const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // As a trait object, so that the runtime is not compiled once per test.
    let test: Pin<&mut dyn Future<Output = T>> = pin!(test);
    runtime.expect("a runtime").block_on(test)
}

pub(super) fn spec(endpoint: String) -> StoreSpec {
    StoreSpec {
        endpoints: vec![endpoint],
        bucket: "bucket".to_owned(),
        region: "us-east-1".to_owned(),
        addressing: Addressing::Path,
        ca_file: None,
        verify_tls: true,
    }
}

fn store(port: u16) -> Store {
    Store::new(&spec(format!("http://127.0.0.1:{port}")), None).expect("a store")
}

/// Read the head of one request; None if the client closes the connection.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return None,
        }
    }
    Some(String::from_utf8(head).expect("text"))
}

/// Start a server that gives `answers` to the requests of each connection, and then closes it.
///
/// Returns its port and the number of connections accepted.
async fn server(answers: Vec<&'static [u8]>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { break };
            counted.fetch_add(1, Ordering::SeqCst);
            for answer in &answers {
                if read_head(&mut stream).await.is_none() {
                    break;
                }
                stream.write_all(answer).await.expect("sent");
            }
        }
    });
    (port, connections)
}

/// Run a whole exchange. Returns the body, and the connection if it can be reused.
async fn exchange(
    store: &Store,
    connection: Connection,
) -> Result<(Bytes, Option<Connection>), Failure> {
    let (head, body) = (store.request(0, &Call::get("k")).head, RequestBody::none());
    let mut response = connection.send(head, body).await?;
    if !response.status().is_success() {
        return Err(response.refusal().await);
    }
    let body = response.drain(1 << 20).await?;
    Ok((body, response.into_connection()))
}

async fn get(store: &Store, connection: Connection) -> Result<Bytes, Failure> {
    exchange(store, connection).await.map(|(body, _)| body)
}

/// Send a PUT of `length` zeros, and wait for the head of the answer.
async fn put(store: &Store, connection: Connection, length: usize) -> Result<Response, Failure> {
    let call = Call {
        payload: PayloadHash::Unsigned,
        content_length: length as u64,
        ..Call::new(Method::PUT, Some("k"))
    };
    let body = RequestBody::plain(Bytes::from(vec![0; length]));
    connection.send(store.request(0, &call).head, body).await
}

/// GET over a new connection to a server that gives one answer.
async fn answered(answer: &'static [u8]) -> Result<Bytes, Failure> {
    let (port, _) = server(vec![answer]).await;
    let store = store(port);
    get(&store, Connection::open(&store, 0, LONG).await?).await
}

#[test]
fn requests_share_a_connection() {
    run(async {
        let chunked: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
              3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let (port, connections) = server(vec![HELLO, chunked, HELLO]).await;
        let store = store(port);
        let mut connection = Connection::open(&store, 0, LONG).await.expect("open");
        for wanted in ["hello", "abcde", "hello"] {
            let open = connection.if_open().expect("it is open");
            let (body, kept) = exchange(&store, open).await.expect("a body");
            assert_eq!(body, wanted);
            connection = kept.expect("it goes on");
        }
        // The next request detects that the server has closed the connection.
        assert_eq!(get(&store, connection).await, Err(Failure::Closed));
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn what_is_sent_is_what_was_asked() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let store = store(listener.local_addr().expect("bound").port());
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let head = read_head(&mut stream).await.expect("a head");
            let mut body = [0; 4];
            stream.read_exact(&mut body).await.expect("a body");
            stream.write_all(HELLO).await.expect("sent");
            (head, body)
        });
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let call = Call {
            query: &[("partNumber", "2"), ("uploadId", "a/b")],
            payload: PayloadHash::Unsigned,
            content_length: 4,
            ..Call::new(Method::PUT, Some("a key"))
        };
        let body = RequestBody::plain(Bytes::from_static(b"data"));
        let response = connection.send(store.request(0, &call).head, body).await;
        assert_eq!(response.expect("an answer").status(), 200);
        let (head, body) = served.await.expect("served");
        assert!(head.starts_with("PUT /bucket/a%20key?partNumber=2&uploadId=a%2Fb HTTP/1.1\r\n"));
        assert_eq!(head.matches("content-length: 4\r\n").count(), 1, "{head}");
        assert_eq!(head.matches("host: 127.0.0.1:").count(), 1, "{head}");
        assert!(!head.contains("transfer-encoding"), "{head}");
        assert_eq!(&body, b"data");
    });
}

#[test]
fn nobody_listens() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let failure = Connection::open(&store(port), 0, LONG).await.expect_err("nobody");
        assert_eq!(failure, Failure::Refused(format!("http://127.0.0.1:{port}")));
        assert_eq!(failure.errno(), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn an_address_that_refuses_leaves_the_others() {
    run(async {
        // Names under localhost have two addresses; the server listens on one of them.
        let (port, connections) = server(vec![HELLO]).await;
        let store = Store::new(&spec(format!("http://a.localhost:{port}")), None).expect("store");
        for _ in 0..4 {
            Connection::open(&store, 0, LONG).await.expect("open");
        }
        // The kernel completes a connection before the server accepts it.
        while connections.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_name_is_resolved_again_after_all_its_addresses_failed() {
    run(async {
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let first = closed.local_addr().expect("bound");
        drop(closed);
        let (port, _) = server(vec![HELLO]).await;
        let later = SocketAddr::from(([127, 0, 0, 1], port));
        let has_moved = Arc::new(AtomicBool::new(false));
        let moved = has_moved.clone();
        let addresses = Addresses::of_name(Box::new(move || {
            Ok(vec![if moved.load(Ordering::SeqCst) { later } else { first }])
        }));
        let addresses = addresses.expect("resolved");
        let store = store(first.port()).with_addresses(addresses.clone());
        for _ in 0..2 {
            // The first time, the name is too fresh to resolve again; the second time it resolves
            // to the same failed address.
            let failure = Connection::open(&store, 0, LONG).await.expect_err("nobody");
            assert_eq!(failure.errno(), Some(libc::ECONNREFUSED));
            addresses.expire();
        }
        has_moved.store(true, Ordering::SeqCst);
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        assert_eq!(get(&store, connection).await.expect("an answer"), "hello");
    });
}

#[test]
fn a_name_is_resolved_again_after_its_address_did_not_answer() {
    run(async {
        // The kernel drops connection requests while the listener's queue is full.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let silent = socket.listen(0).expect("listening");
        let first = silent.local_addr().expect("bound");
        let _queued = TcpStream::connect(first).await.expect("room for one");
        let (port, _) = server(vec![HELLO]).await;
        let later = SocketAddr::from(([127, 0, 0, 1], port));
        let lookups = AtomicUsize::new(0);
        let addresses = Addresses::of_name(Box::new(move || {
            Ok(vec![if lookups.fetch_add(1, Ordering::SeqCst) == 0 { first } else { later }])
        }));
        let store = store(first.port()).with_addresses(addresses.expect("resolved"));
        let limit = Duration::from_secs(6);
        let connection = Connection::open(&store, 0, limit).await.expect("open");
        assert_eq!(connection.peer(), later);
    });
}

#[test]
fn connections_that_end_early() {
    run(async {
        assert_eq!(answered(b"").await, Err(Failure::Closed));
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\ncontent-le").await, Err(Failure::Closed));
        let short = answered(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel").await;
        assert_eq!(short, Err(Failure::ShortBody));
        let short =
            answered(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel").await;
        assert_eq!(short, Err(Failure::ShortBody));
        let odd = answered(b"SSH-2.0-OpenSSH_9.9\r\n").await.expect_err("not HTTP");
        assert_eq!(odd.kind(), "protocol");
        let odd = answered(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n").await;
        assert_eq!(odd.expect_err("not chunked").kind(), "protocol");
    });
}

/// Return the client's failure if the server resets the connection after sending `part` of an
/// answer.
async fn reset_after(part: &'static [u8]) -> Failure {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let store = store(listener.local_addr().expect("bound").port());
    let (go, when) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        read_head(&mut stream).await.expect("a head");
        stream.write_all(part).await.expect("sent");
        if !part.is_empty() {
            // A reset discards data that the client has not read.
            when.await.expect("the client goes on");
        }
        stream.set_zero_linger().expect("linger");
    });
    let connection = Connection::open(&store, 0, LONG).await.expect("open");
    let (head, body) = (store.request(0, &Call::get("k")).head, RequestBody::none());
    match connection.send(head, body).await {
        Err(failure) => failure,
        Ok(mut response) => {
            assert!(response.read(|part| assert_eq!(part, b"hel")).await.expect("a part"));
            go.send(()).expect("a server");
            response.drain(1 << 20).await.expect_err("a reset")
        }
    }
}

#[test]
fn connections_that_are_reset() {
    run(async {
        assert_eq!(reset_after(b"").await, Failure::Reset);
        let part = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel";
        assert_eq!(reset_after(part).await, Failure::Reset);
    });
}

#[test]
fn giving_up_closes_the_connection() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let store = store(listener.local_addr().expect("bound").port());
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let (mut stream, _) = listener.accept().await.expect("a client");
        let silence = tokio::time::timeout(Duration::from_millis(20), get(&store, connection));
        assert!(silence.await.is_err(), "nothing was answered");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("the end");
        assert!(rest.starts_with(b"GET /bucket/k "));
    });
}

/// Start a server that answers after the head of a request, reads no body, and keeps the connection
/// open.
async fn early(answer: &'static [u8]) -> Store {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let store = store(listener.local_addr().expect("bound").port());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        read_head(&mut stream).await.expect("a head");
        stream.write_all(answer).await.expect("sent");
        std::future::pending::<()>().await;
    });
    store
}

#[test]
fn success_before_the_body_is_sent_is_none() {
    run(async {
        let store = early(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let Err(failure) = put(&store, connection, 32 << 20).await else {
            panic!("a success");
        };
        assert!(failure.to_string().contains("before the whole body"), "{failure}");
    });
}

#[test]
fn a_status_counts_though_the_rest_of_the_answer_never_comes() {
    run(async {
        let answer = b"HTTP/1.1 503 Slow Down\r\ncontent-length: 100\r\n\r\n<Error>";
        let store = early(answer).await;
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let asked = tokio::time::timeout(LONG / 2, get(&store, connection)).await;
        let failure = asked.expect("it is not waited for").expect_err("an error");
        assert_eq!(failure.kind(), "HTTP 503");
    });
}

#[test]
fn a_body_is_not_made_before_the_socket_takes_it() {
    run(async {
        let store = early(b"").await;
        let mut connection = Connection::open(&store, 0, LONG).await.expect("open");
        let body = RequestBody::object(Content::of("k"), 0, 64 << 20, Framing::None);
        let head = store.request(0, &Call::new(Method::PUT, Some("k"))).head;
        let mut outgoing = Outgoing::new(head.bytes, body);
        let first = poll_fn(|cx| {
            Poll::Ready(connection.poll_send(cx, &mut outgoing, &Method::PUT).is_pending())
        });
        assert!(first.await, "a socket that takes 64 MiB at once");
        // The piece that was partly accepted remains, and no further one has been generated.
        assert!(!outgoing.is_sent() && outgoing.waiting_bytes() < outgoing::READY_BYTES);
    });
}

#[test]
fn an_answer_may_come_before_the_body_is_sent() {
    run(async {
        let store = early(
            b"HTTP/1.1 503 Slow Down\r\ncontent-length: 40\r\n\r\n\
              <Error><Code>SlowDown</Code>    </Error>",
        )
        .await;
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let mut response = put(&store, connection, 32 << 20).await.expect("an answer");
        assert_eq!(response.refusal().await.kind(), "SlowDown (503)");
        // The server still waits for the body.
        assert!(response.into_connection().is_none());
    });
}

#[test]
fn an_answer_that_only_says_that_one_will_come_is_passed_over() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let store = store(listener.local_addr().expect("bound").port());
        let length = 32 << 20;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            read_head(&mut stream).await.expect("a head");
            // Split, so that the informational answer looks like the start of the final one.
            stream.write_all(b"HTTP/1.1 10").await.expect("sent");
            let mut body = vec![0; length];
            stream.read_exact(&mut body[..length / 2]).await.expect("a half");
            stream.write_all(b"2 Processing\r\n\r\n").await.expect("sent");
            stream.read_exact(&mut body[length / 2..]).await.expect("the other");
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.expect("sent");
            stream.write_all(HELLO).await.expect("sent");
        });
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let mut response = put(&store, connection, length).await.expect("an answer");
        assert_eq!(response.drain(5).await.expect("a body"), "hello");
        assert!(response.into_connection().is_some());
    });
}

/// The server reads only the head, refuses the body and closes, so a reset follows the answer.
#[test]
fn who_refuses_a_body_and_hangs_up_is_heard() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let store = store(listener.local_addr().expect("bound").port());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            read_head(&mut stream).await.expect("a head");
            let answer =
                b"HTTP/1.1 403 No\r\nconnection: close\r\n\r\n<Error><Code>NoWay</Code></Error>";
            stream.write_all(answer).await.expect("sent");
            // Lets the client read the answer first, because a reset would discard it.
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let mut response = put(&store, connection, 32 << 20).await.expect("an answer");
        assert_eq!(response.status(), 403);
        assert_eq!(response.refusal().await.kind(), "NoWay (403)");
    });
}

/// Return the body of an answer, and whether the connection can be reused after it.
async fn after(answer: &'static [u8], method: Method) -> (Bytes, bool) {
    let (port, _) = server(vec![answer]).await;
    let store = store(port);
    let connection = Connection::open(&store, 0, LONG).await.expect("open");
    let call = Call::new(method, Some("k"));
    let (head, body) = (store.request(0, &call).head, RequestBody::none());
    let mut response = connection.send(head, body).await.expect("an answer");
    let body = response.drain(1 << 20).await.expect("a body");
    (body, response.into_connection().is_some())
}

#[test]
fn which_connections_are_used_again() {
    run(async {
        let bytes = Bytes::from_static;
        assert_eq!(after(HELLO, Method::GET).await, (bytes(b"hello"), true));
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        assert_eq!(after(head, Method::HEAD).await, (bytes(b""), true));
        let close = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
        assert_eq!(after(close, Method::GET).await, (bytes(b"hello"), false));
        let old = b"HTTP/1.0 200 OK\r\n\r\nhello";
        assert_eq!(after(old, Method::GET).await, (bytes(b"hello"), false));
        // Unsolicited data after the answer.
        let more = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello?";
        assert_eq!(after(more, Method::GET).await, (bytes(b"hello"), false));
        let more = b"HTTP/1.1 204 No Content\r\n\r\n?";
        assert_eq!(after(more, Method::GET).await, (bytes(b""), false));
    });
}

#[test]
fn answers_that_are_errors() {
    run(async {
        let missing = answered(
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 72\r\n\r\n\
              <Error><Code>NoSuchKey</Code><Message>Not &amp; here.</Message></Error>   ",
        );
        let missing = missing.await.expect_err("missing");
        assert_eq!(missing.to_string(), "NoSuchKey (404): Not & here.");
        let moved = answered(
            b"HTTP/1.1 301 Moved\r\ncontent-length: 72\r\n\r\n\
              <Error><Code>PermanentRedirect</Code><Region>eu-west-1</Region> </Error>",
        );
        let moved = moved.await.expect_err("moved").to_string();
        assert!(
            moved.contains("PermanentRedirect (301)") && moved.contains("eu-west-1"),
            "{moved}"
        );
        let proxy = answered(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 7\r\n\r\nno luck");
        assert_eq!(proxy.await.expect_err("proxy").to_string(), "HTTP 502: no luck");
        // The status is reported even if the body does not arrive.
        let cut = answered(b"HTTP/1.1 500 Oh\r\ncontent-length: 7\r\n\r\n");
        assert_eq!(cut.await.expect_err("cut").kind(), "HTTP 500");
    });
}

#[test]
fn a_body_that_is_too_long_is_not_kept() {
    run(async {
        let (port, _) = server(vec![HELLO]).await;
        let store = store(port);
        let connection = Connection::open(&store, 0, LONG).await.expect("open");
        let (head, body) = (store.request(0, &Call::get("k")).head, RequestBody::none());
        let mut response = connection.send(head, body).await.expect("an answer");
        let failure = response.drain(4).await.expect_err("too long");
        assert_eq!(failure.kind(), "protocol");
    });
}

mod tls;
mod waking;

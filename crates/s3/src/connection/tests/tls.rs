//! Tests of TLS: accepted and rejected certificates, record handling, cut connections.

use bytes::BytesMut;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use socket2::SockRef;
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::body::Framing;
use crate::content::Content;

/// Certificate with its key, and the PEM file that a client must trust to accept it.
struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
    trust: NamedTempFile,
}

fn pem_file(pem: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), pem).expect("written");
    file
}

fn issued(change: impl FnOnce(&mut CertificateParams)) -> Identity {
    issued_by("authority", change)
}

/// Issue a server certificate from a new authority with this name.
fn issued_by(authority_name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.distinguished_name.push(DnType::CommonName, authority_name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own_key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, own_key).expect("an authority");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("parameters");
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("signed");
    let trust = pem_file(&authority.pem());
    Identity { certificate: certificate.der().clone(), key, trust }
}

/// Make a self-signed CA certificate for the server, like `openssl req -x509` does.
fn self_made() -> Identity {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("signed");
    let trust = pem_file(&certificate.pem());
    Identity { certificate: certificate.der().clone(), key, trust }
}

/// Start a server that serves one exchange per connection, and return its port.
async fn serve(identity: &Identity) -> u16 {
    serve_with(identity, rustls::ALL_VERSIONS, Bytes::from_static(HELLO)).await
}

fn acceptor(identity: &Identity, versions: &[&'static SupportedProtocolVersion]) -> TlsAcceptor {
    TlsAcceptor::from(Arc::new(server_config(identity, versions)))
}

fn server_config(
    identity: &Identity,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let key = PrivateKeyDer::try_from(identity.key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], key)
        .expect("a certificate")
}

async fn serve_with(
    identity: &Identity,
    versions: &[&'static SupportedProtocolVersion],
    answer: Bytes,
) -> u16 {
    serve_by(acceptor(identity, versions), answer).await
}

async fn serve_by(acceptor: TlsAcceptor, answer: Bytes) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { break };
            // A client that rejects the certificate closes the connection.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            if read_head(&mut stream).await.is_some() {
                stream.write_all(&answer).await.expect("sent");
                // No TLS close alert: this is how a cut connection looks.
                stream.flush().await.expect("sent");
            }
        }
    });
    port
}

fn trusting(endpoint: String, trust: &NamedTempFile) -> StoreSpec {
    let path = trust.path().to_str().expect("text").to_owned();
    StoreSpec { ca_file: Some(path), ..spec(endpoint) }
}

async fn exchange(spec: &StoreSpec) -> Result<Bytes, Failure> {
    let store = Store::new(spec, None).expect("a store");
    let connection = Connection::open(&store, 0, LONG).await?;
    let (body, connection) = super::exchange(&store, connection).await?;
    // A connection that ends without a TLS close alert is closed, not a protocol error.
    let cut = get(&store, connection.expect("it goes on")).await;
    assert_eq!(cut, Err(Failure::Closed));
    Ok(body)
}

async fn refused(spec: &StoreSpec) -> String {
    match exchange(spec).await {
        Err(Failure::Tls { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// A load balancer that restarts closes connections before and during the handshake.
#[test]
fn a_handshake_that_is_cut_off_may_be_tried_again() {
    run(async {
        let identity = issued(|_| {});
        let acceptor = acceptor(&identity, rustls::ALL_VERSIONS);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let mut held = Vec::new();
            for client in 0.. {
                let (mut stream, _) = listener.accept().await.expect("a client");
                match client {
                    0 => drop(stream),
                    1 => {
                        stream.read_exact(&mut [0; 9]).await.expect("a hello");
                        stream.set_zero_linger().expect("set");
                        drop(stream);
                    }
                    _ => held.push(acceptor.accept(stream).await.expect("a handshake")),
                }
            }
        });
        let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
        let store = Store::new(&spec, None).expect("a store");
        for _ in 0..2 {
            let failure = Connection::open(&store, 0, LONG).await.expect_err("hung up");
            assert!(matches!(failure, Failure::Handshake(_)), "{failure:?}");
            assert!(failure.retryable() && !failure.may_be_done());
        }
        Connection::open(&store, 0, LONG).await.expect("the third is served");
    });
}

/// Return the largest size of a single read of an 8 MiB body, with this version of TLS.
async fn most_at_once(version: &'static SupportedProtocolVersion) -> usize {
    let identity = issued(|_| {});
    let bytes: Vec<u8> = (0..8u32 << 18).flat_map(u32::to_le_bytes).collect();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
    let answer = [head.as_bytes(), &bytes].concat().into();
    let port = serve_with(&identity, &[version], answer).await;
    let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
    let store = Store::new(&spec, None).expect("a store");
    let connection = Connection::open(&store, 0, LONG).await.expect("believed");
    let Stream::TlsStream(sealed) = &connection.stream else { panic!("no TLS") };
    // net.ipv4.tcp_rmem may limit the growth of the buffer to two records; SO_RCVBUF is not limited
    // by it.
    SockRef::from(sealed.socket()).set_recv_buffer_size(1 << 20).expect("a socket");
    let (head, body) = (store.request(0, &Call::get("k")).head, RequestBody::none());
    let mut response = connection.send(head, body).await.expect("an answer");
    let (mut whole, mut most, mut more) = (BytesMut::new(), 0, true);
    while more {
        let before = whole.len();
        more = response.read(|data| whole.extend_from_slice(data)).await.expect("a part");
        most = most.max(whole.len() - before);
    }
    assert!(response.into_connection().is_some());
    assert!(whole == bytes, "the bytes are those that were sent");
    most
}

#[test]
fn one_read_brings_many_records() {
    run(async {
        for version in rustls::ALL_VERSIONS {
            let record = 16 << 10;
            let most = most_at_once(version).await;
            assert!(most > 4 * record, "{most} bytes with {version:?}");
        }
    });
}

/// Uses a server that echoes the request body as the body of its answer.
#[test]
fn what_is_sealed_is_what_was_to_be_sent() {
    run(async {
        let identity = issued(|_| {});
        let acceptor = acceptor(&identity, rustls::ALL_VERSIONS);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let lengths = [1, 4096, (16 << 10) + 1, 5 << 20];
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a client");
            let mut stream = acceptor.accept(stream).await.expect("a handshake");
            for length in lengths {
                read_head(&mut stream).await.expect("a head");
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await.expect("a body");
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.expect("sent");
                stream.write_all(&body).await.expect("sent");
                stream.flush().await.expect("sent");
            }
        });
        let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
        let store = Store::new(&spec, None).expect("a store");
        let mut connection = Connection::open(&store, 0, LONG).await.expect("believed");
        for length in lengths {
            let content = Content::of("k");
            let call = Call {
                payload: PayloadHash::Unsigned,
                content_length: length as u64,
                ..Call::new(Method::PUT, Some("k"))
            };
            let body = RequestBody::object(content, 0, length as u64, Framing::None);
            let head = store.request(0, &call).head;
            let mut response = connection.send(head, body).await.expect("an answer");
            let echo = response.drain(8 << 20).await.expect("a body");
            assert_eq!((echo.len(), content.compare(0, &echo)), (length, None));
            connection = response.into_connection().expect("it goes on");
        }
    });
}

/// The last bytes of these bodies are encrypted but not accepted by the socket when the server
/// answers and stops reading. Which lengths cause that depends on the socket, so several are tried.
#[test]
fn an_answer_is_heard_while_the_end_of_a_body_waits() {
    run(async {
        let identity = issued(|_| {});
        let acceptor = acceptor(&identity, rustls::ALL_VERSIONS);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { break };
                let mut stream = acceptor.accept(stream).await.expect("a handshake");
                read_head(&mut stream).await.expect("a head");
                let answer = b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).await.expect("sent");
                stream.flush().await.expect("sent");
                open.push(stream);
            }
        });
        let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
        let store = Store::new(&spec, None).expect("a store");
        for length in (1..60).map(|step| step * (128 << 10)) {
            let connection = Connection::open(&store, 0, LONG).await.expect("believed");
            let answer = tokio::time::timeout(LONG, put(&store, connection, length))
                .await
                .expect("no silence");
            assert_eq!(answer.expect("an answer").status(), 503, "{length} bytes");
        }
    });
}

/// Send a PUT of 32 MiB to a server that runs `serve` after the request's head.
async fn put_to<S>(
    serve: impl FnOnce(TlsStream<TcpStream>) -> S + Send + 'static,
) -> Result<Response, Failure>
where
    S: Future<Output = ()> + Send,
{
    let identity = issued(|_| {});
    let acceptor = acceptor(&identity, rustls::ALL_VERSIONS);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut stream = acceptor.accept(stream).await.expect("a handshake");
        read_head(&mut stream).await.expect("a head");
        serve(stream).await;
    });
    let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
    let store = Store::new(&spec, None).expect("a store");
    let connection = Connection::open(&store, 0, LONG).await.expect("believed");
    let sent = put(&store, connection, 32 << 20);
    tokio::time::timeout(LONG, sent).await.expect("no silence")
}

#[test]
fn who_refuses_a_body_and_hangs_up_is_heard_through_tls() {
    run(async {
        let answer = put_to(|mut stream| async move {
            let answer =
                b"HTTP/1.1 403 No\r\ncontent-length: 34\r\n\r\n<Error><Code>NoWay</Code></Error>\n";
            stream.write_all(answer).await.expect("sent");
            stream.flush().await.expect("sent");
            // Lets the client read the answer first, because the reset that follows would discard
            // it.
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
        let mut answer = answer.await.expect("an answer");
        assert_eq!(answer.refusal().await.kind(), "NoWay (403)");
        assert!(answer.into_connection().is_none());
    });
}

#[test]
fn what_is_no_record_is_said_at_once() {
    run(async {
        let answer = put_to(|stream| async move {
            let (mut socket, _) = stream.into_inner();
            socket.write_all(b"HTTP/1.1 403 No\r\n\r\n").await.expect("sent");
            std::future::pending::<()>().await;
        });
        assert_eq!(answer.await.expect_err("garbage").kind(), "TLS");
    });
}

/// Start a proxy to `server` that stops the server's messages after the handshake, after `cut`
/// bytes, until the client has sent its request. Returns the proxy's port.
async fn held_up(server: u16, cut: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.expect("a client");
        let server = TcpStream::connect(("127.0.0.1", server)).await.expect("a server");
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        // The client sends three times: its hello, the end of its handshake, its request.
        let (spoken, mut times_spoken) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            let mut bytes = vec![0; 32 << 10];
            while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                spoken.send_modify(|times| *times += 1);
                to_server.write_all(&bytes[..count]).await.expect("sent");
            }
        });
        let (mut bytes, mut room) = (vec![0; 32 << 10], cut);
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            let mut at = 0;
            if *times_spoken.borrow() == 2 {
                at = count.min(room);
                room -= at;
                to_client.write_all(&bytes[..at]).await.expect("sent");
                if at < count {
                    times_spoken.wait_for(|&times| times > 2).await.expect("a request");
                }
            }
            to_client.write_all(&bytes[at..count]).await.expect("sent");
        }
    });
    port
}

/// Session tickets span several records, of which only some have arrived when a request is
/// encrypted.
#[test]
fn a_request_may_be_sealed_while_a_message_is_half_there() {
    run(async {
        let identity = issued(|_| {});
        let mut config = server_config(&identity, &[&rustls::version::TLS13]);
        config.max_fragment_size = Some(64);
        let server = serve_by(TlsAcceptor::from(Arc::new(config)), Bytes::from_static(HELLO)).await;
        for cut in (0..700).step_by(37) {
            let port = held_up(server, cut).await;
            let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
            let store = Store::new(&spec, None).expect("a store");
            let connection = Connection::open(&store, 0, LONG).await.expect("believed");
            tokio::time::sleep(Duration::from_millis(5)).await;
            // Processes the data that has arrived.
            let connection = connection.if_open().expect("it is open");
            assert_eq!(get(&store, connection).await.expect("a body"), "hello", "cut at {cut}");
        }
    });
}

#[test]
fn an_authority_of_ones_own() {
    run(async {
        let identity = issued(|_| {});
        let port = serve(&identity).await;
        for host in ["localhost", "127.0.0.1"] {
            let spec = trusting(format!("https://{host}:{port}"), &identity.trust);
            assert_eq!(exchange(&spec).await.expect("believed"), "hello");
        }
    });
}

#[test]
fn a_certificate_that_is_trusted_itself() {
    run(async {
        let identity = self_made();
        let port = serve(&identity).await;
        let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
        assert_eq!(exchange(&spec).await.expect("believed"), "hello");
        // The certificate is still only valid for its own name.
        let spec = trusting(format!("https://127.0.0.1:{port}"), &identity.trust);
        let message = refused(&spec).await;
        assert!(message.contains("for another name"), "{message}");
        // It is only trusted if `ca_file` contains it.
        let other = issued(|_| {});
        let message = refused(&trusting(format!("https://localhost:{port}"), &other.trust)).await;
        assert!(message.contains("ca_file"), "{message}");
    });
}

#[test]
fn strangers_are_not_believed() {
    run(async {
        let identity = issued(|_| {});
        let port = serve(&identity).await;
        let endpoint = format!("https://localhost:{port}");
        // Another authority is rejected, even if it has the same name.
        for name in ["another", "authority"] {
            let other = issued_by(name, |_| {});
            let message = refused(&trusting(endpoint.clone(), &other.trust)).await;
            assert!(message.contains(&endpoint) && message.contains("ca_file"), "{message}");
        }
        // Any certificate is accepted if the study turns verification off.
        let blind = StoreSpec { verify_tls: false, ..spec(endpoint) };
        assert_eq!(exchange(&blind).await.expect("not verified"), "hello");
    });
}

#[test]
fn names_and_dates_are_checked() {
    run(async {
        let identity = issued(|_| {});
        let port = serve(&identity).await;
        let message =
            refused(&trusting(format!("https://b.localhost:{port}"), &identity.trust)).await;
        assert!(message.contains("for another name"), "{message}");
        let old = issued(|params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        });
        let port = serve(&old).await;
        let message = refused(&trusting(format!("https://localhost:{port}"), &old.trust)).await;
        assert!(message.contains("has expired"), "{message}");
    });
}

#[test]
fn a_server_without_tls() {
    run(async {
        let trust = issued(|_| {}).trust;
        let (port, _) = server(vec![b"HTTP/1.1 400 Bad Request\r\n\r\n"]).await;
        let spec = trusting(format!("https://127.0.0.1:{port}"), &trust);
        // The server waits for the end of a line that the TLS client never sends, so the connection
        // times out.
        let store = Store::new(&spec, None).expect("a store");
        let silence = Connection::open(&store, 0, Duration::from_millis(20)).await;
        assert_eq!(silence.expect_err("silence"), Failure::TimeOut);
        // A server that answers at once.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("sent");
            std::future::pending::<()>().await;
        });
        let spec = trusting(format!("https://127.0.0.1:{port}"), &trust);
        let message = refused(&spec).await;
        assert!(message.contains("does not speak TLS"), "{message}");
    });
}

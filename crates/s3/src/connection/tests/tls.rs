//! TLS: whom the client believes.

use std::pin::Pin;
use std::task::{Context, Poll};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::NamedTempFile;
use tokio::io::ReadBuf;
use tokio_rustls::TlsAcceptor;

use super::*;

/// A certificate with its key, and the PEM file of what a client has to trust for it.
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

/// A server's certificate from an authority of its own.
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

/// What `openssl req -x509` makes: an authority that is its own server.
fn self_made() -> Identity {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("signed");
    let trust = pem_file(&certificate.pem());
    Identity { certificate: certificate.der().clone(), key, trust }
}

/// Serves one exchange on each connection; its port.
async fn serve(identity: &Identity) -> u16 {
    let key = PrivateKeyDer::try_from(identity.key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], key)
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { break };
            // A client that does not believe this server hangs up.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            if read_head(&mut stream).await.is_some() {
                stream.write_all(HELLO).await.expect("sent");
                // Without its goodbye: this is how a cut line looks.
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
    let mut connection = Client::open(&store, 0, LONG).await?;
    let body = get(&store, &mut connection).await?;
    // A line that is cut without a goodbye is closed, not garbage.
    assert_eq!(get(&store, &mut connection).await, Err(Failure::Closed));
    Ok(body)
}

async fn refused(spec: &StoreSpec) -> String {
    match exchange(spec).await {
        Err(Failure::Tls(what)) => what,
        other => panic!("{other:?}"),
    }
}

/// Notes the most that was asked for at once.
struct Asked<S> {
    stream: S,
    most: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Asked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.most.fetch_max(buffer.remaining(), Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Asked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[test]
fn many_records_are_asked_for_at_once() {
    run(async {
        let identity = issued(|_| {});
        let port = serve(&identity).await;
        let spec = trusting(format!("https://localhost:{port}"), &identity.trust);
        let store = Store::new(&spec, None).expect("a store");
        let (config, server) = store.endpoint(0).tls.as_ref().expect("it is https");
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
        let most = Arc::new(AtomicUsize::new(0));
        let stream = Asked { stream, most: most.clone() };
        let stream = handshake(stream, config, server).await.expect("believed");
        let mut connection = Client::over(stream).await.expect("a connection");
        assert_eq!(get(&store, &mut connection).await.expect("answered"), "hello");
        let record = 16 << 10;
        assert!(most.load(Ordering::Relaxed) > 4 * record, "{most:?} bytes");
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
        // Still, only under its own name.
        let spec = trusting(format!("https://127.0.0.1:{port}"), &identity.trust);
        let message = refused(&spec).await;
        assert!(message.contains("for another name"), "{message}");
        // And only where it is named.
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
        // Another one, also where it bears the same name.
        for name in ["another", "authority"] {
            let other = issued_by(name, |_| {});
            let message = refused(&trusting(endpoint.clone(), &other.trust)).await;
            assert!(message.contains(&endpoint) && message.contains("ca_file"), "{message}");
        }
        // Any certificate will do where the study says so.
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
        // It waits for the end of a line that TLS never sends: a time-out, as with any silence.
        let store = Store::new(&spec, None).expect("a store");
        let silence = Client::open(&store, 0, Duration::from_millis(20)).await;
        assert_eq!(silence.expect_err("silence"), Failure::TimeOut);
        // One that answers at once.
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

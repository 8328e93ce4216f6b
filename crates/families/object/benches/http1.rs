//! Benchmark: CPU time of storlab's HTTP/1.1 client compared with that of hyper, against the
//! embedded server (`make bench-http1`).
//!
//! Both clients run in turns on one thread of this process. Requests are signed beforehand and
//! bodies come from the same generator, so only HTTP, TLS and the socket differ. hyper gets the
//! same buffer sizes and the same receive low-water mark. A proxy in front of the server terminates
//! TLS.
//!
//! On two busy cores, storlab's client took 0.52 of hyper's CPU time for GETs of 4 MiB, 0.70 for
//! PUTs and 0.56 for GETs of 4 KiB, and 0.94 to 1.01 for PUTs of 4 MiB. With TLS it took 0.43 for
//! GETs and 1.14 to 1.23 for PUTs of 4 MiB (medians of 5 alternating rounds).

#![allow(clippy::pedantic, missing_docs, unsafe_code)]

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::os::fd::{AsRawFd as _, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Version};
use http_body::{Body, Frame};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use storlab_base::thread_cpu_ns;
use storlab_s3::body::{Framing, Piece, RequestBody};
use storlab_s3::content::Content;
use storlab_s3::{Addressing, Call, Connection, Credentials, Head, PayloadHash, Store, StoreSpec};
use storlab_server::{Config, Server};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const CONNECTIONS: usize = 16;
const SMALL: usize = 4 << 10;
const LARGE: usize = 4 << 20;
/// Size of the read buffer, as in `crates/s3/src/connection`.
const READ_BYTES: usize = 1 << 20;
const WRITE_BYTES: usize = 256 << 10;
const WAKE_BYTES: usize = 128 << 10;
const TAIL_BYTES: usize = 34 << 10;

#[derive(Clone, Copy, PartialEq)]
enum Client {
    Own,
    Hyper,
}

struct Load {
    method: Method,
    bytes: usize,
    requests: usize,
}

/// Servers of the benchmark, and what a client needs to connect to them.
struct Lab {
    port: u16,
    store: Store,
    tls: Option<TlsConnector>,
}

/// Connection of either client, with the signed request that it repeats.
struct Slot {
    key: String,
    head: Head,
    link: Link,
}

enum Link {
    Own(Option<Connection>),
    Hyper { sender: SendRequest<Upload>, socket: RawFd, request: Request<()> },
}

/// Request body for hyper, with the same pieces as that of storlab's client.
struct Upload(RequestBody);

impl Body for Upload {
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        Poll::Ready(self.0.next_piece().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_over()
    }
}

impl Slot {
    async fn open(lab: &Lab, client: Client, load: &Load, number: usize) -> Slot {
        let key = format!("{}/{number}", load.bytes);
        let puts = load.method == Method::PUT;
        let call = Call {
            payload: if puts { PayloadHash::Unsigned } else { PayloadHash::Empty },
            content_length: if puts { load.bytes as u64 } else { 0 },
            ..Call::new(load.method.clone(), Some(&key))
        };
        let head = lab.store.request(0, &call).head;
        let link = match client {
            Client::Own => Link::Own(Some(
                Connection::open(&lab.store, 0, Duration::from_mins(1)).await.unwrap(),
            )),
            Client::Hyper => {
                let stream = TcpStream::connect(("127.0.0.1", lab.port)).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let socket = stream.as_raw_fd();
                let name = ServerName::try_from("localhost").unwrap();
                let sender = match &lab.tls {
                    None => handshake(stream, load).await,
                    Some(tls) => handshake(tls.connect(name, stream).await.unwrap(), load).await,
                };
                Link::Hyper { sender, socket, request: request(&head) }
            }
        };
        Slot { key, head, link }
    }

    async fn exchange(&mut self, load: &Load) {
        let body = || match load.method {
            Method::PUT => {
                let content = Content::of(&self.key);
                RequestBody::object(content, 0, load.bytes as u64, Framing::None)
            }
            _ => RequestBody::none(),
        };
        let expected = if load.method == Method::PUT { 0 } else { load.bytes };
        let mut received = 0;
        match &mut self.link {
            Link::Own(link) => {
                let connection = link.take().unwrap();
                let mut response = connection.send(self.head.clone(), body()).await.unwrap();
                assert!(response.status().is_success());
                while response.read(|data| received += data.len()).await.unwrap() {}
                *link = response.into_connection();
            }
            Link::Hyper { sender, socket, request } => {
                let (head, ()) = request.clone().into_parts();
                let request = Request::from_parts(head, Upload(body()));
                sender.ready().await.unwrap();
                let mut response = sender.send_request(request).await.unwrap();
                assert!(response.status().is_success());
                let mut wakes_at = 1;
                while let Some(frame) =
                    poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx)).await
                {
                    received += frame.unwrap().data_ref().map_or(0, |data| data.len());
                    wake_seldom(*socket, &mut wakes_at, expected - received);
                }
            }
        }
        assert_eq!(received, expected);
    }
}

async fn handshake<S>(stream: S, load: &Load) -> SendRequest<Upload>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut http = http1::Builder::new();
    if load.method == Method::PUT {
        http.max_buf_size(WRITE_BYTES);
    } else {
        http.max_buf_size(READ_BYTES);
    }
    let (sender, connection) = http.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::task::spawn_local(connection);
    sender
}

/// Rebuild a signed request for hyper.
fn request(head: &Head) -> Request<()> {
    let text = std::str::from_utf8(head.as_bytes()).unwrap();
    let mut lines = text.lines();
    let mut start = lines.next().unwrap().split(' ');
    let (method, target) = (start.next().unwrap(), start.next().unwrap());
    let mut request = Request::builder().method(method).uri(target).version(Version::HTTP_11);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request
            .header(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    request.body(()).unwrap()
}

/// Set the receive low-water mark as storlab's own client does.
fn wake_seldom(socket: RawFd, wakes_at: &mut libc::c_int, left: usize) {
    let option = |name, value: &mut libc::c_int, set: bool| {
        let mut size = size_of::<libc::c_int>() as libc::socklen_t;
        let (level, value) = (libc::SOL_SOCKET, (&raw mut *value).cast());
        // SAFETY: the socket is open, and the value is an int.
        let code = unsafe {
            match set {
                true => libc::setsockopt(socket, level, name, value, size),
                false => libc::getsockopt(socket, level, name, value, &raw mut size),
            }
        };
        assert_eq!(code, 0);
    };
    let mut at = if left < 2 * TAIL_BYTES { 1 } else { WAKE_BYTES.min(left - TAIL_BYTES) as i32 };
    let mut buffer = 0;
    if at > *wakes_at {
        option(libc::SO_RCVBUF, &mut buffer, false);
        if (buffer as usize) < 16 * WAKE_BYTES {
            at = 1;
        }
    }
    if at != *wakes_at {
        option(libc::SO_RCVLOWAT, &mut at, true);
        *wakes_at = at;
    }
}

/// Return the CPU time of the client's thread per request, in ns.
fn measure(lab: &Lab, client: Client, load: &Rc<Load>) -> f64 {
    let runtime = Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let mut slots = Vec::new();
        for number in 0..CONNECTIONS {
            let mut slot = Slot::open(lab, client, load, number).await;
            slot.exchange(load).await;
            slots.push(slot);
        }
        let left = Rc::new(Cell::new(load.requests));
        let start_ns = thread_cpu_ns();
        let work = slots.into_iter().map(|mut slot| {
            let (left, load) = (left.clone(), load.clone());
            tokio::task::spawn_local(async move {
                while let Some(rest) = left.get().checked_sub(1) {
                    left.set(rest);
                    slot.exchange(&load).await;
                }
                slot
            })
        });
        let mut ended = Vec::new();
        for task in work.collect::<Vec<_>>() {
            ended.push(task.await.unwrap());
        }
        (thread_cpu_ns() - start_ns) as f64 / load.requests as f64
    })
}

/// Start a proxy that terminates TLS in front of `port`. Return the proxy's port.
async fn proxy(port: u16, certificate: &rcgen::CertifiedKey<rcgen::KeyPair>) -> u16 {
    let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy_port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true).unwrap();
                let mut front = acceptor.accept(stream).await.unwrap();
                let mut back = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                back.set_nodelay(true).unwrap();
                let _ = copy_bidirectional(&mut front, &mut back).await;
            });
        }
    });
    proxy_port
}

fn main() {
    let rounds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(5);
    let directory = tempfile::tempdir().unwrap();
    let keys = ("access".to_owned(), "secret".to_owned());
    let config = Config {
        directory: directory.path().join("store"),
        bucket: "bucket".to_owned(),
        durable: false,
    };
    let accepted =
        storlab_server::Credentials { access_key: keys.0.clone(), secret_key: keys.1.clone() };
    let server = Server::start(&config, accepted).unwrap();
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, certificate.cert.pem()).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate.cert.der().clone()).unwrap();
    let trusting = ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();
    let proxies = Builder::new_multi_thread().enable_all().build().unwrap();
    let tls_port = proxies.block_on(proxy(server.port(), &certificate));
    let lab = |tls: bool| {
        let port = if tls { tls_port } else { server.port() };
        let spec = StoreSpec {
            endpoints: vec![format!("{}://localhost:{port}", if tls { "https" } else { "http" })],
            bucket: config.bucket.clone(),
            region: "us-east-1".to_owned(),
            addressing: Addressing::Path,
            ca_file: tls.then(|| ca_file.display().to_string()),
            verify_tls: true,
        };
        let keys = Credentials {
            access_key: keys.0.clone(),
            secret_key: keys.1.clone(),
            session_token: None,
        };
        let tls = tls.then(|| TlsConnector::from(Arc::new(trusting.clone())));
        Lab { port, store: Store::new(&spec, Some(keys)).unwrap(), tls }
    };
    println!(
        "{:<16} {:>10} {:>10}   own / hyper: median (lowest to highest)",
        "load", "own", "hyper"
    );
    for (method, bytes, tls, requests) in [
        (Method::PUT, LARGE, false, 250),
        (Method::GET, LARGE, false, 250),
        (Method::PUT, SMALL, false, 10_000),
        (Method::GET, SMALL, false, 10_000),
        (Method::PUT, LARGE, true, 250),
        (Method::GET, LARGE, true, 250),
    ] {
        let lab = lab(tls);
        let name = format!("{}{method} {} KiB", if tls { "TLS " } else { "" }, bytes >> 10);
        let load = Rc::new(Load { method, bytes, requests });
        let mut readings: [Vec<f64>; 3] = Default::default();
        for round in 0..rounds {
            let mut cpu_ns = [0.0; 2];
            let order = [Client::Own, Client::Hyper];
            for turn in 0..2 {
                let client = order[(turn + round) % 2];
                cpu_ns[client as usize] = measure(&lab, client, &load);
            }
            readings[0].push(cpu_ns[0]);
            readings[1].push(cpu_ns[1]);
            readings[2].push(cpu_ns[0] / cpu_ns[1]);
        }
        readings.iter_mut().for_each(|some| some.sort_by(f64::total_cmp));
        let [own, hyper, ratios] = readings.each_ref().map(|some| some[rounds / 2]);
        let unit = |cpu_ns: f64| match bytes {
            SMALL => format!("{:.1} us", cpu_ns / 1e3),
            _ => format!("{:.3} s/GB", cpu_ns / bytes as f64),
        };
        println!(
            "{name:<16} {:>10} {:>10}   {ratios:.3} ({:.3} to {:.3})",
            unit(own),
            unit(hyper),
            readings[2][0],
            readings[2][rounds - 1]
        );
    }
}

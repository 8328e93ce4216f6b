//! The server itself: a listener on loopback, and its end.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use s3s::auth::{S3Auth, SecretKey};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{s3_error, Body, HttpError, S3Result};
use serde::Deserialize;
use storlab_base::{Error, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::oneshot;

use crate::service::Service;
use crate::store::Store;

/// What is still read of a request that was refused, so that its client gets to see why.
const DRAIN_BYTES: usize = 64 * 1024 * 1024;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// Holds one directory per bucket; made where it is missing.
    pub directory: PathBuf,
    /// A bucket that is there from the start.
    pub bucket: String,
    /// Whether an object is on the device, not only in the page cache, when its PUT is answered.
    pub durable: bool,
}

/// What a parent process orders of its child.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    directory: PathBuf,
    bucket: String,
    #[serde(default)]
    durable: bool,
    ready_fd: i32,
}

/// The one pair of keys that the server accepts. It has no text form.
pub struct Credentials {
    /// Access key id.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: String,
}

struct Keys {
    access_key: String,
    secret_key: SecretKey,
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key {
            Ok(self.secret_key.clone())
        } else {
            Err(s3_error!(InvalidAccessKeyId, "this server was started for another access key"))
        }
    }
}

/// A running server. It ends when this is dropped.
pub struct Server {
    port: u16,
    runtime: Option<Runtime>,
}

impl Server {
    /// Opens the directory and listens on a free port of 127.0.0.1, and nowhere else.
    ///
    /// # Errors
    /// [`Error::Spec`] for a bucket name that S3 does not allow and for a directory in use;
    /// [`Error::Io`] where directory or socket are refused.
    pub fn start(config: &Config, credentials: Credentials) -> Result<Self> {
        let store = Store::open(&config.directory, &config.bucket, config.durable)?;
        let mut builder = S3ServiceBuilder::new(Service::new(Arc::new(store)));
        builder.set_auth(Keys {
            access_key: credentials.access_key,
            secret_key: credentials.secret_key.into(),
        });
        let service = builder.build();
        let refused = |operation: &'static str| move |e| Error::io(operation, "127.0.0.1", 0, e);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("storlab-s3")
            .enable_io()
            .enable_time()
            .build()
            .map_err(refused("start of threads"))?;
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .map_err(refused("listen"))?;
        let port = listener.local_addr().map_err(refused("listen"))?.port();
        runtime.spawn(accept(listener, service));
        Ok(Self { port, runtime: Some(runtime) })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Connections end at once; a file operation that waits for a device may take a while,
            // and nobody waits for its result.
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

/// Serves until stdin ends, which it does when the parent process has gone, or until SIGTERM.
///
/// The order is JSON: `directory`, `bucket`, `durable` (false), as in [`Config`], and `ready_fd`, a
/// descriptor to which one line is written, `{"port": N}`, once the server listens.
///
/// # Errors
/// [`Error::Spec`] for an order that is none; as [`Server::start`]; [`Error::Io`] where the
/// descriptor cannot be written to.
pub fn serve_for_parent(order: &str, credentials: Credentials) -> Result<()> {
    let order: Order = serde_json::from_str(order)
        .map_err(|e| Error::spec("config", e.to_string(), "give directory, bucket and ready_fd"))?;
    let Order { directory, bucket, durable, ready_fd } = order;
    let server = Server::start(&Config { directory, bucket, durable }, credentials)?;
    let refused = |operation| move |e| Error::io(operation, format!("descriptor {ready_fd}"), 0, e);
    // By its path, so that no number that somebody passed is taken for a descriptor of ours.
    let mut ready = std::fs::File::options()
        .write(true)
        .open(format!("/proc/self/fd/{ready_fd}"))
        .map_err(refused("open"))?;
    writeln!(ready, "{{\"port\": {}}}", server.port).map_err(refused("write"))?;
    drop(ready);
    let Some(runtime) = &server.runtime else { return Ok(()) };
    let (ended, parent) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let mut rest = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while stdin.read(&mut rest).is_ok_and(|read| read > 0) {}
        // The other end has gone where SIGTERM came first.
        let _ = ended.send(());
    });
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate()).map_err(refused("signal"))?;
        tokio::select! {
            _ = parent => Ok(()),
            _ = term.recv() => Ok(()),
        }
    })
}

async fn accept(listener: TcpListener, service: S3Service) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, service.clone()));
            }
            // Out of descriptors, most likely: some are free again soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, service: S3Service) {
    // Without it, the end of a small answer waits for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request| respond(service.clone(), request));
    // A connection that breaks is its client's to report.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn respond(
    service: S3Service,
    request: Request<Incoming>,
) -> std::result::Result<Response<Body>, HttpError> {
    if request.body().is_end_stream() {
        return service.call(request.map(Body::from)).await;
    }
    let waits_to_send = request.headers().contains_key(hyper::header::EXPECT);
    let mut rest = None;
    let request = request.map(|incoming| {
        let shared = Shared(Arc::new(Mutex::new(incoming)));
        rest = Some(shared.clone());
        Body::http_body(shared)
    });
    let response = service.call(request).await;
    let refused = response.as_ref().is_ok_and(|answer| !answer.status().is_success());
    if let (true, false, Some(rest)) = (refused, waits_to_send, rest) {
        rest.drain().await;
    }
    response
}

/// A request's body that can still be read after s3s has dropped it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Incoming>>);

impl Shared {
    /// Reads on to the end. A client that is still sending when the connection is closed sees a
    /// reset instead of the answer.
    async fn drain(self) {
        let mut left = DRAIN_BYTES;
        let mut body = self;
        while let Some(Ok(frame)) =
            std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    }
}

impl http_body::Body for Shared {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}

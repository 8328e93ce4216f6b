//! S3 server on the loopback address: listener, connections and shutdown.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::auth::{S3Auth, SecretKey};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError, S3Result, s3_error};
use serde::Deserialize;
use storlab_base::{Error, Result};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::body::{Shared, signed_in_chunks};
use crate::bucket::Flush;
use crate::limits::Limits;
use crate::service::Service;
use crate::store::Store;

/// Length of the listen backlog, which `net.core.somaxconn` limits. A client that finds it full
/// retries after a second, which would count as latency.
const BACKLOG: u32 = 4096;
/// Time-out for the head of a request, including the idle time before the request.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);

/// Configuration of the embedded S3 server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory that contains one subdirectory per bucket. Created if it does not exist.
    pub directory: PathBuf,
    /// Name of a bucket that is created at start if it does not exist.
    pub bucket: String,
    /// Whether an object is flushed to the device before its PUT is answered.
    pub durable: bool,
}

/// Configuration that the parent process sends to a server process as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    directory: PathBuf,
    bucket: String,
    #[serde(default)]
    durable: bool,
    ready_fd: i32,
}

/// Pair of keys that the server accepts. It does not implement Debug, so that it is never printed.
pub struct Credentials {
    /// Access key ID.
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
            Err(s3_error!(InvalidAccessKeyId, "the server was started with another access key"))
        }
    }
}

/// Running S3 server. Dropping it stops the server.
pub struct Server {
    port: u16,
    runtime: Option<Runtime>,
}

impl Server {
    /// Open the store's directory, and listen on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// [`Error::Spec`] if S3 does not allow the bucket's name, or if another server uses the
    /// directory; [`Error::Io`] if the directory or the socket cannot be opened.
    pub fn start(config: &Config, credentials: Credentials) -> Result<Self> {
        let flush: Option<Flush> = config.durable.then_some(File::sync_all);
        let store = Store::open(&config.directory, &config.bucket, flush)?;
        let service = Service::new(Arc::new(store));
        let mut builder = S3ServiceBuilder::new(service);
        builder.set_access(Limits);
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
        let listener = runtime.block_on(async { listen() }).map_err(refused("listen"))?;
        let port = listener.local_addr().map_err(refused("listen"))?.port();
        runtime.spawn(accept(listener, service));
        Ok(Self { port, runtime: Some(runtime) })
    }

    /// Return the TCP port on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Close all connections at once. A file operation may block on a device for long, but
            // its result is no longer needed.
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

/// Run a server until stdin is closed, which happens when the parent process ends, or until
/// SIGTERM.
///
/// `order` is JSON with `directory`, `bucket` and `durable` (default false) as in [`Config`], and
/// `ready_fd`, a file descriptor to which the line `{"port": N}` is written once the server
/// listens.
///
/// # Errors
/// [`Error::Spec`] for an invalid `order`, the errors of [`Server::start`], and [`Error::Io`] if
/// the file descriptor cannot be written to.
pub fn serve_for_parent(order: &str, credentials: Credentials) -> Result<()> {
    let order: Order = serde_json::from_str(order)
        .map_err(|e| Error::spec("config", e.to_string(), "set directory, bucket and ready_fd"))?;
    let Order { directory, bucket, durable, ready_fd } = order;
    let server = Server::start(&Config { directory, bucket, durable }, credentials)?;
    let refused = |operation| move |e| Error::io(operation, format!("descriptor {ready_fd}"), 0, e);
    // The descriptor is opened by its path, so that a wrong number cannot take over a descriptor
    // that this process uses.
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
        // Fails if SIGTERM came first, because the receiver is dropped then.
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

/// Listen on a free port of 127.0.0.1.
fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, service: S3Service) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, service.clone(), HEAD_TIMEOUT));
            }
            // The process has probably run out of file descriptors. Some will be free again soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, service: S3Service, head_timeout: Duration) {
    // With Nagle's algorithm, the end of a small answer would wait for a delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request| respond(service.clone(), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout);
    // Errors of a connection are ignored here, because the client reports them.
    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
}

async fn respond(
    service: S3Service,
    request: Request<Incoming>,
) -> std::result::Result<Response<Body>, HttpError> {
    let in_chunks = signed_in_chunks(request.headers());
    if request.body().is_end_stream() && !in_chunks {
        return service.call(request.map(Body::from)).await;
    }
    let waits_to_send = request.headers().contains_key(hyper::header::EXPECT);
    let mut rest = None;
    let request = request.map(|incoming| {
        let shared = Shared::new(incoming, in_chunks);
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpStream as Client;
    use std::sync::{Condvar, Mutex};
    use std::thread::{self, JoinHandle};

    use rustix::fs::{CWD, FileType, Mode};
    use storlab_base::lock;

    use super::*;
    use crate::names::{path_of, shard, shard_name};

    /// Time-out of all waits, so that a failing test ends instead of hanging.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads")
    }

    fn with_one_worker() -> Runtime {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("threads")
    }

    #[test]
    fn hundreds_of_connections_wait_to_be_accepted() {
        let runtime = runtime();
        let listener = runtime.block_on(async { listen() }).expect("listens");
        let address = listener.local_addr().expect("has one");
        let mut waiting = Vec::new();
        for number in 1..=400 {
            let client = Client::connect_timeout(&address, PATIENCE);
            waiting.push(client.unwrap_or_else(|e| panic!("connection {number}: {e}")));
        }
    }

    /// Serve a directory without signatures.
    fn serve(
        runtime: &Runtime,
        directory: &tempfile::TempDir,
        flush: Option<Flush>,
        head_timeout: Duration,
    ) -> SocketAddr {
        let store = Arc::new(Store::open(directory.path(), "bucket", flush).expect("opened"));
        serve_store(runtime, store, head_timeout)
    }

    /// Serve a store without signatures.
    fn serve_store(runtime: &Runtime, store: Arc<Store>, head_timeout: Duration) -> SocketAddr {
        let service = S3ServiceBuilder::new(Service::new(store)).build();
        let listener = runtime.block_on(async { listen() }).expect("listens");
        let address = listener.local_addr().expect("has one");
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, service.clone(), head_timeout));
            }
        });
        address
    }

    #[test]
    fn a_head_that_never_ends_is_given_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = runtime();
        let address = serve(&runtime, &directory, None, Duration::from_millis(100));
        for sent in ["GET /bucket/k HTTP/1.1\r\nhost: x\r\n", ""] {
            let mut client = Client::connect(address).expect("connected");
            client.set_read_timeout(Some(PATIENCE)).expect("set");
            client.write_all(sent.as_bytes()).expect("sent");
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).expect("the server has closed it");
        }
    }

    /// Number of flushes begun and allowed to end: of files (index 0), of directories (index 1).
    #[derive(Default)]
    struct Gate {
        begun: [usize; 2],
        allowed: [usize; 2],
    }

    static GATE: Mutex<Gate> = Mutex::new(Gate { begun: [0; 2], allowed: [0; 2] });
    static CHANGED: Condvar = Condvar::new();

    /// Wait until the gate fulfils a condition.
    fn wait(condition: impl Fn(&Gate) -> bool) -> io::Result<()> {
        let (_gate, waited) = CHANGED
            .wait_timeout_while(lock(&GATE), PATIENCE, |gate| !condition(gate))
            .expect("no thread has panicked");
        if waited.timed_out() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Allow the first `count` flushes of a kind to end, counted from the start of the test.
    fn allow(kind: usize, count: usize) {
        lock(&GATE).allowed[kind] = count;
        CHANGED.notify_all();
    }

    fn held_flush(file: &File) -> io::Result<()> {
        let kind = usize::from(file.metadata()?.is_dir());
        lock(&GATE).begun[kind] += 1;
        CHANGED.notify_all();
        wait(|gate| gate.begun[kind] <= gate.allowed[kind])
    }

    /// Return the status of a request; a PUT has a body of one byte.
    fn status(address: SocketAddr, method: &str, key: &str) -> String {
        read_status(send(address, method, key))
    }

    fn send(address: SocketAddr, method: &str, key: &str) -> Client {
        let mut client = Client::connect(address).expect("connected");
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        let (length, body) = if method == "PUT" { (1, "x") } else { (0, "") };
        let request = format!(
            "{method} /bucket/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        client.write_all(request.as_bytes()).expect("sent");
        client
    }

    fn read_status(client: Client) -> String {
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).expect("an answer");
        line.split(' ').nth(1).expect("a status").to_owned()
    }

    #[test]
    fn durable_writes_of_a_shard_flush_at_the_same_time() {
        let mut keys = (0..).map(|number| format!("k{number}"));
        let there = keys.next().expect("endless");
        let others: Vec<String> = keys.filter(|key| shard(key) == shard(&there)).take(2).collect();
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = with_one_worker();
        let address = serve(&runtime, &directory, Some(held_flush), HEAD_TIMEOUT);
        let both = |method: &'static str| -> Vec<JoinHandle<String>> {
            let start = |key: &String| {
                let key = key.clone();
                thread::spawn(move || status(address, method, &key))
            };
            others.iter().map(start).collect()
        };
        let answers = |threads: Vec<JoinHandle<String>>| -> Vec<String> {
            threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
        };
        allow(0, 1);
        allow(1, 1);
        assert_eq!(status(address, "PUT", &there), "200");

        let puts = both("PUT");
        wait(|gate| gate.begun == [3, 1]).expect("both files are flushed, no directory is");
        assert_eq!(status(address, "GET", &there), "200");
        assert_eq!(status(address, "GET", &others[0]), "404");
        allow(0, 3);
        wait(|gate| gate.begun == [3, 3]).expect("both names are flushed");
        assert_eq!(status(address, "GET", &others[0]), "200");
        assert!(puts.iter().all(|put| !put.is_finished()), "answered before the name was durable");
        allow(1, 3);
        assert_eq!(answers(puts), ["200", "200"]);

        let deletes = both("DELETE");
        wait(|gate| gate.begun == [3, 5]).expect("both removals are flushed");
        assert_eq!(status(address, "GET", &there), "200");
        assert_eq!(status(address, "GET", &others[0]), "404");
        allow(1, 5);
        assert_eq!(answers(deletes), ["204", "204"]);
    }

    /// Send a request, then others until the server is processing the first one.
    fn begin(
        address: SocketAddr,
        method: &'static str,
        key: &str,
        there: &str,
    ) -> JoinHandle<String> {
        let (sent, waits) = std::sync::mpsc::channel();
        let key = key.to_owned();
        let request = thread::spawn(move || {
            let client = send(address, method, &key);
            sent.send(()).expect("received");
            read_status(client)
        });
        waits.recv().expect("sent");
        // A later request may overtake it by chance, but not five times.
        for _ in 0..5 {
            assert_eq!(status(address, "GET", there), "200", "while {method} waits");
        }
        request
    }

    /// FIFO on which opening for reading blocks until this is dropped.
    struct Fifo(PathBuf);

    impl Fifo {
        fn create(path: PathBuf) -> Self {
            rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
            Self(path)
        }
    }

    impl Drop for Fifo {
        fn drop(&mut self) {
            let writer = File::options().read(true).write(true).open(&self.0);
            // Never closed: a request that opens the FIFO later would block for ever.
            std::mem::forget(writer.expect("the writing end"));
        }
    }

    #[test]
    fn a_file_that_takes_long_to_open_holds_up_no_other_request() {
        for is_remote in [false, true] {
            open_slow_files(is_remote);
        }
    }

    fn open_slow_files(is_remote: bool) {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = with_one_worker();
        let mut store = Store::open(directory.path(), "bucket", None).expect("opened");
        if is_remote {
            store.set_remote();
        }
        let address = serve_store(&runtime, Arc::new(store), HEAD_TIMEOUT);
        assert_eq!(status(address, "PUT", "there"), "200");
        let objects = directory.path().join("bucket").join("objects");
        let slow = ["slow-get", "slow-head"]
            .map(|key| Fifo::create(objects.join(shard_name(shard(key))).join(path_of(key))));
        let waiting = [
            begin(address, "GET", "slow-get", "there"),
            begin(address, "HEAD", "slow-head", "there"),
        ];
        assert!(waiting.iter().all(|request| !request.is_finished()));
        drop(slow);
        assert_eq!(waiting.map(|request| request.join().expect("an answer")), ["200", "200"]);
    }

    #[test]
    fn a_put_that_waits_on_a_remote_file_system_holds_up_no_other_request() {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = with_one_worker();
        let mut store = Store::open(directory.path(), "bucket", None).expect("opened");
        store.set_remote();
        let store = Arc::new(store);
        let address = serve_store(&runtime, store.clone(), HEAD_TIMEOUT);
        assert_eq!(status(address, "PUT", "there"), "200");
        let bucket = store.bucket("bucket").expect("it exists");
        let held = bucket.hold("slow-put");
        let waiting = begin(address, "PUT", "slow-put", "there");
        assert!(!waiting.is_finished());
        drop(held);
        assert_eq!(waiting.join().expect("an answer"), "200");
    }
}

//! In-memory S3 server for tests. It can inject faults.

#![allow(clippy::pedantic, missing_docs)]

mod fault;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use fault::Judge;
pub use fault::{Fault, Seen, first_two_fail};

/// Return credentials for the test server, which accepts any.
pub fn secrets() -> BTreeMap<String, String> {
    [("access_key", "AK"), ("secret_key", "SK")].map(|(k, v)| (k.into(), v.into())).into()
}

/// Add 5 retries with a backoff of 1 ms to an order.
pub fn patient(mut job: Value) -> Value {
    job["place"]["retries"] = json!(5);
    job["place"]["backoff_ns"] = json!(1_000_000);
    job
}

/// Pause between the bytes of [`Fault::Drip`].
const PAUSE: Duration = Duration::from_millis(5);

/// State of the test server: objects, multipart uploads, and switches for its behaviour.
#[derive(Default)]
pub struct Held {
    pub objects: BTreeMap<String, Bytes>,
    /// Multipart uploads in progress, by upload id: key, and parts by number.
    pub uploads: BTreeMap<String, (String, BTreeMap<u32, Bytes>)>,
    /// Keys for which a multi-object delete returns AccessDenied.
    pub protected: Vec<String>,
    /// List multipart uploads as MinIO does: a prefix matches a whole key only, and an empty prefix
    /// matches all.
    pub whole_keys: bool,
    /// Ignore the prefix when listing objects.
    pub prefix_ignored: bool,
    /// Number of multipart uploads per page when they are listed; 0 for all on one page.
    pub uploads_page: usize,
    /// Made-up objects of one byte that exist in listings only: prefix, number of objects, number
    /// of shards.
    pub invented: Option<(String, usize, usize)>,
    /// Reset connections that the server drops, instead of closing them. Applies to connections
    /// opened while this is set.
    pub abrupt: bool,
    pub log: Vec<Seen>,
    /// Number of requests in progress by method: current and highest so far.
    pub busy: HashMap<Method, (usize, usize)>,
}

struct Inner {
    held: Mutex<Held>,
    judge: Mutex<Arc<Judge>>,
    requests: AtomicUsize,
    /// Total object bytes received in aws-chunked encoding.
    framed: AtomicUsize,
}

/// Running test server. It listens on one or more ports of the loopback address.
pub struct Server {
    inner: Arc<Inner>,
    pub ports: Vec<u16>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    pub fn start() -> Self {
        Server::on(1)
    }

    pub fn on(ports: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let inner = Arc::new(Inner {
            held: Mutex::default(),
            judge: Mutex::new(Arc::new(|_: &Seen| Fault::None)),
            requests: AtomicUsize::new(0),
            framed: AtomicUsize::new(0),
        });
        let listen = || async { TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await };
        let listeners: Vec<_> = (0..ports).map(|_| runtime.block_on(listen()).unwrap()).collect();
        let ports = listeners.iter().map(|l| l.local_addr().unwrap().port()).collect();
        for listener in listeners {
            runtime.spawn(serve(listener, inner.clone()));
        }
        Server { inner, ports, runtime: Some(runtime) }
    }

    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.inner.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let the function `judge` choose the fault of each request from now on.
    pub fn judge(&self, judge: impl Fn(&Seen) -> Fault + Send + Sync + 'static) {
        *self.inner.judge.lock().unwrap() = Arc::new(judge);
    }

    pub fn framed_bytes(&self) -> usize {
        self.inner.framed.load(SeqCst)
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect()
    }

    /// Build the JSON table `place` of an order: a prefix in this server's bucket.
    pub fn place(&self) -> Value {
        json!({
            "directory": null, "direct": true, "prefix": "p/own/",
            "store": {"endpoints": self.endpoints(), "bucket": "b", "region": "us-east-1",
                      "addressing": "path", "ca_file": null, "verify_tls": true},
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    let port = listener.local_addr().unwrap().port();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        if inner.held.lock().unwrap_or_else(PoisonError::into_inner).abrupt {
            stream.set_zero_linger().unwrap();
        }
        let inner = inner.clone();
        let service = service_fn(move |request| {
            let inner = inner.clone();
            async move { answer(&inner, request, port).await.ok_or("dropped") }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move { drop(connection.await) });
    }
}

/// Answer a request; `None` means that the connection is dropped.
async fn answer(inner: &Inner, request: Request<Incoming>, port: u16) -> Option<Response<Reply>> {
    let (head, body) = request.into_parts();
    let seen = look(&head, inner.requests.fetch_add(1, SeqCst), port);
    let held = || inner.held.lock().unwrap_or_else(PoisonError::into_inner);
    held().log.push(seen.clone());
    let _busy = Busy::new(inner, &seen.method);
    let judge = inner.judge.lock().unwrap().clone();
    let fault = judge(&seen);
    match fault {
        Fault::Drop => return None,
        Fault::Stall => std::future::pending().await,
        _ => {}
    }
    let body = body.collect().await.ok()?.to_bytes();
    let body = unframe(inner, &head, body);
    if let Fault::Refuse(status, code) = fault {
        let head = seen.method == Method::HEAD;
        return Some(if head { plain(status, Bytes::new()) } else { refused(status, code) });
    }
    let mut answer = carry_out(&mut held(), &seen, &head, body);
    if fault == Fault::Lose {
        return None;
    }
    answer.body_mut().fault = fault;
    if matches!(fault, Fault::Drip | Fault::Truncate) {
        answer.body_mut().clock = Some(Box::pin(tokio::time::sleep(PAUSE)));
    }
    Some(answer)
}

struct Busy<'s>(&'s Inner, Method);

impl<'s> Busy<'s> {
    fn new(inner: &'s Inner, method: &Method) -> Self {
        let mut held = inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, most) = held.busy.entry(method.clone()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Busy(inner, method.clone())
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.busy.get_mut(&self.1).unwrap().0 -= 1;
    }
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

fn look(head: &Parts, number: usize, port: u16) -> Seen {
    let path = decode(head.uri.path());
    let key = path.strip_prefix("/b").expect("the bucket is b").trim_start_matches('/').to_owned();
    let pairs = head.uri.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty());
    let query = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    Seen { method: head.method.clone(), key, query, number, port }
}

/// Decode the object from an aws-chunked body, and check its CRC-32 trailer if it has one. Return
/// any other body as it is.
fn unframe(inner: &Inner, head: &Parts, body: Bytes) -> Bytes {
    let Some(length) = head.headers.get("x-amz-decoded-content-length") else { return body };
    let length: usize = length.to_str().unwrap().parse().unwrap();
    let mut out = Vec::new();
    let mut rest = &body[..];
    loop {
        let end = rest.windows(2).position(|w| w == b"\r\n").expect("a chunk's header");
        let header = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(header.split(';').next().unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        out.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
    if let Some(at) = rest.windows(21).position(|w| w == b"x-amz-checksum-crc32:") {
        let announced = std::str::from_utf8(&rest[at + 21..]).unwrap().trim();
        let sum = crc32fast::hash(&out).to_be_bytes();
        assert_eq!(announced, base64(&sum), "the CRC-32 trailer differs from the body");
    }
    assert_eq!(out.len(), length);
    inner.framed.fetch_add(out.len(), SeqCst);
    out.into()
}

fn base64(four: &[u8; 4]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u64::from(u32::from_be_bytes(*four)) << 4;
    let digits = (0..6).rev().map(|i| char::from(DIGITS[(bits >> (6 * i)) as usize & 63]));
    digits.chain("==".chars()).collect()
}

fn carry_out(held: &mut Held, seen: &Seen, head: &Parts, body: Bytes) -> Response<Reply> {
    let has = |name: &str| seen.query.contains_key(name);
    let upload = seen.query.get("uploadId").cloned();
    match (seen.method.as_str(), upload) {
        ("GET", None) if seen.key.is_empty() && has("uploads") => list_uploads(held, seen),
        ("GET", None) if seen.key.is_empty() => list(held, seen),
        ("POST", None) if has("delete") => delete_many(held, &body),
        ("POST", None) => {
            let id = format!("upload-{}", seen.number);
            held.uploads.insert(id.clone(), (seen.key.clone(), BTreeMap::new()));
            let name = "InitiateMultipartUploadResult";
            xml(&format!("<{name}><UploadId>{id}</UploadId></{name}>"))
        }
        ("POST", Some(id)) => match held.uploads.remove(&id) {
            None => refused(404, "NoSuchUpload"),
            Some((key, parts)) => {
                let whole: Vec<u8> = parts.into_values().flatten().collect();
                held.objects.insert(key, whole.into());
                let name = "CompleteMultipartUploadResult";
                xml(&format!("<{name}><ETag>\"x\"</ETag></{name}>"))
            }
        },
        ("PUT", Some(id)) => {
            let number = seen.query["partNumber"].parse().unwrap();
            held.uploads.get_mut(&id).unwrap().1.insert(number, body);
            with_etag(plain(200, Bytes::new()))
        }
        ("PUT", None) => {
            held.objects.insert(seen.key.clone(), body);
            with_etag(plain(200, Bytes::new()))
        }
        ("DELETE", Some(id)) => {
            held.uploads.remove(&id);
            plain(204, Bytes::new())
        }
        ("DELETE", None) => {
            held.objects.remove(&seen.key);
            plain(204, Bytes::new())
        }
        _ => match held.objects.get(&seen.key) {
            None if seen.method == Method::HEAD => plain(404, Bytes::new()),
            None => refused(404, "NoSuchKey"),
            Some(object) => get(object, seen, head),
        },
    }
}

fn get(object: &Bytes, seen: &Seen, head: &Parts) -> Response<Reply> {
    if seen.method == Method::HEAD {
        let mut answer = plain(200, Bytes::new());
        answer.headers_mut().insert("content-length", object.len().into());
        return answer;
    }
    let Some(range) = head.headers.get("range") else { return plain(200, object.clone()) };
    let range = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
    let (first, last) = range.split_once('-').unwrap();
    let (first, end) = (first.parse::<usize>().unwrap(), object.len() - 1);
    let last = if last.is_empty() { end } else { last.parse().unwrap() };
    plain(206, object.slice(first..=last.min(end)))
}

fn list(held: &Held, seen: &Seen) -> Response<Reply> {
    if let Some((prefix, count, shards)) = &held.invented {
        return invent(prefix, *count, *shards, seen);
    }
    let prefix = &seen.query["prefix"];
    let most: usize = seen.query["max-keys"].parse().unwrap();
    let after = seen.query.get("continuation-token").cloned().unwrap_or_default();
    let from = (std::ops::Bound::Excluded(after.clone()), std::ops::Bound::Unbounded);
    let all = held
        .objects
        .range::<String, _>(from)
        .filter(|(key, _)| held.prefix_ignored || key.starts_with(prefix));
    let page: Vec<_> = all.take(most + 1).collect();
    let mut text = String::from("<ListBucketResult>");
    for (key, object) in page.iter().take(most) {
        let size = object.len();
        text.push_str(&format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>"));
    }
    if page.len() > most {
        let token = page[most - 1].0;
        text.push_str("<IsTruncated>true</IsTruncated>");
        text.push_str(&format!("<NextContinuationToken>{token}</NextContinuationToken>"));
    }
    text.push_str("</ListBucketResult>");
    xml(&text)
}

/// List one page of a shard of the made-up objects (see `Held::invented`).
fn invent(prefix: &str, count: usize, shards: usize, seen: &Seen) -> Response<Reply> {
    let shard = &seen.query["prefix"];
    let shard_number =
        usize::from_str_radix(shard.trim_end_matches('/').rsplit('/').next().unwrap(), 16);
    let most: usize = seen.query["max-keys"].parse().unwrap();
    let from = seen.query.get("continuation-token").map_or(0, |token| token.parse().unwrap());
    let mut all = (shard_number.unwrap()..count).step_by(shards).skip(from).peekable();
    let mut text = String::from("<ListBucketResult>");
    for index in all.by_ref().take(most) {
        let key = format!("{prefix}{:04x}/{index:08x}", index % shards);
        text.push_str(&format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>"));
    }
    if all.peek().is_some() {
        let token = from + most;
        text.push_str("<IsTruncated>true</IsTruncated>");
        text.push_str(&format!("<NextContinuationToken>{token}</NextContinuationToken>"));
    }
    text.push_str("</ListBucketResult>");
    xml(&text)
}

/// List multipart uploads in the order of their ids. The prefix is ignored; with `Held::whole_keys`
/// it must equal the key.
fn list_uploads(held: &Held, seen: &Seen) -> Response<Reply> {
    let (prefix, after) = (&seen.query["prefix"], seen.query.get("upload-id-marker"));
    let listed = |(id, (key, _)): &(&String, &(String, _))| {
        let named = !held.whole_keys || prefix.is_empty() || key == prefix;
        named && after.is_none_or(|after| *id > after)
    };
    let mut all = held.uploads.iter().filter(listed).peekable();
    let most = if held.uploads_page > 0 { held.uploads_page } else { usize::MAX };
    let mut text = String::new();
    let mut last = ("", "");
    for (id, (key, _)) in all.by_ref().take(most) {
        text.push_str(&format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>"));
        last = (key, id);
    }
    if all.peek().is_some() {
        let (key, id) = last;
        text.push_str(&format!("<IsTruncated>true</IsTruncated><NextKeyMarker>{key}"));
        text.push_str(&format!("</NextKeyMarker><NextUploadIdMarker>{id}</NextUploadIdMarker>"));
    }
    xml(&format!("<ListMultipartUploadsResult>{text}</ListMultipartUploadsResult>"))
}

fn delete_many(held: &mut Held, body: &Bytes) -> Response<Reply> {
    let text = std::str::from_utf8(body).unwrap();
    let mut answer = String::from("<DeleteResult>");
    for part in text.split("<Key>").skip(1) {
        let key = part.split("</Key>").next().unwrap();
        if held.protected.iter().any(|protected| protected == key) {
            let code = "<Code>AccessDenied</Code><Message>no</Message>";
            answer.push_str(&format!("<Error><Key>{key}</Key>{code}</Error>"));
        } else {
            held.objects.remove(key);
        }
    }
    answer.push_str("</DeleteResult>");
    xml(&answer)
}

fn xml(text: &str) -> Response<Reply> {
    plain(200, Bytes::from(format!("<?xml version=\"1.0\"?>{text}")))
}

fn refused(status: u16, code: &str) -> Response<Reply> {
    let text = format!("<Error><Code>{code}</Code><Message>as told</Message></Error>");
    plain(status, Bytes::from(text))
}

fn with_etag(mut answer: Response<Reply>) -> Response<Reply> {
    answer.headers_mut().insert("etag", "\"x\"".parse().unwrap());
    answer
}

fn plain(status: u16, body: Bytes) -> Response<Reply> {
    let length = body.len();
    let reply = Reply { left: body, fault: Fault::None, length, clock: None };
    let builder = Response::builder().status(status);
    let builder = if status == 204 { builder } else { builder.header("content-length", length) };
    builder.body(reply).unwrap()
}

/// Response body with a fault to inject.
pub struct Reply {
    left: Bytes,
    fault: Fault,
    length: usize,
    clock: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.length;
        match self.fault {
            // Send the first half of the body before the error.
            Fault::Truncate if self.left.len() <= length - length / 2 => {
                let clock = self.clock.as_mut().unwrap();
                if clock.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                return Poll::Ready(Some(Err("as told".to_owned())));
            }
            Fault::Drip => {
                let clock = self.clock.as_mut().unwrap();
                if clock.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                *clock = Box::pin(tokio::time::sleep(PAUSE));
            }
            _ => {}
        }
        let whole = match self.fault {
            Fault::Truncate => length / 2,
            Fault::Drip => 1,
            _ => 100_000,
        };
        let take = whole.min(self.left.len());
        let mut data = self.left.split_to(take);
        if self.fault == Fault::Corrupt {
            let mut wrong = data.to_vec();
            wrong[take / 2] ^= 4;
            data = wrong.into();
            self.fault = Fault::None;
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }
}

//! A bucket for work that is not about requests: whole objects, moved by one thread over a few
//! connections of its own.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use storlab_base::{monotonic_ns, Error, Result};
use storlab_io::s3::{drain, refusal, sha256, xml, Call, Connection, Failure, PayloadHash, Store};
use tokio::runtime::Runtime;

use crate::object::{advice, all, Content, Framing, RequestBody};

const ANSWER_BYTES: usize = 8 << 20;
/// A part that takes longer is given up.
const PATIENCE: Duration = Duration::from_mins(2);

type Link = Option<Connection<RequestBody>>;

/// How a transfer went: when it began, how long it took, how much it moved.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// On the run's clock.
    pub start_ns: u64,
    /// Until the last byte.
    pub latency_ns: u64,
}

/// See the module. Belongs to the thread that made it.
pub struct Bucket {
    runtime: Runtime,
    store: Store,
    links: Vec<Link>,
    /// Which endpoint each link goes to.
    endpoint: usize,
}

/// What a transfer calls for every part that has been moved.
type Heard<'h> = &'h mut dyn FnMut(Moved);

impl Bucket {
    /// With so many connections, to be made when they are needed; threads are told apart by
    /// `turn`, so that they go to different endpoints.
    ///
    /// # Errors
    /// [`Error::Io`] for a runtime that cannot be had.
    pub fn new(store: Store, connections: usize, turn: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::io("start a runtime for", "a bucket", 0, e))?;
        let endpoint = turn % store.endpoints();
        let links = (0..connections.max(1)).map(|_| None).collect();
        Ok(Bucket { runtime, store, links, endpoint })
    }

    /// Read an object, or `range` of it (offset, length). `each` gets its bytes as they come, with
    /// their place in the object. Returns how many there were; `None` when the run is to end.
    ///
    /// # Errors
    /// [`Error::Store`] with the key, and what `each` returns.
    pub fn get(
        &mut self,
        key: &str,
        range: Option<(u64, u64)>,
        stopping: &dyn Fn() -> bool,
        mut each: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Option<u64>> {
        let Bucket { runtime, store, links, endpoint } = self;
        let mut wrong = None;
        let ended = runtime.block_on(async {
            let call = ranged(key, range);
            let mut at = range.map_or(0, |(at, _)| at);
            fetch(store, *endpoint, &mut links[0], &call.call(), &mut |data| {
                if stopping() {
                    return false;
                }
                wrong = each(at, data).err();
                at += data.len() as u64;
                wrong.is_none()
            })
            .await
        });
        match (wrong, ended) {
            (Some(error), _) => Err(error),
            (None, Ok(None)) => Ok(None),
            (None, Ok(bytes)) => Ok(bytes),
            (None, Err(failure)) => Err(said("GET", key, &failure)),
        }
    }

    /// Size of an object; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::Store`] with the key.
    pub fn head(&mut self, key: &str) -> Result<Option<u64>> {
        let call = Call::new(Method::HEAD, Some(key));
        match self.one(&call, &RequestBody::none) {
            Ok((headers, _)) => Ok(length_of(&headers)),
            Err(Failure::Http { status, .. }) if status == StatusCode::NOT_FOUND.as_u16() => {
                Ok(None)
            }
            Err(failure) => Err(said("HEAD", key, &failure)),
        }
    }

    /// A small object, whole.
    ///
    /// # Errors
    /// [`Error::Store`] with the key.
    pub fn read(&mut self, key: &str) -> Result<Bytes> {
        let answer = self.one(&Call::get(key), &RequestBody::none);
        answer.map(|(_, body)| body).map_err(|failure| said("GET", key, &failure))
    }

    /// Write an object in one piece.
    ///
    /// # Errors
    /// [`Error::Store`] with the key.
    pub fn put(&mut self, key: &str, bytes: &Bytes) -> Result<()> {
        let call = Call {
            payload: PayloadHash::Unsigned,
            content_length: bytes.len() as u64,
            ..Call::new(Method::PUT, Some(key))
        };
        let answer = self.one(&call, &|| RequestBody::plain(bytes.clone()));
        answer.map(drop).map_err(|failure| said("PUT", key, &failure))
    }

    /// Delete one.
    ///
    /// # Errors
    /// [`Error::Store`] with the key.
    pub fn delete(&mut self, key: &str) -> Result<()> {
        let answer = self.one(&Call::new(Method::DELETE, Some(key)), &RequestBody::none);
        answer.map(drop).map_err(|failure| said("DELETE", key, &failure))
    }

    /// All keys below a prefix.
    ///
    /// # Errors
    /// [`Error::Store`] with the prefix.
    pub fn keys(&mut self, prefix: &str) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut query = vec![("list-type", "2"), ("max-keys", "1000"), ("prefix", prefix)];
            query.extend(after.as_deref().map(|token| ("continuation-token", token)));
            let call = Call { query: &query, ..Call::new(Method::GET, None) };
            let page = self
                .one(&call, &RequestBody::none)
                .and_then(|(_, body)| xml::list(&body))
                .map_err(|failure| said("LIST", prefix, &failure))?;
            keys.extend(page.objects.into_iter().map(|object| object.key));
            match page.next {
                None => return Ok(keys),
                next => after = next,
            }
        }
    }

    fn one(
        &mut self,
        call: &Call<'_>,
        body: Body<'_>,
    ) -> std::result::Result<(HeaderMap, Bytes), Failure> {
        let Bucket { runtime, store, links, endpoint } = self;
        runtime.block_on(exchange(store, *endpoint, &mut links[0], call, body))
    }

    /// Write an object that holds what its key says, in parts of `part_bytes` over all connections.
    /// False when the run is to end; nothing of the object is then there.
    ///
    /// # Errors
    /// [`Error::Store`] with the key.
    pub fn put_content(
        &mut self,
        key: &str,
        bytes: u64,
        part_bytes: u64,
        stopping: &dyn Fn() -> bool,
        heard: Heard<'_>,
    ) -> Result<bool> {
        let Bucket { runtime, store, links, endpoint } = self;
        let upload = Upload {
            store,
            endpoint: *endpoint,
            key,
            bytes,
            part_bytes,
            next: Cell::new(0),
            stopping,
            heard: RefCell::new(heard),
        };
        runtime.block_on(upload.put(links)).map_err(|failure| said("PUT", key, &failure))
    }

    /// Read an object that holds what its key says, in ranges of `part_bytes` over all connections,
    /// and compare it where `verify`. False when the run is to end.
    ///
    /// # Errors
    /// [`Error::Store`] with the key, also for what is not what was written.
    pub fn get_content(
        &mut self,
        key: &str,
        bytes: u64,
        part_bytes: u64,
        verify: bool,
        stopping: &dyn Fn() -> bool,
        heard: Heard<'_>,
    ) -> Result<bool> {
        let Bucket { runtime, store, links, endpoint } = self;
        let download = Download {
            store,
            endpoint: *endpoint,
            key,
            bytes,
            part_bytes,
            content: verify.then(|| Content::of(key)),
            next: Cell::new(0),
            stopping,
            heard: RefCell::new(heard),
        };
        let ended = runtime.block_on(all(links.iter_mut().map(|link| download.receive(link))));
        ended.map_err(|failure| said("GET", key, &failure))?;
        Ok(!stopping())
    }
}

/// An object on its way out of the bucket.
struct Download<'d> {
    store: &'d Store,
    endpoint: usize,
    key: &'d str,
    bytes: u64,
    part_bytes: u64,
    /// To compare with.
    content: Option<Content>,
    next: Cell<u64>,
    stopping: &'d dyn Fn() -> bool,
    heard: RefCell<Heard<'d>>,
}

impl Download<'_> {
    /// Part after part over this connection, until none is left.
    async fn receive(&self, link: &mut Link) -> std::result::Result<(), Failure> {
        while self.next.get() * self.part_bytes < self.bytes && !(self.stopping)() {
            let at = self.next.get() * self.part_bytes;
            self.next.set(self.next.get() + 1);
            let len = self.part_bytes.min(self.bytes - at);
            let start_ns = monotonic_ns();
            let range = ranged(self.key, Some((at, len)));
            let (mut place, mut bad) = (at, None);
            let mut each = |data: &[u8]| {
                bad = self.content.and_then(|content| content.compare(place, data));
                place += data.len() as u64;
                bad.is_none()
            };
            let moved = fetch(self.store, self.endpoint, link, &range.call(), &mut each).await?;
            if let Some(byte) = bad {
                return Err(Failure::WrongBody(format!("first at byte {byte} of the object")));
            }
            if moved != Some(len) {
                return Err(Failure::ShortBody);
            }
            let latency_ns = monotonic_ns() - start_ns;
            (self.heard.borrow_mut())(Moved { bytes: len, start_ns, latency_ns });
        }
        Ok(())
    }
}

/// An object on its way into the bucket.
struct Upload<'u> {
    store: &'u Store,
    endpoint: usize,
    key: &'u str,
    bytes: u64,
    part_bytes: u64,
    next: Cell<u64>,
    stopping: &'u dyn Fn() -> bool,
    heard: RefCell<Heard<'u>>,
}

impl Upload<'_> {
    async fn put(&self, links: &mut [Link]) -> std::result::Result<bool, Failure> {
        if self.bytes <= self.part_bytes {
            let call = Call::new(Method::PUT, Some(self.key));
            self.send(&mut links[0], call, 0, self.bytes).await?;
            return Ok(true);
        }
        let call = Call { query: &[("uploads", "")], ..Call::new(Method::POST, Some(self.key)) };
        let none: Body<'_> = &RequestBody::none;
        let (_, body) = exchange(self.store, self.endpoint, &mut links[0], &call, none).await?;
        let id = xml::upload_id(&body)?;
        let done = self.parts(links, &id).await;
        let stopped = (self.stopping)();
        let etags = match done {
            Ok(etags) if !stopped => etags,
            ended => {
                let query = [("uploadId", id.as_str())];
                let call = Call { query: &query, ..Call::new(Method::DELETE, Some(self.key)) };
                let none: Body<'_> = &RequestBody::none;
                // What ended the upload is what counts.
                let _ = exchange(self.store, self.endpoint, &mut links[0], &call, none).await;
                return ended.map(|_| false);
            }
        };
        let parts: Vec<(u32, &str)> = (1..).zip(etags.iter().map(String::as_str)).collect();
        let body = xml::complete_body(&parts);
        let call = Call {
            query: &[("uploadId", &id)],
            payload: PayloadHash::Sha256(sha256(&body)),
            content_length: body.len() as u64,
            ..Call::new(Method::POST, Some(self.key))
        };
        let body = || RequestBody::plain(body.clone());
        let (_, said) = exchange(self.store, self.endpoint, &mut links[0], &call, &body).await?;
        xml::completed(&said)?;
        Ok(true)
    }

    async fn parts(
        &self,
        links: &mut [Link],
        id: &str,
    ) -> std::result::Result<Vec<String>, Failure> {
        let count = self.bytes.div_ceil(self.part_bytes);
        let etags = RefCell::new(vec![String::new(); count as usize]);
        let sending = links.iter_mut().take(count as usize);
        all(sending.map(|link| self.send_parts(link, id, &etags))).await?;
        Ok(etags.into_inner())
    }

    /// Part after part over this connection, until none is left.
    async fn send_parts(
        &self,
        link: &mut Link,
        id: &str,
        etags: &RefCell<Vec<String>>,
    ) -> std::result::Result<(), Failure> {
        while self.next.get() * self.part_bytes < self.bytes && !(self.stopping)() {
            let index = self.next.get();
            self.next.set(index + 1);
            let at = index * self.part_bytes;
            let number = (index + 1).to_string();
            let query = [("partNumber", number.as_str()), ("uploadId", id)];
            let call = Call { query: &query, ..Call::new(Method::PUT, Some(self.key)) };
            let len = self.part_bytes.min(self.bytes - at);
            let etag = self.send(link, call, at, len).await?;
            etags.borrow_mut()[index as usize] = etag;
        }
        Ok(())
    }

    async fn send(
        &self,
        link: &mut Link,
        call: Call<'_>,
        at: u64,
        len: u64,
    ) -> std::result::Result<String, Failure> {
        let start_ns = monotonic_ns();
        let call = Call { payload: PayloadHash::Unsigned, content_length: len, ..call };
        let content = Content::of(self.key);
        let body = || RequestBody::object(content, at, len, Framing::None, len);
        let (headers, _) = exchange(self.store, self.endpoint, link, &call, &body).await?;
        let latency_ns = monotonic_ns() - start_ns;
        (self.heard.borrow_mut())(Moved { bytes: len, start_ns, latency_ns });
        let etag = headers.get(header::ETAG).and_then(|value| value.to_str().ok());
        etag.map(str::to_owned).ok_or_else(|| Failure::Protocol("a part without an ETag".into()))
    }
}

/// A GET with its range's header.
struct Ranged<'r> {
    key: &'r str,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

fn ranged(key: &str, range: Option<(u64, u64)>) -> Ranged<'_> {
    let text = |(at, len): (u64, u64)| format!("bytes={at}-{}", at + len.max(1) - 1);
    let value = range.and_then(|range| HeaderValue::from_str(&text(range)).ok());
    Ranged { key, headers: value.map(|value| (header::RANGE, value)).into_iter().collect() }
}

impl Ranged<'_> {
    fn call(&self) -> Call<'_> {
        Call { headers: &self.headers, ..Call::get(self.key) }
    }
}

fn length_of(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn said(verb: &str, what: &str, failure: &Failure) -> Error {
    let fix = advice(&failure.kind()).to_owned();
    Error::Store { what: format!("{verb} of {what} failed: {failure}"), fix }
}

/// A request and its whole answer.
async fn exchange(
    store: &Store,
    endpoint: usize,
    link: &mut Link,
    call: &Call<'_>,
    body: Body<'_>,
) -> std::result::Result<(HeaderMap, Bytes), Failure> {
    let work = async {
        let (connection, response) = send(store, endpoint, link, call, body).await?;
        let (head, body) = response.into_parts();
        let body = drain(body, ANSWER_BYTES).await?;
        *link = Some(connection);
        Ok((head.headers, body))
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(Failure::TimeOut))
}

/// The bytes of an answer as they come; `None` when `each` wants no more.
async fn fetch(
    store: &Store,
    endpoint: usize,
    link: &mut Link,
    call: &Call<'_>,
    each: &mut dyn FnMut(&[u8]) -> bool,
) -> std::result::Result<Option<u64>, Failure> {
    let sent = send(store, endpoint, link, call, &RequestBody::none);
    let (connection, response) =
        tokio::time::timeout(PATIENCE, sent).await.unwrap_or(Err(Failure::TimeOut))?;
    let mut body = response.into_body();
    let mut bytes = 0;
    loop {
        let next = tokio::time::timeout(PATIENCE, body.frame()).await;
        let Some(frame) = next.map_err(|_| Failure::TimeOut)? else { break };
        let frame = frame.map_err(|e| Failure::of_body(&e))?;
        let Some(data) = frame.data_ref() else { continue };
        bytes += data.len() as u64;
        if !each(data) {
            return Ok(None);
        }
    }
    *link = Some(connection);
    Ok(Some(bytes))
}

/// Makes a request's body, as often as it is sent.
type Body<'b> = &'b dyn Fn() -> RequestBody;
type Answer = (Connection<RequestBody>, http::Response<hyper::body::Incoming>);

async fn send(
    store: &Store,
    endpoint: usize,
    link: &mut Link,
    call: &Call<'_>,
    body: Body<'_>,
) -> std::result::Result<Answer, Failure> {
    // A server closes connections that have been idle, and nobody looks at them meanwhile: where a
    // kept one turns out dead, the request goes over a new one.
    if let Some(mut kept) = link.take().filter(Connection::usable) {
        match kept.send(store.request(endpoint, call, body()).request).await {
            Ok(response) => return succeeded(kept, response).await,
            Err(Failure::Closed | Failure::Reset) => {}
            Err(failure) => return Err(failure),
        }
    }
    let mut connection = Connection::open(store, endpoint, PATIENCE).await?;
    let response = connection.send(store.request(endpoint, call, body()).request).await?;
    succeeded(connection, response).await
}

async fn succeeded(
    connection: Connection<RequestBody>,
    response: http::Response<hyper::body::Incoming>,
) -> std::result::Result<Answer, Failure> {
    if response.status().is_success() {
        return Ok((connection, response));
    }
    Err(refusal(response).await)
}

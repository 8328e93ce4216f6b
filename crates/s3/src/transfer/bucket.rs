//! Blocking bucket client that transfers whole objects, from one thread over a few connections of
//! its own.

mod request_policy;
mod requests;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::io;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use storlab_base::{Error, Result, monotonic_ns};
use tokio::runtime::Runtime;

use crate::body::{Framing, RequestBody};
use crate::content::Content;
use crate::{Call, Failure, Headers, PayloadHash, Store, sha256, xml};

pub use request_policy::{RequestPolicy, RetryLog};

use super::parts::{Part, Parts, is_missing};
use super::try_join_all;
use requests::{Answered, Body, Link, RequestSender, Stopping, number_in};

/// Size and timing of a part of an object that was transferred.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Number of bytes transferred.
    pub bytes: u64,
    /// Start of the transfer, in ns on the run's clock.
    pub start_ns: u64,
    /// Time until the last byte was transferred, in ns.
    pub latency_ns: u64,
}

/// Blocking bucket client with connections of its own. Use it only on the thread that created it.
pub struct Bucket {
    runtime: Runtime,
    sender: RequestSender,
    links: Vec<Link>,
    ending: Box<dyn Fn() -> bool + Send>,
}

/// Function that is called for every part of an object that was transferred.
type OnMoved<'m> = &'m mut dyn FnMut(Moved);

impl Bucket {
    /// Create a client with up to `connections` connections, which are opened when needed.
    ///
    /// The thread index `turn` selects the endpoint. Requests that have no `stopping` callback are
    /// no longer retried once `ending` returns true, so that clean-up does not wait for a store
    /// that has disappeared.
    ///
    /// # Errors
    /// [`Error::Io`] if the system cannot create the event loop.
    pub fn new(
        store: Store,
        connections: usize,
        turn: usize,
        policy: &RequestPolicy,
        ending: impl Fn() -> bool + Send + 'static,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::io("start", "the S3 client", 0, e))?;
        let links = (0..connections.max(1)).map(|_| None).collect();
        let sender = RequestSender::new(store, turn, policy.clone());
        Ok(Bucket { runtime, sender, links, ending: Box::new(ending) })
    }

    /// Read an object, or the part of it that `range` (offset, length) selects.
    ///
    /// `take` is called with the bytes as they arrive and their offset in the object. Returns the
    /// number of bytes, or `None` if the run ends first.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if the request fails; otherwise the error that `take`
    /// returns.
    pub fn get(
        &mut self,
        key: &str,
        range: Option<(u64, u64)>,
        stopping: &dyn Fn() -> bool,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Option<u64>> {
        let Bucket { runtime, sender, links, .. } = self;
        let from = range.map_or(0, |(at, _)| at);
        let (mut at, mut wrong) = (from, None);
        let attempt = async || {
            // A retry continues after the bytes that `take` has already received.
            let rest = match range {
                // All bytes have been received; only the end of the answer was lost.
                Some((from, len)) if at > from && at >= from + len => return Ok(Some(0)),
                Some((from, len)) => Some((at, Some(from + len - at))),
                None => (at > 0).then_some((at, None)),
            };
            let mut take = |place: u64, data: &[u8]| {
                if stopping() {
                    return false;
                }
                wrong = take(place, data).err();
                at = place + data.len() as u64;
                wrong.is_none()
            };
            sender.fetch(&mut links[0], key, rest, &mut take).await
        };
        let ended = runtime.block_on(sender.policy.retry(stopping, attempt));
        match (wrong, ended) {
            (Some(error), _) => Err(error),
            (None, Ok(None)) => Ok(None),
            (None, Ok(Some(_))) => Ok(Some(at - from)),
            (None, Err(failure)) => Err(store_error("GET", key, &failure)),
        }
    }

    /// Return the size of an object in bytes; `None` if the object does not exist.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if the request fails.
    pub fn head(&mut self, key: &str) -> Result<Option<u64>> {
        let call = Call::new(Method::HEAD, Some(key));
        match self.request(&call, &RequestBody::none) {
            Ok((headers, _)) => Ok(number_in(&headers, &header::CONTENT_LENGTH)),
            Err(Failure::Http { status, .. }) if status == StatusCode::NOT_FOUND.as_u16() => {
                Ok(None)
            }
            Err(failure) => Err(store_error("HEAD", key, &failure)),
        }
    }

    /// Read a small object into memory.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if the request fails.
    pub fn read(&mut self, key: &str) -> Result<Bytes> {
        let answer = self.request(&Call::get(key), &RequestBody::none);
        answer.map(|(_, body)| body).map_err(|failure| store_error("GET", key, &failure))
    }

    /// Write an object with one request.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if the request fails.
    pub fn put(&mut self, key: &str, bytes: &Bytes) -> Result<()> {
        let call = Call {
            payload: PayloadHash::Unsigned,
            content_length: bytes.len() as u64,
            ..Call::new(Method::PUT, Some(key))
        };
        let answer = self.request(&call, &|| RequestBody::plain(bytes.clone()));
        answer.map(drop).map_err(|failure| store_error("PUT", key, &failure))
    }

    /// Delete an object.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if the request fails.
    pub fn delete(&mut self, key: &str) -> Result<()> {
        let answer = self.request(&Call::new(Method::DELETE, Some(key)), &RequestBody::none);
        answer.map(drop).map_err(|failure| store_error("DELETE", key, &failure))
    }

    /// List all keys that begin with `prefix`. Other keys are dropped, even if the store lists
    /// them.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the prefix if a request fails, or if the listing repeats a page.
    pub fn keys(&mut self, prefix: &str) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut query = vec![("list-type", "2"), ("max-keys", "1000"), ("prefix", prefix)];
            query.extend(after.as_deref().map(|token| ("continuation-token", token)));
            let call = Call { query: &query, ..Call::new(Method::GET, None) };
            let page = self
                .request(&call, &RequestBody::none)
                .and_then(|(_, body)| xml::list(&body))
                .map_err(|failure| store_error("LIST", prefix, &failure))?
                .below(prefix);
            keys.extend(page.objects.into_iter().map(|object| object.key));
            xml::goes_on(after.as_deref(), page.next.as_deref())
                .map_err(|failure| store_error("LIST", prefix, &failure))?;
            match page.next {
                None => return Ok(keys),
                next => after = next,
            }
        }
    }

    /// List all unfinished multipart uploads whose key begins with `prefix`.
    ///
    /// Returns an empty list if the store does not support the request. MinIO lists only uploads
    /// whose whole key equals the prefix, so if nothing is found, the uploads of the whole bucket
    /// are searched.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the prefix if a request fails, or if the listing repeats a page.
    pub fn uploads(&mut self, prefix: &str) -> Result<Vec<xml::Upload>> {
        let Bucket { runtime, sender, links, ending } = self;
        let mut list =
            |asked| runtime.block_on(sender.uploads(&mut links[0], asked, prefix, &**ending));
        let uploads = match list(prefix) {
            Ok(uploads) if uploads.is_empty() => match list("") {
                // The credentials may allow listing only keys with the prefix, for which nothing
                // was found.
                Err(Failure::Http { status: 403, .. }) => Ok(uploads),
                whole_bucket => whole_bucket,
            },
            uploads => uploads,
        };
        match uploads {
            Err(Failure::Http { status: 501, .. }) => Ok(Vec::new()),
            uploads => uploads.map_err(|failure| store_error("LIST uploads", prefix, &failure)),
        }
    }

    /// Abort a multipart upload. An upload that no longer exists is not an error.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if the request fails.
    pub fn abort(&mut self, upload: &xml::Upload) -> Result<()> {
        let Bucket { runtime, sender, links, ending } = self;
        let ended = runtime.block_on(sender.abort(&mut links[0], upload, &**ending));
        ended.map_err(|failure| store_error("DELETE of an upload", &upload.key, &failure))
    }

    fn request(&mut self, call: &Call<'_>, body: Body<'_>) -> Answered<(Headers, Bytes)> {
        let Bucket { runtime, sender, links, ending } = self;
        runtime.block_on(sender.exchange(&mut links[0], call, body, &**ending))
    }

    /// Write an object with the content that follows from its key, in parts of `part_bytes` over
    /// all connections.
    ///
    /// Returns false if the run ends first. The object does not exist then.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if a request fails.
    pub fn put_content(
        &mut self,
        key: &str,
        bytes: u64,
        part_bytes: u64,
        stopping: &dyn Fn() -> bool,
        on_moved: OnMoved<'_>,
    ) -> Result<bool> {
        let Bucket { runtime, sender, links, ending } = self;
        let upload = Upload {
            sender,
            key,
            bytes,
            parts: Parts::of(bytes, part_bytes),
            stopping,
            ending: &**ending,
            on_moved: RefCell::new(on_moved),
        };
        runtime.block_on(upload.put(links)).map_err(|failure| store_error("PUT", key, &failure))
    }

    /// Read an object in ranges of `part_bytes` over all connections. If `verify` is set, compare
    /// it with the content that follows from its key.
    ///
    /// Returns false if the run ends first.
    ///
    /// # Errors
    /// [`Error::Dependency`] with the key if a request fails, [`Error::Io`] if the content differs.
    pub fn get_content(
        &mut self,
        key: &str,
        bytes: u64,
        part_bytes: u64,
        verify: bool,
        stopping: &dyn Fn() -> bool,
        on_moved: OnMoved<'_>,
    ) -> Result<bool> {
        let Bucket { runtime, sender, links, .. } = self;
        let download = Download {
            sender,
            key,
            parts: Parts::of(bytes, part_bytes),
            content: verify.then(|| Content::of(key)),
            wrong_at: Cell::new(None),
            stopping,
            on_moved: RefCell::new(on_moved),
        };
        let ended =
            runtime.block_on(try_join_all(links.iter_mut().map(|link| download.receive(link))));
        match (ended, download.wrong_at.get()) {
            (Ok(()), _) => Ok(!stopping()),
            (Err(failure @ Failure::WrongBody(_)), Some(at)) => {
                let source = io::Error::new(io::ErrorKind::InvalidData, failure.to_string());
                Err(Error::io("verify", key, at, source))
            }
            (Err(failure), _) => Err(store_error("GET", key, &failure)),
        }
    }
}

/// Download of one object in parts.
struct Download<'d> {
    sender: &'d RequestSender,
    key: &'d str,
    parts: Parts,
    /// Expected content; None if the content is not verified.
    content: Option<Content>,
    /// Offset of the first wrong byte; None if no wrong byte was found.
    wrong_at: Cell<Option<u64>>,
    stopping: Stopping<'d>,
    on_moved: RefCell<OnMoved<'d>>,
}

impl Download<'_> {
    /// Receive parts over one connection until no part is left.
    async fn receive(&self, link: &mut Link) -> Answered<()> {
        while !(self.stopping)() {
            let Some(Part { at, len, .. }) = self.parts.next() else { break };
            let start_ns = monotonic_ns();
            let attempt = async || self.receive_part(link, at, len).await;
            self.sender.policy.retry(self.stopping, attempt).await?;
            let latency_ns = monotonic_ns() - start_ns;
            (self.on_moved.borrow_mut())(Moved { bytes: len, start_ns, latency_ns });
        }
        Ok(())
    }

    /// Make one attempt to receive `len` bytes, starting at offset `at`.
    async fn receive_part(&self, link: &mut Link, at: u64, len: u64) -> Answered<()> {
        let mut bad = None;
        let mut take = |place: u64, data: &[u8]| {
            bad = self.content.and_then(|content| content.compare(place, data));
            bad.is_none()
        };
        let moved = self.sender.fetch(link, self.key, Some((at, Some(len))), &mut take).await?;
        let (place, what) = match (bad, moved) {
            (Some(byte), _) => (byte, format!("first at byte {byte} of the object")),
            (None, Some(bytes)) if bytes != len => {
                (at + bytes.min(len), format!("received {bytes} bytes instead of {len}"))
            }
            _ => return Ok(()),
        };
        self.wrong_at.set(Some(place));
        Err(Failure::WrongBody(what))
    }
}

/// Upload of one object in parts.
struct Upload<'u> {
    sender: &'u RequestSender,
    key: &'u str,
    bytes: u64,
    parts: Parts,
    stopping: Stopping<'u>,
    ending: Stopping<'u>,
    on_moved: RefCell<OnMoved<'u>>,
}

impl Upload<'_> {
    async fn put(&self, links: &mut [Link]) -> Answered<bool> {
        if self.parts.count() <= 1 {
            let call = Call::new(Method::PUT, Some(self.key));
            self.send(&mut links[0], call, 0, self.bytes).await?;
            return Ok(true);
        }
        let id = self.begin(&mut links[0]).await?;
        let sending = links.iter_mut().take(self.parts.count());
        let ended = match try_join_all(sending.map(|link| self.send_parts(link, &id))).await {
            Ok(()) if !(self.stopping)() => self.complete(&mut links[0], &id).await.map(|()| true),
            ended => ended.map(|()| false),
        };
        // If the abort fails too, the result is still the reason why the upload ended.
        if !matches!(ended, Ok(true)) {
            let upload = xml::Upload { key: self.key.to_owned(), upload_id: id };
            let aborted = self.sender.abort(&mut links[0], &upload, self.ending).await;
            if aborted.is_err() {
                self.sender.policy.count_orphan();
            }
        }
        ended
    }

    /// Begin a multipart upload, and return its ID.
    ///
    /// A failed attempt may still have begun an upload on the store. Such uploads are aborted after
    /// the last attempt. If aborting fails, they count together as one abandoned upload.
    async fn begin(&self, link: &mut Link) -> Answered<String> {
        let sender = self.sender;
        let call = Call { query: &[("uploads", "")], ..Call::new(Method::POST, Some(self.key)) };
        let mut may_be_begun = false;
        let attempt = async || {
            let answer = sender.try_once(link, &call, &RequestBody::none).await;
            let begun = answer.and_then(|(_, body)| xml::upload_id(&body));
            may_be_begun |= matches!(&begun, Err(failure) if failure.may_be_done());
            begun
        };
        let begun = sender.policy.retry(self.stopping, attempt).await;
        if may_be_begun && self.abort_all_except(begun.as_deref().ok(), link).await.is_err() {
            sender.policy.count_orphan();
        }
        begun
    }

    /// Abort all multipart uploads of the object's key, except the one with this ID.
    async fn abort_all_except(&self, id: Option<&str>, link: &mut Link) -> Answered<()> {
        for upload in self.sender.uploads(link, self.key, self.key, self.ending).await? {
            if upload.key == self.key && Some(upload.upload_id.as_str()) != id {
                self.sender.abort(link, &upload, self.ending).await?;
            }
        }
        Ok(())
    }

    async fn complete(&self, link: &mut Link, id: &str) -> Answered<()> {
        let body = self.parts.complete_body();
        let call = Call {
            query: &[("uploadId", id)],
            payload: PayloadHash::Sha256(sha256(&body)),
            content_length: body.len() as u64,
            ..Call::new(Method::POST, Some(self.key))
        };
        let body = || RequestBody::plain(body.clone());
        let attempt = async || {
            let ended = self.sender.try_once(link, &call, &body).await;
            match ended.and_then(|(_, body)| xml::completed(&body)) {
                // The upload no longer exists. An earlier attempt may have completed it although
                // its answer was lost.
                Err(failure) if is_missing(&failure) => self.see_whole(link).await,
                ended => ended,
            }
        };
        self.sender.policy.retry(self.stopping, attempt).await
    }

    /// Check that the object exists and has its full size.
    async fn see_whole(&self, link: &mut Link) -> Answered<()> {
        let call = Call::new(Method::HEAD, Some(self.key));
        let (headers, _) = self.sender.try_once(link, &call, &RequestBody::none).await?;
        if number_in(&headers, &header::CONTENT_LENGTH) == Some(self.bytes) {
            return Ok(());
        }
        let what = "the multipart upload has disappeared, and its object is missing or incomplete";
        Err(Failure::Protocol(what.to_owned()))
    }

    /// Send parts over one connection until no part is left.
    async fn send_parts(&self, link: &mut Link, id: &str) -> Answered<()> {
        let send = async |call: Call<'_>, part: Part| {
            Ok((self.send(link, call, part.at, part.len).await?, None))
        };
        self.parts.send_each(self.key, id, self.stopping, send).await
    }

    async fn send(&self, link: &mut Link, call: Call<'_>, at: u64, len: u64) -> Answered<Headers> {
        let start_ns = monotonic_ns();
        let call = Call { payload: PayloadHash::Unsigned, content_length: len, ..call };
        let content = Content::of(self.key);
        let body = || RequestBody::object(content, at, len, Framing::None);
        let (headers, _) = self.sender.exchange(link, &call, &body, self.stopping).await?;
        let latency_ns = monotonic_ns() - start_ns;
        (self.on_moved.borrow_mut())(Moved { bytes: len, start_ns, latency_ns });
        Ok(headers)
    }
}

fn store_error(verb: &str, what: &str, failure: &Failure) -> Error {
    Error::dependency(format!("{verb} of {what} failed: {failure}"), failure.advice())
}

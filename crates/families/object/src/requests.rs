//! Execute one request: from the drawn request to the last byte of its response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderName, HeaderValue};
use storlab_s3::body::{Framing, RequestBody, hash_of};
use storlab_s3::chunked::{CrcChunks, crc_length, signed_length};
use storlab_s3::content::{Content, PIECE_BYTES};
use storlab_s3::{
    Call, Connection, Failure, Headers, PayloadHash, Response, content_md5, sha256, xml,
};

use super::endpoints::WireKind;
use super::shared::Routed;
use super::slot::{Links, Moved, Request, Slot};
use super::spec::{PayloadMode, Task};
use super::worker::Worker;

/// Maximum body size of a response other than a GET's: a listing has up to 1,000 keys of 1 KiB.
const ANSWER_BYTES: usize = 8 << 20;

/// Byte range of an object to send.
#[derive(Clone, Copy)]
pub struct Outgoing {
    /// Generator of the object's content.
    pub content: Content,
    /// Offset of the range in the object.
    pub at: u64,
    /// Length of the range in bytes.
    pub len: u64,
}

/// Request in flight. When dropped, it is counted at its endpoint: as failed unless
/// [`Tracked::succeed`] was called. Thus requests that time out are counted too.
pub struct Tracked<'s> {
    worker: &'s Worker,
    routed: Routed<'s>,
    kind: WireKind,
    sent_ns: u64,
    succeeded: bool,
    /// Server address; `None` before the connection is made.
    pub peer: Option<SocketAddr>,
    /// Object bytes that the request sends or its response contains.
    pub bytes: u64,
}

impl<'s> Tracked<'s> {
    /// Track a request that is about to connect or be sent, at time `sent_ns` of the run's clock.
    pub fn new(
        worker: &'s Worker,
        routed: Routed<'s>,
        kind: WireKind,
        sent_ns: u64,
        bytes: u64,
    ) -> Self {
        Tracked { worker, routed, kind, sent_ns, succeeded: false, peer: None, bytes }
    }

    /// Mark the request as successful: its response was complete and reported success.
    pub fn succeed(mut self) {
        self.succeeded = true;
    }
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        let Tracked { worker, ref routed, kind, sent_ns, succeeded, peer, bytes } = *self;
        let (now, window) = (worker.now(), worker.window);
        let measured = worker.job().task == Task::Run;
        if !measured || now < window.start_ns || now >= window.end_ns {
            return;
        }
        let to = (routed.endpoint, peer, kind);
        let mut table = worker.endpoints.borrow_mut();
        if succeeded {
            table.succeed(to, now.saturating_sub(sent_ns), bytes);
        } else if !worker.gives_up.get() {
            table.fail(to);
        }
    }
}

/// Response to a request whose body has not been read yet.
pub struct Answer<'s> {
    response: Response,
    home: &'s mut Option<Connection>,
    request: Tracked<'s>,
}

impl Answer<'_> {
    /// Return the headers of the response.
    pub fn headers(&self) -> Headers {
        self.response.headers()
    }

    /// Read and return the body; fail unless the response reports success.
    pub async fn whole(mut self) -> Result<Bytes, Failure> {
        if !self.response.status().is_success() {
            return Err(self.refused().await);
        }
        let body = self.response.drain(ANSWER_BYTES).await?;
        *self.home = self.response.into_connection();
        xml::refused(&body)?;
        self.request.succeed();
        Ok(body)
    }

    async fn refused(mut self) -> Failure {
        let failure = self.response.refusal().await;
        *self.home = self.response.into_connection();
        failure
    }
}

/// Sender of one request over a slot's keep-alive connections.
pub struct Wire<'s> {
    /// Worker that owns the connections.
    pub worker: &'s Worker,
    /// Keep-alive connections, one per endpoint.
    pub links: &'s mut Links,
    /// Time at which the request is sent: after signing and before connecting. A value that is set
    /// already is kept.
    pub start_ns: &'s mut Option<u64>,
}

impl<'s> Wire<'s> {
    /// Send an S3 call. Return its response, whose body is still to be read.
    pub async fn exchange(self, call: &Call<'_>, body: RequestBody) -> Result<Answer<'s>, Failure> {
        self.send(call, 0, |_| body).await
    }

    /// Send an S3 call whose body contains `object_bytes` bytes of an object.
    async fn send(
        self,
        call: &Call<'_>,
        object_bytes: u64,
        body: impl FnOnce(Option<storlab_s3::chunked::ChunkSigner>) -> RequestBody,
    ) -> Result<Answer<'s>, Failure> {
        let Wire { worker, links, start_ns } = self;
        let store = &worker.shared.store;
        let routed = worker.route();
        let signed = store.request(routed.endpoint, call);
        let body = body(signed.chunks);
        let (endpoint, sent_ns) = (routed.endpoint, worker.now());
        worker.sent(*start_ns.get_or_insert(sent_ns));
        let kind = WireKind::of(call, object_bytes, worker.job().part_size);
        let mut request = Tracked::new(worker, routed, kind, sent_ns, object_bytes);
        let home = &mut links[endpoint];
        let open = home.take().and_then(Connection::if_open);
        let connection = if let Some(connection) = open {
            connection
        } else {
            let limit = Duration::from_nanos(worker.job().request_timeout_ns);
            let connection = Connection::open(store, endpoint, limit).await?;
            worker.count(|counts| &counts.connections, 1);
            connection
        };
        request.peer = Some(connection.peer());
        let response = connection.send(signed.head, body).await?;
        Ok(Answer { response, home, request })
    }

    /// Send a byte range of an object, hashed and signed as the job's payload mode requires. If
    /// that mode sends a CRC32 of the range, it is stored in `crc`.
    pub async fn send_object(
        self,
        call: Call<'_>,
        Outgoing { content, at, len }: Outgoing,
        crc: &Arc<AtomicU32>,
    ) -> Result<Answer<'s>, Failure> {
        let piece = PIECE_BYTES as u64;
        let signs = self.worker.shared.store.signs();
        let (payload, wire) = match self.worker.job().payload {
            PayloadMode::TrailerCrc => {
                (PayloadHash::TrailerCrc32 { decoded_length: len }, crc_length(len, piece))
            }
            PayloadMode::Signed if signs => (PayloadHash::Sha256(hash_of(content, at, len)), len),
            PayloadMode::Streaming if signs => {
                (PayloadHash::Streaming { decoded_length: len }, signed_length(len, piece))
            }
            // Without credentials, requests are not signed.
            _ => (PayloadHash::Unsigned, len),
        };
        let call = Call { payload, content_length: wire, ..call };
        let body = |signer| {
            let framing = match (payload, signer) {
                (PayloadHash::TrailerCrc32 { .. }, _) => {
                    Framing::Crc(CrcChunks::default(), crc32fast::Hasher::new(), crc.clone())
                }
                (_, Some(signer)) => Framing::Signed(Box::new(signer)),
                (_, None) => Framing::None,
            };
            RequestBody::object(content, at, len, framing)
        };
        self.send(&call, len, body).await
    }

    /// Fetch one page of a bucket listing below `prefix`.
    pub async fn list(self, prefix: &str, after: Option<&str>) -> Result<Bytes, Failure> {
        let max_keys = self.worker.job().list_max_keys.to_string();
        let mut query = vec![("list-type", "2"), ("max-keys", &max_keys), ("prefix", prefix)];
        query.extend(after.map(|token| ("continuation-token", token)));
        let call = Call { query: &query, ..Call::new(Method::GET, None) };
        self.exchange(&call, RequestBody::none()).await?.whole().await
    }

    /// Delete objects with one multi-delete request. Return the keys that were not deleted.
    pub async fn delete_all(self, keys: &[String]) -> Result<Vec<xml::NotDeleted>, Failure> {
        let body = xml::delete_body(keys.iter().map(String::as_str));
        let headers = [(HeaderName::from_static("content-md5"), content_md5(&body))];
        let call = Call {
            query: &[("delete", "")],
            headers: &headers,
            payload: PayloadHash::Sha256(sha256(&body)),
            content_length: body.len() as u64,
            ..Call::new(Method::POST, None)
        };
        let answer = self.exchange(&call, RequestBody::plain(body)).await?;
        xml::not_deleted(&answer.whole().await?)
    }

    /// Delete one object by its key.
    pub async fn delete_one(self, key: &str) -> Result<(), Failure> {
        let call = Call::new(Method::DELETE, Some(key));
        self.exchange(&call, RequestBody::none()).await?.whole().await.map(drop)
    }

    /// Abort a multipart upload.
    pub async fn abort(self, key: &str, id: &str) -> Result<(), Failure> {
        let query = [("uploadId", id)];
        let call = Call { query: &query, ..Call::new(Method::DELETE, Some(key)) };
        self.exchange(&call, RequestBody::none()).await?.whole().await.map(drop)
    }
}

/// Handle the result of a multi-delete: keep in `keys` only those that were not deleted (listed in
/// `left`). Return a failure if `left` is not empty.
pub fn partly(keys: &mut Vec<String>, left: &[xml::NotDeleted]) -> Option<Failure> {
    let first = left.first()?;
    keys.retain(|key| is_left(key, left));
    if keys.is_empty() {
        let what = format!("errors for keys that were not in the request, such as {}", first.key);
        return Some(Failure::Protocol(what));
    }
    let (count, xml::NotDeleted { key, message, .. }) = (keys.len(), first);
    let message = format!("{count} keys were not deleted, such as {key}: {message}");
    let code = Some(first.code.clone()).filter(|code| !code.is_empty());
    Some(Failure::Http { status: 200, code, message })
}

fn is_left(key: &str, left: &[xml::NotDeleted]) -> bool {
    left.iter().any(|not| not.key == key)
}

impl Slot {
    /// Return a sender of one request over this slot's own connections.
    pub(super) fn wire<'s>(&'s mut self, start_ns: &'s mut Option<u64>) -> Wire<'s> {
        Wire { worker: &self.worker, links: &mut self.links, start_ns }
    }

    /// Make one attempt at a request. After an error, the only state left is a multipart upload
    /// that must be aborted.
    pub(super) async fn attempt(
        &mut self,
        request: &mut Request,
        start_ns: &mut Option<u64>,
    ) -> Result<Moved, Failure> {
        let worker = self.worker.clone();
        match request {
            Request::Get { key, size, range, .. } => self.get(key, *size, *range, start_ns).await,
            Request::Put { key, size, .. } => {
                self.put(key, *size, start_ns).await?;
                Ok(Moved { bytes: *size, ..Moved::default() })
            }
            Request::Head { key, size, .. } => {
                self.head(key, *size, start_ns).await.map(|()| Moved::default())
            }
            Request::List { prefix } => {
                let page = self.wire(start_ns).list(prefix, None).await?;
                let ended_ns = Some(worker.now());
                if worker.job().verify {
                    xml::list(&page)?;
                }
                Ok(Moved { ended_ns, ..Moved::default() })
            }
            Request::Delete { batch: false, keys, .. } => {
                let key = keys.first().map_or("", String::as_str);
                self.wire(start_ns).delete_one(key).await?;
                Ok(Moved::default())
            }
            Request::Delete { objects, keys, .. } => {
                let left = self.wire(start_ns).delete_all(keys).await?;
                let asked = keys.len();
                let mut kept = keys.iter().map(|key| is_left(key, &left));
                objects.retain(|_| left.is_empty() || kept.next().unwrap_or(false));
                let Some(failure) = partly(keys, &left) else { return Ok(Moved::default()) };
                worker.count(|counts| &counts.deleted_keys, (asked - keys.len()) as u64);
                Err(failure)
            }
        }
    }

    async fn get(
        &mut self,
        key: &str,
        size: u64,
        range: Option<(u64, u64)>,
        start_ns: &mut Option<u64>,
    ) -> Result<Moved, Failure> {
        let worker = self.worker.clone();
        let (at, len) = range.unwrap_or((0, size));
        let ranged = range.map(|_| {
            let text = format!("bytes={at}-{}", at + len.max(1) - 1);
            HeaderValue::from_str(&text).map(|value| (header::RANGE, value))
        });
        let headers: Vec<_> = ranged.into_iter().flatten().collect();
        let call = Call { headers: &headers, ..Call::get(key) };
        let mut answer = self.wire(start_ns).exchange(&call, RequestBody::none()).await?;
        if !answer.response.status().is_success() {
            return Err(answer.refused().await);
        }
        let content = worker.job().verify.then(|| Content::of(key));
        let says_its_end = answer.response.says_its_end();
        let (mut moved, mut wrong) = (Moved::default(), None);
        let mut more = true;
        while more {
            let take = |data: &[u8]| {
                moved.first_byte_ns.get_or_insert_with(|| worker.now());
                wrong = wrong.or_else(|| content?.compare(at + moved.bytes, data));
                moved.bytes += data.len() as u64;
            };
            more = answer.response.read(take).await?;
            if let Some(place) = wrong {
                return Err(Failure::WrongBody(format!("first at byte {place} of the object")));
            }
        }
        *answer.home = answer.response.into_connection();
        match moved.bytes {
            bytes if bytes == len => {
                answer.request.bytes = bytes;
                answer.request.succeed();
                Ok(moved)
            }
            // The connection ended before the end of the body. No received byte was found wrong, so
            // this does not count as wrong data.
            bytes if bytes < len && !says_its_end => Err(Failure::ShortBody),
            bytes => {
                Err(Failure::WrongBody(format!("{bytes} bytes were received instead of {len}")))
            }
        }
    }

    async fn head(
        &mut self,
        key: &str,
        size: u64,
        start_ns: &mut Option<u64>,
    ) -> Result<(), Failure> {
        let worker = self.worker.clone();
        let call = Call::new(Method::HEAD, Some(key));
        let answer = self.wire(start_ns).exchange(&call, RequestBody::none()).await?;
        let length = answer.headers().get(&header::CONTENT_LENGTH);
        answer.whole().await?;
        let same = length.as_ref().and_then(|text| text.parse().ok()) == Some(size);
        if worker.job().verify && !same {
            let announced = length.as_deref().unwrap_or("no");
            return Err(Failure::WrongBody(format!(
                "HEAD reported {announced} bytes instead of {size}"
            )));
        }
        Ok(())
    }

    /// Upload an object: in parts if the job has a part size and the object is larger, otherwise in
    /// one request.
    pub(super) async fn put(
        &mut self,
        key: &str,
        size: u64,
        start_ns: &mut Option<u64>,
    ) -> Result<(), Failure> {
        let worker = self.worker.clone();
        let content = Content::of(key);
        if let Some(part_size) = worker.job().part_size.filter(|&part| size > part) {
            return self.put_parts(key, size, part_size, start_ns).await;
        }
        let call = Call::new(Method::PUT, Some(key));
        let out = Outgoing { content, at: 0, len: size };
        let crc = Arc::default();
        let answer = self.wire(start_ns).send_object(call, out, &crc).await?;
        answer.whole().await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_deleted(key: &str) -> xml::NotDeleted {
        let (key, code) = (key.to_owned(), "AccessDenied".to_owned());
        xml::NotDeleted { key, code, message: "no".to_owned() }
    }

    #[test]
    fn what_a_batch_left_is_counted_once_and_only_of_what_was_asked_for() {
        let asked = || vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let mut keys = asked();
        assert_eq!(partly(&mut keys, &[]), None);
        let left = [not_deleted("b"), not_deleted("b"), not_deleted("x"), not_deleted("c")];
        let failure = partly(&mut keys, &left).unwrap();
        assert_eq!(keys, ["b", "c"]);
        assert_eq!(failure.kind(), "AccessDenied (200)");
        assert!(failure.to_string().contains("2 keys were not deleted, such as b"), "{failure}");
        // A failed key that the request did not contain causes no retry.
        let failure = partly(&mut asked(), &[not_deleted("x")]).unwrap();
        assert!(!failure.retryable() && failure.to_string().contains("such as x"), "{failure}");
    }
}

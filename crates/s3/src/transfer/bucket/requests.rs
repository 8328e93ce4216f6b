//! Single requests to a bucket, over a connection that is kept open.

use crate::{Call, Connection, Failure, Headers, Response, Store, xml};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use super::super::parts::is_missing;
use super::RequestPolicy;
use crate::body::RequestBody;

const ANSWER_BYTES: usize = 8 << 20;

/// Connection that is kept open between requests. None before the first request, and while a
/// request is in flight.
pub type Link = Option<Connection>;
/// Result of a request to the store.
pub type Answered<T> = std::result::Result<T, Failure>;

/// Sender of requests to one endpoint of a store. Use it only on the thread that created it.
pub struct RequestSender {
    store: Store,
    endpoint: usize,
    /// Time-out and retries that apply to every request.
    pub policy: RequestPolicy,
}

/// Function that creates a request's body. It is called for each attempt.
pub type Body<'b> = &'b dyn Fn() -> RequestBody;
/// Function that returns whether the run is ending.
pub type Stopping<'s> = &'s dyn Fn() -> bool;

impl RequestSender {
    /// Create a sender. The thread index `turn` selects the endpoint.
    pub fn new(store: Store, turn: usize, policy: RequestPolicy) -> Self {
        let endpoint = turn % store.endpoints();
        RequestSender { store, endpoint, policy }
    }

    /// Send a request and read the whole answer, with retries according to the policy.
    pub async fn exchange(
        &self,
        link: &mut Link,
        call: &Call<'_>,
        body: Body<'_>,
        stopping: Stopping<'_>,
    ) -> Answered<(Headers, Bytes)> {
        self.policy.retry(stopping, async || self.try_once(link, call, body).await).await
    }

    /// Send a request once and read the whole answer.
    pub async fn try_once(
        &self,
        link: &mut Link,
        call: &Call<'_>,
        body: Body<'_>,
    ) -> Answered<(Headers, Bytes)> {
        let work = async {
            let mut response = self.send(link, call, body).await?;
            let body = response.drain(ANSWER_BYTES).await?;
            let headers = response.headers();
            *link = response.into_connection();
            xml::refused(&body)?;
            Ok((headers, body))
        };
        self.policy.in_time(work).await
    }

    /// Request a list of multipart uploads with the prefix `asked`, and return those whose key
    /// begins with `prefix`. `asked` may be shorter than `prefix`, because MinIO lists only uploads
    /// whose whole key equals it.
    pub async fn uploads(
        &self,
        link: &mut Link,
        asked: &str,
        prefix: &str,
        stopping: Stopping<'_>,
    ) -> Answered<Vec<xml::Upload>> {
        let (mut uploads, mut after) = (Vec::new(), None);
        loop {
            let query = xml::uploads_query(asked, after.as_ref());
            let call = Call { query: &query, ..Call::new(Method::GET, None) };
            let (_, body) = self.exchange(link, &call, &RequestBody::none, stopping).await?;
            let page = xml::uploads(&body)?.below(prefix);
            uploads.extend(page.uploads);
            xml::goes_on(after.as_ref(), page.next.as_ref())?;
            match page.next {
                None => return Ok(uploads),
                next => after = next,
            }
        }
    }

    /// Abort a multipart upload, which frees the space of its parts. An upload that no longer
    /// exists is not an error.
    pub async fn abort(
        &self,
        link: &mut Link,
        upload: &xml::Upload,
        stopping: Stopping<'_>,
    ) -> Answered<()> {
        let query = [("uploadId", upload.upload_id.as_str())];
        let call = Call { query: &query, ..Call::new(Method::DELETE, Some(&upload.key)) };
        match self.exchange(link, &call, &RequestBody::none, stopping).await {
            Err(failure) if !is_missing(&failure) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Make one attempt to read an object or a range of it. A range is an offset and a length, or
    /// `None` for the rest of the object.
    ///
    /// `take` is called with the bytes as they arrive and their offset in the object. If `take`
    /// returns false, reading stops and the result is `None`, otherwise the number of bytes. The
    /// time-out applies to each wait for data, because objects may have any size.
    pub async fn fetch(
        &self,
        link: &mut Link,
        key: &str,
        range: Option<(u64, Option<u64>)>,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Answered<Option<u64>> {
        let headers = range.and_then(range_header);
        let headers: Vec<_> = headers.map(|value| (header::RANGE, value)).into_iter().collect();
        let call = Call { headers: &headers, ..Call::get(key) };
        let sent = self.send(link, &call, &RequestBody::none);
        let mut response = self.policy.in_time(sent).await?;
        let first = range.map_or(0, |(at, _)| at);
        if range.is_some() && response.status() != StatusCode::PARTIAL_CONTENT {
            let status = response.status().as_u16();
            let what = format!("a request for a range was answered with {status} instead of 206");
            return Err(Failure::Protocol(what));
        }
        let (mut bytes, mut wanted, mut more) = (0, true, true);
        while more {
            let hand_over = |data: &[u8]| {
                wanted = wanted && take(first + bytes, data);
                bytes += data.len() as u64;
            };
            let read = self.policy.in_time(response.read(hand_over)).await;
            if !wanted {
                return Ok(None);
            }
            more = read?;
        }
        *link = response.into_connection();
        Ok(Some(bytes))
    }

    /// Send a request, and wait for the head of an answer with a success status.
    async fn send(&self, link: &mut Link, call: &Call<'_>, body: Body<'_>) -> Answered<Response> {
        let (store, timeout) = (&self.store, self.policy.timeout());
        let sent = Connection::exchange(store, self.endpoint, link, call, body, timeout);
        let mut response = sent.await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(response.refusal().await)
    }
}

fn range_header((at, len): (u64, Option<u64>)) -> Option<HeaderValue> {
    let last = len.map(|len| (at + len.max(1) - 1).to_string()).unwrap_or_default();
    HeaderValue::from_str(&format!("bytes={at}-{last}")).ok()
}

/// Return the value of a header field as a number; None if it is missing or not a number.
pub fn number_in(headers: &Headers, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.parse().ok()
}

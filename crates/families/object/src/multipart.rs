//! Multipart uploads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use http::Method;
use http::header::{HeaderName, HeaderValue};
use storlab_s3::body::RequestBody;
use storlab_s3::content::Content;
use storlab_s3::transfer::{Part, Parts, is_missing, try_join_all};
use storlab_s3::{Call, Failure, Headers, PayloadHash, sha256, xml};

use super::requests::{Outgoing, Wire};
use super::slot::{Links, OpenUpload, Slot};
use super::spec::PayloadMode;
use super::worker::{ABORT, Worker};

/// Return a function that sends parts of object `key` over the connections `links`, one after the
/// other.
fn send_part(
    worker: &Worker,
    links: &mut Links,
    key: &str,
    with_crc: bool,
) -> impl AsyncFnMut(Call<'_>, Part) -> Result<(Headers, Option<u32>), Failure> {
    async move |call: Call<'_>, part: Part| {
        let out = Outgoing { content: Content::of(key), at: part.at, len: part.len };
        let crc = Arc::new(AtomicU32::new(0));
        // The start time of a part is not used: the latency of the upload counts from its first
        // request.
        let start_ns = &mut Some(0);
        let sent = async {
            let answer = Wire { worker, links, start_ns }.send_object(call, out, &crc).await?;
            let headers = answer.headers();
            answer.whole().await?;
            Ok((headers, with_crc.then(|| crc.load(Relaxed))))
        };
        let ended = sent.await;
        if ended.is_err() {
            // The other parts in flight are cancelled together with this one. Their cancellation
            // must not count as a failure of their endpoints.
            worker.gives_up.set(true);
        }
        ended
    }
}

impl Slot {
    /// Upload an object in parts: create the upload, send the parts, complete the upload. After a
    /// failure, call [`Slot::abort_upload`].
    pub(super) async fn put_parts(
        &mut self,
        key: &str,
        size: u64,
        part_size: u64,
        start_ns: &mut Option<u64>,
    ) -> Result<(), Failure> {
        let worker = self.worker.clone();
        let with_crc = worker.job().payload == PayloadMode::TrailerCrc;
        let algorithm = HeaderName::from_static("x-amz-checksum-algorithm");
        let headers = [(algorithm, HeaderValue::from_static("CRC32"))];
        let call = Call {
            query: &[("uploads", "")],
            headers: if with_crc { &headers } else { &[] },
            ..Call::new(Method::POST, Some(key))
        };
        self.upload = Some(OpenUpload { key: key.to_owned(), id: None });
        let answer = self.wire(start_ns).exchange(&call, RequestBody::none()).await?;
        let id = xml::upload_id(&answer.whole().await?)?;
        self.upload = Some(OpenUpload { key: key.to_owned(), id: Some(id.clone()) });
        let parts = Parts::of(size, part_size);
        let links = std::iter::once(&mut self.links).chain(&mut self.part_links);
        let sending = links.take(parts.count()).map(|links| {
            let send = send_part(&worker, links, key, with_crc);
            parts.send_each(key, &id, &|| false, send)
        });
        let ended = try_join_all(sending).await;
        worker.gives_up.set(false);
        ended?;
        let body = parts.complete_body();
        let call = Call {
            query: &[("uploadId", &id)],
            payload: PayloadHash::Sha256(sha256(&body)),
            content_length: body.len() as u64,
            ..Call::new(Method::POST, Some(key))
        };
        let body = RequestBody::plain(body);
        let answer = self.wire(start_ns).exchange(&call, body).await?;
        xml::completed(&answer.whole().await?)?;
        self.upload = None;
        Ok(())
    }

    /// Abort this slot's multipart upload, if any, after one of its requests ended with `failure`.
    /// Otherwise the parts already sent would occupy space indefinitely. If the upload's id is
    /// unknown because the response was lost, all uploads of the same key are aborted.
    pub(super) async fn abort_upload(&mut self, failure: &Failure) {
        let Some(OpenUpload { key, id }) = self.upload.take() else { return };
        let worker = self.worker.clone();
        let abort = async {
            match id {
                Some(id) => self.abort(&key, &id).await,
                None if failure.may_be_done() => self.abort_all(&key).await,
                None => Ok(()),
            }
        };
        match tokio::time::timeout(ABORT, abort).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => worker.count(|counts| &counts.aborts_failed, 1),
        }
    }

    /// Abort an upload; succeed if it does not exist.
    async fn abort(&mut self, key: &str, id: &str) -> Result<(), Failure> {
        match self.wire(&mut None).abort(key, id).await {
            Err(failure) if !is_missing(&failure) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Abort all multipart uploads of a key. Needed if the response with this slot's upload id was
    /// lost.
    async fn abort_all(&mut self, key: &str) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let query = xml::uploads_query(key, after.as_ref());
            let call = Call { query: &query, ..Call::new(Method::GET, None) };
            let mut start_ns = None;
            let answer = self.wire(&mut start_ns).exchange(&call, RequestBody::none()).await?;
            let page = xml::uploads(&answer.whole().await?)?;
            for upload in page.uploads.iter().filter(|upload| upload.key == key) {
                self.abort(key, &upload.upload_id).await?;
            }
            xml::goes_on(after.as_ref(), page.next.as_ref())?;
            match page.next {
                None => return Ok(()),
                next => after = next,
            }
        }
    }
}

//! Objects that are uploaded in parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use http::Method;
use http::header::{HeaderName, HeaderValue};
use storlab_s3::transfer::body::RequestBody;
use storlab_s3::transfer::content::Content;
use storlab_s3::transfer::{Parts, is_missing, try_join_all};
use storlab_s3::{Call, Failure, PayloadHash, sha256, xml};

use super::requests::{Outgoing, Wire};
use super::slot::{Links, Slot};
use super::spec::PayloadMode;
use super::worker::Worker;

/// For giving up an upload: the load goes on meanwhile elsewhere.
const ABORT: Duration = Duration::from_secs(5);

/// One object in parts.
struct Upload<'u> {
    worker: &'u Worker,
    key: &'u str,
    id: &'u str,
    with_crc: bool,
    parts: Parts,
}

impl Upload<'_> {
    /// Send part after part over these connections, until none is left.
    async fn send_parts(&self, links: &mut Links) -> Result<(), Failure> {
        while let Some(part) = self.parts.next() {
            let number = part.number();
            let query = [("partNumber", number.as_str()), ("uploadId", self.id)];
            let call = Call { query: &query, ..Call::new(Method::PUT, Some(self.key)) };
            let out = Outgoing { content: Content::of(self.key), at: part.at, len: part.len };
            let crc = Arc::new(AtomicU32::new(0));
            // The object's latency began with its first request.
            let start_ns = &mut Some(0);
            let answer =
                Wire { worker: self.worker, links, start_ns }.send_object(call, out, &crc).await?;
            let (headers, _) = answer.whole().await?;
            self.parts.sent(part, &headers, self.with_crc.then(|| crc.load(Relaxed)))?;
        }
        Ok(())
    }
}

impl Slot {
    /// Create, parts, complete. Where that fails, [`Slot::abort_upload`] has something to do.
    pub(super) async fn put_parts(
        &mut self,
        key: &str,
        size: u64,
        part_size: u64,
        start_ns: &mut Option<u64>,
    ) -> Result<(), Failure> {
        let worker = self.worker.clone();
        let with_crc = worker.shared.job.payload == PayloadMode::TrailerCrc;
        let algorithm = HeaderName::from_static("x-amz-checksum-algorithm");
        let headers = [(algorithm, HeaderValue::from_static("CRC32"))];
        let call = Call {
            query: &[("uploads", "")],
            headers: if with_crc { &headers } else { &[] },
            ..Call::new(Method::POST, Some(key))
        };
        let answer = self.wire(start_ns).exchange(&call, RequestBody::none()).await?;
        let id = xml::upload_id(&answer.whole().await?.1)?;
        self.upload = Some((key.to_owned(), id.clone()));
        let parts = Parts::of(size, part_size);
        let upload = Upload { worker: &worker, key, id: &id, with_crc, parts };
        let links = std::iter::once(&mut self.links).chain(&mut self.part_links);
        let links = links.take(upload.parts.count());
        try_join_all(links.map(|links| upload.send_parts(links))).await?;
        let body = upload.parts.complete_body();
        let call = Call {
            query: &[("uploadId", &id)],
            payload: PayloadHash::Sha256(sha256(&body)),
            content_length: body.len() as u64,
            ..Call::new(Method::POST, Some(key))
        };
        let body = RequestBody::plain(body);
        let answer = self.wire(start_ns).exchange(&call, body).await?;
        xml::completed(&answer.whole().await?.1)?;
        self.upload = None;
        Ok(())
    }

    /// Give up an upload that was begun and not ended. Its parts would take space for ever.
    pub(super) async fn abort_upload(&mut self) {
        let Some((key, id)) = self.upload.take() else { return };
        let worker = self.worker.clone();
        let mut start_ns = None;
        let abort = self.wire(&mut start_ns).abort(&key, &id);
        match tokio::time::timeout(ABORT, abort).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) if is_missing(&failure) => {}
            Ok(Err(_)) | Err(_) => worker.count(|counts| &counts.aborts_failed, 1),
        }
    }
}

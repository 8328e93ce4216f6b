//! Objects that are uploaded in parts.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http::Method;
use storlab_s3::transfer::body::RequestBody;
use storlab_s3::transfer::content::Content;
use storlab_s3::transfer::try_join_all;
use storlab_s3::{sha256, xml, Call, Failure, PayloadHash};

use super::requests::{exchange, is_missing, send_object, Outgoing};
use super::slot::{Links, Slot};
use super::spec::PayloadMode;
use super::worker::Worker;

/// For giving up an upload: the load goes on meanwhile elsewhere.
const ABORT: Duration = Duration::from_secs(5);

/// What the store said about a part: its ETag, and the CRC32 that was sent where one was.
type Part = Option<(String, u32)>;

/// One object in parts: what is still to be sent, and what was.
struct Upload<'u> {
    worker: &'u Worker,
    key: &'u str,
    id: &'u str,
    size: u64,
    part_size: u64,
    next: Cell<u64>,
    done: RefCell<Vec<Part>>,
}

impl Upload<'_> {
    /// Send part after part over these connections, until none is left.
    async fn send_parts(&self, links: &mut Links) -> Result<(), Failure> {
        loop {
            let index = self.next.get();
            let at = index * self.part_size;
            if at >= self.size {
                return Ok(());
            }
            self.next.set(index + 1);
            let len = self.part_size.min(self.size - at);
            let number = (index + 1).to_string();
            let query = [("partNumber", number.as_str()), ("uploadId", self.id)];
            let call = Call { query: &query, ..Call::new(Method::PUT, Some(self.key)) };
            let out = Outgoing { content: Content::of(self.key), at, len };
            let crc = Arc::new(AtomicU32::new(0));
            // The object's latency began with its first request.
            let start_ns = &mut Some(0);
            let answer = send_object(self.worker, links, call, out, &crc, start_ns).await?;
            let (headers, _) = answer.whole().await?;
            let etag = headers.get(header::ETAG).and_then(|value| value.to_str().ok());
            let etag = etag.ok_or_else(|| Failure::Protocol("a part without an ETag".into()))?;
            self.done.borrow_mut()[index as usize] = Some((etag.to_owned(), crc.load(Relaxed)));
        }
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
        let none = RequestBody::none();
        let answer = exchange(&worker, &mut self.links, &call, none, start_ns).await?;
        let id = xml::upload_id(&answer.whole().await?.1)?;
        self.upload = Some((key.to_owned(), id.clone()));
        let count = size.div_ceil(part_size) as usize;
        let upload = Upload {
            worker: &worker,
            key,
            id: &id,
            size,
            part_size,
            next: Cell::new(0),
            done: RefCell::new(vec![None; count]),
        };
        let links = std::iter::once(&mut self.links).chain(&mut self.part_links);
        try_join_all(links.take(count).map(|links| upload.send_parts(links))).await?;
        let parts = upload.done.into_inner();
        let body = complete_body(&parts, with_crc);
        let call = Call {
            query: &[("uploadId", &id)],
            payload: PayloadHash::Sha256(sha256(&body)),
            content_length: body.len() as u64,
            ..Call::new(Method::POST, Some(key))
        };
        let body = RequestBody::plain(body);
        let answer = exchange(&worker, &mut self.links, &call, body, start_ns).await?;
        xml::completed(&answer.whole().await?.1)?;
        self.upload = None;
        Ok(())
    }

    /// Give up an upload that was begun and not ended. Its parts would take space for ever.
    pub(super) async fn abort_upload(&mut self) {
        let Some((key, id)) = self.upload.take() else { return };
        let worker = self.worker.clone();
        let abort = abort(&worker, &mut self.links, &key, &id);
        match tokio::time::timeout(ABORT, abort).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) if is_missing(&failure) => {}
            Ok(Err(_)) | Err(_) => worker.count(|counts| &counts.aborts_failed, 1),
        }
    }
}

/// Give up one upload.
pub async fn abort(worker: &Worker, links: &mut Links, key: &str, id: &str) -> Result<(), Failure> {
    let query = [("uploadId", id)];
    let call = Call { query: &query, ..Call::new(Method::DELETE, Some(key)) };
    let answer = exchange(worker, links, &call, RequestBody::none(), &mut None).await?;
    answer.whole().await.map(drop)
}

fn complete_body(parts: &[Part], with_crc: bool) -> bytes::Bytes {
    let known = parts.iter().flatten().zip(1..);
    if with_crc {
        let all: Vec<_> = known.map(|((etag, crc), number)| (number, &etag[..], *crc)).collect();
        return xml::complete_body_crc32(&all);
    }
    let all: Vec<_> = known.map(|((etag, _), number)| (number, &etag[..])).collect();
    xml::complete_body(&all)
}

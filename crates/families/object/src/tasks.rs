//! Fill and clean tasks: write the object pool before the load, and delete the run's objects after
//! it.
//!
//! Both fail the run at the first persistent error, because an incomplete pool or leftover objects
//! must not go unnoticed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::Method;
use storlab_base::Error;
use storlab_run::recorder::Success;
use storlab_s3::body::RequestBody;
use storlab_s3::transfer::is_missing;
use storlab_s3::{Call, Failure, RetryPolicy, xml};

use super::kind::ObjectKind;
use super::names::Names;
use super::requests::partly;
use super::slot::{Slot, pause};
use super::spec::Task;

/// Retry policy for transient errors.
const RETRY_POLICY: RetryPolicy = RetryPolicy { retries: 5, backoff_ns: 50_000_000 };
/// Maximum number of times that a prefix is listed and emptied while new objects or uploads keep
/// appearing below it.
const PASSES: usize = 10;

/// Do one slot's part of a fill: list existing objects, then write those of the pool that are
/// missing or have the wrong size.
pub async fn fill(mut slot: Slot) {
    let worker = slot.worker.clone();
    let shared = &worker.shared;
    let (progress, Some(names)) = (&shared.progress, worker.objects().names()) else { return };
    let ended = async {
        while let Some(shard) = next(&progress.next_shard, names.shards()) {
            list_shard(&mut slot, names, shard).await?;
        }
        if progress.listed.wait().await.is_leader() {
            let missing = |&(_, there): &(usize, &AtomicBool)| !there.load(Relaxed);
            let absent = progress.present.iter().enumerate().filter(missing);
            progress.bytes_all.store(absent.map(|(i, _)| names.size(i as u64)).sum(), Relaxed);
        }
        while let Some(index) = next(&progress.next_object, progress.present.len() as u64) {
            if !progress.present[index as usize].load(Relaxed) {
                let (key, size) = (names.key(index), names.size(index));
                slot.lasting_put(&key, size).await?;
                progress.bytes_done.fetch_add(size, Relaxed);
            }
        }
        Ok(())
    };
    if let Err(error) = ended.await {
        shared.timed.fail(error);
    }
}

fn next(cursor: &AtomicU64, end: u64) -> Option<u64> {
    let taken = cursor.fetch_add(1, Relaxed);
    (taken < end).then_some(taken)
}

async fn list_shard(slot: &mut Slot, names: &Names, shard: u64) -> Result<(), Error> {
    let present = &slot.worker.clone().shared.progress.present;
    let prefix = names.shard(shard);
    let mut after = None;
    loop {
        let page = slot.lasting_list(&prefix, after.as_deref()).await?;
        for listed in &page.objects {
            let index = names.index(&listed.key).filter(|&i| i < present.len() as u64);
            if let Some(index) = index.filter(|&i| names.size(i) == listed.size) {
                present[index as usize].store(true, Relaxed);
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Do one slot's part of a clean, which deletes everything below the write prefix. The first slot
/// lists the keys, and also deletes listed pages if the other slots fall behind.
pub async fn clean(mut slot: Slot, first: bool) {
    let worker = slot.worker.clone();
    let pages = &worker.shared.progress.pages;
    let ended = if first { clean_all(&mut slot).await } else { delete_pages(&mut slot).await };
    if let Err(error) = ended {
        worker.shared.timed.fail(error);
    }
    if first {
        pages.over.store(true, Relaxed);
        pages.changed.notify_waiters();
    }
}

async fn clean_all(slot: &mut Slot) -> Result<(), Error> {
    let worker = slot.worker.clone();
    let shared = &worker.shared;
    let (pages, prefix) = (&shared.progress.pages, worker.objects().write_prefix());
    for _ in 0..PASSES {
        let mut listed = 0;
        let mut after = None;
        loop {
            let page = slot.lasting_list(prefix, after.as_deref()).await?;
            listed += page.objects.len();
            pages.put(page.objects.into_iter().map(|object| object.key).collect());
            while pages.crowded() || worker.job().concurrency == 1 {
                let Some(keys) = pages.take() else { break };
                slot.lasting_delete(keys).await?;
                pages.closed();
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        pages.until_all_closed().await;
        if listed == 0 {
            return abort_uploads(slot, prefix).await;
        }
    }
    let what = format!("{prefix} still contains objects after {PASSES} passes that deleted them");
    Err(Error::dependency(what, "stop the other program that writes objects there"))
}

async fn delete_pages(slot: &mut Slot) -> Result<(), Error> {
    let worker = slot.worker.clone();
    let pages = &worker.shared.progress.pages;
    loop {
        let changed = pages.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if let Some(keys) = pages.take() {
            slot.lasting_delete(keys).await?;
            pages.closed();
        } else if pages.over.load(Relaxed) {
            return Ok(());
        } else {
            changed.await;
        }
    }
}

/// Abort all multipart uploads whose key starts with `prefix`. MinIO lists uploads only if the
/// prefix is a whole key, so if none is found, all uploads of the bucket are listed.
async fn abort_uploads(slot: &mut Slot, prefix: &str) -> Result<(), Error> {
    for _ in 0..PASSES {
        if !abort_listed(slot, prefix, prefix).await? && !abort_listed(slot, "", prefix).await? {
            return Ok(());
        }
    }
    let what = format!("multipart uploads below {prefix} are still open after they were aborted");
    Err(Error::dependency(what, "stop the other program that uploads objects there"))
}

/// List the uploads below `asked` and abort those whose key starts with `prefix`. Return whether
/// any such upload was listed.
async fn abort_listed(slot: &mut Slot, asked: &str, prefix: &str) -> Result<bool, Error> {
    let (mut any_listed, mut after) = (false, None);
    loop {
        let page = slot.lasting_uploads(asked, after.as_ref()).await?.below(prefix);
        for upload in &page.uploads {
            any_listed = true;
            slot.lasting_abort(upload).await?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(any_listed);
        }
    }
}

fn lasting_error(task: Task, kind: ObjectKind, what: &str, failure: &Failure) -> Error {
    let task = match task {
        Task::Fill => "filling the pool",
        _ => "cleaning up",
    };
    let what = format!("{task}: {} of {what}: {failure}", kind.name());
    Error::dependency(what, failure.advice())
}

impl Slot {
    /// Repeat an attempt until it succeeds, its error is not transient, or the retries are used up.
    /// An attempt returns the bytes that it moved and its result.
    async fn lasting<T>(
        &mut self,
        kind: ObjectKind,
        what: &str,
        mut attempt: impl AsyncFnMut(&mut Slot, &mut Option<u64>) -> Result<(u64, T), Failure>,
    ) -> Result<T, Error> {
        let worker = self.worker.clone();
        let limit = Duration::from_nanos(worker.job().request_timeout_ns);
        let mut start_ns = None;
        let mut retry = 0;
        loop {
            let flying = worker.in_flight_guard();
            let ended = tokio::time::timeout(limit, attempt(self, &mut start_ns)).await;
            drop(flying);
            let failure = match ended.unwrap_or(Err(Failure::TimeOut)) {
                Err(failure) => failure,
                Ok((bytes, value)) => {
                    let done = Success {
                        place: worker.place(kind),
                        start_ns: start_ns.unwrap_or_default(),
                        bytes,
                        ..Success::default()
                    };
                    worker.succeed(&done, None);
                    return Ok(value);
                }
            };
            worker.fail(kind, what, &failure, 0);
            self.abort_upload(&failure).await;
            let Some(pause_ns) = RETRY_POLICY.pause_ns(retry, &failure) else {
                return Err(lasting_error(worker.job().task, kind, what, &failure));
            };
            worker.count(|counts| &counts.retries, 1);
            pause(pause_ns).await;
            retry += 1;
        }
    }

    async fn lasting_put(&mut self, key: &str, size: u64) -> Result<(), Error> {
        self.lasting(ObjectKind::Put, key, async |slot, start_ns| {
            slot.put(key, size, start_ns).await?;
            Ok((size, ()))
        })
        .await
    }

    async fn lasting_list(
        &mut self,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<xml::Page, Error> {
        self.lasting(ObjectKind::List, prefix, async |slot, start_ns| {
            let page = xml::list(&slot.wire(start_ns).list(prefix, after).await?)?;
            xml::goes_on(after, page.next.as_deref())?;
            Ok((0, page.below(prefix)))
        })
        .await
    }

    async fn lasting_delete(&mut self, mut keys: Vec<String>) -> Result<(), Error> {
        let what = keys.first().cloned().unwrap_or_default();
        let one_by_one = self
            .lasting(ObjectKind::MultiDelete, &what, async |slot, start_ns| {
                let deleted = slot.wire(start_ns).delete_all(&keys).await;
                let left = match deleted {
                    Err(failure) if lacks_multi_delete(&failure) => return Ok((0, true)),
                    other => other?,
                };
                let asked = keys.len();
                let failure = partly(&mut keys, &left);
                let kept = if failure.is_some() { keys.len() } else { 0 };
                slot.worker.count(|counts| &counts.deleted_keys, (asked - kept) as u64);
                failure.map_or(Ok((0, false)), Err)
            })
            .await?;
        if one_by_one {
            for key in &keys {
                self.lasting_delete_one(key).await?;
            }
        }
        Ok(())
    }

    async fn lasting_delete_one(&mut self, key: &str) -> Result<(), Error> {
        self.lasting(ObjectKind::Delete, key, async |slot, start_ns| {
            match slot.wire(start_ns).delete_one(key).await {
                Err(failure) if !is_missing(&failure) => Err(failure),
                _ => {
                    slot.worker.count(|counts| &counts.deleted_keys, 1);
                    Ok((0, ()))
                }
            }
        })
        .await
    }

    async fn lasting_uploads(
        &mut self,
        prefix: &str,
        after: Option<&(String, String)>,
    ) -> Result<xml::UploadPage, Error> {
        self.lasting(ObjectKind::List, prefix, async |slot, start_ns| {
            let query = xml::uploads_query(prefix, after);
            let call = Call { query: &query, ..Call::new(Method::GET, None) };
            let answer = slot.wire(start_ns).exchange(&call, RequestBody::none()).await?;
            match answer.whole().await {
                Ok(body) => {
                    let page = xml::uploads(&body)?;
                    xml::goes_on(after, page.next.as_ref())?;
                    Ok((0, page))
                }
                // A store without multipart uploads has none to abort. A user who may list only
                // below their own prefix gets 403 for the whole bucket; that prefix was listed
                // before.
                Err(Failure::Http { status: 501, .. }) => Ok((0, xml::UploadPage::default())),
                Err(Failure::Http { status: 403, .. }) if prefix.is_empty() => {
                    Ok((0, xml::UploadPage::default()))
                }
                Err(failure) => Err(failure),
            }
        })
        .await
    }

    async fn lasting_abort(&mut self, upload: &xml::Upload) -> Result<(), Error> {
        self.lasting(ObjectKind::Delete, &upload.key, async |slot, start_ns| {
            start_ns.get_or_insert_with(|| slot.worker.now());
            match slot.wire(start_ns).abort(&upload.key, &upload.upload_id).await {
                Err(failure) if !is_missing(&failure) => Err(failure),
                _ => Ok((0, ())),
            }
        })
        .await
    }
}

/// Return whether the store does not support multi-delete.
fn lacks_multi_delete(failure: &Failure) -> bool {
    matches!(failure, Failure::Http { status: 405 | 501, .. })
}

//! Request slot: draws a request, sends it, records its result, and repeats.

use std::rc::Rc;
use std::time::Duration;

use storlab_base::{Error, Result};
use storlab_run::recorder::Success;
use storlab_s3::{Connection, Failure, RetryPolicy};

use super::kind::ObjectKind;
use super::pool::Object;
use super::worker::Worker;

/// Number of draws without a usable object after which the slot checks whether any object can still
/// appear.
const DRAWS: usize = 1000;
/// Polling interval while a request needs objects that are not written yet.
const WAIT: Duration = Duration::from_millis(1);
/// First pause, in nanoseconds, of a slot whose connections were repeatedly refused or broken. The
/// pause doubles each time this happens again.
const REST_NS: u64 = 1_000_000;
/// Longest pause after refused or broken connections, in nanoseconds per slot of the run, within
/// `LONGEST_REST_NS`. All slots together thus try to connect about 1,000 times per second.
const REST_EACH_NS: u64 = 1_000_000;
const LONGEST_REST_NS: (u64, u64) = (100_000_000, 10_000_000_000);

/// Keep-alive connections, one per endpoint; `None` before the first request and while a request is
/// in flight.
pub type Links = Vec<Option<Connection>>;

/// Request that a slot will send.
#[derive(Debug)]
pub enum Request {
    /// Read an object, or only `range` (offset and length) of it.
    Get { object: Object, key: String, size: u64, range: Option<(u64, u64)> },
    /// Write an object of `size` bytes.
    Put { object: Object, key: String, size: u64 },
    /// Read only the object's metadata, with HEAD.
    Head { object: Object, key: String, size: u64 },
    /// Fetch one page of the listing below a prefix.
    List { prefix: String },
    /// Delete one object, or if `batch`, several with one multi-delete request.
    Delete { batch: bool, objects: Vec<Object>, keys: Vec<String> },
}

impl Request {
    /// Return the kind of the request.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Request::Get { .. } => ObjectKind::Get,
            Request::Put { .. } => ObjectKind::Put,
            Request::Head { .. } => ObjectKind::Head,
            Request::List { .. } => ObjectKind::List,
            Request::Delete { batch: false, .. } => ObjectKind::Delete,
            Request::Delete { batch: true, .. } => ObjectKind::MultiDelete,
        }
    }

    /// Return the key or prefix of the request, for messages.
    pub fn what(&self) -> &str {
        match self {
            Request::Get { key, .. } | Request::Put { key, .. } | Request::Head { key, .. } => key,
            Request::List { prefix } => prefix,
            Request::Delete { keys, .. } => keys.first().map_or("", String::as_str),
        }
    }
}

/// Bytes and times of a successful request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Object bytes sent or received.
    pub bytes: u64,
    /// Arrival time of the first byte of an object.
    pub first_byte_ns: Option<u64>,
    /// Arrival time of the last byte, if the slot did more work after it.
    pub ended_ns: Option<u64>,
}

/// Multipart upload in progress; its id is unknown until the store returns it.
pub struct OpenUpload {
    /// Key of the object that the upload creates.
    pub key: String,
    /// Id that the store assigned to the upload.
    pub id: Option<String>,
}

/// Request slot of a worker: has one request in flight at a time.
pub struct Slot {
    pub(super) worker: Rc<Worker>,
    lane: Option<ObjectKind>,
    pub(super) links: Links,
    /// Connections for parts that are sent in parallel; the first part in flight uses `links`.
    pub(super) part_links: Vec<Links>,
    /// Multipart upload that was created, or may have been, and is neither completed nor aborted.
    pub(super) upload: Option<OpenUpload>,
    /// Number of consecutive attempts whose connection was refused, or broke before a response.
    may_not_have_reached_server: u32,
}

impl Slot {
    /// Create a slot of a worker. With a `lane`, it sends only requests of that kind.
    pub fn new(worker: Rc<Worker>, lane: Option<ObjectKind>) -> Self {
        let job = worker.job();
        let endpoints = worker.shared.store.endpoints();
        let links = || (0..endpoints).map(|_| None).collect();
        let parallel = if job.part_size.is_some() { job.part_concurrency - 1 } else { 0 };
        let part_links = (0..parallel).map(|_| links()).collect();
        Slot {
            links: links(),
            part_links,
            upload: None,
            may_not_have_reached_server: 0,
            lane,
            worker,
        }
    }

    /// Send requests until the window has ended.
    pub async fn run(mut self) {
        while let Some(due_ns) = self.worker.next_due().await {
            match self.draw().await {
                Ok(Some(request)) => self.serve(request, due_ns).await,
                Ok(None) => {
                    self.worker.drop_due(due_ns);
                    return;
                }
                Err(error) => {
                    self.worker.shared.timed.fail(error);
                    return;
                }
            }
            // An open loop needs no pause after failures: its rate limits the number of attempts.
            if !self.worker.job().open_loop() {
                self.rest().await;
            }
        }
    }

    /// Pause after consecutive refused or broken connections. Without a pause, a closed loop would
    /// retry as fast as it is refused, and keep a core busy.
    async fn rest(&self) {
        let Some(doublings) = self.may_not_have_reached_server.checked_sub(2) else { return };
        let slots = self.worker.shared.slots() as u64;
        let longest_ns = (slots * REST_EACH_NS).clamp(LONGEST_REST_NS.0, LONGEST_REST_NS.1);
        self.worker.count(|counts| &counts.rests, 1);
        self.worker.rest((REST_NS << doublings.min(32)).min(longest_ns)).await;
    }

    /// Draw the next request. If it needs an object and none exists, wait; `None` if the run ends
    /// meanwhile.
    async fn draw(&mut self) -> Result<Option<Request>> {
        let worker = self.worker.clone();
        let job = worker.job();
        loop {
            let mut repeated = 0;
            for _ in 0..DRAWS {
                let kind = self.lane.unwrap_or_else(|| worker.draw.borrow_mut().kind());
                if let Some(request) = self.request(kind) {
                    if repeated > 0 {
                        worker.count(|counts| &counts.repeated_draws, repeated);
                    }
                    return Ok(Some(request));
                }
                if self.lane.is_some() {
                    break;
                }
                repeated += 1;
            }
            if !job.kinds().contains(&ObjectKind::Put) {
                let fix = "use more objects, a shorter window or a mix with PUTs";
                let what = "all objects were deleted before the window ended";
                return Err(Error::dependency(what, fix));
            }
            worker.count(|counts| &counts.repeated_draws, repeated.max(1));
            tokio::time::sleep(WAIT).await;
            // Other slots may still write objects until the window ends.
            if worker.over() {
                return Ok(None);
            }
        }
    }

    /// Build a request of this kind; `None` if it needs an object and none exists.
    fn request(&self, kind: ObjectKind) -> Option<Request> {
        let (job, objects) = (self.worker.job(), self.worker.objects());
        let mut draw = self.worker.draw.borrow_mut();
        let named = |object: Object| (objects.key(object), objects.size(object));
        Some(match kind {
            ObjectKind::Get => {
                let object = draw.readable(objects)?;
                let (key, size) = named(object);
                let want = job.range_size.filter(|_| size > 0);
                let range = want.map(|want| draw.range(size, want));
                Request::Get { object, key, size, range }
            }
            ObjectKind::Head => {
                let object = draw.readable(objects)?;
                let (key, size) = named(object);
                Request::Head { object, key, size }
            }
            ObjectKind::Put => {
                let object = self.worker.next_object();
                let (key, size) = named(object);
                Request::Put { object, key, size }
            }
            ObjectKind::List => Request::List {
                prefix: match objects.names() {
                    Some(names) => names.shard(draw.shard(names.shards())),
                    None => objects.write_prefix().to_owned(),
                },
            },
            ObjectKind::Delete | ObjectKind::MultiDelete => {
                let batch = kind == ObjectKind::MultiDelete;
                let objects_taken = objects.take(if batch { job.delete_batch } else { 1 });
                if objects_taken.is_empty() {
                    return None;
                }
                let keys = objects_taken.iter().map(|&object| objects.key(object)).collect();
                Request::Delete { batch, objects: objects_taken, keys }
            }
        })
    }

    /// Send a request with retries, and record its result.
    ///
    /// Latency covers all attempts, including the pauses between them: from just before the first
    /// attempt connects or is sent, until the last byte of the response.
    async fn serve(&mut self, mut request: Request, due_ns: u64) {
        let worker = self.worker.clone();
        let _flying = worker.in_flight_guard();
        let job = worker.job();
        let mut start_ns = None;
        let mut ended = self.try_once(&mut request, &mut start_ns, due_ns).await;
        let mut timed_out = matches!(ended, Err(Failure::TimeOut));
        let policy = RetryPolicy { retries: job.retries, backoff_ns: job.backoff_ns };
        let mut retry = 0;
        while let Err(failure) = &ended {
            let Some(pause_ns) = policy.pause_ns(retry, failure) else { break };
            if worker.shared.timed.control.stopping() || !worker.has_time_after(pause_ns) {
                break;
            }
            worker.count(|counts| &counts.retries, 1);
            pause(pause_ns).await;
            self.rest().await;
            ended = self.try_once(&mut request, &mut start_ns, due_ns).await;
            timed_out |= matches!(ended, Err(Failure::TimeOut));
            retry += 1;
        }
        if let Ok(moved) = &ended {
            let done = Success {
                place: worker.place(request.kind()),
                start_ns: start_ns.unwrap_or_default(),
                due_ns,
                first_byte_ns: moved.first_byte_ns,
                bytes: moved.bytes,
            };
            worker.succeed(&done, moved.ended_ns);
        }
        if ended.is_err() && timed_out {
            worker.time_out(request.kind(), due_ns);
        }
        if let (Err(_), Some(start_ns)) = (&ended, start_ns) {
            worker.give_up(request.kind(), start_ns);
        }
        self.settle(&request, ended.is_ok());
        if ended.is_err() {
            // A failed attempt may have awaited nothing. Yield, so that the worker's other slots
            // and its clock make progress.
            tokio::task::yield_now().await;
        }
    }

    /// Make one attempt at a request, within its timeout. A failure is counted here, whether or not
    /// the request is retried.
    pub(super) async fn try_once(
        &mut self,
        request: &mut Request,
        start_ns: &mut Option<u64>,
        due_ns: u64,
    ) -> std::result::Result<Moved, Failure> {
        let worker = self.worker.clone();
        let limit = Duration::from_nanos(worker.job().request_timeout_ns);
        let attempt = tokio::time::timeout(limit, self.attempt(request, start_ns));
        let ended = attempt.await.unwrap_or(Err(Failure::TimeOut));
        let may_not_have_reached_server =
            matches!(&ended, Err(failure) if failure.may_not_have_reached_server());
        self.may_not_have_reached_server = if may_not_have_reached_server {
            self.may_not_have_reached_server.saturating_add(1)
        } else {
            0
        };
        if let Err(failure) = &ended {
            worker.fail(request.kind(), request.what(), failure, due_ns);
            self.abort_upload(failure).await;
        }
        ended
    }

    /// Update the record of existing objects after a request.
    fn settle(&self, request: &Request, succeeded: bool) {
        let objects = self.worker.objects();
        match request {
            Request::Get { object, .. } | Request::Head { object, .. } => objects.unpin(*object),
            Request::Put { object, .. } if succeeded => objects.add(*object),
            Request::Delete { objects: left, .. } if !succeeded => {
                objects.not_deleted(left.iter().copied());
            }
            Request::Delete { objects: gone, .. } => {
                self.worker.count(|counts| &counts.deleted_keys, gone.len() as u64);
            }
            Request::Put { .. } | Request::List { .. } => {}
        }
    }
}

/// Sleep for `pause_ns`; return at once if it is 0.
pub async fn pause(pause_ns: u64) {
    if pause_ns > 0 {
        tokio::time::sleep(Duration::from_nanos(pause_ns)).await;
    }
}

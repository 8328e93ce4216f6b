//! Progress of a fill (which writes the objects of the pool before a run) or a clean (which deletes
//! a run's objects).

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use storlab_base::lock;
use tokio::sync::{Barrier, Notify};

use super::spec::{ObjectJob, Task};

/// Maximum number of listed pages of keys that may wait for deletion.
const BACKLOG: usize = 32;

/// Progress of a fill or clean task, shared by all workers.
pub struct Progress {
    /// Whether each object of the pool exists already.
    pub(super) present: Vec<AtomicBool>,
    pub(super) next_shard: AtomicU64,
    pub(super) next_object: AtomicU64,
    pub(super) listed: Barrier,
    pub(super) bytes_done: AtomicU64,
    pub(super) bytes_all: AtomicU64,
    pub(super) pages: Pages,
}

/// Queue of key pages that a clean has listed and still has to delete.
#[derive(Default)]
pub(super) struct Pages {
    pub(super) waiting: Mutex<VecDeque<Vec<String>>>,
    /// Number of pages that were queued and are not deleted yet.
    pub(super) open: AtomicU64,
    pub(super) over: AtomicBool,
    pub(super) changed: Notify,
}

impl Progress {
    /// Create the progress of a task that has not begun.
    pub fn new(job: &ObjectJob) -> Self {
        let objects = match (job.task, &job.pool) {
            (Task::Fill, Some(pool)) => pool.objects,
            _ => 0,
        };
        Progress {
            present: (0..objects).map(|_| AtomicBool::new(false)).collect(),
            next_shard: AtomicU64::new(0),
            next_object: AtomicU64::new(0),
            listed: Barrier::new(job.concurrency),
            bytes_done: AtomicU64::new(0),
            bytes_all: AtomicU64::new(0),
            pages: Pages::default(),
        }
    }

    /// Return the bytes that a fill has written, and the total that it must write; 0 while unknown.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_done.load(Relaxed), self.bytes_all.load(Relaxed))
    }
}

impl Pages {
    pub(super) fn put(&self, keys: Vec<String>) {
        if !keys.is_empty() {
            self.open.fetch_add(1, Relaxed);
            lock(&self.waiting).push_back(keys);
            self.changed.notify_waiters();
        }
    }

    pub(super) fn take(&self) -> Option<Vec<String>> {
        lock(&self.waiting).pop_front()
    }

    pub(super) fn crowded(&self) -> bool {
        lock(&self.waiting).len() > BACKLOG
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
        self.changed.notify_waiters();
    }

    pub(super) async fn until_all_closed(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.open.load(Relaxed) == 0 {
                return;
            }
            changed.await;
        }
    }
}

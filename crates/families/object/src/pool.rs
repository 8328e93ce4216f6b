//! Record of which objects exist: the pool (written before the run), and the objects that the run
//! itself writes and deletes.
//!
//! A run that deletes must not read objects that it has just deleted, or it would count its own
//! actions as errors of the store. So if a run deletes, objects are pinned while they are read, and
//! pinned objects are deleted later.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use storlab_base::{Result, lock};

use super::names::{Names, hex_key};
use super::sizes::Sizes;
use super::spec::ObjectJob;

/// Identifier of an object, which determines its key and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Object of the pool, which existed before the run; the number is its index.
    Pool(u64),
    /// Object that a worker wrote during the run.
    Written {
        /// Index of the worker that wrote it.
        worker: u32,
        /// Serial number among the worker's objects, from 0.
        serial: u64,
    },
}

/// Objects that the run wrote and has not deleted, oldest first.
#[derive(Default)]
struct Written {
    queue: VecDeque<Object>,
    /// Number of readers of each object that is being read.
    pinned: HashMap<Object, u32>,
    /// Objects chosen for deletion that still exist: they were being read, or the store refused to
    /// delete them.
    leftover: Vec<Object>,
}

/// Record of all objects that a run may use, shared by its workers.
pub struct Objects {
    names: Option<Names>,
    write_prefix: String,
    write_sizes: Option<Sizes>,
    /// Number of pool objects that exist: those with indices `0..live`.
    live: AtomicU64,
    joins: bool,
    deletes: bool,
    /// Number of readers of each object of the pool; empty if the run does not delete.
    readers: Vec<AtomicU32>,
    written: Mutex<Written>,
    written_len: AtomicU64,
}

impl Objects {
    /// Create the record for a run. `deletes` is true if the run sends deletes.
    pub fn new(job: &ObjectJob, deletes: bool) -> Result<Self> {
        let names = job.pool.as_ref().map(Names::new).transpose()?;
        let sizes = job.sizes.as_ref();
        let write_sizes = sizes.map(|s| Sizes::new(s, job.seed, "sizes")).transpose()?;
        let live = job.pool.as_ref().map_or(0, |pool| pool.objects);
        let pinnable = if deletes { live } else { 0 };
        Ok(Objects {
            names,
            write_prefix: job.write_prefix.clone(),
            write_sizes,
            live: AtomicU64::new(live),
            joins: job.join_pool,
            deletes,
            readers: (0..pinnable).map(|_| AtomicU32::new(0)).collect(),
            written: Mutex::default(),
            written_len: AtomicU64::new(0),
        })
    }

    /// Return keys and sizes of the pool, if there is one.
    pub fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// Return the prefix of all keys that the run writes.
    pub fn write_prefix(&self) -> &str {
        &self.write_prefix
    }

    /// Return the number of pool objects that exist.
    pub fn live(&self) -> u64 {
        self.live.load(SeqCst)
    }

    /// Return the number of objects written by this run that may be read.
    pub fn joined(&self) -> u64 {
        if self.joins { self.written_len.load(SeqCst) } else { 0 }
    }

    /// Return the key of an object.
    pub fn key(&self, object: Object) -> String {
        match object {
            Object::Pool(index) => self.names.as_ref().map(|n| n.key(index)).unwrap_or_default(),
            Object::Written { worker, serial } => {
                hex_key(&self.write_prefix, u64::from(worker), serial)
            }
        }
    }

    /// Return the size of an object in bytes.
    pub fn size(&self, object: Object) -> u64 {
        match object {
            Object::Pool(index) => self.names.as_ref().map_or(0, |n| n.size(index)),
            Object::Written { worker, serial } => {
                let sizes = self.write_sizes.as_ref();
                sizes.map_or(0, |s| s.of(u64::from(worker) + 1, serial))
            }
        }
    }

    /// Record that the run wrote an object: from now on it may be read and deleted.
    pub fn add(&self, object: Object) {
        if self.joins || self.deletes {
            let mut written = lock(&self.written);
            written.queue.push_back(object);
            self.written_len.store(written.queue.len() as u64, SeqCst);
        }
    }

    /// Pin object `index` of the pool for a read; `None` if it no longer exists. Release it with
    /// [`Objects::unpin`].
    pub fn pin(&self, index: u64) -> Option<Object> {
        let Some(readers) = self.readers.get(index as usize) else {
            return (index < self.live()).then_some(Object::Pool(index));
        };
        // Readers increment `readers`, then check `live`; deleters lower `live`, then check
        // `readers`. With sequential consistency, at least one of the two sees the other's change.
        readers.fetch_add(1, SeqCst);
        if index < self.live() {
            return Some(Object::Pool(index));
        }
        readers.fetch_sub(1, SeqCst);
        None
    }

    /// Pin an object that the run wrote, for a read. `place` * 2^-64 is the object's relative
    /// position among all that exist. `None` if no such object exists.
    pub fn pin_written(&self, place: u64) -> Option<Object> {
        let mut written = lock(&self.written);
        let at = (u128::from(place) * written.queue.len() as u128) >> 64;
        let object = *written.queue.get(at as usize)?;
        if self.deletes {
            *written.pinned.entry(object).or_default() += 1;
        }
        Some(object)
    }

    /// Unpin an object after a read, so that it may be deleted.
    pub fn unpin(&self, object: Object) {
        if !self.deletes {
            return;
        }
        if let Object::Pool(index) = object {
            self.readers[index as usize].fetch_sub(1, SeqCst);
            return;
        }
        let mut written = lock(&self.written);
        if let Some(count) = written.pinned.get_mut(&object) {
            *count -= 1;
            if *count == 0 {
                written.pinned.remove(&object);
            }
        }
    }

    /// Choose up to `count` objects to delete, and remove them from those that may be read. The
    /// oldest written ones come first, then the last ones of the pool. Empty if none are left.
    pub fn take(&self, count: usize) -> Vec<Object> {
        let mut taken = Vec::with_capacity(count);
        let mut written = lock(&self.written);
        while taken.len() < count {
            let Some(object) = written.queue.pop_front() else { break };
            if written.pinned.contains_key(&object) {
                written.leftover.push(object);
            } else {
                taken.push(object);
            }
        }
        self.written_len.store(written.queue.len() as u64, SeqCst);
        if taken.len() < count {
            let Written { leftover, pinned, .. } = &mut *written;
            leftover.retain(|&object| {
                let free = !pinned.contains_key(&object) && !self.is_read(object);
                let take = free && taken.len() < count;
                if take {
                    taken.push(object);
                }
                !take
            });
        }
        while taken.len() < count {
            let shrink = |live: u64| live.checked_sub(1);
            let Ok(live) = self.live.fetch_update(SeqCst, SeqCst, shrink) else { break };
            let object = Object::Pool(live - 1);
            if self.is_read(object) {
                written.leftover.push(object);
            } else {
                taken.push(object);
            }
        }
        taken
    }

    /// Record objects that the store failed to delete: they may be chosen for deletion again, but
    /// are no longer read.
    pub fn not_deleted(&self, objects: impl IntoIterator<Item = Object>) {
        lock(&self.written).leftover.extend(objects);
    }

    fn is_read(&self, object: Object) -> bool {
        match object {
            Object::Pool(index) => {
                self.readers.get(index as usize).is_some_and(|readers| readers.load(SeqCst) > 0)
            }
            Object::Written { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::spec::tests::job_with;

    fn objects(pool: u64) -> Objects {
        let job = job_with(|j| {
            j["pool"]["objects"] = json!(pool);
            j["join_pool"] = json!(true);
        });
        Objects::new(&job, true).unwrap()
    }

    fn written(serial: u64) -> Object {
        Object::Written { worker: 3, serial }
    }

    #[test]
    fn keys_are_those_of_the_contract() {
        let objects = objects(300);
        assert_eq!(objects.key(Object::Pool(0x1_2345)), "p/pool-1/0001/00012345");
        assert_eq!(objects.key(written(0x1f)), "p/run-1/0003/0000001f");
        let names = objects.names().unwrap();
        assert_eq!(names.index("p/pool-1/0001/00012345"), Some(0x1_2345));
        for foreign in ["p/pool-1/0000/00012345", "p/pool-1/0001/12345", "p/pool-1/x", "q"] {
            assert_eq!(names.index(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_oldest_written_goes_first_then_the_pools_end() {
        let objects = objects(2);
        objects.add(written(0));
        objects.add(written(1));
        assert_eq!(objects.joined(), 2);
        assert_eq!(objects.take(1), [written(0)]);
        assert_eq!(objects.take(2), [written(1), Object::Pool(1)]);
        assert_eq!((objects.live(), objects.joined()), (1, 0));
        assert_eq!(objects.pin(1), None);
        assert_eq!(objects.take(5), [Object::Pool(0)]);
        assert!(objects.take(1).is_empty());
        assert_eq!(objects.pin(0), None);
        assert_eq!(objects.pin_written(9), None);
    }

    #[test]
    fn what_is_being_read_is_deleted_later() {
        let objects = objects(2);
        objects.add(written(0));
        let read = [objects.pin_written(0).unwrap(), objects.pin(1).unwrap()];
        assert_eq!(read, [written(0), Object::Pool(1)]);
        assert_eq!(objects.take(2), [Object::Pool(0)]);
        assert!(objects.take(1).is_empty());
        assert_eq!((objects.pin(1), objects.joined()), (None, 0));
        objects.unpin(written(0));
        assert_eq!(objects.take(9), [written(0)]);
        objects.unpin(Object::Pool(1));
        assert_eq!(objects.take(9), [Object::Pool(1)]);
    }

    proptest! {
        #[test]
        fn keys_are_hexadecimal(shard in 0u64..1 << 17, number: u64) {
            let key = hex_key("p/", shard, number);
            prop_assert_eq!(key, format!("p/{shard:04x}/{number:08x}"));
        }
    }

    #[test]
    fn what_the_store_kept_is_tried_again() {
        let objects = objects(1);
        let taken = objects.take(1);
        objects.not_deleted(taken);
        assert_eq!(objects.pin(0), None);
        assert_eq!(objects.take(1), [Object::Pool(0)]);
    }

    #[test]
    fn nothing_is_read_and_deleted_at_once() {
        // Readers and deleters compete for 2,000 objects; a deleted one must never be pinned.
        let objects = objects(2_000);
        let gone: Vec<AtomicU32> = (0..2_000).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (objects, gone) = (&objects, &gone);
                scope.spawn(move || {
                    let mut index = reader;
                    while objects.live() > 0 {
                        index = (index * 5 + 1) % 2_000;
                        if let Some(object) = objects.pin(index) {
                            assert_eq!(gone[index as usize].load(SeqCst), 0);
                            std::thread::yield_now();
                            assert_eq!(gone[index as usize].load(SeqCst), 0);
                            objects.unpin(object);
                        }
                    }
                });
            }
            scope.spawn(|| {
                while objects.live() > 0 {
                    for object in objects.take(3) {
                        let Object::Pool(index) = object else { panic!() };
                        gone[index as usize].store(1, SeqCst);
                    }
                }
            });
        });
    }
}

//! Storage for checkpoints as objects. Each file is an object, uploaded in parts over several
//! connections. The manifest is written last; a checkpoint without it is incomplete.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};

use storlab_base::{Error, Result, monotonic_ns};
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, RecorderFactory, WorkerRecorder};
use storlab_run::threads::panicked;
use storlab_s3::transfer::{Bucket, Moved};
use storlab_s3::{Credentials, Store};

use crate::publish::Manifest;
use crate::rank::RankTimes;
use crate::run::{Home, LOOK, Look};
use crate::spec::{CheckpointJob, Format};

const MANIFEST: &str = "storlab-checkpoint.json";
const WRITE: usize = 0;
const READ: usize = 1;

/// Create the object store of a job.
///
/// # Errors
/// [`Error::Spec`] if the job's format is not supported for objects or the job names no store;
/// errors of [`Store::new`].
pub fn store_of(job: &CheckpointJob, credentials: Option<Credentials>) -> Result<Store> {
    if job.format != Format::Raw {
        let what = "safetensors is not supported for object stores";
        return Err(Error::spec("format", what, "use raw, or a directory instead of a bucket"));
    }
    let spec = job.place.store.as_ref();
    let spec = spec.ok_or_else(|| {
        Error::spec("place", "names neither a directory nor an object store", "give one of them")
    })?;
    Store::new(spec, credentials)
}

/// Connections and counters of one rank (thread that writes its share of each checkpoint).
struct Rank {
    bucket: Bucket,
    recorder: WorkerRecorder,
}

/// Storage for checkpoints as objects in a bucket.
pub struct Objects<'o> {
    job: &'o CheckpointJob,
    store: Store,
    control: &'o Arc<Control>,
    /// Connection for manifests, listings and deletes.
    desk: Bucket,
    /// Connections of the ranks; moved into `ranks` when the window begins.
    buckets: Vec<Bucket>,
    ranks: Vec<Rank>,
}

/// Create connections to the bucket. Requests over them are no longer retried once the run is
/// cancelled, so a store that does not respond cannot delay its end. `turn` selects the first
/// endpoint to use.
fn bucket(
    job: &CheckpointJob,
    store: &Store,
    connections: usize,
    turn: usize,
    control: &Arc<Control>,
) -> Result<Bucket> {
    let control = control.clone();
    let cancelled = move || control.cancelled();
    Bucket::new(store.clone(), connections, turn, &job.place.request_policy(), cancelled)
}

/// Function that writes or reads one file of one rank. It returns false if the run is stopping.
type Transfer = fn(&CheckpointJob, &Control, &mut Rank, &str, u64) -> Result<bool>;

impl<'o> Objects<'o> {
    /// Create the storage for a job. Its ranks are not connected yet.
    pub fn new(job: &'o CheckpointJob, store: Store, control: &'o Arc<Control>) -> Result<Self> {
        let desk = bucket(job, &store, 1, 0, control)?;
        let (buckets, ranks) = (Vec::new(), Vec::new());
        Ok(Objects { job, store, control, desk, buckets, ranks })
    }

    /// Return the key prefix of checkpoint `number`.
    fn below(&self, number: u32) -> String {
        format!("{}checkpoint-{number:06}/", self.job.place.prefix)
    }

    /// Delete all objects below a prefix, the manifest first, so that a partly deleted checkpoint
    /// does not look complete.
    fn delete(&mut self, below: &str) -> Result<()> {
        let mut keys = self.desk.keys(below)?;
        keys.sort_unstable_by_key(|key| !key.ends_with(MANIFEST));
        for key in keys {
            self.desk.delete(&key)?;
        }
        Ok(())
    }

    /// Delete all objects below a prefix, and abort the unfinished multipart uploads there.
    fn delete_all(&mut self, below: &str) -> Result<()> {
        self.delete(below)?;
        for upload in self.desk.uploads(below)? {
            self.desk.abort(&upload)?;
        }
        Ok(())
    }

    /// Remove all checkpoints of the job, complete or not.
    pub fn clean(&mut self) -> Result<()> {
        self.delete_all(&format!("{}checkpoint-", self.job.place.prefix))
    }

    /// Let every rank write or read its files. Return the ranks' times; `None` if the run is
    /// stopping. The first error of a rank stops all ranks.
    fn move_all(
        &mut self,
        below: &str,
        transfer: Transfer,
        look: Look<'_>,
    ) -> Result<Option<Vec<RankTimes>>> {
        let mut ranks = std::mem::take(&mut self.ranks);
        let (job, control) = (self.job, self.control);
        let (over, overs) = channel::<()>();
        let ended: Vec<Result<RankTimes>> = std::thread::scope(|scope| {
            let work = |(index, rank)| {
                let over = over.clone();
                scope.spawn(move || {
                    let _over = over; // dropped when the thread ends, even by a panic
                    let moved = move_files(job, control, index, rank, below, transfer);
                    if moved.is_err() {
                        control.end_soon();
                    }
                    moved
                })
            };
            let threads: Vec<_> = ranks.iter_mut().enumerate().map(work).collect();
            drop(over);
            while overs.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                look();
            }
            threads
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|_| Err(panicked("checkpoint", "a rank")))
                })
                .collect()
        });
        self.ranks = ranks;
        look();
        let times = ended.into_iter().collect::<Result<Vec<_>>>()?;
        let stopped = times.iter().any(|times| times.stopped) || self.control.stopping();
        Ok((!stopped).then_some(times))
    }
}

impl Home for Objects<'_> {
    fn arm(&mut self, _: &RecorderFactory) -> Result<()> {
        let job = self.job;
        for index in 0..job.ranks {
            let bucket = bucket(job, &self.store, job.queue_depth, index, self.control)?;
            self.buckets.push(bucket);
        }
        Ok(())
    }

    fn begin(&mut self, factory: &RecorderFactory) {
        let buckets = self.buckets.drain(..).enumerate();
        let ranks = buckets.map(|(rank, bucket)| Rank { bucket, recorder: factory.recorder(rank) });
        self.ranks.extend(ranks);
    }

    fn numbers(&mut self) -> Result<Vec<u32>> {
        let prefix = format!("{}checkpoint-", self.job.place.prefix);
        let keys = self.desk.keys(&prefix)?;
        let mut numbers: Vec<u32> = keys
            .iter()
            .filter_map(|key| key.strip_prefix(&prefix)?.split_once('/'))
            .filter(|(_, name)| *name == MANIFEST)
            .filter_map(|(number, _)| number.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn describe(&self, number: u32) -> Manifest {
        let files = self.job.files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
        Manifest { number, seed: self.job.seed, io_bytes: 0, slots: 0, files }
    }

    fn manifest(&mut self, number: u32) -> Result<Manifest> {
        let key = format!("{}{MANIFEST}", self.below(number));
        let text = self.desk.read(&key)?;
        serde_json::from_slice(&text).map_err(|e| {
            let what = format!("object {key} is not a valid checkpoint manifest: {e}");
            Error::dependency(what, "remove the objects of that checkpoint")
        })
    }

    fn write(&mut self, number: u32, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let transfer: Transfer = |job, control, rank, key, bytes| {
            let Rank { bucket, recorder } = rank;
            let on_moved = &mut |moved: Moved| record(recorder, WRITE, moved);
            let stopping = || control.stopping();
            bucket.put_content(key, bytes, job.part_size, &stopping, on_moved)
        };
        self.move_all(&self.below(number), transfer, look)
    }

    fn publish(&mut self, manifest: &Manifest) -> Result<()> {
        let key = format!("{}{MANIFEST}", self.below(manifest.number));
        let text = serde_json::to_vec(manifest).unwrap_or_default();
        self.desk.put(&key, &text.into())
    }

    /// Remove a failed checkpoint. Objects that cannot be deleted are harmless: without a manifest
    /// they do not count as a checkpoint.
    fn discard(&mut self, number: u32) -> Option<String> {
        let error = self.delete_all(&self.below(number)).err()?;
        Some(format!("its objects could not be removed: {error}"))
    }

    fn restore(&mut self, manifest: &Manifest, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let transfer: Transfer = |job, control, rank, key, bytes| {
            let Rank { bucket, recorder } = rank;
            let on_moved = &mut |moved: Moved| record(recorder, READ, moved);
            let stopping = || control.stopping();
            bucket.get_content(key, bytes, job.part_size, job.verify, &stopping, on_moved)
        };
        self.move_all(&self.below(manifest.number), transfer, look)
    }

    fn remove(&mut self, number: u32) -> Result<()> {
        self.delete(&self.below(number))
    }

    fn end(&mut self, extras: &mut Extras) {
        self.ranks.clear();
        extras.backend = Some("s3");
        let policy = self.job.place.request_policy();
        extras.notes.extend(policy.notes());
        extras.details.insert("retries".into(), policy.retries().into());
        extras.details.insert("device_counters".into(), false.into());
    }
}

fn record(recorder: &mut WorkerRecorder, place: usize, moved: Moved) {
    recorder.record(place, moved.bytes, moved.latency_ns, moved.start_ns + moved.latency_ns);
}

fn move_files(
    job: &CheckpointJob,
    control: &Control,
    index: usize,
    rank: &mut Rank,
    below: &str,
    transfer: Transfer,
) -> Result<RankTimes> {
    rank.recorder.on_this_thread();
    let start_ns = monotonic_ns();
    let mut times = RankTimes {
        rank: job.first_rank + index,
        bytes: 0,
        start_ns,
        moved_ns: start_ns,
        end_ns: start_ns,
        stopped: false,
    };
    for file in job.files.iter().filter(|file| file.rank == index) {
        let key = format!("{below}{}", file.name);
        if !transfer(job, control, rank, &key, file.bytes)? {
            times.stopped = true;
            break;
        }
        times.bytes += file.bytes;
    }
    times.moved_ns = monotonic_ns();
    times.end_ns = times.moved_ns;
    rank.recorder.cross(times.end_ns);
    rank.recorder.leave_thread();
    Ok(times)
}

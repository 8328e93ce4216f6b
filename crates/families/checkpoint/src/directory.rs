//! Storage for checkpoints as files in a directory, with one permanent thread per rank.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use storlab_base::{Content, Error, Result, failed};
use storlab_io::{DeviceBytes, DeviceCounters, Stream, drop_cache, resident_bytes};
use storlab_run::control::Control;
use storlab_run::fixed::{Extras, RecorderFactory};
use storlab_run::threads::{Silence, guarded, pin_in_turn, spawn};

use crate::publish::{CheckpointDirectory, Manifest};
use crate::rank::{Order, Rank, RankShared, RankTimes, slots};
use crate::run::{Home, LOOK, Look};
use crate::spec::{CheckpointJob, Cold};

#[cfg(test)]
mod tests;

/// Storage for checkpoints as files in a directory.
pub struct Directory {
    pool: Arc<RankShared>,
    shelf: CheckpointDirectory,
    /// Directory in which the current checkpoint is being written.
    aside: PathBuf,
    /// Content with which the files are compared in the next restore.
    expected: Option<Content>,
    orders: Vec<Sender<Order>>,
    answers: Option<Receiver<Result<RankTimes>>>,
    backend: Option<(&'static str, Vec<&'static str>)>,
    device: Option<DeviceCounters>,
}

impl Directory {
    /// Create the storage for a job. Its ranks are not started yet.
    pub fn new(job: &CheckpointJob, shelf: CheckpointDirectory, control: &Arc<Control>) -> Self {
        let pool = Arc::new(RankShared {
            content: Content::new(job.seed, slots(job), job.io_bytes as usize),
            job: job.clone(),
            control: control.clone(),
            buffered: AtomicBool::new(false),
            unallocated: AtomicBool::new(false),
        });
        let (aside, expected, orders) = (PathBuf::new(), None, Vec::new());
        let (answers, backend, device) = (None, None, None);
        Directory { pool, shelf, aside, expected, orders, answers, backend, device }
    }

    /// Send a request to every rank, and wait until all have executed it. Return the ranks' times;
    /// `None` if the run is stopping. The first error of a rank stops all ranks.
    fn order_all(&mut self, order: &Order, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let answers = self.answers.as_ref().ok_or_else(ranks_missing)?;
        for rank in &self.orders {
            let _ = rank.send(order.clone());
        }
        let mut times = Vec::with_capacity(self.orders.len());
        let mut failed = None;
        let mut answered = 0;
        let mut silence = Silence::default();
        while answered < self.orders.len() {
            match answers.recv_timeout(LOOK) {
                Ok(Ok(rank)) => times.push(rank),
                Ok(Err(error)) => {
                    failed.get_or_insert(error);
                    self.pool.control.end_soon();
                }
                Err(RecvTimeoutError::Timeout) => {
                    look();
                    let (drain_ns, left) =
                        (self.pool.job.drain_timeout_ns, self.orders.len() - answered);
                    let borne = silence.bear(&self.pool.control, drain_ns, left);
                    if let Err(silent) = borne {
                        return Err(silent.after(failed));
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            answered += 1;
        }
        look();
        match failed {
            Some(error) => Err(error),
            None if times.iter().any(|t| t.stopped) || self.pool.control.stopping() => Ok(None),
            None => {
                times.sort_by_key(|t| t.rank);
                Ok(Some(times))
            }
        }
    }

    fn drop_caches(&self, directory: &Path) -> Result<()> {
        if self.pool.job.cold == Cold::AsIs {
            return Ok(());
        }
        for file in &self.pool.job.files {
            let path = directory.join(&file.name);
            drop_cache(&path).map_err(failed("drop the cache", &path))?;
        }
        Ok(())
    }

    /// Return how many bytes of a checkpoint are in the page cache.
    fn resident(&self, directory: &Path) -> Result<u64> {
        let mut sum = 0;
        for file in &self.pool.job.files {
            let path = directory.join(&file.name);
            sum += resident_bytes(&path).map_err(failed("open", &path))?;
        }
        Ok(sum)
    }
}

impl Home for Directory {
    fn arm(&mut self, factory: &RecorderFactory) -> Result<()> {
        self.shelf.open()?;
        self.shelf.tidy(&self.pool.control)?;
        self.device = DeviceCounters::of(self.shelf.home());
        let (answer, answers) = channel();
        let (ready, is_ready) = channel();
        self.answers = Some(answers);
        for index in 0..self.pool.job.ranks {
            let (order, orders) = channel();
            let (pool, answer, ready) = (self.pool.clone(), answer.clone(), ready.clone());
            let factory = factory.clone();
            let work = move || {
                let mut ready = Some(ready); // drop before waiting: `arm` waits until all are gone
                let mut report = |armed| ready.take().map(|ready| ready.send(armed));
                let begin = |stream: &Stream| {
                    report(Ok((stream.backend(), stream.features())));
                    factory.recorder(index)
                };
                let cpus = pool.job.cpus.clone();
                let rank = pin_in_turn(cpus.as_deref(), index, format_args!("rank {index}"))
                    .and_then(|()| Rank::new(pool, index, begin));
                drop(factory);
                match rank {
                    Err(error) => drop(report(Err(error))),
                    Ok(rank) => serve(rank, index, &orders, &answer),
                }
            };
            spawn(format!("storlab-rank{index}"), &format!("rank {index}"), work)?;
            self.orders.push(order);
        }
        drop(ready);
        for backend in is_ready {
            self.backend = Some(backend?);
        }
        Ok(())
    }

    fn numbers(&mut self) -> Result<Vec<u32>> {
        self.shelf.numbers()
    }

    fn describe(&self, number: u32) -> Manifest {
        let job = &self.pool.job;
        Manifest {
            number,
            seed: job.seed,
            io_bytes: job.io_bytes,
            slots: slots(job),
            files: job.files.iter().map(|file| (file.name.clone(), file.bytes)).collect(),
        }
    }

    fn manifest(&mut self, number: u32) -> Result<Manifest> {
        self.shelf.manifest(number)
    }

    fn prepare(&mut self, number: u32) -> Result<()> {
        let names: Vec<&str> = self.pool.job.files.iter().map(|file| file.name.as_str()).collect();
        self.aside = self.shelf.prepare(number, &names)?;
        Ok(())
    }

    fn write(&mut self, number: u32, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let directory = self.aside.clone();
        self.order_all(&Order::Write { number, directory }, look)
    }

    fn publish(&mut self, manifest: &Manifest) -> Result<()> {
        self.shelf.publish(manifest)
    }

    fn discard(&mut self, number: u32) -> Option<String> {
        self.shelf.discard(number);
        None
    }

    fn evict_page_cache(&mut self, manifest: &Manifest) -> Result<u64> {
        self.expected = Some(self.pool.content.of_seed(manifest.seed));
        let directory = self.shelf.whole(manifest.number);
        self.drop_caches(&directory)?;
        self.resident(&directory)
    }

    fn restore(&mut self, manifest: &Manifest, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let (number, directory) = (manifest.number, self.shelf.whole(manifest.number));
        let content = self.expected.take().ok_or_else(ranks_missing)?;
        self.order_all(&Order::Restore { number, content, directory }, look)
    }

    fn remove(&mut self, number: u32) -> Result<()> {
        self.shelf.remove(&self.shelf.whole(number))
    }

    fn device_bytes(&self) -> Option<DeviceBytes> {
        self.device.as_ref()?.now()
    }

    fn end(&mut self, extras: &mut Extras) {
        self.orders.clear();
        if let Some((name, features)) = self.backend.take() {
            extras.backend = Some(name);
            extras.features = features;
        }
        if self.pool.buffered.load(Relaxed) {
            extras
                .notes
                .push("the file system does not support O_DIRECT, so I/O was buffered".into());
        }
        if self.pool.unallocated.load(Relaxed) {
            let note = "the file system cannot preallocate files, so they grew while written";
            extras.notes.push(note.into());
        }
        extras.details.insert("device_counters".into(), self.device.is_some().into());
    }
}

fn ranks_missing() -> Error {
    Error::Backend { backend: "checkpoint", what: "the ranks were not started".into() }
}

fn serve(rank: Rank, index: usize, orders: &Receiver<Order>, answer: &Sender<Result<RankTimes>>) {
    let who = format!("rank {index}");
    let served = guarded("checkpoint", who, || {
        rank.serve(orders, answer);
        Ok(())
    });
    if let Err(error) = served {
        let _ = answer.send(Err(error));
    }
}

//! Checkpoints as files of a directory: a thread for each rank, which stays.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use storlab_base::{Content, Error, Result, monotonic_ns};
use storlab_io::{DeviceBytes, DeviceCounters, drop_cache, resident_bytes};
use storlab_run::control::Control;
use storlab_run::cpu::pin_to;
use storlab_run::fixed::Extras;

use crate::publish::{Manifest, Shelf};
use crate::rank::{Crew, Order, Rank, RankTimes, slots};
use crate::run::{Books, Home, LOOK, Look};
use crate::spec::{CheckpointJob, Cold};

/// See the module.
pub struct Directory {
    crew: Arc<Crew>,
    shelf: Shelf,
    /// Where the checkpoint that is being written lies.
    aside: PathBuf,
    orders: Vec<Sender<Order>>,
    answers: Option<Receiver<Result<RankTimes>>>,
    backend: Option<(&'static str, Vec<&'static str>)>,
    device: Option<DeviceCounters>,
}

impl Directory {
    /// Of an order, with its ranks to be started.
    pub fn new(job: &CheckpointJob, shelf: Shelf, home: &Path, control: &Arc<Control>) -> Self {
        let crew = Arc::new(Crew {
            content: Content::new(job.seed, slots(job), job.io_bytes as usize),
            job: job.clone(),
            control: control.clone(),
            buffered: AtomicBool::new(false),
            unallocated: AtomicBool::new(false),
        });
        let (aside, device) = (PathBuf::new(), DeviceCounters::of(home));
        let (orders, answers, backend) = (Vec::new(), None, None);
        Directory { crew, shelf, aside, orders, answers, backend, device }
    }

    /// Every rank carries out the order. `None` when the run is to end; the first error of a rank
    /// ends it for all.
    fn all(&mut self, order: &Order, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let answers = self.answers.as_ref().ok_or_else(mistake)?;
        for rank in &self.orders {
            let _ = rank.send(order.clone());
        }
        let mut times = Vec::with_capacity(self.orders.len());
        let mut failed = None;
        let mut answered = 0;
        let mut stopping_since = None;
        while answered < self.orders.len() {
            match answers.recv_timeout(LOOK) {
                Ok(Ok(one)) => times.push(one),
                Ok(Err(error)) => {
                    failed.get_or_insert(error);
                    self.crew.control.end_soon();
                }
                Err(RecvTimeoutError::Timeout) => {
                    look();
                    self.give_up(&mut stopping_since, self.orders.len() - answered)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            answered += 1;
        }
        look();
        match failed {
            Some(error) => Err(error),
            None if times.iter().any(|t| t.stopped) || self.crew.control.stopping() => Ok(None),
            None => {
                times.sort_by_key(|t| t.rank);
                Ok(Some(times))
            }
        }
    }

    /// A rank that is stuck in the kernel cannot be joined: it is left behind.
    fn give_up(&self, since: &mut Option<u64>, outstanding: usize) -> Result<()> {
        if !self.crew.control.stopping() {
            return Ok(());
        }
        let now = monotonic_ns();
        let waited = now - *since.get_or_insert(now);
        if waited < self.crew.job.drain_timeout_ns + 5_000_000_000 {
            return Ok(());
        }
        Err(Error::Hung { job: 0, outstanding, waited_ms: waited / 1_000_000 })
    }

    fn drop_caches(&self, directory: &Path) -> Result<()> {
        if self.crew.job.cold == Cold::AsIs {
            return Ok(());
        }
        for file in &self.crew.job.files {
            let path = directory.join(&file.name);
            drop_cache(&path)
                .map_err(|e| Error::io("drop the cache of", path.display().to_string(), 0, e))?;
        }
        Ok(())
    }

    /// Bytes of the checkpoint that lie in memory.
    fn resident(&self, directory: &Path) -> Result<u64> {
        let mut sum = 0;
        for file in &self.crew.job.files {
            let path = directory.join(&file.name);
            sum += resident_bytes(&path)
                .map_err(|e| Error::io("open", path.display().to_string(), 0, e))?;
        }
        Ok(sum)
    }
}

impl Home for Directory {
    fn start(&mut self, books: Books) -> Result<()> {
        let (answer, answers) = channel();
        let (ready, is_ready) = channel();
        self.answers = Some(answers);
        for index in 0..self.crew.job.ranks {
            let (order, orders) = channel();
            let (crew, answer, ready) = (self.crew.clone(), answer.clone(), ready.clone());
            let books = books.clone();
            let work = move || {
                let rank =
                    pin(&crew, index).and_then(|()| Rank::new(crew, index, books.ledger(index)));
                drop(books);
                match rank {
                    Err(error) => drop(ready.send(Err(error))),
                    Ok(rank) => {
                        let _ = ready.send(Ok(rank.backend()));
                        drop(ready);
                        serve(rank, index, &orders, &answer);
                    }
                }
            };
            std::thread::Builder::new()
                .name(format!("storlab-rank{index}"))
                .spawn(work)
                .map_err(|e| Error::io("start a thread for", format!("rank {index}"), 0, e))?;
            self.orders.push(order);
        }
        drop((ready, books));
        for backend in is_ready {
            self.backend = Some(backend?);
        }
        Ok(())
    }

    fn numbers(&mut self) -> Result<Vec<u32>> {
        self.shelf.numbers()
    }

    fn describe(&self, number: u32) -> Manifest {
        let job = &self.crew.job;
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
        let names: Vec<&str> = self.crew.job.files.iter().map(|file| file.name.as_str()).collect();
        self.aside = self.shelf.prepare(number, &names)?;
        Ok(())
    }

    fn write(&mut self, number: u32, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let directory = self.aside.clone();
        self.all(&Order::Write { number, directory }, look)
    }

    fn publish(&mut self, manifest: &Manifest) -> Result<()> {
        self.shelf.publish(manifest)
    }

    fn discard(&mut self, number: u32) -> Option<String> {
        self.shelf.discard(number);
        None
    }

    fn chill(&mut self, number: u32) -> Result<u64> {
        let directory = self.shelf.whole(number);
        self.drop_caches(&directory)?;
        self.resident(&directory)
    }

    fn restore(&mut self, manifest: &Manifest, look: Look<'_>) -> Result<Option<Vec<RankTimes>>> {
        let (number, directory) = (manifest.number, self.shelf.whole(manifest.number));
        let content = self.crew.content.of_seed(manifest.seed);
        self.all(&Order::Restore { number, content, directory }, look)
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
        if self.crew.buffered.load(Relaxed) {
            extras.notes.push("the file system has no O_DIRECT: I/O was buffered".into());
        }
        if self.crew.unallocated.load(Relaxed) {
            extras.notes.push("the file system cannot preallocate: files grew as written".into());
        }
        extras.details.insert("device_counters".into(), self.device.is_some().into());
    }
}

fn mistake() -> Error {
    Error::Backend { backend: "checkpoint", what: "its ranks were not started".into() }
}

fn pin(crew: &Crew, index: usize) -> Result<()> {
    let Some(cpus) = crew.job.cpus.as_ref().filter(|cpus| !cpus.is_empty()) else { return Ok(()) };
    let cpu = cpus[index % cpus.len()];
    pin_to(cpu).map_err(|e| {
        let what = format!("rank {index} cannot run on CPU {cpu}: {e}");
        Error::spec("cpus", what, "name CPUs that this process may use")
    })
}

/// A run must end, whatever becomes of one of its threads.
fn serve(rank: Rank, index: usize, orders: &Receiver<Order>, answer: &Sender<Result<RankTimes>>) {
    let work = AssertUnwindSafe(|| rank.serve(orders, answer));
    if catch_unwind(work).is_err() {
        let what = format!("rank {index} ended by a mistake in storlab: see standard error");
        let _ = answer.send(Err(Error::Backend { backend: "checkpoint", what }));
    }
}

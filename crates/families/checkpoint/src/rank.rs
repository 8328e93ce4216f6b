//! One rank: writes its files of each checkpoint, and reads them back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};

use serde::Serialize;
use storlab_base::{Content, Error, Identity, Result, monotonic_ns};
use storlab_io::{Access, File, Pass, Stream, StreamSpec};
use storlab_run::control::Control;
use storlab_run::fixed::Ledger;
use storlab_run::sampling::Kind;

use super::safetensors;
use super::spec::{CheckpointJob, Cold, FileSpec, Format, SyncMode};

/// Places in a rank's counters.
pub const KINDS: [Kind; 3] = [Kind::new(0, "write"), Kind::new(1, "read"), Kind::apart(2, "sync")];
const WRITE: usize = 0;
const READ: usize = 1;
const SYNC: usize = 2;
const HEADER: usize = 4096;

/// What a rank is told.
#[derive(Clone)]
pub enum Order {
    /// Write checkpoint `number` into a directory.
    Write { number: u32, directory: PathBuf },
    /// Read it from there, as its manifest says that it was written.
    Restore { number: u32, content: Content, directory: PathBuf },
}

/// When a rank was where, on the run's clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RankTimes {
    /// Which.
    pub rank: usize,
    /// Of its files.
    pub bytes: u64,
    /// Began.
    pub start_ns: u64,
    /// Has handed over or received its last byte.
    pub moved_ns: u64,
    /// Its files are flushed; as `moved_ns` where nothing is.
    pub end_ns: u64,
    /// It was told to stop.
    #[serde(skip)]
    pub stopped: bool,
}

/// How many buffers a rank has for I/O of that depth.
pub fn slots(job: &CheckpointJob) -> usize {
    job.queue_depth + 4
}

/// What all ranks share.
pub struct Crew {
    /// The order.
    pub job: CheckpointJob,
    /// What files hold.
    pub content: Content,
    /// How the run is ended.
    pub control: Arc<Control>,
    /// The file system has no direct I/O, though it was asked for.
    pub buffered: AtomicBool,
    /// It cannot preallocate, though it was asked to.
    pub unallocated: AtomicBool,
}

/// See the module. Belongs to its thread.
pub struct Rank {
    crew: Arc<Crew>,
    rank: usize,
    stream: Stream,
    ledger: Ledger,
}

impl Rank {
    /// With buffers that hold the pattern; `begin` opens its counters once it has them.
    pub fn new(
        crew: Arc<Crew>,
        rank: usize,
        begin: impl FnOnce(&Stream) -> Ledger,
    ) -> Result<Self> {
        let job = &crew.job;
        let io_bytes = job.io_bytes as usize;
        let mut stream =
            Stream::new(StreamSpec { io_bytes, depth: job.queue_depth, slots: slots(job) })?;
        stream.fill(|slot, buffer| buffer.copy_from_slice(crew.content.pattern(slot)));
        let ledger = begin(&stream);
        Ok(Rank { crew, rank, stream, ledger })
    }

    /// Carry out orders until there are no more.
    pub fn serve(mut self, orders: &Receiver<Order>, answers: &Sender<Result<RankTimes>>) {
        while let Ok(order) = orders.recv() {
            let answer = match order {
                Order::Write { number, directory } => self.write(number, &directory),
                Order::Restore { number, content, directory } => {
                    self.restore(number, &content, &directory)
                }
            };
            self.ledger.cross(monotonic_ns());
            if answers.send(answer).is_err() {
                return;
            }
        }
    }

    fn files(crew: &Crew, rank: usize) -> impl Iterator<Item = (usize, &FileSpec)> {
        crew.job.files.iter().enumerate().filter(move |(_, file)| file.rank == rank)
    }

    fn write(&mut self, number: u32, directory: &Path) -> Result<RankTimes> {
        let crew = self.crew.clone();
        let mut times = self.begin();
        let mut open = Vec::new();
        for (index, spec) in Self::files(&crew, self.rank) {
            let path = directory.join(&spec.name);
            let file = File::create(&path, &path.display().to_string(), crew.job.place.direct)?;
            if crew.job.place.direct && !file.is_direct() {
                crew.buffered.store(true, Relaxed);
            }
            if crew.job.preallocate && !file.preallocate(spec.bytes)? {
                crew.unallocated.store(true, Relaxed);
            }
            if self.write_one(&crew, number, index, spec, &file)? == Pass::Stopped {
                times.stopped = true;
                return Ok(times);
            }
            times.bytes += spec.bytes;
            open.push(file);
        }
        times.moved_ns = monotonic_ns();
        if crew.job.sync == SyncMode::Fsync {
            for file in open {
                let begin = monotonic_ns();
                file.sync()?;
                let now = monotonic_ns();
                self.ledger.record(SYNC, 0, now - begin, now);
            }
        }
        times.end_ns = monotonic_ns();
        Ok(times)
    }

    fn write_one(
        &mut self,
        crew: &Crew,
        number: u32,
        index: usize,
        spec: &FileSpec,
        file: &File,
    ) -> Result<Pass> {
        let (content, control) = (&crew.content, &crew.control);
        let header = header_of(&crew.job, spec);
        let whose = Identity { number, file: index, header: header.len() as u64 };
        let ledger = &mut self.ledger;
        let ended = self.stream.write(
            file,
            spec.bytes,
            &|| control.stopping(),
            |offset, slot, buffer| {
                if offset > 0 && slot == 0 && !header.is_empty() {
                    let end = buffer.len().min(HEADER); // the header lay there
                    buffer[..end].copy_from_slice(&content.pattern(slot)[..end]);
                }
                content.stamp_all(whose, offset, buffer);
                if offset == 0 {
                    buffer[..header.len()].copy_from_slice(&header);
                }
            },
            |chunk| {
                let end_ns = chunk.start_ns + chunk.latency_ns;
                ledger.record(WRITE, chunk.data.len() as u64, chunk.latency_ns, end_ns);
                Ok(())
            },
        )?;
        if ended == Pass::Whole && file.is_direct() {
            file.truncate(spec.bytes)?;
        }
        if !header.is_empty() {
            self.stream.refill(0, |buffer| {
                buffer[..HEADER].copy_from_slice(&content.pattern(0)[..HEADER]);
            });
        }
        Ok(ended)
    }

    /// Leaves the buffers with what was read: a rank that has restored writes no more.
    fn restore(&mut self, number: u32, content: &Content, directory: &Path) -> Result<RankTimes> {
        let crew = self.crew.clone();
        let direct = crew.job.cold == Cold::Direct;
        let mut times = self.begin();
        for (index, spec) in Self::files(&crew, self.rank) {
            let path = directory.join(&spec.name);
            let file = open_to_read(&path, direct)?;
            if direct && !file.is_direct() {
                crew.buffered.store(true, Relaxed);
            }
            let header = header_of(&crew.job, spec);
            let whose = Identity { number, file: index, header: header.len() as u64 };
            let ledger = &mut self.ledger;
            let ended =
                self.stream.read(&file, spec.bytes, &|| crew.control.stopping(), |chunk| {
                    let end_ns = chunk.start_ns + chunk.latency_ns;
                    ledger.record(READ, chunk.data.len() as u64, chunk.latency_ns, end_ns);
                    if crew.job.verify {
                        check_header(&header, file.name(), chunk.offset, chunk.data)?;
                        content.check(whose, file.name(), chunk.offset, chunk.data)?;
                    }
                    Ok(())
                })?;
            if ended == Pass::Stopped {
                times.stopped = true;
                return Ok(times);
            }
            times.bytes += spec.bytes;
        }
        times.moved_ns = monotonic_ns();
        times.end_ns = times.moved_ns;
        Ok(times)
    }

    fn begin(&self) -> RankTimes {
        let now = monotonic_ns();
        RankTimes {
            rank: self.crew.job.first_rank + self.rank,
            bytes: 0,
            start_ns: now,
            moved_ns: now,
            end_ns: now,
            stopped: false,
        }
    }
}

fn header_of(job: &CheckpointJob, spec: &FileSpec) -> Vec<u8> {
    match job.format {
        Format::Raw => Vec::new(),
        Format::Safetensors => safetensors::header(&spec.name, spec.bytes).unwrap_or_default(),
    }
}

/// What was read at `offset` begins with what of the header lies there.
fn check_header(header: &[u8], name: &str, offset: u64, data: &[u8]) -> Result<()> {
    let header = &header[header.len().min(offset as usize)..];
    let end = header.len().min(data.len());
    if data[..end] == header[..end] {
        return Ok(());
    }
    let what = "the header is not what was written";
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    Err(Error::io("verify", name, offset, source))
}

/// With direct I/O where the file system has it.
fn open_to_read(path: &Path, direct: bool) -> Result<File> {
    let name = path.display().to_string();
    let access = |direct| Access { read: true, write: false, direct };
    match File::open(path, &name, access(direct)) {
        Err(Error::Io { source, .. }) if direct && source.raw_os_error() == Some(libc::EINVAL) => {
            File::open(path, &name, access(false))
        }
        opened => opened,
    }
}

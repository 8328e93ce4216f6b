//! Rank: a thread that writes its files of each checkpoint, and reads them back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};

use serde::Serialize;
use storlab_base::{Content, Error, Identity, Result, monotonic_ns};
use storlab_io::{Access, File, Pass, Stream, StreamSpec};
use storlab_run::control::Control;
use storlab_run::fixed::WorkerRecorder;
use storlab_run::sampling::Kind;

use super::safetensors;
use super::spec::{CheckpointJob, Cold, FileSpec, Format, SyncMode};

/// Kinds of operations of a rank, with their indices in the counters.
pub const KINDS: [Kind; 3] = [Kind::new(0, "write"), Kind::new(1, "read"), Kind::apart(2, "sync")];
const WRITE: usize = 0;
const READ: usize = 1;
const SYNC: usize = 2;
const HEADER: usize = 4096;

/// Request to the thread of a rank: write or restore a checkpoint.
#[derive(Clone)]
pub enum Order {
    /// Write checkpoint `number` into a directory.
    Write { number: u32, directory: PathBuf },
    /// Read checkpoint `number` from a directory, and compare it with `content` if the job
    /// verifies.
    Restore { number: u32, content: Content, directory: PathBuf },
}

/// Times of one rank for one checkpoint, on the run's clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RankTimes {
    /// Number of the rank, counted over all clients.
    pub rank: usize,
    /// Bytes of the rank's files.
    pub bytes: u64,
    /// Time at which the rank began to write or read.
    pub start_ns: u64,
    /// Time at which the rank's last byte was written or read.
    pub moved_ns: u64,
    /// Time at which the rank's files were flushed; equal to `moved_ns` if there was no flush.
    pub end_ns: u64,
    /// Whether the run ended before the rank was done.
    #[serde(skip)]
    pub stopped: bool,
}

/// Return the number of I/O buffers of a rank.
pub fn slots(job: &CheckpointJob) -> usize {
    job.queue_depth + 4
}

/// State shared by the threads of all ranks.
pub struct RankShared {
    /// Parsed description of the run.
    pub job: CheckpointJob,
    /// Generator of the files' content.
    pub content: Content,
    /// Handle by which the run is stopped.
    pub control: Arc<Control>,
    /// Set if direct I/O was requested but the file system does not support it.
    pub buffered: AtomicBool,
    /// Set if preallocation was requested but the file system does not support it.
    pub unallocated: AtomicBool,
}

/// Rank with its buffers and counters, owned by one thread.
pub struct Rank {
    pool: Arc<RankShared>,
    rank: usize,
    stream: Stream,
    recorder: WorkerRecorder,
}

impl Rank {
    /// Create a rank, fill its buffers with the content's pattern, and call `begin` to open its
    /// counters.
    pub fn new(
        pool: Arc<RankShared>,
        rank: usize,
        begin: impl FnOnce(&Stream) -> WorkerRecorder,
    ) -> Result<Self> {
        let job = &pool.job;
        let io_bytes = job.io_bytes as usize;
        let mut stream =
            Stream::new(StreamSpec { io_bytes, depth: job.queue_depth, slots: slots(job) })?;
        stream.fill(|slot, buffer| buffer.copy_from_slice(pool.content.pattern(slot)));
        let recorder = begin(&stream);
        Ok(Rank { pool, rank, stream, recorder })
    }

    /// Execute requests until the channel is closed.
    pub fn serve(mut self, orders: &Receiver<Order>, answers: &Sender<Result<RankTimes>>) {
        while let Ok(order) = orders.recv() {
            let answer = match order {
                Order::Write { number, directory } => self.write(number, &directory),
                Order::Restore { number, content, directory } => {
                    self.restore(number, &content, &directory)
                }
            };
            self.recorder.cross(monotonic_ns());
            if answers.send(answer).is_err() {
                return;
            }
        }
    }

    fn files(pool: &RankShared, rank: usize) -> impl Iterator<Item = (usize, &FileSpec)> {
        pool.job.files.iter().enumerate().filter(move |(_, file)| file.rank == rank)
    }

    fn write(&mut self, number: u32, directory: &Path) -> Result<RankTimes> {
        let pool = self.pool.clone();
        let mut times = self.begin();
        let mut open = Vec::new();
        for (index, spec) in Self::files(&pool, self.rank) {
            let path = directory.join(&spec.name);
            let file = File::create(&path, &path.display().to_string(), pool.job.place.direct)?;
            if pool.job.place.direct && !file.is_direct() {
                pool.buffered.store(true, Relaxed);
            }
            if pool.job.preallocate && !file.preallocate(spec.bytes)? {
                pool.unallocated.store(true, Relaxed);
            }
            if self.write_one(&pool, number, index, spec, &file)? == Pass::Stopped {
                times.stopped = true;
                return Ok(times);
            }
            times.bytes += spec.bytes;
            open.push(file);
        }
        times.moved_ns = monotonic_ns();
        if pool.job.sync == SyncMode::Fsync {
            for file in open {
                let begin = monotonic_ns();
                file.sync()?;
                let now = monotonic_ns();
                self.recorder.record(SYNC, 0, now - begin, now);
            }
        }
        times.end_ns = monotonic_ns();
        Ok(times)
    }

    fn write_one(
        &mut self,
        pool: &RankShared,
        number: u32,
        index: usize,
        spec: &FileSpec,
        file: &File,
    ) -> Result<Pass> {
        let (content, control) = (&pool.content, &pool.control);
        let header = header_of(&pool.job, spec);
        let whose = Identity { number, file: index, header: header.len() as u64 };
        let recorder = &mut self.recorder;
        let ended = self.stream.write(
            file,
            spec.bytes,
            &|| control.stopping(),
            |offset, slot, buffer| {
                if offset > 0 && slot == 0 && !header.is_empty() {
                    let end = buffer.len().min(HEADER); // slot 0 still holds the header
                    buffer[..end].copy_from_slice(&content.pattern(slot)[..end]);
                }
                content.stamp_all(whose, offset, buffer);
                if offset == 0 {
                    buffer[..header.len()].copy_from_slice(&header);
                }
            },
            |chunk| {
                let end_ns = chunk.start_ns + chunk.latency_ns;
                recorder.record(WRITE, chunk.data.len() as u64, chunk.latency_ns, end_ns);
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

    /// Read the rank's files of a checkpoint. The buffers then contain data that was read instead
    /// of the pattern, so the rank cannot write afterwards.
    fn restore(&mut self, number: u32, content: &Content, directory: &Path) -> Result<RankTimes> {
        let pool = self.pool.clone();
        let direct = pool.job.cold == Cold::Direct;
        let mut times = self.begin();
        for (index, spec) in Self::files(&pool, self.rank) {
            let path = directory.join(&spec.name);
            let file = open_to_read(&path, direct)?;
            if direct && !file.is_direct() {
                pool.buffered.store(true, Relaxed);
            }
            let header = header_of(&pool.job, spec);
            let whose = Identity { number, file: index, header: header.len() as u64 };
            let recorder = &mut self.recorder;
            let ended =
                self.stream.read(&file, spec.bytes, &|| pool.control.stopping(), |chunk| {
                    let end_ns = chunk.start_ns + chunk.latency_ns;
                    recorder.record(READ, chunk.data.len() as u64, chunk.latency_ns, end_ns);
                    if pool.job.verify {
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
            rank: self.pool.job.first_rank + self.rank,
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

/// Check the part of a file's header that lies in `data`, which was read at `offset`.
fn check_header(header: &[u8], name: &str, offset: u64, data: &[u8]) -> Result<()> {
    let header = &header[header.len().min(offset as usize)..];
    let end = header.len().min(data.len());
    if data[..end] == header[..end] {
        return Ok(());
    }
    let what = "the header differs from the one that was written";
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    Err(Error::io("verify", name, offset, source))
}

/// Open a file for reading, with direct I/O if `direct` and if the file system supports it.
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

//! Sequential I/O of whole files at a high queue depth. Files are processed one at a time, with
//! registered buffers that are reused from file to file.
//!
//! Several chunks are in flight at once, and the caller gets them in order. When a file is written,
//! chunk `k` uses buffer `k` modulo the number of buffers, so a caller that fills the buffers only
//! once still knows the content of each chunk.
//!
//! Reads of a file in the page cache complete at once. For such a file, only as many bytes are
//! requested at a time as fit into the processor's cache, always into the same buffers.

#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use storlab_base::{Error, OpKind, Result, monotonic_ns};

use crate::arena::Arena;
use crate::backend::{Backend, Completion, Op, Queue};
use crate::file::File;
use crate::kinds::{BackendKind, UseBackend};

/// Alignment in bytes of lengths and offsets under `O_DIRECT`; sufficient for all current devices.
pub const SECTOR: u64 = 4096;
/// Time after which a wait for completions is interrupted to check whether the run has ended.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait in ns for operations that are still in flight when the work on a file ends.
const DRAIN_NS: u64 = 30_000_000_000;
/// Number of bytes to request at a time from a file in the page cache. More would be evicted from
/// the processor core's cache before the caller uses it.
const NEAR_BYTES: usize = 256 << 10;

/// I/O size, queue depth and number of buffers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// Bytes per I/O, a multiple of [`SECTOR`].
    pub io_bytes: usize,
    /// Queue depth: maximum number of I/Os in flight.
    pub depth: usize,
    /// Number of buffers, at least the queue depth.
    pub slots: usize,
}

/// Chunk of a file that has just been read or written.
#[derive(Debug)]
pub struct Chunk<'c> {
    /// Offset of the chunk in the file, in bytes.
    pub offset: u64,
    /// Data that was read or written.
    pub data: &'c [u8],
    /// Index of the buffer from which this chunk is written: the chunk's number modulo the number
    /// of buffers. A read reports this index too, even if it used another buffer.
    pub slot: usize,
    /// Time from submission to completion, in ns. It includes waiting if the completion arrives
    /// while the caller processes another chunk.
    pub latency_ns: u64,
    /// Time of submission, in ns on the run's clock.
    pub start_ns: u64,
}

/// Outcome of reading or writing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// All requested bytes were read or written.
    Whole,
    /// The run ended before all bytes were read or written.
    Stopped,
}

/// Sequential reader and writer of files. Use it only on the thread that created it.
pub struct Stream {
    engine: Box<dyn Passes>,
    spec: StreamSpec,
}

/// Interface of [`Engine`] that is the same for every type of backend.
trait Passes {
    fn name(&self) -> &'static str;

    fn features(&self) -> Vec<&'static str>;

    fn arena(&self) -> &Arena;

    fn pass(&mut self, job: &Job<'_>, fill: Fill<'_>, take: Each<'_>) -> Result<Pass>;
}

impl<B: Backend> Passes for Engine<B> {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn features(&self) -> Vec<&'static str> {
        self.backend.features()
    }

    fn arena(&self) -> &Arena {
        self.backend.arena()
    }

    fn pass(&mut self, job: &Job<'_>, fill: Fill<'_>, take: Each<'_>) -> Result<Pass> {
        self.backend.replace_file(0, job.file);
        let chunks = job.len.div_ceil(self.spec.io_bytes as u64);
        let ended = self.move_all(job, chunks, fill, take);
        // Even after an error or a stop, wait until no operation uses the buffers.
        match (ended, self.drain(job)) {
            (Err(first), Err(later)) => Err(later.after(Some(first))),
            (ended, drained) => drained.and(ended),
        }
    }
}

/// Work that creates an [`Engine`] with a backend.
struct NewEngine(StreamSpec);

impl UseBackend for NewEngine {
    type Output = Box<dyn Passes>;

    fn with<B: Backend + 'static>(self, backend: B) -> Result<Self::Output> {
        Ok(Box::new(Engine::new(backend, self.0)))
    }
}

impl Stream {
    /// Allocate the buffers and create a ring, or helper threads if `io_uring` is not available.
    ///
    /// # Errors
    /// [`Error::Spec`] for an invalid I/O size or queue depth, [`Error::Io`] if there is not enough
    /// memory or threads cannot be created, [`Error::Backend`] if the ring cannot be created.
    pub fn new(spec: StreamSpec) -> Result<Self> {
        if spec.io_bytes == 0 || !(spec.io_bytes as u64).is_multiple_of(SECTOR) {
            return Err(Error::spec(
                "io_bytes",
                format!("{} is not a multiple of 4096", spec.io_bytes),
                "use a multiple of 4096, such as 1MiB",
            ));
        }
        if spec.depth == 0 || spec.slots < spec.depth {
            let what = format!("{} is invalid with {} buffers", spec.depth, spec.slots);
            let fix = "use at least 1 and at most the number of buffers";
            return Err(Error::spec("queue_depth", what, fix));
        }
        let arena = Arena::new(spec.slots, spec.io_bytes)
            .map_err(|e| Error::io("allocation", "buffers", 0, e))?;
        let files = Arc::default(); // `pass` sets the file
        let queue = Queue::of_depth(spec.depth);
        let engine = BackendKind::fastest().open(files, arena, queue, NewEngine(spec))?;
        Ok(Stream { engine, spec })
    }

    /// Return the name of the backend: `uring` or `posix`.
    pub fn backend(&self) -> &'static str {
        self.engine.name()
    }

    /// Return the kernel features that the backend uses.
    pub fn features(&self) -> Vec<&'static str> {
        self.engine.features()
    }

    /// Return the stream's I/O size, queue depth and number of buffers.
    pub fn spec(&self) -> StreamSpec {
        self.spec
    }

    /// Fill every buffer with initial data. Call this before any I/O.
    pub fn fill(&mut self, mut fill: impl FnMut(usize, &mut [u8])) {
        for slot in 0..self.spec.slots {
            self.refill(slot, |buffer| fill(slot, buffer));
        }
    }

    /// Fill one buffer with data. Call this only while no file is being read or written.
    pub fn refill(&mut self, slot: usize, fill: impl FnOnce(&mut [u8])) {
        // SAFETY: no operation is in flight between two files.
        fill(unsafe { self.engine.arena().slot_mut(slot as u32) });
    }

    /// Read the first `len` bytes of a file. `take` is called with each chunk in order.
    ///
    /// # Errors
    /// The errors of [`Stream::read_part`].
    pub fn read(
        &mut self,
        file: &File,
        len: u64,
        stopping: &dyn Fn() -> bool,
        take: impl FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<Pass> {
        self.read_part(file, 0, len, stopping, take)
    }

    /// Read `len` bytes of a file, starting at offset `from`. `take` is called with each chunk in
    /// order.
    ///
    /// If the file is open for direct I/O, `from` must be a multiple of [`SECTOR`].
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Short`] with the file's name and the offset if a read fails or is
    /// short, [`Error::Hung`] if operations in flight do not end (possibly with an earlier error as
    /// the cause), or the error that `take` returns.
    pub fn read_part(
        &mut self,
        file: &File,
        from: u64,
        len: u64,
        stopping: &dyn Fn() -> bool,
        mut take: impl FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<Pass> {
        let job = Job { file, from, len, kind: OpKind::Read, stopping };
        let mut keep = |_: u64, _: usize, _: &mut [u8]| {};
        self.engine.pass(&job, &mut keep, &mut take)
    }

    /// Write the first `len` bytes of a file.
    ///
    /// `fill` prepares each chunk before it is written. It gets the chunk's offset in the file, the
    /// buffer's index and the buffer, which still holds its previous content. `take` is called with
    /// each chunk in order after it is written.
    ///
    /// If the file is open for direct I/O, the last chunk is padded to a multiple of [`SECTOR`],
    /// and the caller must truncate the file.
    ///
    /// # Errors
    /// The errors of [`Stream::read_part`].
    pub fn write(
        &mut self,
        file: &File,
        len: u64,
        stopping: &dyn Fn() -> bool,
        mut fill: impl FnMut(u64, usize, &mut [u8]),
        mut take: impl FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<Pass> {
        let job = Job { file, from: 0, len, kind: OpKind::Write, stopping };
        self.engine.pass(&job, &mut fill, &mut take)
    }
}

/// Request to read or write a range of one file.
struct Job<'j> {
    file: &'j File,
    from: u64,
    len: u64,
    kind: OpKind,
    stopping: &'j dyn Fn() -> bool,
}

impl Job<'_> {
    fn failed(&self, offset: u64, result: i32) -> Error {
        let source = std::io::Error::from_raw_os_error(-result);
        Error::io(self.kind.name(), self.file.name(), offset, source)
    }
}

#[derive(Clone, Copy, Default)]
struct Slot {
    start_ns: u64,
    latency_ns: u64,
    /// Result of the slot's operation; `None` while it is in flight.
    result: Option<i32>,
}

struct Engine<B> {
    backend: B,
    spec: StreamSpec,
    slots: Vec<Slot>,
    completions: Vec<Completion>,
    /// Slots whose operations were queued since the last submission.
    fresh: Vec<usize>,
    in_flight: usize,
    /// Longest wait in ns for operations that are still in flight when the work on a file ends.
    drain_ns: u64,
    /// Index of the chunk that uses the first buffer. It rises while a file is read from the page
    /// cache, so that the same buffers are reused.
    base: u64,
}

type Fill<'f> = &'f mut dyn FnMut(u64, usize, &mut [u8]);
type Each<'e> = &'e mut dyn FnMut(Chunk<'_>) -> Result<()>;

impl<B: Backend> Engine<B> {
    fn new(backend: B, spec: StreamSpec) -> Self {
        let slots = vec![Slot::default(); spec.slots];
        let (completions, fresh) = (Vec::new(), Vec::new());
        let (in_flight, drain_ns, base) = (0, DRAIN_NS, 0);
        Engine { backend, spec, slots, completions, fresh, in_flight, drain_ns, base }
    }

    fn move_all(
        &mut self,
        job: &Job<'_>,
        chunks: u64,
        fill: Fill<'_>,
        take: Each<'_>,
    ) -> Result<Pass> {
        let (mut issued, mut handed) = (0, 0);
        let slots = self.spec.slots as u64;
        // Assume that the file is in the page cache until a read does not complete at once.
        let mut waits = job.kind == OpKind::Write || job.file.is_direct();
        self.base = 0;
        while handed < chunks {
            if (job.stopping)() {
                return Ok(Pass::Stopped);
            }
            let all_handed = issued == handed;
            if all_handed && !waits {
                self.base = issued;
            }
            let most = if waits { slots } else { self.near().min(slots) };
            while (waits || all_handed)
                && issued < chunks
                && issued - handed < most
                && self.in_flight < self.spec.depth
            {
                self.issue(job, issued, fill);
                issued += 1;
            }
            let next = self.slot_of(handed);
            self.turn(waits && self.slots[next].result.is_none())?;
            // Pass on one chunk, then look for completions again, because some may have arrived
            // while the caller processed it.
            if let Some(result) = self.slots[next].result {
                self.hand_over(job, handed, next, result, take)?;
                handed += 1;
            } else {
                waits = true;
            }
        }
        Ok(Pass::Whole)
    }

    /// Return the number of chunks that fit into a processor core's cache, at least 1.
    fn near(&self) -> u64 {
        (NEAR_BYTES / self.spec.io_bytes).max(1) as u64
    }

    /// Return the index of the buffer that a chunk uses.
    fn slot_of(&self, chunk: u64) -> usize {
        ((chunk - self.base) % self.spec.slots as u64) as usize
    }

    fn issue(&mut self, job: &Job<'_>, chunk: u64, fill: Fill<'_>) {
        let slot = self.slot_of(chunk);
        let (offset, len) = self.place_of(job, chunk);
        if job.kind == OpKind::Write {
            // SAFETY: the caller has received the slot's previous chunk, so no operation is in
            // flight on it.
            let buffer = unsafe { self.backend.arena().slot_mut(slot as u32) };
            fill(offset, slot, &mut buffer[..len as usize]);
        }
        let len = if job.file.is_direct() { len.next_multiple_of(SECTOR) } else { len };
        self.slots[slot] = Slot::default();
        self.fresh.push(slot);
        self.backend.push(&Op {
            kind: job.kind,
            file: 0,
            data_only: false,
            slot: slot as u32,
            slot_offset: 0,
            len: len as u32,
            offset,
            tag: slot as u64,
        });
        self.in_flight += 1;
    }

    /// Return the offset and length of a chunk in bytes.
    fn place_of(&self, job: &Job<'_>, chunk: u64) -> (u64, u64) {
        let done = chunk * self.spec.io_bytes as u64;
        (job.from + done, (job.len - done).min(self.spec.io_bytes as u64))
    }

    /// Submit the queued operations, and collect completions.
    ///
    /// The latency of an operation starts here, so it does not include the time to fill its buffer.
    fn turn(&mut self, wait: bool) -> Result<()> {
        let start_ns = if self.fresh.is_empty() { 0 } else { monotonic_ns() };
        for slot in self.fresh.drain(..) {
            self.slots[slot].start_ns = start_ns;
        }
        self.backend
            .submit(wait && self.in_flight > 0, Some(LOOK))
            .map_err(|e| Error::io("submit", self.backend.name(), 0, e))?;
        self.backend.reap(&mut self.completions, usize::MAX);
        let now = if self.completions.is_empty() { 0 } else { monotonic_ns() };
        for completion in self.completions.drain(..) {
            let slot = &mut self.slots[completion.tag as usize];
            slot.latency_ns = now.saturating_sub(slot.start_ns);
            slot.result = Some(completion.result);
            self.in_flight -= 1;
        }
        Ok(())
    }

    fn hand_over(
        &mut self,
        job: &Job<'_>,
        chunk: u64,
        slot: usize,
        result: i32,
        take: Each<'_>,
    ) -> Result<()> {
        let (offset, len) = self.place_of(job, chunk);
        if result < 0 {
            return Err(job.failed(offset, result));
        }
        let moved = u64::from(result.unsigned_abs());
        if moved < len && job.kind == OpKind::Write {
            self.write_rest(job, offset, moved, slot)?;
        } else if moved < len {
            return Err(Error::Short {
                operation: job.kind.name(),
                path: job.file.name().to_owned(),
                offset,
                wanted: len,
                moved,
            });
        }
        let Slot { start_ns, latency_ns, .. } = self.slots[slot];
        // SAFETY: the slot's operation has ended, and no other is in flight on the slot.
        let data = unsafe { self.backend.arena().slot_mut(slot as u32) };
        let slot = (chunk % self.spec.slots as u64) as usize;
        take(Chunk { offset, data: &data[..len as usize], slot, latency_ns, start_ns })
    }

    /// Write the missing bytes of a short write with blocking calls. If that fails, its error names
    /// the reason, such as a full disk.
    fn write_rest(&mut self, job: &Job<'_>, offset: u64, moved: u64, slot: usize) -> Result<()> {
        let chunk = (offset - job.from) / self.spec.io_bytes as u64;
        let (_, mut len) = self.place_of(job, chunk);
        let mut done = moved;
        if job.file.is_direct() {
            len = len.next_multiple_of(SECTOR);
            done -= moved % SECTOR;
        }
        // SAFETY: the slot's operation has ended, and no other is in flight on the slot.
        let data = unsafe { self.backend.arena().slot_mut(slot as u32) };
        job.file.write_all_at(&data[done as usize..len as usize], offset + done)
    }

    fn drain(&mut self, job: &Job<'_>) -> Result<()> {
        if self.in_flight == 0 {
            return Ok(());
        }
        self.backend.cancel_all();
        let since = monotonic_ns();
        while self.in_flight > 0 {
            self.turn(true)?;
            let waited = monotonic_ns().saturating_sub(since);
            if self.in_flight > 0 && waited > self.drain_ns {
                let (place, outstanding) = (job.file.name().to_owned(), self.in_flight);
                return Err(Error::Hung { place, outstanding, waited_ms: waited / 1_000_000 });
            }
        }
        Ok(())
    }
}

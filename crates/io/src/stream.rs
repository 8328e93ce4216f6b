//! Deep sequential I/O: one file at a time, from start to end, in registered buffers that are kept
//! from file to file.
//!
//! Chunks are in flight side by side and are handed over in order. Chunk `k` of a file that is
//! written lies in buffer `k` modulo their number, so that a caller who leaves his data in the
//! buffers knows what is in them.
//!
//! What lies in the page cache is there as soon as it is asked for. Of such a file no more is asked
//! for at once than the processor's caches hold, and always into the same buffers.

#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use storlab_base::{Error, OpKind, Result, monotonic_ns};

use crate::arena::Arena;
use crate::backend::{Backend, Completion, Op};
use crate::file::File;
use crate::posix::PosixBackend;
use crate::probe::probe;
use crate::uring::UringBackend;

/// What `O_DIRECT` asks of lengths and offsets, on every device of today.
pub const SECTOR: u64 = 4096;
/// A wait looks this often whether the run is to end.
const LOOK: Duration = Duration::from_millis(100);
/// What is in flight when a run ends is waited for so long.
const DRAIN_NS: u64 = 30_000_000_000;
/// Of a file in the page cache, asked for at once: more falls out of a core's cache before the
/// caller has it.
const NEAR_BYTES: usize = 256 << 10;

/// Size of one I/O, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// Bytes of one I/O, a multiple of [`SECTOR`].
    pub io_bytes: usize,
    /// In flight at most.
    pub depth: usize,
    /// Buffers: `depth` or more.
    pub slots: usize,
}

/// One chunk of a file, just moved.
#[derive(Debug)]
pub struct Chunk<'c> {
    /// In the file.
    pub offset: u64,
    /// Its bytes; of a write: what was written.
    pub data: &'c [u8],
    /// Which buffer a writer of the file has it in.
    pub slot: usize,
    /// Submission to completion. What ends while the caller has another chunk is seen when he
    /// gives it back.
    pub latency_ns: u64,
    /// When it was submitted, on the run's clock.
    pub start_ns: u64,
}

/// How a pass over a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// All of it was moved.
    Whole,
    /// The run was ended.
    Stopped,
}

/// See the module. Belongs to the thread that made it.
pub struct Stream {
    inner: Inner,
    spec: StreamSpec,
}

enum Inner {
    Uring(Box<Engine<UringBackend>>),
    Posix(Box<Engine<PosixBackend>>),
}

impl Stream {
    /// Buffers and a ring, or threads where `io_uring` is forbidden.
    ///
    /// # Errors
    /// [`Error::Spec`] for an impossible size, [`Error::Io`] where there is no memory.
    pub fn new(spec: StreamSpec) -> Result<Self> {
        if spec.io_bytes == 0 || !(spec.io_bytes as u64).is_multiple_of(SECTOR) {
            return Err(Error::spec("io_bytes", "is no multiple of 4096", "use one, such as 1MiB"));
        }
        if spec.depth == 0 || spec.slots < spec.depth {
            return Err(Error::spec("queue_depth", "needs a buffer for each I/O", "use 1 or more"));
        }
        let arena = Arena::new(spec.slots, spec.io_bytes)
            .map_err(|e| Error::io("allocation", "buffers", 0, e))?;
        let files = Arc::new(Vec::new()); // each pass brings its own
        let inner = if probe().uring {
            let backend = UringBackend::new(files, arena, spec.depth, spec.depth)?;
            Inner::Uring(Box::new(Engine::new(backend, spec)))
        } else {
            let backend = PosixBackend::new(files, arena, spec.depth)
                .map_err(|e| Error::io("start", "threads of backend posix", 0, e))?;
            Inner::Posix(Box::new(Engine::new(backend, spec)))
        };
        Ok(Stream { inner, spec })
    }

    /// `uring` or `posix`.
    pub fn backend(&self) -> &'static str {
        match &self.inner {
            Inner::Uring(engine) => engine.backend.name(),
            Inner::Posix(engine) => engine.backend.name(),
        }
    }

    /// Abilities of the kernel that are used.
    pub fn features(&self) -> Vec<&'static str> {
        match &self.inner {
            Inner::Uring(engine) => engine.backend.features(),
            Inner::Posix(engine) => engine.backend.features(),
        }
    }

    /// Size of I/Os, and how many.
    pub fn spec(&self) -> StreamSpec {
        self.spec
    }

    /// Put something into every buffer, before any I/O.
    pub fn fill(&mut self, mut fill: impl FnMut(usize, &mut [u8])) {
        for slot in 0..self.spec.slots {
            self.refill(slot, |buffer| fill(slot, buffer));
        }
    }

    /// Put something into one buffer, between two passes.
    pub fn refill(&mut self, slot: usize, fill: impl FnOnce(&mut [u8])) {
        let arena = match &mut self.inner {
            Inner::Uring(engine) => engine.backend.arena(),
            Inner::Posix(engine) => engine.backend.arena(),
        };
        // SAFETY: nothing is in flight between two passes.
        fill(unsafe { arena.slot_mut(slot as u32) });
    }

    /// Read the first `len` bytes of a file. `each` gets the chunks in order.
    ///
    /// # Errors
    /// As [`Stream::read_part`].
    pub fn read(
        &mut self,
        file: &File,
        len: u64,
        stopping: &dyn Fn() -> bool,
        take: impl FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<Pass> {
        self.read_part(file, 0, len, stopping, take)
    }

    /// Read `len` bytes from `from` on, which is a multiple of [`SECTOR`] where the file is open
    /// for direct I/O. `each` gets the chunks in order.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Short`] with the file's name and the offset, [`Error::Hung`]
    /// where what is in flight does not end, also after another one, and what `each` returns.
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
        match &mut self.inner {
            Inner::Uring(engine) => engine.pass(&job, &mut keep, &mut take),
            Inner::Posix(engine) => engine.pass(&job, &mut keep, &mut take),
        }
    }

    /// Write `len` bytes from the start of a file: `fill` makes the bytes at an offset in a buffer,
    /// which still has what the last use left in it. `each` hears of every chunk, in order.
    ///
    /// Where the file is open for direct I/O, the last chunk is written up to the next multiple of
    /// [`SECTOR`]: the caller truncates the file to its length.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn write(
        &mut self,
        file: &File,
        len: u64,
        stopping: &dyn Fn() -> bool,
        mut fill: impl FnMut(u64, usize, &mut [u8]),
        mut take: impl FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<Pass> {
        let job = Job { file, from: 0, len, kind: OpKind::Write, stopping };
        match &mut self.inner {
            Inner::Uring(engine) => engine.pass(&job, &mut fill, &mut take),
            Inner::Posix(engine) => engine.pass(&job, &mut fill, &mut take),
        }
    }
}

/// One pass over one file.
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
    /// Of the completion; `None` while in flight.
    result: Option<i32>,
}

struct Engine<B> {
    backend: B,
    spec: StreamSpec,
    slots: Vec<Slot>,
    completions: Vec<Completion>,
    /// Slots that were pushed since the last submit.
    fresh: Vec<usize>,
    in_flight: usize,
    /// How long what is in flight at the end is waited for.
    drain_ns: u64,
    /// The chunk that lies in the first buffer, or would.
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

    fn pass(&mut self, job: &Job<'_>, fill: Fill<'_>, take: Each<'_>) -> Result<Pass> {
        self.backend.replace_file(0, job.file);
        let chunks = job.len.div_ceil(self.spec.io_bytes as u64);
        let ended = self.move_all(job, chunks, fill, take);
        // After an error or a stop, nothing of this pass may touch the buffers any more.
        match (ended, self.drain(job)) {
            (Err(first), Err(later)) => Err(later.after(Some(first))),
            (ended, drained) => drained.and(ended),
        }
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
        // Until something has to be waited for, the file may lie in the page cache.
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
            // One at a time: while the caller works, what ends is not seen to have ended.
            if let Some(result) = self.slots[next].result {
                self.hand_over(job, handed, next, result, take)?;
                handed += 1;
            } else {
                waits = true;
            }
        }
        Ok(Pass::Whole)
    }

    /// Chunks that a core's cache holds.
    fn near(&self) -> u64 {
        (NEAR_BYTES / self.spec.io_bytes).max(1) as u64
    }

    /// Where a chunk lies.
    fn slot_of(&self, chunk: u64) -> usize {
        ((chunk - self.base) % self.spec.slots as u64) as usize
    }

    fn issue(&mut self, job: &Job<'_>, chunk: u64, fill: Fill<'_>) {
        let slot = self.slot_of(chunk);
        let (offset, len) = self.place_of(job, chunk);
        if job.kind == OpKind::Write {
            // SAFETY: the slot's last chunk was handed over, so nothing is in flight on it.
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

    /// Offset and length of a chunk.
    fn place_of(&self, job: &Job<'_>, chunk: u64) -> (u64, u64) {
        let done = chunk * self.spec.io_bytes as u64;
        (job.from + done, (job.len - done).min(self.spec.io_bytes as u64))
    }

    /// Hand over what was pushed, and take what has ended. Latency begins here: what the caller
    /// put into the buffers before is no part of it.
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
        // SAFETY: the slot's operation has ended, and no other is in flight on it.
        let data = unsafe { self.backend.arena().slot_mut(slot as u32) };
        let slot = (chunk % self.spec.slots as u64) as usize;
        take(Chunk { offset, data: &data[..len as usize], slot, latency_ns, start_ns })
    }

    /// The kernel cut a write short. Trying the rest tells why: that the disk is full, for example.
    fn write_rest(&mut self, job: &Job<'_>, offset: u64, moved: u64, slot: usize) -> Result<()> {
        let chunk = (offset - job.from) / self.spec.io_bytes as u64;
        let (_, mut len) = self.place_of(job, chunk);
        let mut done = moved;
        if job.file.is_direct() {
            len = len.next_multiple_of(SECTOR);
            done -= moved % SECTOR;
        }
        // SAFETY: the slot's operation has ended, and no other is in flight on it.
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

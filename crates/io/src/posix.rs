//! POSIX backend: `pread` and `pwrite` in helper threads, one per operation in flight. Used on
//! machines that forbid `io_uring`.
//!
//! If at most one operation is in flight, the worker thread performs it itself.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use storlab_base::{Error, OpKind, Result, lock};

use crate::arena::Arena;
use crate::backend::{Backend, Completion, Op, Queue, Wake};
use crate::device::discard;
use crate::file::{File, PUNCH_HOLE};

/// Maximum number of helper threads, unless the queue depth is larger.
const THREADS_MAX: usize = 512;

/// Backend that performs operations with blocking calls in helper threads.
pub struct PosixBackend {
    /// Buffers of the operations. Leaked if the backend is dropped while helper threads may still
    /// write to them.
    arena: ManuallyDrop<Arena>,
    /// Open files, kept open as long as a helper thread may use them.
    files: Arc<Vec<File>>,
    targets: Vec<Target>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    pushed: Vec<Task>,
    done: Vec<Completion>,
    /// Number of operations that were pushed and are not reaped yet.
    in_flight: usize,
}

#[derive(Clone, Copy)]
struct Target {
    fd: RawFd,
    block_device: bool,
}

impl Target {
    fn of(file: &File) -> Self {
        Target { fd: file.fd(), block_device: file.is_block_device() }
    }
}

/// Operation together with its file and the address of its data.
#[derive(Clone, Copy)]
struct Task {
    op: Op,
    target: Target,
    buffer: *mut u8,
}

// SAFETY: the address points into the arena, which outlives the threads, and each slot belongs to
// one operation only.
unsafe impl Send for Task {}

#[derive(Default)]
struct State {
    todo: VecDeque<Task>,
    done: Vec<Completion>,
    woken: bool,
    closed: bool,
    cpu_clocks: Vec<libc::clockid_t>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    has_work: Condvar,
    has_news: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Wake for Shared {
    fn wake(&self) {
        self.lock().woken = true;
        self.has_news.notify_all();
    }
}

impl PosixBackend {
    /// Create the backend with its helper threads.
    ///
    /// # Errors
    /// [`Error::Io`] if a thread cannot be created.
    pub fn new(files: Arc<Vec<File>>, arena: Arena, queue: Queue) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let count = Self::threads(queue) - 1;
        let mut backend = PosixBackend {
            arena: ManuallyDrop::new(arena),
            targets: files.iter().map(Target::of).collect(),
            files,
            shared,
            threads: Vec::with_capacity(count),
            pushed: Vec::new(),
            done: Vec::new(),
            in_flight: 0,
        };
        // If a thread cannot be created, `backend` is dropped, which ends the threads created
        // before.
        for _ in 0..count {
            let (shared, files) = (backend.shared.clone(), backend.files.clone());
            let thread = std::thread::Builder::new()
                .name("storlab-posix".into())
                .stack_size(64 << 10)
                .spawn(move || {
                    serve(&shared);
                    drop(files);
                })
                .map_err(|e| Error::io("start", "threads of backend posix", 0, e))?;
            backend.threads.push(thread);
        }
        Ok(backend)
    }

    /// Return the number of threads for this queue: the worker alone if one I/O is in flight at a
    /// time, otherwise also a helper per I/O in flight, but at most 512 or the queue depth,
    /// whichever is larger.
    pub fn threads(queue: Queue) -> usize {
        match (queue.depth * queue.parts).min(queue.depth.max(THREADS_MAX)) {
            0 | 1 => 1,
            helpers => 1 + helpers,
        }
    }

    /// Tell the helper threads to end once their queue is empty.
    fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.has_work.notify_all();
    }

    fn task(&self, op: &Op) -> Task {
        let buffer = match op.kind {
            OpKind::Read | OpKind::Write => self.arena.part(op.slot, op.slot_offset, op.len),
            OpKind::Trim | OpKind::Sync => std::ptr::null_mut(),
        };
        Task { op: *op, target: self.targets[op.file as usize], buffer }
    }
}

fn serve(shared: &Shared) {
    let mut clock = 0;
    // SAFETY: the call only writes to `clock`, and the thread is the calling one, so it exists.
    if unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } == 0 {
        shared.lock().cpu_clocks.push(clock);
    }
    let mut state = shared.lock();
    loop {
        if let Some(task) = state.todo.pop_front() {
            drop(state);
            let completion = perform(task);
            state = shared.lock();
            state.done.push(completion);
            shared.has_news.notify_one();
        } else if state.closed {
            return;
        } else {
            state = shared.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn perform(Task { op, target, buffer }: Task) -> Completion {
    if op.kind == OpKind::Trim && target.block_device {
        let result = discard(target.fd, op.offset, u64::from(op.len));
        return Completion { tag: op.tag, result };
    }
    let (fd, len, offset) = (target.fd, op.len as usize, op.offset as libc::off_t);
    // Uses libc, because rustix requires slices and owned files, but operations have addresses and
    // descriptor numbers.
    // SAFETY: the buffer is `len` bytes of a slot that belongs to this operation alone.
    let result = unsafe {
        match op.kind {
            OpKind::Read => libc::pread(fd, buffer.cast(), len, offset) as i64,
            OpKind::Write => libc::pwrite(fd, buffer.cast(), len, offset) as i64,
            OpKind::Trim => i64::from(libc::fallocate(fd, PUNCH_HOLE, offset, len as libc::off_t)),
            OpKind::Sync if op.data_only => i64::from(libc::fdatasync(fd)),
            OpKind::Sync => i64::from(libc::fsync(fd)),
        }
    };
    let errno = || -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Completion { tag: op.tag, result: if result < 0 { errno() } else { result as i32 } }
}

impl Backend for PosixBackend {
    fn name(&self) -> &'static str {
        "posix"
    }

    fn features(&self) -> Vec<&'static str> {
        if self.threads.is_empty() { vec!["inline"] } else { vec!["threads"] }
    }

    fn replace_file(&mut self, index: usize, file: &File) {
        let target = Target::of(file);
        self.targets.resize(self.targets.len().max(index + 1), target);
        self.targets[index] = target;
    }

    fn push(&mut self, op: &Op) {
        let task = self.task(op);
        self.pushed.push(task);
        self.in_flight += 1;
    }

    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        if self.threads.is_empty() {
            for task in self.pushed.drain(..) {
                self.done.push(perform(task));
            }
        }
        let wait = wait && self.done.is_empty();
        let mut state = self.shared.lock();
        if !self.pushed.is_empty() {
            let count = self.pushed.len();
            state.todo.extend(self.pushed.drain(..));
            for _ in 0..count {
                self.shared.has_work.notify_one();
            }
        }
        while wait && state.done.is_empty() && !state.woken {
            let Some(limit) = timeout else {
                state = self.shared.has_news.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state = self
                .shared
                .has_news
                .wait_timeout(state, limit)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            break;
        }
        state.woken = false;
        Ok(())
    }

    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize) {
        if !self.threads.is_empty() {
            self.done.append(&mut self.shared.lock().done);
        }
        let count = self.done.len().min(limit);
        into.extend(self.done.drain(..count));
        self.in_flight -= count;
    }

    fn cancel_all(&mut self) {
        // Only queued operations can be cancelled, not those that a helper thread has begun.
        let mut state = self.shared.lock();
        while let Some(task) = state.todo.pop_front() {
            state.done.push(Completion { tag: task.op.tag, result: -libc::ECANCELED });
        }
    }

    fn helpers(&self) -> usize {
        self.threads.len()
    }

    fn helper_cpu_ns(&self) -> u64 {
        let clocks = self.shared.lock().cpu_clocks.clone();
        clocks.into_iter().map(storlab_base::clock_ns).sum()
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.shared.clone()
    }

    fn abandon(self) {
        // Dropping `self` leaves operations in flight to the helper threads.
    }
}

impl Drop for PosixBackend {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // A helper thread may be stuck in the kernel, so it is not joined. It keeps the files
            // open, and the buffers are leaked. Operations that no thread has begun are cancelled.
            self.cancel_all();
            return self.close();
        }
        self.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // SAFETY: the arena is dropped only here, and no thread is left that could use it.
        unsafe { ManuallyDrop::drop(&mut self.arena) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "4096 bytes")]
    fn a_buffer_that_ends_before_the_operation_does_is_refused() {
        let access = crate::Access { read: true, write: false, direct: false };
        let file = File::open("/dev/zero".as_ref(), "zero", access).unwrap();
        let arena = Arena::new(2, 4096).unwrap();
        let mut backend =
            PosixBackend::new(Arc::new(vec![file]), arena, Queue::of_depth(1)).unwrap();
        backend.push(&Op {
            kind: OpKind::Read,
            file: 0,
            data_only: false,
            slot: 0,
            slot_offset: 4000,
            len: 97,
            offset: 0,
            tag: 0,
        });
    }

    /// Create a backend with reads of 8 bytes of `/dev/zero` pushed, one into each slot.
    fn reading(slots: usize, slot_bytes: usize) -> (Arc<Vec<File>>, PosixBackend) {
        let access = crate::Access { read: true, write: false, direct: false };
        let files = Arc::new(vec![File::open("/dev/zero".as_ref(), "zero", access).unwrap()]);
        let arena = Arena::new(slots, slot_bytes).unwrap();
        let mut backend = PosixBackend::new(files.clone(), arena, Queue::of_depth(slots)).unwrap();
        for slot in 0..slots as u32 {
            let (kind, tag, len) = (OpKind::Read, u64::from(slot), 8);
            let (file, slot_offset, offset, data_only) = (0, 0, 0, false);
            backend.push(&Op { kind, file, data_only, slot, slot_offset, len, offset, tag });
        }
        (files, backend)
    }

    #[test]
    fn threads_of_an_abandoned_backend_end_when_they_can() {
        let (files, mut backend) = reading(4, 4096);
        backend.submit(true, None).unwrap();
        backend.abandon();
        // Each thread and the backend keep the files open.
        while Arc::strong_count(&files) > 1 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_is_stuck_keeps_nobody_and_its_buffers() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (end, ended) = std::sync::mpsc::channel();
        // A size that no other test uses, because the cache of mappings is global.
        let bytes = 218 << 20;
        std::thread::spawn(move || {
            let (_, mut backend) = reading(1, bytes);
            // Simulates a thread whose read never returns.
            backend.threads.push(std::thread::spawn(move || {
                let _ = held.recv();
            }));
            let address = backend.arena.address(0) as usize;
            drop(backend);
            end.send(address).unwrap();
        });
        let address = ended.recv_timeout(Duration::from_mins(1)).expect("it waits for ever");
        assert_ne!(Arena::new(1, bytes).unwrap().address(0) as usize, address);
        drop(release);
    }
}

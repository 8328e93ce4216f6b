//! `io_uring` backend: one ring per worker. Files, buffers and the ring itself are registered if
//! the kernel allows it.
//!
//! Source: io_uring(7), `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`.

#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode};
use rustix::event::{EventfdFlags, eventfd};
use storlab_base::{Error, OpKind, Result};

use crate::arena::Arena;
use crate::backend::{Backend, Completion, Op, Queue, WAKE_TAG, Wake};
use crate::device::{BLOCK_URING_CMD_DISCARD, discard, ring_discards};
use crate::file::{File, PUNCH_HOLE};

const CANCEL_TAG: u64 = u64::MAX - 1;
/// Largest completion queue that the kernel accepts, in entries. The kernel keeps further
/// completions until there is room in the queue.
const CQ_ENTRIES_MAX: usize = 65_536;
/// Largest total size of buffers to register, in bytes. Registration pins them in memory.
const REGISTERED_BYTES_MAX: usize = 4 << 30;

/// Backend that submits operations to an `io_uring` ring.
pub struct UringBackend {
    // This field and the next two borrow from `ring`, so Drop releases all three before `ring`.
    submitter: ManuallyDrop<Submitter<'static>>,
    sq: ManuallyDrop<SubmissionQueue<'static>>,
    cq: ManuallyDrop<CompletionQueue<'static>>,
    /// Owned ring, as a raw pointer: moving a Box would assert that no other pointer refers to its
    /// content.
    ring: NonNull<IoUring>,
    arena: ManuallyDrop<Arena>,
    /// Open files, kept open as long as the ring may use them.
    files: Arc<Vec<File>>,
    /// Number and type of each file, by file index.
    targets: Vec<Target>,
    wake: Arc<EventFd>,
    /// Entries that found the submission queue full. The next submissions queue them.
    held: VecDeque<Entry>,
    features: Vec<&'static str>,
    fixed_buffers: bool,
    fixed_files: bool,
    discards: Discards,
    pushed: bool,
    /// Number of operations that were pushed and are not reaped yet.
    in_flight: usize,
}

/// Properties of a file that its operations need.
#[derive(Clone, Copy)]
struct Target {
    /// Index of the registered file, or the file descriptor if files are not registered.
    number: i32,
    fd: i32,
    block_device: bool,
}

/// Discards (trims) of block devices. If the kernel's `io_uring` cannot discard, discards are held
/// back, and the next submission performs them with blocking calls.
#[derive(Default)]
struct Discards {
    by_ring: bool,
    held: Vec<(i32, Op)>,
    done: Vec<Completion>,
}

impl Discards {
    /// Perform the discards that were held back. Returns whether there are completions to reap.
    #[inline]
    fn make(&mut self) -> bool {
        for (fd, op) in self.held.drain(..) {
            let result = discard(fd, op.offset, u64::from(op.len));
            self.done.push(Completion { tag: op.tag, result });
        }
        !self.done.is_empty()
    }

    /// Append up to `limit` completions of discards to `into`, and return their number.
    #[inline]
    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize) -> usize {
        let count = self.done.len().min(limit);
        into.extend(self.done.drain(..count));
        count
    }
}

/// Mode in which the kernel posts completions: its name, and a function that sets its flags at ring
/// set-up.
type Taskrun = (&'static str, fn(&mut io_uring::Builder));

/// Completion modes, best first. The first one that the kernel supports is used. The taskrun flag
/// shows that the kernel has completions to post. A submission that does not wait checks it, and
/// then lets the kernel post them.
const TASKRUN: [Taskrun; 3] = [
    ("defer_taskrun", |b| {
        b.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    }),
    ("coop_taskrun", |b| {
        b.setup_coop_taskrun().setup_taskrun_flag();
    }),
    ("plain", |_| {}),
];

impl UringBackend {
    /// Create a ring for the operations of a queue.
    ///
    /// Must be called on the thread that will use the ring.
    ///
    /// # Errors
    /// [`Error::Backend`] if the kernel or a sandbox forbids `io_uring`, or if the kernel is older
    /// than 5.11; [`Error::Io`] if the eventfd for wake-ups cannot be created.
    pub fn new(files: Arc<Vec<File>>, arena: Arena, queue: Queue) -> Result<Self> {
        Self::with(files, arena, queue, &TASKRUN)
    }

    /// Return 1: the worker's own thread.
    pub fn threads(_: Queue) -> usize {
        1
    }

    fn with(files: Arc<Vec<File>>, arena: Arena, queue: Queue, ways: &[Taskrun]) -> Result<Self> {
        // Create the eventfd first: nothing after the registrations below may fail, because only
        // Drop undoes them.
        let wake = EventFd::new().map_err(|e| Error::io("eventfd", "io_uring", 0, e))?;
        let (ring, taskrun) =
            build(queue.batch * queue.parts + 2, queue.depth * queue.parts + 2, ways)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(refused("the kernel is older than 5.11, which storlab needs for io_uring"));
        }
        let mut ring = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: the ring stays at its address until Drop, which releases the three parts first.
        // Nothing else borrows from it.
        let (mut submitter, sq, cq) = unsafe { ring.as_mut() }.split();
        let mut features = vec![taskrun];
        let fds: Vec<_> = files.iter().map(File::fd).collect();
        let fixed_files = submitter.register_files(&fds).is_ok();
        let fixed_buffers = register_buffers(&submitter, &arena);
        for (name, has) in [
            ("registered_files", fixed_files),
            ("registered_buffers", fixed_buffers),
            ("registered_ring", submitter.register_ring_fd().is_ok()),
        ] {
            features.extend(has.then_some(name));
        }
        let mut backend = UringBackend {
            submitter: ManuallyDrop::new(submitter),
            sq: ManuallyDrop::new(sq),
            cq: ManuallyDrop::new(cq),
            ring,
            arena: ManuallyDrop::new(arena),
            targets: targets_of(&files, fixed_files),
            files,
            wake: Arc::new(wake),
            held: VecDeque::new(),
            features,
            fixed_buffers,
            fixed_files,
            discards: Discards { by_ring: ring_discards(), ..Discards::default() },
            pushed: false,
            in_flight: 0,
        };
        backend.arm_wake();
        Ok(backend)
    }

    /// Queue a poll of the eventfd, so that another thread can end a wait by writing to it.
    ///
    /// This avoids a timer per wait. A poll refers to no buffer, so it is harmless if it outlives
    /// the backend.
    fn arm_wake(&mut self) {
        let fd = Fd(self.wake.0.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
        self.queue(entry.user_data(WAKE_TAG));
    }

    #[inline]
    fn queue(&mut self, entry: Entry) {
        self.pushed = true;
        if !self.held.is_empty() || self.sq.is_full() {
            return self.hold(entry);
        }
        // SAFETY: the entry's buffer is in the arena, which outlives the operation.
        let _ = unsafe { self.sq.push(&entry) };
    }

    /// Keep an entry for which the submission queue has no room; the next submission queues it.
    #[cold]
    fn hold(&mut self, entry: Entry) {
        self.held.push_back(entry);
    }

    #[cold]
    fn queue_held(&mut self) {
        while let Some(entry) = self.held.front() {
            // SAFETY: the entry's buffer is in the arena, which outlives the operation.
            if unsafe { self.sq.push(entry) }.is_err() {
                return;
            }
            self.held.pop_front();
        }
    }

    /// Queue an operation that is not a read or write with registered buffers.
    ///
    /// Not inlined, to keep the code of the loop that reads and writes short. The operation is
    /// passed by value, because taking its address would force it into memory.
    #[inline(never)]
    fn push_other(&mut self, op: Op) {
        let Target { number, fd, block_device } = self.targets[op.file as usize];
        let file = Fd(number);
        let entry = match op.kind {
            OpKind::Read => {
                opcode::Read::new(file, self.buffer(&op), op.len).offset(op.offset).build()
            }
            OpKind::Write => {
                opcode::Write::new(file, self.buffer(&op), op.len).offset(op.offset).build()
            }
            OpKind::Trim if block_device && !self.discards.by_ring => {
                return self.discards.held.push((fd, op));
            }
            OpKind::Trim if block_device => discard_entry(file, &op),
            OpKind::Trim => {
                let len = u64::from(op.len);
                opcode::Fallocate::new(file, len).offset(op.offset).mode(PUNCH_HOLE).build()
            }
            OpKind::Sync => {
                let flags = if op.data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(file).flags(flags).build()
            }
        };
        self.push_entry(entry, &op);
    }

    #[inline]
    fn buffer(&self, op: &Op) -> *mut u8 {
        self.arena.part(op.slot, op.slot_offset, op.len)
    }

    #[inline]
    fn push_entry(&mut self, entry: Entry, op: &Op) {
        let flags = if self.fixed_files { Flags::FIXED_FILE } else { Flags::empty() };
        self.queue(entry.flags(flags).user_data(op.tag));
        self.in_flight += 1;
    }
}

impl Backend for UringBackend {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn features(&self) -> Vec<&'static str> {
        self.features.clone()
    }

    fn replace_file(&mut self, index: usize, file: &File) {
        let (fd, block_device) = (file.fd(), file.is_block_device());
        // The new file is not registered: for a file with few operations, registration costs more
        // than it saves.
        if self.fixed_files {
            // Either all files are registered or none, so the other files are now used by
            // descriptor.
            let _ = self.submitter.unregister_files();
            self.fixed_files = false;
            self.targets = targets_of(&self.files, false);
        }
        let target = Target { number: fd, fd, block_device };
        self.targets.resize(self.targets.len().max(index + 1), target);
        self.targets[index] = target;
    }

    // Inlined, because a call would pass the operation through memory. That would cost a fifth of
    // the time that the rest of the function takes.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn push(&mut self, op: &Op) {
        if !self.fixed_buffers {
            return self.push_other(*op);
        }
        let file = Fd(self.targets[op.file as usize].number);
        // Each kind is queued in its own branch. If the branches shared one call, the entry would
        // be built in memory and then copied to the queue.
        match op.kind {
            OpKind::Read => {
                let read = opcode::ReadFixed::new(file, self.buffer(op), op.len, op.slot as u16);
                self.push_entry(read.offset(op.offset).build(), op);
            }
            OpKind::Write => {
                let write = opcode::WriteFixed::new(file, self.buffer(op), op.len, op.slot as u16);
                self.push_entry(write.offset(op.offset).build(), op);
            }
            OpKind::Trim | OpKind::Sync => self.push_other(*op),
        }
    }

    #[inline]
    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        // Discards are performed even if the caller does not wait.
        let discarded = self.discards.make();
        let wait = wait && !discarded;
        if !self.pushed && !wait && !self.sq.taskrun() {
            return Ok(());
        }
        self.sq.sync();
        let want = usize::from(wait);
        let entered = match timeout {
            Some(timeout) if wait => {
                let limit = Timespec::from(timeout);
                self.submitter.submit_with_args(want, &SubmitArgs::new().timespec(&limit))
            }
            _ => self.submitter.submit_and_wait(want),
        };
        self.sq.sync();
        if !self.held.is_empty() {
            self.queue_held();
        }
        // The kernel may have consumed only part of the submission queue.
        self.pushed = !self.sq.is_empty();
        match entered {
            Ok(_) => Ok(()),
            Err(e) => match e.raw_os_error() {
                // The call timed out, was interrupted, or lacked room for completions: the caller
                // reaps and submits again.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(e),
            },
        }
    }

    #[inline]
    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize) {
        let limit = limit - self.discards.reap(into, limit);
        self.cq.sync();
        let mut woken = false;
        for entry in (&mut *self.cq).take(limit) {
            match entry.user_data() {
                WAKE_TAG => woken = true,
                CANCEL_TAG => {}
                tag => {
                    self.in_flight -= 1;
                    into.push(Completion { tag, result: entry.result() });
                }
            }
        }
        self.cq.sync();
        if woken {
            self.wake.clear();
            self.arm_wake();
        }
    }

    fn cancel_all(&mut self) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.queue(entry.user_data(CANCEL_TAG));
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.wake.clone()
    }

    fn abandon(self) {
        // The kernel may still write to the buffers, so the buffers and the ring are leaked.
        std::mem::forget(self);
    }
}

impl Drop for UringBackend {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // An error ended the worker early. Leak everything, as `abandon` does: a later run
            // could otherwise get buffers that the kernel still writes to.
            return;
        }
        // Unregister now: the kernel tears down a ring asynchronously, and a file system stays busy
        // while one of its files is registered. An error only means that nothing was registered.
        let _ = self.submitter.unregister_files();
        let _ = self.submitter.unregister_buffers();
        // Unregister the ring too: a thread can register only 16 rings, and a registered ring
        // outlives its last descriptor.
        let _ = self.submitter.unregister_ring_fd();
        // SAFETY: each part is dropped once, the borrowing ones before the ring. The only operation
        // in flight is the poll of the eventfd, which uses no buffer.
        unsafe {
            ManuallyDrop::drop(&mut self.cq);
            ManuallyDrop::drop(&mut self.sq);
            ManuallyDrop::drop(&mut self.submitter);
            drop(Box::from_raw(self.ring.as_ptr()));
            ManuallyDrop::drop(&mut self.arena);
        }
    }
}

/// Eventfd by which other threads wake a worker that waits for its ring.
struct EventFd(fs::File);

impl EventFd {
    fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(EventFd(fd.into()))
    }

    /// Reset the eventfd's counter, so that the next poll waits.
    fn clear(&self) {
        // An error means that the counter is already 0.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl Wake for EventFd {
    fn wake(&self) {
        // The write fails only if the counter would exceed 2^64 - 2. Then a wake-up is already
        // pending.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }
}

fn build(
    sq_entries: usize,
    cq_entries: usize,
    ways: &[Taskrun],
) -> Result<(IoUring, &'static str)> {
    let sq = sq_entries.next_power_of_two().min(4096) as u32;
    let cq = cq_entries.max(sq_entries).next_power_of_two().min(CQ_ENTRIES_MAX) as u32;
    let mut last = None;
    for &(name, set) in ways {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(cq.max(sq)).dontfork();
        set(&mut builder);
        let plain = builder.clone();
        // Prefer a ring without the index array between queue and entries, which saves memory
        // accesses. Kernels before 6.6 reject it.
        match builder.setup_no_sqarray().build(sq).or_else(|_| plain.build(sq)) {
            Ok(ring) => return Ok((ring, name)),
            Err(e) => last = Some(e),
        }
    }
    let reason = last.map_or_else(String::new, |e| e.to_string());
    Err(refused(format!("io_uring_setup was refused: {reason}")))
}

fn register_buffers(submitter: &Submitter<'_>, arena: &Arena) -> bool {
    let slots = arena.slots();
    let too_many = slots == 0 || slots > usize::from(u16::MAX).min(16_384);
    if too_many || slots * arena.slot_bytes() > REGISTERED_BYTES_MAX {
        return false;
    }
    let vectors: Vec<_> = (0..slots as u32)
        .map(|slot| libc::iovec {
            iov_base: arena.address(slot).cast(),
            iov_len: arena.slot_bytes(),
        })
        .collect();
    // SAFETY: the registered slots live as long as the ring: Drop releases both, the ring first.
    unsafe { submitter.register_buffers(&vectors) }.is_ok()
}

/// Build a submission entry for a discard. The io_uring crate has no opcode for it: the command
/// passes the range in fields that other commands use for addresses.
#[inline]
fn discard_entry(file: Fd, op: &Op) -> Entry {
    let mut length = [0; 16];
    length[..8].copy_from_slice(&u64::from(op.len).to_ne_bytes());
    opcode::UringCmd16::new(file, BLOCK_URING_CMD_DISCARD).addr(Some(op.offset)).cmd(length).build()
}

fn targets_of(files: &[File], registered: bool) -> Vec<Target> {
    let numbered = files.iter().zip(0..);
    numbered
        .map(|(file, index)| Target {
            number: if registered { index } else { file.fd() },
            fd: file.fd(),
            block_device: file.is_block_device(),
        })
        .collect()
}

fn refused(what: impl Into<String>) -> Error {
    Error::Backend { backend: "uring", what: what.into() }
}

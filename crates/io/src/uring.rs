//! `io_uring`: one ring for each worker, files, buffers and the ring itself registered where the
//! kernel lets us.
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
use crate::backend::{Backend, Completion, Op, WAKE_TAG, Wake};
use crate::device::{BLOCK_URING_CMD_DISCARD, discard, ring_discards};
use crate::file::{File, PUNCH_HOLE};

const CANCEL_TAG: u64 = u64::MAX - 1;
/// The kernel's limit. It keeps completions beyond them until there is room.
const CQ_ENTRIES_MAX: usize = 65_536;
/// Larger registrations would pin more memory than the I/O could ever have in flight.
const REGISTERED_BYTES_MAX: usize = 4 << 30;

/// See the module.
pub struct UringBackend {
    // The three parts borrow from `ring`, which they must not outlive: Drop releases it after them.
    submitter: ManuallyDrop<Submitter<'static>>,
    sq: ManuallyDrop<SubmissionQueue<'static>>,
    cq: ManuallyDrop<CompletionQueue<'static>>,
    /// Owned, as a pointer: moving a box would assert that nothing else points into it.
    ring: NonNull<IoUring>,
    arena: ManuallyDrop<Arena>,
    /// Kept open as long as the ring may use them.
    files: Arc<Vec<File>>,
    /// By index of the file.
    targets: Vec<Target>,
    wake: Arc<EventFd>,
    /// Pushed while the queue was full: queued by the next submits.
    held: VecDeque<Entry>,
    features: Vec<&'static str>,
    fixed_buffers: bool,
    fixed_files: bool,
    discards: Discards,
    pushed: bool,
    /// Pushed by the caller and not yet reaped.
    in_flight: usize,
}

/// How operations name a file.
#[derive(Clone, Copy)]
struct Target {
    /// Registered index, or descriptor.
    number: i32,
    fd: i32,
    block_device: bool,
}

/// Trims of devices, where the kernel has none of a ring: held back, to be made by the next submit.
#[derive(Default)]
struct Discards {
    by_ring: bool,
    held: Vec<(i32, Op)>,
    done: Vec<Completion>,
}

impl Discards {
    /// True when there is something to reap.
    #[inline]
    fn make(&mut self) -> bool {
        for (fd, op) in self.held.drain(..) {
            let result = discard(fd, op.offset, u64::from(op.len));
            self.done.push(Completion { tag: op.tag, result });
        }
        !self.done.is_empty()
    }

    /// How many there were.
    #[inline]
    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize) -> usize {
        let count = self.done.len().min(limit);
        into.extend(self.done.drain(..count));
        count
    }
}

/// A way to run the kernel work that completes I/O.
type Taskrun = (&'static str, fn(&mut io_uring::Builder));

/// The first one that the kernel knows is taken. With the flag it tells that there is work which a
/// call that does not wait would leave undone.
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
    /// A ring for `in_flight` operations, at most `batch` of them handed over at a time. Must be
    /// called on the thread that will use it.
    ///
    /// # Errors
    /// [`Error::Backend`] where the kernel or a sandbox forbids `io_uring`, or it is older than
    /// 5.11.
    pub fn new(
        files: Arc<Vec<File>>,
        arena: Arena,
        batch: usize,
        in_flight: usize,
    ) -> Result<Self> {
        Self::with(files, arena, batch, in_flight, &TASKRUN)
    }

    fn with(
        files: Arc<Vec<File>>,
        arena: Arena,
        batch: usize,
        in_flight: usize,
        ways: &[Taskrun],
    ) -> Result<Self> {
        // First: only Drop gives back what is registered below, so that nothing after it may fail.
        let wake = EventFd::new().map_err(|e| Error::io("eventfd", "io_uring", 0, e))?;
        let (ring, taskrun) = build(batch + 2, in_flight + 2, ways)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(refused("the kernel is older than 5.11"));
        }
        let mut ring = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: the ring stays where it is until Drop, which releases the parts first; nothing
        // else borrows from it.
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

    /// Another thread's write to the eventfd ends a wait without a timer for every wait. A poll
    /// names no memory: where it outlives the backend, there is nothing that it could write to.
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

    /// A full queue means that the kernel has yet to take what is in it: the next submit tells why.
    #[cold]
    fn hold(&mut self, entry: Entry) {
        self.held.push_back(entry);
    }

    #[cold]
    fn queue_held(&mut self) {
        while let Some(entry) = self.held.front() {
            // SAFETY: as in `queue`.
            if unsafe { self.sq.push(entry) }.is_err() {
                return;
            }
            self.held.pop_front();
        }
    }

    /// What is neither a read nor a write with a registered buffer. Not inlined: the loop that
    /// moves data is short. By value: an operation whose address is taken is put into memory first.
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
        // Not registered: for a file of few operations that costs more than it saves each of them.
        if self.fixed_files {
            // All or none are. The others keep their own descriptors.
            let _ = self.submitter.unregister_files();
            self.fixed_files = false;
            self.targets = targets_of(&self.files, false);
        }
        let target = Target { number: fd, fd, block_device };
        self.targets.resize(self.targets.len().max(index + 1), target);
        self.targets[index] = target;
    }

    // A call would hand the operation over in memory, at a fifth of the time that the rest takes.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn push(&mut self, op: &Op) {
        if !self.fixed_buffers {
            return self.push_other(*op);
        }
        let file = Fd(self.targets[op.file as usize].number);
        // Each kind is queued where it is made: entries that differ in more than their values meet
        // in memory, and would be copied to the queue from there.
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
        // Also where nobody waits for them.
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
        // The kernel may have taken only some of what was queued.
        self.pushed = !self.sq.is_empty();
        match entered {
            Ok(_) => Ok(()),
            Err(e) => match e.raw_os_error() {
                // Out of time, interrupted, or short of completion space: reap, then come again.
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
        // The kernel may still write to the buffers: they, and the ring, stay for good.
        std::mem::forget(self);
    }
}

impl Drop for UringBackend {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // An error ended the worker early: as `abandon`, since a later run would be given the
            // buffers that the kernel still writes to.
            return;
        }
        // The kernel tears a ring down at its leisure; a file system is busy for as long as one of
        // its files is registered. Errors mean that nothing was registered.
        let _ = self.submitter.unregister_files();
        let _ = self.submitter.unregister_buffers();
        // A thread has room for 16; a ring that stays registered outlives its last descriptor.
        let _ = self.submitter.unregister_ring_fd();
        // SAFETY: each part is dropped once, the borrowing ones before the ring. No operation is in
        // flight but the poll of the eventfd, which uses no buffer.
        unsafe {
            ManuallyDrop::drop(&mut self.cq);
            ManuallyDrop::drop(&mut self.sq);
            ManuallyDrop::drop(&mut self.submitter);
            drop(Box::from_raw(self.ring.as_ptr()));
            ManuallyDrop::drop(&mut self.arena);
        }
    }
}

/// A counter in the kernel that one thread writes to and the ring of another reads.
struct EventFd(fs::File);

impl EventFd {
    fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(EventFd(fd.into()))
    }

    /// What was written is taken, so that the next poll waits.
    fn clear(&self) {
        // An error means that there is nothing to take.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl Wake for EventFd {
    fn wake(&self) {
        // Cannot fail short of 2^64 wakes; and if it did, the next one would wake.
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
        // Since Linux 6.6: entries are found without an index array between.
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
    // SAFETY: the slots live as long as the ring: both are dropped together, the ring first.
    unsafe { submitter.register_buffers(&vectors) }.is_ok()
}

/// Not in the crate: the range lies where the addresses of other commands do.
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

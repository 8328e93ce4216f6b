//! `io_uring`: one ring for each worker, files, buffers and the ring itself registered where the
//! kernel lets us.
//!
//! Source: io_uring(7), `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`.

#![allow(unsafe_code)]

use std::fs;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{opcode, CompletionQueue, IoUring, SubmissionQueue, Submitter};
use storlab_base::{Error, OpKind, Result};

use crate::{Arena, Backend, Completion, File, Op, Wake, WAKE_TAG};

const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const CANCEL_TAG: u64 = u64::MAX - 1;
/// The kernel's limit. It keeps completions beyond them until there is room.
const CQ_ENTRIES_MAX: usize = 65_536;
/// Larger registrations would pin more memory than the I/O could ever have in flight.
const REGISTERED_BYTES_MAX: usize = 4 << 30;

/// See the module.
pub struct UringBackend {
    // The three parts borrow from `ring`, which is boxed so that it does not move, and dropped
    // last.
    submitter: ManuallyDrop<Submitter<'static>>,
    sq: ManuallyDrop<SubmissionQueue<'static>>,
    cq: ManuallyDrop<CompletionQueue<'static>>,
    ring: ManuallyDrop<Box<IoUring>>,
    arena: ManuallyDrop<Arena>,
    /// Kept open as long as the ring may use them.
    files: Arc<Vec<File>>,
    /// Registered index or descriptor, by index of the file.
    file_numbers: Vec<i32>,
    wake: Arc<EventFd>,
    wake_buffer: Box<[u8; 8]>,
    features: Vec<&'static str>,
    fixed_buffers: bool,
    fixed_files: bool,
    pushed: bool,
    /// Pushed by the caller and not yet reaped.
    in_flight: usize,
}

/// A way to run the kernel work that completes I/O.
type Taskrun = (&'static str, fn(&mut io_uring::Builder));

/// The first one that the kernel knows is taken.
const TASKRUN: [Taskrun; 3] = [
    ("defer_taskrun", |b| {
        b.setup_single_issuer().setup_defer_taskrun();
    }),
    ("coop_taskrun", |b| {
        b.setup_coop_taskrun();
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
        let (ring, taskrun) = build(batch + 2, in_flight + 2)?;
        let mut ring = Box::new(ring);
        if !ring.params().is_feature_ext_arg() {
            return Err(refused("the kernel is older than 5.11"));
        }
        // SAFETY: the box keeps the ring in place, and Drop releases the parts before it.
        let parts = unsafe { &mut *std::ptr::from_mut::<IoUring>(&mut ring) }.split();
        let (mut submitter, sq, cq) = parts;
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
        let wake = EventFd::new().map_err(|e| Error::io("eventfd", "io_uring", 0, e))?;
        let mut backend = UringBackend {
            submitter: ManuallyDrop::new(submitter),
            sq: ManuallyDrop::new(sq),
            cq: ManuallyDrop::new(cq),
            ring: ManuallyDrop::new(ring),
            arena: ManuallyDrop::new(arena),
            file_numbers: if fixed_files { (0..fds.len() as i32).collect() } else { fds },
            files,
            wake: Arc::new(wake),
            wake_buffer: Box::new([0; 8]),
            features,
            fixed_buffers,
            fixed_files,
            pushed: false,
            in_flight: 0,
        };
        backend.arm_wake();
        Ok(backend)
    }

    /// Another thread's write to the eventfd ends a wait without a timer for every wait.
    fn arm_wake(&mut self) {
        let fd = Fd(self.wake.0.as_raw_fd());
        let entry = opcode::Read::new(fd, self.wake_buffer.as_mut_ptr(), 8).build();
        self.queue(&entry.user_data(WAKE_TAG));
    }

    #[inline]
    fn queue(&mut self, entry: &Entry) {
        // SAFETY: the entry's buffer is in the arena or in this struct, and outlives the operation.
        while unsafe { self.sq.push(entry) }.is_err() {
            self.sq.sync();
            // A full queue means that the kernel has yet to take what is in it. An error here shows
            // up again in the caller's own submit.
            let _ = self.submitter.submit();
            self.sq.sync();
        }
        self.pushed = true;
    }

    #[inline]
    fn entry(&self, op: &Op) -> Entry {
        let file = Fd(self.file_numbers[op.file as usize]);
        let entry = match op.kind {
            OpKind::Read if self.fixed_buffers => {
                let slot = op.slot as u16;
                opcode::ReadFixed::new(file, self.buffer(op), op.len, slot)
                    .offset(op.offset)
                    .build()
            }
            OpKind::Read => {
                opcode::Read::new(file, self.buffer(op), op.len).offset(op.offset).build()
            }
            OpKind::Write if self.fixed_buffers => {
                let slot = op.slot as u16;
                opcode::WriteFixed::new(file, self.buffer(op), op.len, slot)
                    .offset(op.offset)
                    .build()
            }
            OpKind::Write => {
                opcode::Write::new(file, self.buffer(op), op.len).offset(op.offset).build()
            }
            OpKind::Trim => {
                let len = u64::from(op.len);
                opcode::Fallocate::new(file, len).offset(op.offset).mode(PUNCH_HOLE).build()
            }
            OpKind::Sync => {
                let flags = if op.data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(file).flags(flags).build()
            }
        };
        let flags = if self.fixed_files { Flags::FIXED_FILE } else { Flags::empty() };
        entry.flags(flags).user_data(op.tag)
    }

    #[inline]
    fn buffer(&self, op: &Op) -> *mut u8 {
        match op.kind {
            // SAFETY: the caller keeps slot_offset + len within the slot, checked in debug builds.
            OpKind::Read | OpKind::Write => unsafe {
                debug_assert!((op.slot_offset + op.len) as usize <= self.arena.slot_bytes());
                self.arena.address(op.slot).add(op.slot_offset as usize)
            },
            OpKind::Trim | OpKind::Sync => std::ptr::null_mut(),
        }
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
        let fd = file.fd();
        if self.fixed_files && self.submitter.register_files_update(index as u32, &[fd]).is_ok() {
            return;
        }
        if self.fixed_files {
            // All or none are registered. The others keep their own descriptors.
            let _ = self.submitter.unregister_files();
            self.fixed_files = false;
            self.file_numbers = self.files.iter().map(File::fd).collect();
        }
        self.file_numbers[index] = fd;
    }

    #[inline]
    fn push(&mut self, op: &Op) {
        let entry = self.entry(op);
        self.queue(&entry);
        self.in_flight += 1;
    }

    #[inline]
    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        if !self.pushed && !wait {
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
            self.arm_wake();
        }
    }

    fn cancel_all(&mut self) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.queue(&entry.user_data(CANCEL_TAG));
    }

    fn arena(&mut self) -> &mut Arena {
        &mut self.arena
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
        // SAFETY: each part is dropped once, the borrowing ones before the ring. Closing the ring
        // ends what still uses the buffers, which is at most the read of the eventfd.
        unsafe {
            ManuallyDrop::drop(&mut self.cq);
            ManuallyDrop::drop(&mut self.sq);
            ManuallyDrop::drop(&mut self.submitter);
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.arena);
        }
    }
}

/// A counter in the kernel that one thread writes to and the ring of another reads.
struct EventFd(fs::File);

impl EventFd {
    fn new() -> io::Result<Self> {
        // SAFETY: creates a new descriptor, which nobody else owns.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(EventFd(unsafe { fs::File::from_raw_fd(fd) }))
    }
}

impl Wake for EventFd {
    fn wake(&self) {
        // Cannot fail short of 2^64 wakes; and if it did, the next one would wake.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }
}

fn build(sq_entries: usize, cq_entries: usize) -> Result<(IoUring, &'static str)> {
    let sq = sq_entries.next_power_of_two().min(4096) as u32;
    let cq = cq_entries.max(sq_entries).next_power_of_two().min(CQ_ENTRIES_MAX) as u32;
    let mut last = None;
    for (name, set) in TASKRUN {
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

fn refused(what: impl Into<String>) -> Error {
    Error::Backend { backend: "uring", what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    /// A pipe that nobody writes to: a read of it never ends.
    fn silent_pipe(dir: &std::path::Path) -> (fs::File, File) {
        let path = dir.join("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a valid path.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let writer = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let access = Access { read: true, write: false, direct: false };
        (writer, File::open(&path, "pipe", access).unwrap())
    }

    #[test]
    fn buffers_of_operations_in_flight_are_never_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let (_writer, pipe) = silent_pipe(dir.path());
        // A size that no other test has.
        let bytes = 222 << 20;
        let arena = Arena::new(1, bytes).unwrap();
        let address = arena.address(0);
        let Ok(mut backend) = UringBackend::new(Arc::new(vec![pipe]), arena, 1, 1) else { return };
        let (kind, data_only) = (OpKind::Read, false);
        let place =
            Op { kind, data_only, file: 0, slot: 0, slot_offset: 0, len: 8, offset: 0, tag: 0 };
        backend.push(&place);
        backend.submit(false, None).unwrap();
        drop(backend);
        assert_ne!(Arena::new(1, bytes).unwrap().address(0), address);
    }

    #[test]
    fn more_operations_than_the_kernel_has_room_for_completions() {
        let arena = Arena::new(1, 4096).unwrap();
        let built = UringBackend::new(Arc::new(Vec::new()), arena, 256, 200_000);
        assert!(built.is_ok() || build(4, 4).is_err());
    }
}

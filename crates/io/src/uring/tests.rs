//! Tests of rings on real files and pipes.

use super::*;
use crate::Access;

/// Create a pipe from which reads block until the returned writer writes.
fn silent_pipe(dir: &std::path::Path) -> (fs::File, File) {
    let path = dir.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    let writer = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let access = Access { read: true, write: false, direct: false };
    (writer, File::open(&path, "pipe", access).unwrap())
}

fn zeros() -> File {
    let access = Access { read: true, write: false, direct: false };
    File::open("/dev/zero".as_ref(), "zero", access).unwrap()
}

/// Create a ring; `None` if the kernel or a sandbox forbids it.
fn ring(files: Vec<File>, slots: usize, slot_bytes: usize) -> Option<UringBackend> {
    let arena = Arena::new(slots, slot_bytes).unwrap();
    match UringBackend::new(Arc::new(files), arena, Queue::of_depth(slots)) {
        Ok(backend) => Some(backend),
        Err(error) => {
            assert!(build(4, 4, &TASKRUN).is_err(), "{error}");
            None
        }
    }
}

fn read_of(file: u16, slot: u32, len: u32) -> Op {
    let (kind, tag) = (OpKind::Read, u64::from(slot));
    Op { kind, data_only: false, file, slot, slot_offset: 0, len, offset: 0, tag }
}

#[test]
fn buffers_of_operations_in_flight_are_never_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let (_writer, pipe) = silent_pipe(dir.path());
    // A size that no other test uses, because the cache of mappings is global.
    let bytes = 222 << 20;
    let Some(mut backend) = ring(vec![pipe], 1, bytes) else { return };
    let address = backend.arena.address(0);
    backend.push(&read_of(0, 0, 8));
    backend.submit(false, None).unwrap();
    drop(backend);
    assert_ne!(Arena::new(1, bytes).unwrap().address(0), address);
}

#[test]
fn more_operations_than_the_kernel_has_room_for_completions() {
    let arena = Arena::new(1, 4096).unwrap();
    let built = UringBackend::new(
        Arc::new(Vec::new()),
        arena,
        Queue { depth: 200_000, batch: 256, parts: 1 },
    );
    assert!(built.is_ok() || build(4, 4, &TASKRUN).is_err());
}

#[test]
fn a_ring_that_is_dropped_gives_its_registration_back() {
    let Some(first) = ring(vec![zeros()], 1, 4096).map(|backend| backend.features()) else {
        return;
    };
    // More rings than the 16 that a thread can register.
    for _ in 0..40 {
        assert_eq!(ring(vec![zeros()], 1, 4096).unwrap().features(), first);
    }
}

/// In a child process, because the descriptor limit applies to a whole process, which other tests
/// share.
#[test]
#[ignore = "run by the test after it, in a process of its own"]
fn child_for_which_one_descriptor_is_left() {
    let Some(first) = ring(vec![zeros()], 1, 4096).map(|backend| backend.features()) else {
        return;
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes only to the given struct.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    let allow = |most| {
        let limit = libc::rlimit { rlim_cur: most, ..limit };
        // SAFETY: the call only reads the given struct.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    };
    for _ in 0..40 {
        let (files, arena) = (Arc::new(vec![zeros()]), Arena::new(1, 4096).unwrap());
        let next_fd = fs::File::open("/dev/null").unwrap().as_raw_fd();
        allow(next_fd as u64 + 1);
        let built = UringBackend::new(files, arena, Queue::of_depth(1));
        allow(limit.rlim_cur);
        assert!(built.is_err());
    }
    assert_eq!(ring(vec![zeros()], 1, 4096).unwrap().features(), first);
}

#[test]
fn a_ring_that_could_not_be_made_leaves_nothing_registered() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "uring::tests::child_for_which_one_descriptor_is_left", "--ignored"])
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[test]
fn nothing_of_a_dropped_ring_reads_its_eventfd() {
    for (at, _) in TASKRUN.iter().enumerate() {
        let arena = Arena::new(1, 4096).unwrap();
        let backend =
            UringBackend::with(Arc::new(vec![zeros()]), arena, Queue::of_depth(1), &TASKRUN[at..]);
        let Ok(mut backend) = backend else { return };
        // Submits the poll, so that it is armed in the kernel.
        backend.submit(true, Some(Duration::from_micros(1))).unwrap();
        let wake = backend.wake.clone();
        drop(backend);
        wake.wake();
        // A read of the eventfd pending in the kernel would have consumed the counter and written
        // it to freed memory.
        let info = format!("/proc/self/fdinfo/{}", wake.0.as_raw_fd());
        let info = fs::read_to_string(info).unwrap();
        let count = info.lines().find_map(|line| line.strip_prefix("eventfd-count:")).unwrap();
        assert_eq!(u64::from_str_radix(count.trim(), 16).unwrap(), 1, "{:?}", TASKRUN[at].0);
    }
}

#[test]
fn every_wake_ends_a_wait() {
    let Some(mut backend) = ring(vec![zeros()], 1, 4096) else { return };
    let waker = backend.waker();
    let mut completions = Vec::new();
    for _ in 0..3 {
        waker.wake();
        waker.wake();
        // No time-out: only the wake-up can end this wait.
        backend.submit(true, None).unwrap();
        backend.reap(&mut completions, usize::MAX);
        assert!(completions.is_empty());
    }
    let wait = Duration::from_millis(1);
    backend.submit(true, Some(wait)).unwrap();
    assert!(backend.cq.is_empty(), "woken without a wake");
}

#[test]
fn a_completion_is_seen_by_a_call_that_does_not_wait() {
    for again in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, pipe) = silent_pipe(dir.path());
        let Some(mut backend) = ring(vec![pipe, zeros()], 2, 4096) else { return };
        backend.push(&read_of(0, 0, 8));
        backend.submit(false, None).unwrap();
        // The read has completed, but the kernel has deferred the work that posts its completion.
        writer.write_all(&[7; 8]).unwrap();
        if again {
            backend.push(&read_of(1, 1, 8));
        }
        backend.submit(false, None).unwrap();
        let mut completions = Vec::new();
        backend.reap(&mut completions, usize::MAX);
        let mut tags: Vec<u64> = completions.iter().map(|done| done.tag).collect();
        tags.sort_unstable();
        assert_eq!(tags, if again { vec![0, 1] } else { vec![0] });
    }
}

#[test]
fn more_than_the_queue_holds_is_handed_over_all_the_same() {
    let Some(mut backend) = ring(vec![zeros()], 40, 4096) else { return };
    let mut small = Vec::new();
    for round in 0..5 {
        for slot in 0..40 {
            backend.push(&read_of(0, slot, 8));
        }
        while small.len() < (round + 1) * 40 {
            backend.submit(true, None).unwrap();
            backend.reap(&mut small, usize::MAX);
        }
    }
    let Some(mut backend) = ring(vec![zeros()], 1, 4096) else { return };
    let mut done = Vec::new();
    for _ in 0..100 {
        backend.push(&read_of(0, 0, 8));
    }
    while done.len() < 100 {
        backend.submit(true, None).unwrap();
        backend.reap(&mut done, usize::MAX);
    }
    assert!(done.iter().all(|completion| completion.result == 8));
}

/// Covers all combinations of registered and unregistered buffers and files.
#[test]
fn every_kind_of_operation_does_what_it_says() {
    let sizes = [0, 4096, 8192].map(|offset| (offset, 4096_u32));
    for registered in [(true, true), (false, true), (true, false), (false, false)] {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        file.as_file().set_len(3 * 4096).unwrap();
        let access = Access { read: true, write: true, direct: false };
        let opened = File::open(file.path(), "f", access).unwrap();
        let Some(mut backend) = ring(vec![opened], 4, 4096) else { return };
        backend.fixed_buffers &= registered.0;
        if !registered.1 {
            backend.fixed_files = false;
            backend.targets = targets_of(&backend.files, false);
        }
        let mut run = |kind: OpKind| {
            for (slot, (offset, len)) in (0..).zip(sizes) {
                backend.push(&Op { kind, offset, data_only: slot == 1, ..read_of(0, slot, len) });
            }
            let mut done = Vec::new();
            while done.len() < sizes.len() {
                backend.submit(true, None).unwrap();
                backend.reap(&mut done, usize::MAX);
            }
            done.sort_by_key(|completion| completion.tag);
            let ended: Vec<_> = done.iter().map(|done| (done.tag, done.result)).collect();
            // SAFETY: no operation is in flight.
            let first_bytes = [0, 1, 2].map(|slot| unsafe { backend.arena().slot_mut(slot) }[0]);
            for slot in 0..3 {
                // SAFETY: as above.
                unsafe { backend.arena().slot_mut(slot) }.fill(slot as u8 + 1);
            }
            (ended, first_bytes)
        };
        let (moved, nothing) = ([(0, 4096), (1, 4096), (2, 4096)], [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(run(OpKind::Read), (moved.to_vec(), [0; 3]), "{registered:?}");
        assert_eq!(run(OpKind::Write).0, moved, "{registered:?}");
        assert_eq!(run(OpKind::Sync).0, nothing, "{registered:?}");
        let written = fs::read(file.path()).unwrap();
        for (chunk, byte) in written.chunks(4096).zip(1..) {
            assert!(chunk.iter().all(|&b| b == byte), "{registered:?}: {:?}", &chunk[..4]);
        }
        assert_eq!(run(OpKind::Read), (moved.to_vec(), [1, 2, 3]), "{registered:?}");
        if run(OpKind::Trim).0 == nothing {
            assert!(fs::read(file.path()).unwrap().iter().all(|&b| b == 0), "{registered:?}");
        }
    }
}

#[test]
fn a_file_that_comes_later_is_read_whether_others_are_registered_or_not() {
    for (others, index) in [(vec![], 0), (vec![zeros(), zeros()], 1)] {
        let written = tempfile::NamedTempFile::new().unwrap();
        fs::write(written.path(), [7; 8]).unwrap();
        let access = Access { read: true, write: false, direct: false };
        let later = File::open(written.path(), "later", access).unwrap();
        let Some(mut backend) = ring(others, 2, 4096) else { return };
        backend.replace_file(index, &later);
        for file in 0..=index as u16 {
            backend.push(&read_of(file, u32::from(file), 8));
        }
        let mut done = Vec::new();
        while done.len() <= index {
            backend.submit(true, None).unwrap();
            backend.reap(&mut done, usize::MAX);
        }
        assert!(done.iter().all(|completion| completion.result == 8), "{done:?}");
        for file in 0..=index {
            // SAFETY: no operation is in flight.
            let data = &unsafe { backend.arena().slot_mut(file as u32) }[..8];
            assert_eq!(data, if file == index { [7; 8] } else { [0; 8] });
        }
    }
}

#[test]
fn a_ring_that_takes_nothing_any_more_is_an_error_of_submit() {
    let Some(mut backend) = ring(vec![zeros()], 1, 4096) else { return };
    let _ = backend.submitter.unregister_ring_fd();
    let null = fs::File::open("/dev/null").unwrap();
    // SAFETY: the ring lives as long as the backend.
    let ring = unsafe { backend.ring.as_ref() }.as_raw_fd();
    // SAFETY: replaces the ring's descriptor with another file; the mappings keep the ring alive.
    assert!(unsafe { libc::dup2(null.as_raw_fd(), ring) } >= 0);
    for _ in 0..100 {
        backend.push(&read_of(0, 0, 8));
    }
    assert!(backend.submit(false, None).is_err());
}

#[test]
#[should_panic(expected = "4096 bytes")]
fn a_buffer_that_ends_before_the_operation_does_is_refused() {
    let Some(mut backend) = ring(vec![zeros()], 2, 4096) else {
        panic!("4096 bytes: nothing to test here");
    };
    backend.push(&Op { slot_offset: 4000, ..read_of(0, 0, 97) });
}

#[test]
fn where_rings_cannot_discard_the_next_submit_does() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let access = Access { read: false, write: true, direct: false };
    let Some(mut backend) = ring(vec![File::open(file.path(), "f", access).unwrap()], 2, 4096)
    else {
        return;
    };
    backend.targets[0].block_device = true;
    backend.discards.by_ring = false;
    // No time-out: the submission must not wait if discards have completed.
    for wait in [true, false] {
        for slot in 0..2 {
            backend.push(&Op { kind: OpKind::Trim, ..read_of(0, slot, 4096) });
        }
        let mut done = Vec::new();
        backend.submit(wait, None).unwrap();
        backend.reap(&mut done, 1);
        backend.reap(&mut done, 1);
        // The kernel rejects a discard of a regular file, which shows that the discard was
        // attempted.
        let ended: Vec<_> = done.iter().map(|done| (done.tag, done.result)).collect();
        assert_eq!(ended, [(0, -libc::ENOTTY), (1, -libc::ENOTTY)], "waits: {wait}");
    }
}

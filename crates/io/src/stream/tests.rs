//! Tests of streams over files in the working directory.

use super::*;
use crate::file::Access;

fn byte_at(offset: u64) -> u8 {
    (offset / 7 % 251) as u8
}

fn round_trip(direct: bool, len: u64, spec: StreamSpec) {
    // In the working directory, because tmpfs may lack direct I/O.
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("stream");
    let file = File::create(&path, "stream", direct).unwrap();
    let mut stream = Stream::new(spec).unwrap();
    let go = || false;
    let mut written = Vec::new();
    let ended = stream
        .write(
            &file,
            len,
            &go,
            |offset, _, buffer| {
                for (i, byte) in buffer.iter_mut().enumerate() {
                    *byte = byte_at(offset + i as u64);
                }
            },
            |chunk| {
                written.push((chunk.offset, chunk.data.len()));
                Ok(())
            },
        )
        .unwrap();
    assert_eq!(ended, Pass::Whole);
    file.truncate(len).unwrap();
    assert_eq!(written.iter().map(|w| w.1 as u64).sum::<u64>(), len);
    let mut next = 0;
    stream
        .read(&file, len, &go, |chunk| {
            assert_eq!(chunk.offset, next);
            for (i, byte) in chunk.data.iter().enumerate() {
                assert_eq!(*byte, byte_at(chunk.offset + i as u64));
            }
            next += chunk.data.len() as u64;
            Ok(())
        })
        .unwrap();
    assert_eq!(next, len);
}

#[test]
fn what_was_written_is_read_in_order() {
    let spec = StreamSpec { io_bytes: 64 << 10, depth: 4, slots: 6 };
    for direct in [false, true] {
        for len in [0, 1, 4095, 65_536, 1_000_001, 3 << 20] {
            round_trip(direct, len, spec);
        }
    }
}

#[test]
fn one_ring_serves_many_files() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let mut stream = Stream::new(StreamSpec { io_bytes: 4096, depth: 2, slots: 2 }).unwrap();
    for i in 0..20u8 {
        let path = dir.path().join(i.to_string());
        std::fs::write(&path, vec![i; 10_000]).unwrap();
        let access = Access { read: true, write: false, direct: false };
        let file = File::open(&path, "f", access).unwrap();
        let mut seen = 0;
        stream
            .read(&file, 10_000, &|| false, |chunk| {
                assert!(chunk.data.iter().all(|&b| b == i));
                seen += chunk.data.len();
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, 10_000);
    }
}

#[test]
fn a_file_that_ends_early_is_named() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("short");
    std::fs::write(&path, vec![1; 5000]).unwrap();
    let file =
        File::open(&path, "short", Access { read: true, write: false, direct: false }).unwrap();
    let mut stream = Stream::new(StreamSpec { io_bytes: 4096, depth: 2, slots: 2 }).unwrap();
    let error = stream.read(&file, 9000, &|| false, |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("short"), "{error}");
    // The stream remains usable after the error.
    assert_eq!(stream.read(&file, 5000, &|| false, |_| Ok(())).unwrap(), Pass::Whole);
}

#[test]
fn a_stop_is_heeded_and_drains() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("long");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let file =
        File::open(&path, "long", Access { read: true, write: false, direct: false }).unwrap();
    let mut stream = Stream::new(StreamSpec { io_bytes: 4096, depth: 8, slots: 8 }).unwrap();
    let seen = std::cell::Cell::new(0);
    let ended = stream
        .read(&file, 1 << 20, &|| seen.get() > 3, |_| {
            seen.set(seen.get() + 1);
            Ok(())
        })
        .unwrap();
    assert_eq!(ended, Pass::Stopped);
}

/// Backend whose operations complete after a set number of submit calls.
struct Calls {
    arena: Arena,
    /// Slots of all operations, in order of submission.
    slots: Vec<u32>,
    /// Operations in flight, each with the number of submit calls left.
    begun: Vec<(u64, Completion)>,
}

/// Return the number of submit calls, 1 to 5, after which the chunk at this offset completes.
fn calls_of(offset: u64) -> u64 {
    1 + offset / 4096 * 7 % 5
}

impl Backend for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }
    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }
    fn replace_file(&mut self, _: usize, _: &File) {}
    fn push(&mut self, op: &Op) {
        let done = Completion { tag: op.tag, result: op.len as i32 };
        self.begun.push((calls_of(op.offset), done));
        self.slots.push(op.slot);
    }
    fn submit(&mut self, _: bool, _: Option<Duration>) -> std::io::Result<()> {
        for (left, _) in &mut self.begun {
            *left -= 1;
        }
        Ok(())
    }
    fn reap(&mut self, into: &mut Vec<Completion>, _: usize) {
        into.extend(self.begun.extract_if(.., |(left, _)| *left == 0).map(|(_, done)| done));
    }
    fn cancel_all(&mut self) {}
    fn arena(&self) -> &Arena {
        &self.arena
    }
    fn waker(&self) -> Arc<dyn crate::Wake> {
        unreachable!("a stream wakes nobody")
    }
    fn abandon(self) {}
}

/// Backend whose first operation fails, and whose other operations never end.
struct Stuck {
    arena: Arena,
    failed: Option<Completion>,
}

impl Backend for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }
    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }
    fn replace_file(&mut self, _: usize, _: &File) {}
    fn push(&mut self, op: &Op) {
        if op.offset == 0 {
            self.failed = Some(Completion { tag: op.tag, result: -libc::ENOSPC });
        }
    }
    fn submit(&mut self, _: bool, _: Option<Duration>) -> std::io::Result<()> {
        Ok(())
    }
    fn reap(&mut self, into: &mut Vec<Completion>, _: usize) {
        into.extend(self.failed.take());
    }
    fn cancel_all(&mut self) {}
    fn arena(&self) -> &Arena {
        &self.arena
    }
    fn waker(&self) -> Arc<dyn crate::Wake> {
        unreachable!("a stream wakes nobody")
    }
    fn abandon(self) {}
}

#[test]
fn what_failed_is_told_though_the_rest_hangs() {
    let spec = StreamSpec { io_bytes: 4096, depth: 4, slots: 4 };
    let arena = Arena::new(spec.slots, spec.io_bytes).unwrap();
    let mut engine = Engine::new(Stuck { arena, failed: None }, spec);
    engine.drain_ns = 1_000_000;
    let access = Access { read: false, write: true, direct: false };
    let file = File::open("/dev/null".as_ref(), "model.bin", access).unwrap();
    let (len, stopping) = (4 * 4096, || false);
    let job = Job { file: &file, from: 0, len, kind: OpKind::Write, stopping: &stopping };
    let error = engine.pass(&job, &mut |_, _, _| (), &mut |_| Ok(())).unwrap_err();
    assert!(error.hangs(), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("write of model.bin at offset 0 failed: No space left"), "{text}");
    assert!(text.contains("then 3 operations of model.bin did not complete"), "{text}");
}

/// Count the work intervals of the caller that lie entirely within a chunk's latency.
fn work_in(latency: &(u64, u64), work: &[(u64, u64)]) -> usize {
    work.iter().filter(|(from, to)| *from >= latency.0 && *to <= latency.0 + latency.1).count()
}

#[test]
fn what_has_ended_is_seen_before_the_caller_gets_the_next_chunk() {
    let spec = StreamSpec { io_bytes: 4096, depth: 4, slots: 8 };
    let arena = Arena::new(spec.slots, spec.io_bytes).unwrap();
    let backend = Calls { arena, slots: Vec::new(), begun: Vec::new() };
    let mut engine = Engine::new(backend, spec);
    let access = Access { read: true, write: false, direct: false };
    let file = File::open("/dev/null".as_ref(), "null", access).unwrap();
    let stopping = || false;
    let job = Job { file: &file, from: 0, len: 40 * 4096, kind: OpKind::Read, stopping: &stopping };
    let (mut work, mut latencies) = (Vec::new(), Vec::new());
    let mut take = |chunk: Chunk<'_>| {
        work.push((monotonic_ns(), monotonic_ns()));
        latencies.push((calls_of(chunk.offset), (chunk.start_ns, chunk.latency_ns)));
        Ok(())
    };
    engine.pass(&job, &mut |_, _, _| (), &mut take).unwrap();
    assert_eq!(latencies.len(), 40);
    // The caller gets one chunk between two calls.
    for (calls, latency) in latencies {
        assert!(work_in(&latency, &work) < calls as usize);
    }
}

/// Return the buffers that reads used, and the buffer index reported with each chunk.
fn slots_of(io_bytes: usize, chunks: u64) -> (Vec<u32>, Vec<usize>) {
    let spec = StreamSpec { io_bytes, depth: 16, slots: 18 };
    let arena = Arena::new(spec.slots, spec.io_bytes).unwrap();
    let mut engine = Engine::new(Calls { arena, slots: Vec::new(), begun: Vec::new() }, spec);
    let access = Access { read: true, write: false, direct: false };
    let file = File::open("/dev/null".as_ref(), "null", access).unwrap();
    let (len, stopping) = (chunks * io_bytes as u64, || false);
    let job = Job { file: &file, from: 0, len, kind: OpKind::Read, stopping: &stopping };
    let mut named = Vec::new();
    let mut take = |chunk: Chunk<'_>| {
        named.push(chunk.slot);
        Ok(())
    };
    engine.pass(&job, &mut |_, _, _| (), &mut take).unwrap();
    (engine.backend.slots, named)
}

#[test]
fn what_is_there_at_once_is_read_into_few_buffers() {
    // Every operation completes with the call that submits it, so only the buffers that fit into
    // the cache are used.
    for (io_bytes, near) in [(5 << 20, 1), (5 << 16, 1), (5 << 14, 3), (5 << 12, 12)] {
        let (read, named) = slots_of(io_bytes, 40);
        let expected: Vec<u32> = (0..40).map(|chunk| chunk % near).collect();
        assert_eq!(read, expected, "{io_bytes}");
        assert_eq!(named, (0..40).map(|chunk| chunk % 18).collect::<Vec<_>>());
    }
}

#[test]
fn what_has_to_be_waited_for_is_read_at_full_depth() {
    // The second chunk completes only with the fifth call.
    let (read, named) = slots_of(1 << 20 | 1 << 12, 40);
    let second = 1; // requested alone, into the same buffer as the first chunk
    assert_eq!(read[..=second], [0, 0]);
    assert_eq!(read[second..], (0..39).map(|chunk| chunk % 18).collect::<Vec<u32>>());
    assert_eq!(named, (0..40).map(|chunk| chunk % 18).collect::<Vec<_>>());
}

#[test]
fn latency_of_a_write_has_nothing_of_filling_the_others_buffers() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let file = File::create(&dir.path().join("f"), "f", false).unwrap();
    // All buffers are filled before the first submission.
    let spec = StreamSpec { io_bytes: 4096, depth: 8, slots: 8 };
    let mut stream = Stream::new(spec).unwrap();
    let (mut work, mut latencies) = (Vec::new(), Vec::new());
    let fill = |_: u64, _: usize, _: &mut [u8]| work.push((monotonic_ns(), monotonic_ns()));
    let take = |chunk: Chunk<'_>| {
        latencies.push((chunk.start_ns, chunk.latency_ns));
        Ok(())
    };
    stream.write(&file, 8 * 4096, &|| false, fill, take).unwrap();
    let most = latencies.iter().map(|latency| work_in(latency, &work)).max();
    assert_eq!((work.len(), most), (8, Some(0)));
}

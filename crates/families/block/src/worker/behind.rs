//! Test of a worker behind its schedule on a real ring, with operations that the kernel completes
//! by deferred task work, which runs only when the thread enters the kernel to get events.

use std::cell::Cell;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use storlab_base::TimeSource;
use storlab_io::{
    Access, Arena, Backend, BackendKind, Completion, File, Op, Queue, UringBackend, Wake,
};
use storlab_run::groups::Group;
use storlab_run::order::Order as _;
use storlab_run::window::Window;

use super::Worker;
use super::simulated::{MS, START};
use crate::shared::Shared;
use crate::spec::{BlockJob, tests::job_json};

const DEPTH: usize = 32;
const BLOCK: usize = 512;
const READS: usize = 300;

/// Clock that advances at each reading, so that the worker never catches up with a fast schedule.
struct Hasty(Cell<u64>);

impl TimeSource for Hasty {
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + MS);
        self.0.get()
    }
}

/// Backend over pipes that receive the data for a read only after the read was submitted. Each
/// buffer has its own pipe, because data left over from one read could complete another one at
/// once.
struct Fed<'m> {
    ring: UringBackend,
    writers: Vec<fs::File>,
    owed: Vec<u32>,
    in_flight: usize,
    seen: &'m Seen,
}

#[derive(Default)]
struct Seen {
    ended: Cell<usize>,
    most_in_flight: Cell<usize>,
}

impl Fed<'_> {
    fn feed(&mut self) -> io::Result<()> {
        let mut owed = self.owed.drain(..);
        owed.try_for_each(|slot| self.writers[slot as usize].write_all(&[7; BLOCK]))
    }
}

impl Backend for Fed<'_> {
    fn name(&self) -> &'static str {
        "fed"
    }

    fn features(&self) -> Vec<&'static str> {
        self.ring.features()
    }

    fn replace_file(&mut self, index: usize, file: &File) {
        self.ring.replace_file(index, file);
    }

    fn push(&mut self, op: &Op) {
        self.owed.push(op.slot);
        self.in_flight += 1;
        let most = &self.seen.most_in_flight;
        most.set(most.get().max(self.in_flight));
        self.ring.push(&Op { file: op.slot as u16, ..*op });
    }

    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        if wait {
            self.feed()?;
        }
        self.ring.submit(wait, timeout)?;
        self.feed()
    }

    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize) {
        let before = into.len();
        self.ring.reap(into, limit);
        let ended = into.len() - before;
        self.in_flight -= ended;
        self.seen.ended.set(self.seen.ended.get() + ended);
    }

    fn cancel_all(&mut self) {
        self.ring.cancel_all();
    }

    fn arena(&self) -> &Arena {
        self.ring.arena()
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.ring.waker()
    }

    fn abandon(self) {
        self.ring.abandon();
    }
}

fn pipe(path: &Path) -> (fs::File, File) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    let writer = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let access = Access { read: true, write: false, direct: false };
    (writer, File::open(path, "pipe", access).unwrap())
}

/// A worker behind its schedule must still reap completions. Otherwise the time until it reaps
/// them, when the queue is full, would count as latency.
#[test]
fn completions_are_seen_while_an_open_loop_is_behind_its_schedule() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = job_json("jbod", 1, 1, None);
    job["queue_depth"] = json!(DEPTH);
    job["block_sizes"] = json!([{"bytes": BLOCK, "weight": 1.0}]);
    job["arrival"] = json!({"kind": "constant", "rate_iops": 1e6});
    job["window_ns"] = json!(null);
    job["window_bytes"] = json!(READS * BLOCK);
    let job = BlockJob::from_json(&job.to_string()).unwrap();
    let slots = job.read_slots() + job.write_slots();
    let (writers, pipes) = (0..slots).map(|slot| pipe(&dir.path().join(slot.to_string()))).unzip();
    let arena = Arena::new(slots, BLOCK).unwrap();
    let Ok(ring) =
        UringBackend::new(Arc::new(pipes), arena, Queue { depth: DEPTH, batch: 1, parts: 1 })
    else {
        return; // the kernel or a sandbox forbids rings
    };
    let seen = Seen::default();
    let backend = Fed { ring, writers, owed: Vec::new(), in_flight: 0, seen: &seen };
    let (shared, _messages) = Shared::new(Group::alone(job), BackendKind::Uring, None).unwrap();
    let worker = Worker::new(&shared, 0, backend, Hasty(Cell::new(START))).unwrap();
    worker.run(Window { load_start_ns: START, start_ns: START, end_ns: u64::MAX }).unwrap();
    assert_eq!(seen.ended.get(), READS);
    let most = seen.most_in_flight.get();
    assert!(most <= 3, "{most} of {DEPTH} in flight");
}

//! Test that the loop of a worker allocates no memory, not even at the ends of intervals.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};
use storlab_base::TimeSource;
use storlab_io::{Arena, BackendKind, NullBackend, Queue};
use storlab_run::groups::Group;
use storlab_run::order::Order as _;
use storlab_run::timed::Message;
use storlab_run::window::Window;

use super::Worker;
use crate::shared::Shared;
use crate::spec::{BlockJob, tests::job_json};

const START_NS: u64 = 1_000_000_000;
const INTERVAL_NS: u64 = 100_000;

/// Allocator that counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: all calls are forwarded to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Clock that advances by 1 us at each reading, combined with a coordinator that is never late.
struct Steps {
    now_ns: Cell<u64>,
    intervals: Cell<u64>,
    followed: Cell<u64>,
    messages: Receiver<Message>,
}

#[derive(Clone)]
struct StepClock(Rc<Steps>);

impl TimeSource for StepClock {
    fn now_ns(&self) -> u64 {
        let Steps { now_ns, intervals, messages, .. } = &*self.0;
        while let Ok(Message::Interval(report)) = messages.try_recv() {
            intervals.set(intervals.get() + 1);
            report.recycle();
        }
        now_ns.set(now_ns.get() + 1000);
        now_ns.get()
    }

    fn follow(&mut self) {
        self.0.followed.set(self.0.followed.get() + 1);
    }
}

/// Return the number of allocations of a run with this many intervals.
fn allocations(intervals: u64, change: impl Fn(&mut Value)) -> u64 {
    let mut job = job_json("jbod", 1, 1, None);
    job["interval_ns"] = json!(INTERVAL_NS);
    job["window_ns"] = json!(INTERVAL_NS * intervals);
    change(&mut job);
    let job = BlockJob::from_json(&job.to_string()).unwrap();
    let (shared, messages) = Shared::new(Group::alone(job), BackendKind::Null, None).unwrap();
    let job = &shared.groups[0].job;
    let slots = job.read_slots() + job.write_slots();
    let arena = Arena::new(slots, job.longest_block() as usize).unwrap();
    let (now_ns, handed_over) = (Cell::new(START_NS), Cell::new(0));
    let followed = Cell::new(0);
    let steps = Rc::new(Steps { now_ns, intervals: handed_over, followed, messages });
    let clock = StepClock(steps.clone());
    let backend = NullBackend::new(std::sync::Arc::default(), arena, Queue::of_depth(1)).unwrap();
    let worker = Worker::new(&shared, 0, backend, clock.clone()).unwrap();
    let end_ns = START_NS + INTERVAL_NS * intervals;
    let window = Window { load_start_ns: START_NS, start_ns: START_NS, end_ns };
    let before = ALLOCATIONS.get();
    worker.run(window).unwrap();
    let allocated = ALLOCATIONS.get() - before;
    clock.now_ns();
    assert_eq!(steps.intervals.get(), intervals);
    assert!(steps.followed.get() >= intervals, "its clock follows the kernel's at each end");
    allocated
}

#[test]
fn no_end_of_an_interval_allocates_memory() {
    let closed = |_: &mut Value| {};
    let open = |job: &mut Value| {
        job["arrival"] = json!({"kind": "constant", "rate_iops": 200_000.0});
        job["mix"] = json!({"read": 50.0, "write": 50.0, "trim": 0.0});
    };
    allocations(2, closed); // the first run of a process initialises statics
    assert_eq!(allocations(200, closed), allocations(2, closed));
    assert_eq!(allocations(200, open), allocations(2, open));
}

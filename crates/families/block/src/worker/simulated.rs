//! Device in virtual time, for tests of the worker without a clock, threads or the kernel.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::Value;
use storlab_base::TimeSource;
use storlab_io::{Arena, Backend, BackendKind, Completion, Op, Wake};
use storlab_run::groups::Group;
use storlab_run::order::Order as _;
use storlab_run::sampling::{Collector, KindStats, Row};
use storlab_run::timed::{Message, WorkerEnd};
use storlab_run::window::Window;

use super::Worker;
use crate::shared::Shared;
use crate::spec::{BlockJob, tests::job_json};
use crate::verify::Verifier;

pub const MS: u64 = 1_000_000;
/// Duration of a system call; it also keeps virtual time moving while a worker polls.
const CALL_NS: u64 = 200;
/// Start of the load in nanoseconds.
pub const START: u64 = 1_000_000_000;

/// Function from an operation and its start to its end time and result; `None` if it never ends.
pub type Serve = Box<dyn FnMut(&Op, u64) -> Option<(u64, i32)>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnCancel {
    /// Cancellation is ignored, as by a hung device.
    Nothing,
    /// Operations in flight end with this errno.
    Ends(i32),
}

pub struct Device {
    now: u64,
    serve: Serve,
    /// Maps the tag of an operation to that of its completion.
    retag: fn(u64) -> u64,
    pushed: Vec<Op>,
    in_flight: Vec<(u64, Completion)>,
    hung: Vec<u64>,
    on_cancel: OnCancel,
    /// Events that wake the worker, with their times.
    events: VecDeque<(u64, Box<dyn FnOnce()>)>,
    /// Events that do not wake the worker, with their times.
    elsewhere: VecDeque<(u64, Box<dyn FnOnce()>)>,
    /// Every operation with its submission time.
    pub log: Vec<(u64, Op)>,
    pub abandoned: bool,
}

impl Device {
    fn begin_pushed(&mut self) {
        for op in std::mem::take(&mut self.pushed) {
            self.log.push((self.now, op));
            match (self.serve)(&op, self.now) {
                Some((end, result)) => {
                    let tag = (self.retag)(op.tag);
                    self.in_flight.push((end, Completion { tag, result }));
                }
                None => self.hung.push(op.tag),
            }
        }
    }

    fn ready(&self) -> bool {
        self.in_flight.iter().any(|&(end, _)| end <= self.now)
    }

    /// Advance time to the next completion, event or timeout.
    fn wait(&mut self, timeout: Option<Duration>) {
        if self.ready() {
            return;
        }
        let limit = timeout.map(|t| self.now + t.as_nanos() as u64);
        let completion = self.in_flight.iter().map(|&(end, _)| end).min();
        let event = self.events.front().map(|&(at, _)| at.max(self.now));
        let until = [limit, completion, event].into_iter().flatten().min();
        self.now = until.expect("the worker waits for ever");
        assert!(self.now < START + 100_000 * MS, "the worker goes on for ever");
    }

    fn due_events(&mut self) -> Vec<Box<dyn FnOnce()>> {
        let mut due = Vec::new();
        for events in [&mut self.events, &mut self.elsewhere] {
            while events.front().is_some_and(|&(at, _)| at <= self.now) {
                due.extend(events.pop_front().map(|(_, event)| event));
            }
        }
        due
    }
}

#[derive(Clone)]
pub struct SimulatedClock(Rc<RefCell<Device>>);

impl TimeSource for SimulatedClock {
    fn now_ns(&self) -> u64 {
        self.0.borrow().now
    }
}

pub struct SimulatedBackend {
    device: Rc<RefCell<Device>>,
    arena: Arena,
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

impl Backend for SimulatedBackend {
    fn replace_file(&mut self, _index: usize, _file: &storlab_io::File) {}

    fn name(&self) -> &'static str {
        "simulated"
    }

    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn push(&mut self, op: &Op) {
        self.device.borrow_mut().pushed.push(*op);
    }

    fn submit(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        let mut device = self.device.borrow_mut();
        device.now += CALL_NS;
        device.begin_pushed();
        if wait {
            device.wait(timeout);
        }
        let events = device.due_events();
        drop(device);
        for event in events {
            event();
        }
        Ok(())
    }

    fn reap(&mut self, into: &mut Vec<Completion>, limit: usize) {
        let mut device = self.device.borrow_mut();
        let now = device.now;
        device.in_flight.sort_by_key(|&(end, _)| end);
        let there = device.in_flight.iter().take_while(|&&(end, _)| end <= now).count();
        into.extend(device.in_flight.drain(..there.min(limit)).map(|(_, done)| done));
    }

    fn cancel_all(&mut self) {
        let mut device = self.device.borrow_mut();
        let (now, on_cancel) = (device.now, device.on_cancel);
        if let OnCancel::Ends(errno) = on_cancel {
            for tag in std::mem::take(&mut device.hung) {
                device.in_flight.push((now, Completion { tag, result: -errno }));
            }
        }
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(NoWake)
    }

    fn abandon(self) {
        self.device.borrow_mut().abandoned = true;
    }
}

/// Worker with its simulated device, ready to run.
pub struct Bench {
    pub shared: Arc<Shared>,
    messages: Receiver<Message>,
    device: Rc<RefCell<Device>>,
}

/// Results of a simulated run.
pub struct Ran {
    pub end: WorkerEnd,
    pub rows: Vec<Row>,
    pub stats: Vec<KindStats>,
    pub log: Vec<(u64, Op)>,
    pub abandoned: bool,
    /// Rates shown by the live view, one per reported interval.
    pub live: Vec<f64>,
    pub ended_ns: u64,
}

/// Build a bench. By default: 4 KiB reads of 1 MiB by one job at depth 4, for 100 ms in 20 ms
/// intervals.
pub fn bench(change: impl Fn(&mut Value), serve: Serve) -> Bench {
    let mut job = job_json("jbod", 1, 1, None);
    change(&mut job);
    let job = BlockJob::from_json(&job.to_string()).unwrap();
    let open = |spec| Verifier::open(spec, &job.members, job.seed).unwrap();
    let verifier = job.verify.as_ref().map(open);
    let (mut shared, messages) = Shared::new(Group::alone(job), BackendKind::Null, None).unwrap();
    shared.verifier = verifier;
    let device = Device {
        now: START,
        serve,
        retag: |tag| tag,
        pushed: Vec::new(),
        in_flight: Vec::new(),
        hung: Vec::new(),
        on_cancel: OnCancel::Nothing,
        events: VecDeque::new(),
        elsewhere: VecDeque::new(),
        log: Vec::new(),
        abandoned: false,
    };
    Bench { shared: Arc::new(shared), messages, device: Rc::new(RefCell::new(device)) }
}

/// Let every operation succeed after this many nanoseconds.
pub fn after(ns: u64) -> Serve {
    Box::new(move |op, now| Some((now + ns, op.len as i32)))
}

impl Bench {
    /// Schedule an event that wakes the worker. Successive calls must have ascending times.
    pub fn at(self, ns: u64, event: impl FnOnce() + 'static) -> Self {
        self.device.borrow_mut().events.push_back((ns, Box::new(event)));
        self
    }

    /// Schedule an event that does not wake the worker.
    pub fn elsewhere_at(self, ns: u64, event: impl FnOnce() + 'static) -> Self {
        self.device.borrow_mut().elsewhere.push_back((ns, Box::new(event)));
        self
    }

    /// Let the device report each completion with the tag that `retag` returns for the operation's
    /// tag.
    pub fn retagged(self, retag: fn(u64) -> u64) -> Self {
        self.device.borrow_mut().retag = retag;
        self
    }

    pub fn on_cancel(self, what: OnCancel) -> Self {
        self.device.borrow_mut().on_cancel = what;
        self
    }

    /// Return the time at which the window ends, after the ramp; `u64::MAX` if the window is
    /// limited by bytes.
    pub fn end_ns(&self) -> u64 {
        let job = &self.shared.groups[0].job;
        job.window_ns.map_or(u64::MAX, |length| START + job.ramp_ns + length)
    }

    /// Wake the worker every 100 ms after the end of the window, as the coordinator does.
    pub fn nudged(mut self) -> Self {
        for nudge in 0..1000 {
            self = self.at_end(nudge * 100 * MS);
        }
        self
    }

    fn at_end(self, ns: u64) -> Self {
        let end = self.end_ns();
        self.at(end.saturating_add(ns), || {})
    }

    pub fn run(self) -> Ran {
        let Bench { shared, messages, device } = self;
        let job = &shared.groups[0].job;
        let slots = job.read_slots() + job.write_slots();
        let arena = Arena::new(slots, job.longest_block() as usize).unwrap();
        let backend = SimulatedBackend { device: device.clone(), arena };
        let worker = Worker::new(&shared, 0, backend, SimulatedClock(device.clone())).unwrap();
        let start_ns = START + job.ramp_ns;
        let end_ns = job.window_ns.map_or(u64::MAX, |length| start_ns + length);
        let end = worker.run(Window { load_start_ns: START, start_ns, end_ns }).unwrap();
        let mut collector = Collector::new(1, job.interval_ns, job.open_loop(), job.kinds());
        let mut live = Vec::new();
        for message in messages.try_iter() {
            if let Message::Interval(report) = message {
                collector.add(&report, start_ns);
                live.extend(collector.live().operations_s);
            }
        }
        collector.add_unfinished(&end.unfinished);
        let end_ns = if end_ns == u64::MAX { end.last_completion_ns } else { end_ns };
        collector.finish(start_ns, end_ns);
        let stats = collector.totals().into_iter().map(|(_, s)| s.into_owned()).collect();
        let rows = collector.into_rows();
        let mut device = device.borrow_mut();
        let log = std::mem::take(&mut device.log);
        let (abandoned, ended_ns) = (device.abandoned, device.now);
        Ran { end, rows, stats, log, abandoned, live, ended_ns }
    }
}

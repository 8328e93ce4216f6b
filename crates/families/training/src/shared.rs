//! State shared by the threads of a training run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use storlab_base::{Error, Signal, lock};
use storlab_io::DeviceCounters;
use storlab_run::control::Control;
use storlab_s3::Store;

use super::lane::{Lane, Meeting};
use super::spec::TrainingJob;

/// Location of the data set.
#[derive(Clone)]
pub enum Home {
    /// Files below a directory.
    Directory(PathBuf),
    /// Objects below a prefix of a bucket.
    Store(Store, String),
}

impl Home {
    /// Return the I/O counters of the block device that stores the data set, if there is one.
    pub fn device(&self) -> Option<DeviceCounters> {
        match self {
            Home::Directory(path) => DeviceCounters::of(path),
            Home::Store(..) => None,
        }
    }
}

/// State shared by the threads of a training run.
pub struct Shared {
    pub(super) job: TrainingJob,
    pub(super) home: Home,
    pub(super) control: Arc<Control>,
    pub(super) lanes: Vec<Lane>,
    pub(super) meeting: Meeting,
    pub(super) failure: Mutex<Option<Error>>,
    /// Number of epochs opened so far; an accelerator waits until its epoch is among them.
    pub(super) open: Signal<u32>,
    pub(super) backend: Mutex<(&'static str, Vec<&'static str>)>,
    /// Priority of the accelerators' threads, as text for the results.
    pub(super) precedence: &'static str,
}

impl Shared {
    /// Make the run fail; only the first failure is reported.
    pub fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.control.end_soon();
    }

    /// Announce to the barrier that one accelerator's step will end at `end_ns`. Return the number
    /// of the step, counted over all epochs.
    pub fn announce(&self, end_ns: u64) -> u64 {
        let (turn, latest_ns) = self.meeting.announce(end_ns);
        if let Some(latest_ns) = latest_ns {
            self.control.meeting().announce(latest_ns);
        }
        turn
    }

    /// Wait until all accelerators of all clients have announced when their step number `turn`
    /// ends. Return the latest of these times, at which the step ends for all; `None` if the run is
    /// stopping.
    pub fn end_of(&self, turn: u64, stopping: &dyn Fn() -> bool) -> Option<u64> {
        let here_ns = self.meeting.end_of(turn, stopping)?;
        self.control.meeting().end_of(turn, here_ns, stopping)
    }

    /// Open epoch `number`: accelerators may begin it.
    pub fn open_epoch(&self, number: u32) {
        self.open.change(|open| *open = number + 1);
    }

    /// Wait until epoch `number` may begin. Return false if the run is stopping.
    pub fn wait_for_epoch(&self, number: u32) -> bool {
        self.open.poll(|open| {
            let may_begin = *open > number;
            (may_begin || self.control.stopping()).then_some(may_begin)
        })
    }
}

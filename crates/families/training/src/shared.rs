//! What the threads of a run share.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use storlab_base::{Error, lock};
use storlab_io::DeviceCounters;
use storlab_run::control::Control;
use storlab_s3::Store;

use super::lane::{LOOK, Lane, Meeting};
use super::spec::TrainingJob;

/// Where the data set is.
#[derive(Clone)]
pub enum Home {
    /// Files below a directory.
    Directory(PathBuf),
    /// Objects below a prefix.
    Store(Store, String),
}

impl Home {
    /// What counts its bytes, where there is such a thing.
    pub fn device(&self) -> Option<DeviceCounters> {
        match self {
            Home::Directory(path) => DeviceCounters::of(path),
            Home::Store(..) => None,
        }
    }
}

/// What the threads of a run share.
pub struct Shared {
    pub(super) job: TrainingJob,
    pub(super) home: Home,
    pub(super) control: Arc<Control>,
    pub(super) lanes: Vec<Lane>,
    pub(super) meeting: Meeting,
    pub(super) failure: Mutex<Option<Error>>,
    /// Epochs that may begin.
    pub(super) open: (Mutex<u32>, Condvar),
    pub(super) backend: Mutex<(&'static str, Vec<&'static str>)>,
    /// Of the accelerators' threads over others.
    pub(super) precedence: &'static str,
}

impl Shared {
    /// The run ends as failed; the first failure is the one that is told.
    pub fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.control.end_soon();
    }

    /// One's step will end then. Returns the number of the turn.
    pub fn announce(&self, end_ns: u64) -> u64 {
        let (turn, latest_ns) = self.meeting.announce(end_ns);
        if let Some(latest_ns) = latest_ns {
            self.control.meeting().announce(latest_ns);
        }
        turn
    }

    /// When the step of that turn ends for all, on all clients. `None` when the run is to end.
    pub fn end_of(&self, turn: u64, stopping: &dyn Fn() -> bool) -> Option<u64> {
        let here_ns = self.meeting.end_of(turn, stopping)?;
        self.control.meeting().end_of(turn, here_ns, stopping)
    }

    /// Accelerators may begin it.
    pub fn open_epoch(&self, number: u32) {
        *lock(&self.open.0) = number + 1;
        self.open.1.notify_all();
    }

    /// False when the run is to end.
    pub fn wait_for_epoch(&self, number: u32) -> bool {
        let mut open = lock(&self.open.0);
        while *open <= number {
            if self.control.stopping() {
                return false;
            }
            let waited = self.open.1.wait_timeout(open, LOOK);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

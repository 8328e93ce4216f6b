//! Between an accelerator and its readers: batches are loaded side by side, kept within bounds, and
//! delivered in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::order::Epoch;
use super::reader::Loaded;

/// How often a wait looks whether the run is to end.
pub const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct State {
    epoch: Option<(u32, Arc<Epoch>)>,
    consumed: u64,
    loaded: BTreeMap<u64, Loaded>,
    ended: bool,
}

/// One accelerator's queue.
pub struct Lane {
    state: Mutex<State>,
    changed: Condvar,
    readers: u64,
    /// Batches that all readers together may be ahead.
    ahead: u64,
    steps: u64,
}

impl Lane {
    /// For so many readers, each of them `ahead` batches ahead at most, and so many steps.
    pub fn new(readers: usize, ahead: u64, steps: u64) -> Self {
        let readers = readers as u64;
        let (state, changed) = (Mutex::default(), Condvar::new());
        Lane { state, changed, readers, ahead: ahead * readers, steps }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An epoch begins: readers may load its first batches.
    pub fn begin(&self, number: u32, epoch: Epoch) {
        let mut state = self.lock();
        state.epoch = Some((number, Arc::new(epoch)));
        state.consumed = 0;
        state.loaded.clear();
        self.changed.notify_all();
    }

    /// There are no more epochs.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Wait until reader `reader` may load its batch `turn` of epoch `number`. `None` when there is
    /// nothing more to do.
    pub fn may_load(
        &self,
        number: u32,
        batch: u64,
        stopping: &dyn Fn() -> bool,
    ) -> Option<Arc<Epoch>> {
        let mut state = self.lock();
        loop {
            if stopping() || state.ended {
                return None;
            }
            let reached = state.epoch.as_ref().filter(|(now, _)| *now == number);
            if let Some((_, epoch)) = reached.filter(|_| batch < state.consumed + self.ahead) {
                return Some(epoch.clone());
            }
            state = self.wait(state);
        }
    }

    /// A batch is ready.
    pub fn deliver(&self, batch: u64, loaded: Loaded) {
        self.lock().loaded.insert(batch, loaded);
        self.changed.notify_all();
    }

    /// Take batch `step` as soon as it is there; `None` when the run is to end.
    pub fn take(&self, step: u64, stopping: &dyn Fn() -> bool) -> Option<Loaded> {
        let mut state = self.lock();
        loop {
            if let Some(loaded) = state.loaded.remove(&step) {
                state.consumed = step + 1;
                self.changed.notify_all();
                return Some(loaded);
            }
            if stopping() {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The batches of one reader in an epoch, in order: every `readers`-th.
    pub fn turns(&self, reader: usize) -> impl Iterator<Item = u64> {
        (reader as u64..self.steps).step_by(self.readers as usize)
    }
}

/// A meeting of all accelerators, which nobody waits for when the run is to end.
pub struct Meeting {
    all: usize,
    state: Mutex<(usize, u64)>,
    changed: Condvar,
}

impl Meeting {
    /// Of so many.
    pub fn new(all: usize) -> Self {
        Meeting { all, state: Mutex::new((0, 0)), changed: Condvar::new() }
    }

    /// Wait for all the others. False when the run is to end.
    pub fn wait(&self, stopping: &dyn Fn() -> bool) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        if state.0 == self.all {
            *state = (0, state.1 + 1);
            self.changed.notify_all();
            return true;
        }
        let turn = state.1;
        while state.1 == turn {
            if stopping() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::spec::TrainingJob;
    use crate::training::tests::job;

    fn epoch(job: &TrainingJob) -> Epoch {
        Epoch::new(job, 0, 0)
    }

    #[test]
    fn readers_stay_within_their_bounds() {
        let job = job(std::path::Path::new("/"), |_| {});
        let lane = Lane::new(2, 1, 10);
        let go = || false;
        lane.begin(0, epoch(&job));
        assert!(lane.may_load(0, 0, &go).is_some());
        assert!(lane.may_load(0, 1, &go).is_some());
        let looks = std::cell::Cell::new(0);
        let soon = || {
            looks.set(looks.get() + 1);
            looks.get() > 2
        };
        assert!(lane.may_load(0, 2, &soon).is_none(), "batch 2 before batch 0 was taken");
        lane.deliver(0, Loaded { bytes: 7, stopped: false });
        assert_eq!(lane.take(0, &go).unwrap().bytes, 7);
        assert!(lane.may_load(0, 2, &go).is_some());
    }

    #[test]
    fn batches_go_round_the_readers() {
        let lane = Lane::new(3, 1, 8);
        assert_eq!(lane.turns(0).collect::<Vec<_>>(), [0, 3, 6]);
        assert_eq!(lane.turns(2).collect::<Vec<_>>(), [2, 5]);
    }
}

//! Queue between an accelerator and its readers. Readers load batches in parallel, up to a limited
//! number ahead; the accelerator gets them in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use storlab_base::{Signal, lock, monotonic_ns};

use super::order::Epoch;

/// Batch that a reader has loaded: its bytes, and when it became available.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Bytes read from storage for the batch.
    pub bytes: u64,
    /// Time at which the batch became available, on the run's clock; set by [`Lane::deliver`].
    pub ready_ns: u64,
    /// Whether the run ended while the batch was loaded.
    pub stopped: bool,
}

/// Interval at which a waiting thread checks whether the run is stopping.
pub const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct State {
    epoch: Option<(u32, Arc<Epoch>)>,
    consumed: u64,
    loaded: BTreeMap<u64, Loaded>,
    ended: bool,
}

/// Queue of batches for one accelerator. A change wakes only the threads that can continue because
/// of it.
pub struct Lane {
    state: Mutex<State>,
    /// Signals to the accelerator that its next batch is available.
    delivered: Condvar,
    /// One per reader: signals that it may load its next batch.
    room: Vec<Condvar>,
    readers: u64,
    /// Maximum number of batches that all readers together may load ahead of the accelerator.
    ahead: u64,
    steps: u64,
}

impl Lane {
    /// Create the queue of one accelerator: number of readers, number of batches that each reader
    /// may load ahead, and steps (batches) per epoch.
    pub fn new(readers: usize, ahead: u64, steps: u64) -> Self {
        let room = (0..readers).map(|_| Condvar::new()).collect();
        let readers = readers as u64;
        let (state, delivered) = (Mutex::default(), Condvar::new());
        Lane { state, delivered, room, readers, ahead: ahead * readers, steps }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Begin epoch `number`: readers may load its first batches.
    pub fn begin(&self, number: u32, epoch: Epoch) {
        let mut state = self.lock();
        state.epoch = Some((number, Arc::new(epoch)));
        state.consumed = 0;
        state.loaded.clear();
        self.room.iter().for_each(Condvar::notify_one);
    }

    /// Close the queue: no more epochs follow.
    pub fn end(&self) {
        self.lock().ended = true;
        self.room.iter().for_each(Condvar::notify_one);
    }

    /// Wait until batch `batch` of epoch `number` may be loaded. Return the order of the epoch's
    /// samples; `None` if the run is stopping or the queue is closed.
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
            state = wait(self.room_of(batch), state);
        }
    }

    /// Return the signal of the reader that loads this batch.
    fn room_of(&self, batch: u64) -> &Condvar {
        &self.room[(batch % self.readers) as usize]
    }

    /// Deliver a loaded batch to the accelerator.
    pub fn deliver(&self, batch: u64, loaded: Loaded) {
        let mut state = self.lock();
        state.loaded.insert(batch, Loaded { ready_ns: monotonic_ns(), ..loaded });
        let awaited = batch == state.consumed;
        // Unlock before the wake-up: the woken thread may run on this core at once, and would have
        // to wait for the lock.
        drop(state);
        if awaited {
            self.delivered.notify_one();
        }
    }

    /// Wait for the batch of step `step` and take it out; `None` if the run is stopping.
    pub fn take(&self, step: u64, stopping: &dyn Fn() -> bool) -> Option<Loaded> {
        let mut state = self.lock();
        loop {
            if let Some(loaded) = state.loaded.remove(&step) {
                state.consumed = step + 1;
                drop(state);
                self.room_of(step + self.ahead).notify_one();
                return Some(loaded);
            }
            if stopping() {
                return None;
            }
            state = wait(&self.delivered, state);
        }
    }

    /// Yield the numbers of the batches that one reader loads in an epoch: every `readers`-th one.
    pub fn turns(&self, reader: usize) -> impl Iterator<Item = u64> {
        (reader as u64..self.steps).step_by(self.readers as usize)
    }
}

fn wait<'s, T>(changed: &Condvar, state: MutexGuard<'s, T>) -> MutexGuard<'s, T> {
    changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0
}

/// Barrier of all accelerators of a client after each step. It is abandoned if the run is stopping.
///
/// Each accelerator announces the end of its step when the step begins. So the time at which all
/// end (the latest of these times) is usually known in advance, and the last accelerator need not
/// wake the threads of the others.
pub struct Meeting {
    members: usize,
    turn: Signal<Turn>,
}

#[derive(Default)]
struct Turn {
    number: u64,
    announced: usize,
    latest_ns: u64,
    /// Time at which the previous step ended for all accelerators, on the run's clock.
    met_ns: u64,
}

impl Meeting {
    /// Create a barrier for this many accelerators.
    pub fn new(members: usize) -> Self {
        Meeting { members, turn: Signal::default() }
    }

    /// Announce that one accelerator's step will end at `end_ns`. Return the number of the step,
    /// counted over all epochs. The last accelerator to announce also gets the latest announced
    /// time, at which the step ends for all accelerators.
    pub fn announce(&self, end_ns: u64) -> (u64, Option<u64>) {
        let mut turn = self.turn.lock();
        let number = turn.number;
        turn.latest_ns = turn.latest_ns.max(end_ns);
        turn.announced += 1;
        if turn.announced < self.members {
            return (number, None);
        }
        let met_ns = turn.latest_ns;
        drop(turn);
        // No accelerator can announce its next step yet: each must first wait for the end of this
        // one.
        self.turn.change(|turn| *turn = Turn { number: number + 1, met_ns, ..Turn::default() });
        (number, Some(met_ns))
    }

    /// Wait until every accelerator has announced when its step `number` ends. Return the latest of
    /// these times, at which the step ends for all accelerators; `None` if the run is stopping.
    pub fn end_of(&self, number: u64, stopping: &dyn Fn() -> bool) -> Option<u64> {
        // The next step cannot overwrite `met_ns` too early: it completes only after all
        // accelerators have announced it, and before that each has read the end of this step.
        self.turn.poll(|turn| {
            let met = (turn.number != number).then_some(Some(turn.met_ns));
            met.or_else(|| stopping().then_some(None))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::TrainingJob;
    use crate::tests::job;

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
        lane.deliver(0, Loaded { bytes: 7, ..Loaded::default() });
        assert_eq!(lane.take(0, &go).unwrap().bytes, 7);
        assert!(lane.may_load(0, 2, &go).is_some());
    }

    #[test]
    fn a_step_ends_for_all_with_the_last_of_them() {
        let meeting = Meeting::new(3);
        let never = || true;
        for turn in 0..3 {
            let base = 1000 * turn;
            assert_eq!(meeting.announce(base + 30), (turn, None));
            assert_eq!(meeting.announce(base + 70), (turn, None));
            assert_eq!(meeting.end_of(turn, &never), None, "one is missing");
            assert_eq!(meeting.announce(base + 50), (turn, Some(base + 70)));
            for _ in 0..3 {
                assert_eq!(meeting.end_of(turn, &never), Some(base + 70));
            }
        }
    }

    #[test]
    fn batches_go_round_the_readers() {
        let lane = Lane::new(3, 1, 8);
        assert_eq!(lane.turns(0).collect::<Vec<_>>(), [0, 3, 6]);
        assert_eq!(lane.turns(2).collect::<Vec<_>>(), [2, 5]);
    }
}

//! Between an accelerator and its readers: batches are loaded side by side, kept within bounds, and
//! delivered in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};

use super::order::Epoch;

/// What a batch was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Moved.
    pub bytes: u64,
    /// When the accelerator could have it, on the run's clock; its lane sets it.
    pub ready_ns: u64,
    /// The run ended in the midst of it.
    pub stopped: bool,
}

/// How often a wait looks whether the run is to end.
pub const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct State {
    epoch: Option<(u32, Arc<Epoch>)>,
    consumed: u64,
    loaded: BTreeMap<u64, Loaded>,
    ended: bool,
}

/// One accelerator's queue. Nobody is woken who has nothing to do.
pub struct Lane {
    state: Mutex<State>,
    /// For the accelerator: its next batch is there.
    delivered: Condvar,
    /// For each reader: it may load its next batch.
    room: Vec<Condvar>,
    readers: u64,
    /// Batches that all readers together may be ahead.
    ahead: u64,
    steps: u64,
}

impl Lane {
    /// For so many readers, each of them `ahead` batches ahead at most, and so many steps.
    pub fn new(readers: usize, ahead: u64, steps: u64) -> Self {
        let room = (0..readers).map(|_| Condvar::new()).collect();
        let readers = readers as u64;
        let (state, delivered) = (Mutex::default(), Condvar::new());
        Lane { state, delivered, room, readers, ahead: ahead * readers, steps }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// An epoch begins: readers may load its first batches.
    pub fn begin(&self, number: u32, epoch: Epoch) {
        let mut state = self.lock();
        state.epoch = Some((number, Arc::new(epoch)));
        state.consumed = 0;
        state.loaded.clear();
        self.room.iter().for_each(Condvar::notify_one);
    }

    /// There are no more epochs.
    pub fn end(&self) {
        self.lock().ended = true;
        self.room.iter().for_each(Condvar::notify_one);
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
            state = wait(self.room_of(batch), state);
        }
    }

    /// Of the reader that loads this batch.
    fn room_of(&self, batch: u64) -> &Condvar {
        &self.room[(batch % self.readers) as usize]
    }

    /// A batch is ready.
    pub fn deliver(&self, batch: u64, loaded: Loaded) {
        let mut state = self.lock();
        state.loaded.insert(batch, Loaded { ready_ns: monotonic_ns(), ..loaded });
        let awaited = batch == state.consumed;
        // Who is woken may take this core at once, and must not find the lock taken.
        drop(state);
        if awaited {
            self.delivered.notify_one();
        }
    }

    /// Take batch `step` as soon as it is there; `None` when the run is to end.
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

    /// The batches of one reader in an epoch, in order: every `readers`-th.
    pub fn turns(&self, reader: usize) -> impl Iterator<Item = u64> {
        (reader as u64..self.steps).step_by(self.readers as usize)
    }
}

fn wait<'s, T>(changed: &Condvar, state: MutexGuard<'s, T>) -> MutexGuard<'s, T> {
    changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0
}

/// Where all accelerators meet after each step, which nobody waits for when the run is to end.
///
/// Each says when its step will end as soon as it begins it. So the end of the step for all is
/// mostly known before it comes, and nobody has to be woken by the last one.
pub struct Meeting {
    members: usize,
    state: Mutex<Turn>,
    complete: Condvar,
}

#[derive(Default)]
struct Turn {
    number: u64,
    announced: usize,
    latest_ns: u64,
    /// Of the turn before.
    met_ns: u64,
}

impl Meeting {
    /// Of so many.
    pub fn new(members: usize) -> Self {
        Meeting { members, state: Mutex::default(), complete: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        lock(&self.state)
    }

    /// One's step will end then. Returns the number of the turn, and to the last of them when it
    /// ends for all.
    pub fn announce(&self, end_ns: u64) -> (u64, Option<u64>) {
        let mut turn = self.lock();
        let number = turn.number;
        turn.latest_ns = turn.latest_ns.max(end_ns);
        turn.announced += 1;
        if turn.announced < self.members {
            return (number, None);
        }
        let met_ns = turn.latest_ns;
        *turn = Turn { number: number + 1, met_ns, ..Turn::default() };
        drop(turn);
        self.complete.notify_all();
        (number, Some(met_ns))
    }

    /// When the step of that turn ends for all, waiting until all have announced theirs. `None`
    /// when the run is to end.
    pub fn end_of(&self, number: u64, stopping: &dyn Fn() -> bool) -> Option<u64> {
        let mut turn = self.lock();
        while turn.number == number {
            if stopping() {
                return None;
            }
            turn = wait(&self.complete, turn);
        }
        Some(turn.met_ns) // nobody announces the next turn's end before it knows this one
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

//! Where the parts of one work meet, which go on in several processes: the clients of a cluster.
//!
//! A part announces when it will be ready, as soon as it knows, and goes on; who carries messages
//! between the parts tells it later when all are ready. So a message that takes less time than
//! what a part does meanwhile costs nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};

/// How often a wait looks whether the run is to end.
const LOOK: Duration = Duration::from_millis(50);

/// One meeting, as this part saw it. Times on its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// When this part said when it will be ready.
    pub announced_ns: u64,
    /// When this part was told when all are.
    pub told_ns: u64,
    /// When all were ready.
    pub ready_ns: u64,
}

#[derive(Default)]
struct State {
    /// Of each meeting: announced, and ready.
    announced: Vec<(u64, u64)>,
    met: Vec<Met>,
}

/// See the module. A run that is no part of a larger work meets nobody, and never waits.
#[derive(Default)]
pub struct Meeting {
    shared: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Meeting {
    /// The run is a part of a larger work. To be called before its load starts.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// This part will be ready for its next meeting then.
    pub fn announce(&self, ready_ns: u64) {
        if self.is_shared() {
            lock(&self.state).announced.push((monotonic_ns(), ready_ns));
            self.changed.notify_all();
        }
    }

    /// When all are ready for meeting `number` (from 0), waiting until that is told; at once, and
    /// as given, in a run that meets nobody. `None` when the run is to end.
    pub fn end_of(&self, number: u64, ready_ns: u64, stopping: &dyn Fn() -> bool) -> Option<u64> {
        if !self.is_shared() {
            return Some(ready_ns);
        }
        let mut state = lock(&self.state);
        loop {
            if let Some(met) = state.met.get(number as usize) {
                return Some(met.ready_ns);
            }
            if stopping() {
                return None;
            }
            state = self.wait(state, LOOK);
        }
    }

    /// For who carries messages: when this part will be ready for meeting `number`, once it has
    /// announced that; `None` when the time-out passed first.
    pub fn announced(&self, number: u64, timeout: Duration) -> Option<u64> {
        let state = lock(&self.state);
        let missing = |state: &mut State| state.announced.len() <= number as usize;
        let waited = self.changed.wait_timeout_while(state, timeout, missing);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.announced.get(number as usize).map(|(_, ready_ns)| *ready_ns)
    }

    /// For who carries messages: the next meeting that was not told yet, when all are ready. False
    /// where this part has not announced it.
    pub fn tell(&self, ready_ns: u64) -> bool {
        let mut state = lock(&self.state);
        let Some(&(announced_ns, _)) = state.announced.get(state.met.len()) else { return false };
        state.met.push(Met { announced_ns, told_ns: monotonic_ns(), ready_ns });
        self.changed.notify_all();
        true
    }

    /// All meetings until now.
    pub fn met(&self) -> Vec<Met> {
        lock(&self.state).met.clone()
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>, limit: Duration) -> MutexGuard<'s, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_alone_never_waits() {
        let alone = Meeting::default();
        alone.announce(5);
        assert_eq!(alone.end_of(0, 5, &|| false), Some(5));
        assert_eq!(alone.end_of(7, 9, &|| true), Some(9));
        assert!(alone.met().is_empty());
    }

    #[test]
    fn a_part_waits_until_all_are_ready_and_keeps_when_it_was_told() {
        let part = Meeting::default();
        part.share();
        assert_eq!(part.announced(0, Duration::ZERO), None);
        assert!(!part.tell(1), "nothing was announced");
        part.announce(100);
        part.announce(200);
        assert_eq!(part.announced(0, Duration::ZERO), Some(100));
        assert_eq!(part.announced(1, Duration::ZERO), Some(200));
        assert_eq!(part.end_of(0, 100, &|| true), None, "the run is to end");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| part.end_of(1, 200, &|| false));
            assert!(part.tell(150));
            assert!(part.tell(270));
            assert_eq!(waiting.join().unwrap(), Some(270));
        });
        assert!(!part.tell(1));
        let met = part.met();
        assert_eq!(met.iter().map(|met| met.ready_ns).collect::<Vec<_>>(), [150, 270]);
        assert!(met.iter().all(|met| met.told_ns >= met.announced_ns));
    }
}

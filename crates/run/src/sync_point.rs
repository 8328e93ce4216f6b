//! Synchronisation of the parts of a distributed run, which execute on the clients of a cluster.
//!
//! A part announces in advance when it will be ready, and continues to work. The process that
//! exchanges messages between the parts later reports when all of them are ready. The
//! synchronisation costs no time if the messages arrive before the part has finished its work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use storlab_base::{Signal, monotonic_ns};

/// Completed synchronisation, as one part of a distributed run saw it. Times are in ns on the
/// part's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// Time at which this part of the distributed run announced when it would be ready.
    pub announced_ns: u64,
    /// Time at which this part of the distributed run received the value of `ready_ns`.
    pub told_ns: u64,
    /// Time at which all parts of the distributed run were ready.
    pub ready_ns: u64,
}

#[derive(Default)]
struct State {
    /// For each synchronisation, the time of this part's announcement, and the time announced.
    announced: Vec<(u64, u64)>,
    met: Vec<Met>,
}

/// Synchronisation point of one part with the other parts of a distributed run. A run that is not
/// distributed never waits here.
#[derive(Default)]
pub struct SyncPoint {
    shared: AtomicBool,
    state: Signal<State>,
}

impl SyncPoint {
    /// Mark the run as one part of a distributed run. Call this before its load starts.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// Announce that this part will be ready for its next synchronisation at `ready_ns`. Has no
    /// effect if the run is not distributed.
    pub fn announce(&self, ready_ns: u64) {
        if self.is_shared() {
            self.state.change(|state| state.announced.push((monotonic_ns(), ready_ns)));
        }
    }

    /// Wait until all parts are ready for synchronisation `number` (from 0), and return the time at
    /// which they are. Returns `ready_ns` at once if the run is not distributed, and `None` if the
    /// run is ending.
    pub fn end_of(&self, number: u64, ready_ns: u64, stopping: &dyn Fn() -> bool) -> Option<u64> {
        if !self.is_shared() {
            return Some(ready_ns);
        }
        self.state.poll(|state| match state.met.get(number as usize) {
            Some(met) => Some(Some(met.ready_ns)),
            None => stopping().then_some(None),
        })
    }

    /// Return the time at which this part will be ready for synchronisation `number` (from 0).
    /// Waits until this part has announced that time; `None` if the time-out passes first. Called
    /// by the process that exchanges messages between the parts.
    pub fn announced(&self, number: u64, timeout: Duration) -> Option<u64> {
        self.state.wait_for(timeout, |state| state.announced.get(number as usize).map(|it| it.1))
    }

    /// Set the time at which all parts are ready for the oldest open synchronisation. Returns false
    /// if this part has not announced that synchronisation yet. Called by the process that
    /// exchanges messages between the parts.
    pub fn tell(&self, ready_ns: u64) -> bool {
        self.state.change(|state| {
            let announced = state.announced.get(state.met.len()).copied();
            let met =
                announced.map(|it| Met { announced_ns: it.0, told_ns: monotonic_ns(), ready_ns });
            state.met.extend(met);
            met.is_some()
        })
    }

    /// Return all completed synchronisations of this part.
    pub fn met(&self) -> Vec<Met> {
        self.state.lock().met.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_alone_never_waits() {
        let alone = SyncPoint::default();
        alone.announce(5);
        assert_eq!(alone.end_of(0, 5, &|| false), Some(5));
        assert_eq!(alone.end_of(7, 9, &|| true), Some(9));
        assert!(alone.met().is_empty());
    }

    #[test]
    fn a_part_waits_until_all_are_ready_and_keeps_when_it_was_told() {
        let part = SyncPoint::default();
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

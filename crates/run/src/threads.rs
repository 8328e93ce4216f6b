//! Threads of a run: start them, pin them, and wait for them with a time-out.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use storlab_base::{Error, Result, monotonic_ns};

use crate::arming::SILENCE_NS;
use crate::control::Control;
use crate::cpu::{available_cores, pin_to};

/// Time between two checks of a waiting thread for whether the run is ending.
const LOOK: Duration = Duration::from_millis(50);

/// Start a thread of a run. `purpose` names the thread in errors.
///
/// # Errors
/// [`Error::Io`] if the kernel cannot create the thread.
pub fn spawn(name: String, purpose: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name).spawn(work);
    started.map(drop).map_err(|e| Error::io("start", format!("a thread of {purpose}"), 0, e))
}

/// Pin the calling thread to one core of `cpus`: the one with index `turn` modulo their number.
/// Does nothing if `cpus` is `None` or empty. `who` names the thread in errors.
///
/// # Errors
/// [`Error::Spec`] if the process may not use that core.
pub fn pin_in_turn(cpus: Option<&[usize]>, turn: usize, who: impl Display) -> Result<()> {
    let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) else { return Ok(()) };
    let cpu = cpus[turn % cpus.len()];
    pin_to(cpu).map_err(|e| {
        let what = format!("{who} cannot run on CPU {cpu}: {e}");
        Error::spec("cpus", what, "list only CPUs that this process may use")
    })
}

/// Return how many cores `threads` threads can use at once: cores of `cpus`, to which they are
/// pinned, or all cores if `cpus` is `None`.
pub fn cores_for(threads: usize, cpus: Option<&[usize]>) -> usize {
    let allowed =
        cpus.map_or_else(available_cores, |cpus| cpus.iter().collect::<BTreeSet<_>>().len().max(1));
    threads.min(allowed)
}

/// Execute the work of a thread. A panic becomes an error, so that the run always ends.
///
/// # Errors
/// The error of `work`, or [`panicked`] if it panics.
pub fn guarded<T>(
    backend: &'static str,
    who: impl Display,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked(backend, who)))
}

/// Return the error of a thread that panicked. `who` names the thread.
pub fn panicked(backend: &'static str, who: impl Display) -> Error {
    let what = format!("{who} ended because of a defect of storlab; details are on standard error");
    Error::Backend { backend, what }
}

/// Execute work that may take long in a thread of its own. If the run ends before the work is done,
/// return `None` and abandon the thread.
///
/// # Errors
/// [`Error::Io`] if the thread cannot be started, and [`panicked`] if it panics.
pub fn unless_ended<T: Send + 'static>(
    control: &Control,
    purpose: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>> {
    let (end, ended) = channel();
    spawn("storlab-aside".into(), purpose, move || drop(end.send(work())))?;
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(done) => return Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) if control.stopping() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(panicked("native", purpose)),
        }
    }
}

/// Measures how long an ending run has waited for its threads.
#[derive(Default)]
pub struct Silence {
    since_ns: Option<u64>,
}

impl Silence {
    /// Check whether an ending run may wait longer for its threads. Threads that are stuck in the
    /// kernel cannot be joined and are abandoned.
    ///
    /// # Errors
    /// [`Error::Silent`] for `workers` threads if the run has been ending for `drain_ns` plus 5 s.
    pub fn bear(&mut self, control: &Control, drain_ns: u64, workers: usize) -> Result<()> {
        if !control.stopping() {
            return Ok(());
        }
        let now = monotonic_ns();
        let waited_ns = now - *self.since_ns.get_or_insert(now);
        if waited_ns < drain_ns + SILENCE_NS {
            return Ok(());
        }
        Err(Error::Silent { workers, waited_ms: waited_ns / 1_000_000 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_left_behind_when_the_run_is_to_end() {
        let control = Control::default();
        assert_eq!(unless_ended(&control, "a test", || 7).unwrap(), Some(7));
        let (release, held) = channel::<()>();
        let (begin, begun) = channel();
        let left = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                unless_ended(&control, "a test", move || {
                    begin.send(()).unwrap();
                    held.recv() // like a flush of a large page cache
                })
            });
            begun.recv().unwrap();
            control.cancel();
            waiting.join().unwrap()
        });
        assert!(left.unwrap().is_none());
        drop(release);
        let panics = || panic!("as a test wants it");
        let panicked = unless_ended::<u8>(&Control::default(), "a test", panics);
        assert!(panicked.unwrap_err().to_string().contains("a defect of storlab"));
    }
}

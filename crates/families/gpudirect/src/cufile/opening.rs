//! Opening the driver, which can take for ever: in a thread that is left behind where it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use storlab_base::{Error, Result, monotonic_ns};

use crate::errors::{Done, Fault};

const ALREADY_OPEN: i32 = 5026;
/// So often a waiting run looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Calls of this process that nobody waits for any more, and that have not come back.
static LEFT_BEHIND: AtomicUsize = AtomicUsize::new(0);

/// What a call and who waits for it know of each other: the second to part sees that the first has.
/// So a call that comes back just as it is given up is not taken to be left behind for good.
#[derive(Clone, Default)]
struct Parting(Arc<AtomicBool>);

impl Parting {
    /// The call has come back.
    fn call_ends(&self) {
        if self.0.swap(true, Ordering::AcqRel) {
            LEFT_BEHIND.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Nobody waits any more. False where the call has come back after all.
    fn wait_ends(&self) -> bool {
        // First, since the call may end at once.
        LEFT_BEHIND.fetch_add(1, Ordering::Relaxed);
        let came_back = self.0.swap(true, Ordering::AcqRel);
        if came_back {
            LEFT_BEHIND.fetch_sub(1, Ordering::Relaxed);
        }
        !came_back
    }
}

/// Wait for the call that opens the driver, in a thread of its own.
///
/// # Errors
/// By name; where it does not come back in time; where `ended` says that nobody waits any more.
pub fn open(
    call: impl Fn() -> Done<()> + Send + 'static,
    timeout_ns: u64,
    ended: impl Fn() -> bool,
) -> Result<()> {
    if LEFT_BEHIND.load(Ordering::Relaxed) > 0 {
        return Err(hung("in an earlier run of this process, and still does", timeout_ns));
    }
    let (sender, receiver) = channel();
    let parting = Parting::default();
    let of_the_call = parting.clone();
    let opening = move || {
        // A receiver that is gone wants no answer; one that is not finds it before the parting.
        let _ = sender.send(call());
        of_the_call.call_ends();
    };
    std::thread::Builder::new()
        .name("storlab-cufile".into())
        .spawn(opening)
        .map_err(|e| Error::io("start", "a thread of cuFileDriverOpen", 0, e))?;
    let give_up_ns = monotonic_ns().saturating_add(timeout_ns);
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(Ok(()) | Err(Fault::CuFile(ALREADY_OPEN, _))) => return Ok(()),
            Ok(Err(fault)) => return Err(fault.of("cuFileDriverOpen")),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(hung("and its thread is gone", timeout_ns));
            }
            Err(RecvTimeoutError::Timeout) => {
                if (monotonic_ns() >= give_up_ns || ended()) && parting.wait_ends() {
                    return Err(hung("", timeout_ns));
                }
            }
        }
    }
}

fn hung(more: &str, timeout_ns: u64) -> Error {
    let seconds = timeout_ns as f64 / 1e9;
    Error::dependency(
        format!("cuFileDriverOpen does not come back within {seconds} s {more}").trim_end(),
        "look whether /proc/modules can be read, and into cufile.log; `storlab doctor` asks in a \
         process of its own",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender};

    use super::*;

    /// Tells when the thread that it belongs to has done everything.
    struct Over(Sender<()>);

    impl Drop for Over {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    /// A call that comes back when it is told to, and what tells that its thread is over.
    fn slow_call() -> (impl Fn() -> Done<()> + Send + 'static, Sender<()>, Receiver<()>) {
        let (release, released) = channel();
        let (sender, is_over) = channel();
        let over = Over(sender);
        let call = move || {
            let _kept = &over;
            let _ = released.recv();
            Ok(())
        };
        (call, release, is_over)
    }

    fn open_now() -> Result<()> {
        open(|| Ok(()), u64::MAX, || false)
    }

    // Both in one test, since what they look at is the process's.
    #[test]
    fn a_call_counts_as_left_behind_no_longer_than_it_takes() {
        let (call, release, is_over) = slow_call();
        let error = open(call, 0, || false).unwrap_err().to_string();
        assert!(error.contains("does not come back"), "{error}");
        let error = open_now().unwrap_err().to_string();
        assert!(error.contains("in an earlier run"), "{error}");
        release.send(()).unwrap();
        is_over.recv().unwrap();
        open_now().unwrap();

        // It comes back when its answer was looked for the last time.
        let (call, release, is_over) = slow_call();
        let comes_back = || {
            release.send(()).unwrap();
            is_over.recv().unwrap();
            true
        };
        open(call, u64::MAX, comes_back).unwrap();
        open_now().unwrap();
    }
}

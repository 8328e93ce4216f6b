//! Opening of cuFile's driver with a timeout.
//!
//! `cuFileDriverOpen` may hang, so it runs in a separate thread, which is abandoned after the
//! timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use storlab_base::{Error, Result, monotonic_ns};

use crate::errors::{Done, Fault};

const ALREADY_OPEN: i32 = 5026;
/// Interval at which the waiting thread checks whether the run was cancelled.
const LOOK: Duration = Duration::from_millis(50);

/// Number of calls to `cuFileDriverOpen` in this process that were abandoned and have not returned.
static ABANDONED_CALLS: AtomicUsize = AtomicUsize::new(0);

/// Flag that the call that opens the driver sets when it returns, and that the waiting thread sets
/// at the timeout. The one that finds the flag already set was second, and corrects the count of
/// abandoned calls. So a call that returns just at the timeout is not counted.
#[derive(Clone, Default)]
struct AbandonFlag(Arc<AtomicBool>);

impl AbandonFlag {
    /// Record that the call has returned.
    fn call_ends(&self) {
        if self.0.swap(true, Ordering::AcqRel) {
            ABANDONED_CALLS.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Record that the waiting thread gives up. Return false if the call has returned meanwhile.
    fn wait_ends(&self) -> bool {
        // Count before setting the flag: a call that then finds the flag set lowers the count at
        // once.
        ABANDONED_CALLS.fetch_add(1, Ordering::Relaxed);
        let came_back = self.0.swap(true, Ordering::AcqRel);
        if came_back {
            ABANDONED_CALLS.fetch_sub(1, Ordering::Relaxed);
        }
        !came_back
    }
}

/// Run `call`, which opens the driver, in a separate thread and wait for it.
///
/// # Errors
/// If the call fails, if it does not return within `timeout_ns`, if `ended` returns true (the run
/// has ended), or if an abandoned call of an earlier run still hangs.
pub fn open(
    call: impl Fn() -> Done<()> + Send + 'static,
    timeout_ns: u64,
    ended: impl Fn() -> bool,
) -> Result<()> {
    if ABANDONED_CALLS.load(Ordering::Relaxed) > 0 {
        return Err(hung(": a call of an earlier run in this process still hangs"));
    }
    let (sender, receiver) = channel();
    let parting = AbandonFlag::default();
    let of_the_call = parting.clone();
    let opening = move || {
        // If the send fails, the waiting thread has given up and needs no result. Send before
        // `call_ends`: a waiting thread that finds the flag set must also find the result.
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
                return Err(hung(": its thread ended without a result"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if (monotonic_ns() >= give_up_ns || ended()) && parting.wait_ends() {
                    return Err(hung(&format!(" within {} s", timeout_ns as f64 / 1e9)));
                }
            }
        }
    }
}

fn hung(more: &str) -> Error {
    Error::dependency(
        format!("cuFileDriverOpen does not return{more}"),
        "check that /proc/modules can be read, and look into cufile.log; `storlab doctor` tries \
         it in a separate process",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender};

    use super::*;

    /// Sends a message when it is dropped: the thread that owns it has then finished.
    struct Over(Sender<()>);

    impl Drop for Over {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    /// Return a call that blocks until released, the sender that releases it, and a receiver that
    /// reports when its thread has finished.
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

    // One test, because the counter of abandoned calls is global to the process.
    #[test]
    fn a_call_counts_as_left_behind_no_longer_than_it_takes() {
        let (call, release, is_over) = slow_call();
        let error = open(call, 0, || false).unwrap_err().to_string();
        assert!(error.contains("does not return"), "{error}");
        let error = open_now().unwrap_err().to_string();
        assert!(error.contains("earlier run"), "{error}");
        release.send(()).unwrap();
        is_over.recv().unwrap();
        open_now().unwrap();

        // The call returns while the waiter checks for the last time.
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

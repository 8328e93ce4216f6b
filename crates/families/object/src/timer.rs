//! Precise timer for open loops. The async runtime's own timers have a resolution of 1 ms.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::read;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Kernel timer (timerfd) on `CLOCK_MONOTONIC`.
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// Create a timer; must be called within a runtime.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the `AsyncFd` owns the descriptor, so it stays open and unchanged until both are
        // dropped.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Timer { fd })
    }

    /// Sleep until `at_ns` on the monotonic clock.
    pub async fn sleep_until(&mut self, at_ns: u64) -> io::Result<()> {
        self.set(at_ns)?;
        loop {
            let mut ready = self.fd.readable().await?;
            if ready
                .try_io(|fd| Ok(read(fd.get_ref(), &mut [0; 8])?))
                .is_ok_and(|read| read.is_ok())
            {
                return Ok(());
            }
        }
    }

    fn set(&self, at_ns: u64) -> io::Result<()> {
        // A value of zero would disarm the timer instead of firing it at once.
        let at_ns = at_ns.max(1);
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: (at_ns / 1_000_000_000) as i64,
                tv_nsec: (at_ns % 1_000_000_000) as i64,
            },
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use storlab_base::monotonic_ns;

    use super::*;

    #[tokio::test]
    async fn never_too_early_and_ready_again() {
        let mut timer = Timer::new().unwrap();
        for _ in 0..20 {
            let due = monotonic_ns() + 700_000;
            timer.sleep_until(due).await.unwrap();
            assert!(monotonic_ns() >= due);
        }
        timer.sleep_until(0).await.unwrap();
    }
}

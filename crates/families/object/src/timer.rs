//! Waits that end when they should: the runtime's own timers are 1 ms coarse. They will do for the
//! limit of a wait.

#![allow(unsafe_code)]

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use rustix::io::read;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use storlab_base::monotonic_ns;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep};

/// A timer of the kernel on `CLOCK_MONOTONIC`.
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// Within a runtime.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the descriptor is owned: it stays open, and the same, until both are dropped.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Timer { fd })
    }

    /// Until `at_ns` on the monotonic clock.
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
        // All zeros would be no time at all, but turn the timer off.
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

/// How long one wait after another may take. A time-out of the runtime for each would be put among
/// its timers and taken out again, both under a lock; this one is moved only when it runs out.
pub struct Limit {
    span: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Limit {
    /// Within a runtime.
    pub fn new(span: Duration) -> Self {
        Limit { span, alarm: Box::pin(sleep(span)) }
    }

    /// What `work` gives; None where it takes longer.
    pub async fn hold<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let end_ns = monotonic_ns().saturating_add(self.span.as_nanos() as u64);
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(value) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            // It may still be that of a wait before this one. Work that never has to wait uses up
            // its turn with the runtime, which must not keep the alarm from being heard.
            while pin!(unconstrained(self.alarm.as_mut())).poll(cx).is_ready() {
                let left_ns = end_ns.saturating_sub(monotonic_ns());
                if left_ns == 0 {
                    return Poll::Ready(None);
                }
                self.alarm.set(sleep(Duration::from_nanos(left_ns)));
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
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
    #[tokio::test]
    async fn each_wait_has_the_whole_limit() {
        let span = Duration::from_millis(400);
        let (begin_ns, mut limit) = (monotonic_ns(), Limit::new(span));
        let since_ns = |begin_ns| u128::from(monotonic_ns() - begin_ns);
        while since_ns(begin_ns) < 2 * span.as_nanos() {
            let waited = limit.hold(sleep(Duration::from_millis(1))).await;
            assert!(waited.is_some(), "after {} ns", since_ns(begin_ns));
        }
        for _ in 0..2 {
            let begin_ns = monotonic_ns();
            assert!(limit.hold(std::future::pending::<()>()).await.is_none());
            assert!(since_ns(begin_ns) >= span.as_nanos());
        }
    }
}

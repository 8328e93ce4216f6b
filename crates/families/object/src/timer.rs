//! Waits that end when they should: the runtime's own timers are 1 ms coarse.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer of the kernel on `CLOCK_MONOTONIC`.
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// Within a runtime.
    ///
    /// # Errors
    /// The kernel's, when there are no more descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: takes two numbers and touches no memory.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is owned: it stays open, and the same, until both are dropped.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Timer { fd })
    }

    /// Until `at_ns` on the monotonic clock.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn sleep_until(&mut self, at_ns: u64) -> io::Result<()> {
        self.set(at_ns)?;
        loop {
            let mut ready = self.fd.readable().await?;
            if ready.try_io(|fd| expirations(fd.get_ref())).is_ok_and(|read| read.is_ok()) {
                return Ok(());
            }
        }
    }

    fn set(&self, at_ns: u64) -> io::Result<()> {
        // All zeros would be no time at all, but turn the timer off.
        let at_ns = at_ns.max(1);
        let spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
            },
        };
        let fd = self.fd.get_ref().as_raw_fd();
        // SAFETY: `spec` is valid to read, and no old value is asked for.
        let result = unsafe {
            libc::timerfd_settime(
                fd,
                libc::TFD_TIMER_ABSTIME,
                &raw const spec,
                std::ptr::null_mut(),
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// How often it has gone off since the last call; [`io::ErrorKind::WouldBlock`] for never.
fn expirations(fd: &OwnedFd) -> io::Result<u64> {
    let mut count = 0u64;
    // SAFETY: `count` has the 8 bytes that are asked for.
    let read = unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    if read == size_of::<u64>() as isize { Ok(count) } else { Err(io::Error::last_os_error()) }
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

//! CPU time of the process, and where threads run.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// CPU that the whole process has used, helper threads of the kernel for it included, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessCpu {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl ProcessCpu {
    /// Until now.
    pub fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is valid to write to, and all zeros is a valid rusage should the call
        // fail.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        ProcessCpu { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: ProcessCpu) -> ProcessCpu {
        ProcessCpu {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// Cores that this process may run on.
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keep the calling thread on one core.
///
/// # Errors
/// The kernel's, for a core that does not exist or is not allowed.
pub fn pin_to(cpu: usize) -> std::io::Result<()> {
    // SAFETY: a zeroed set is an empty set; CPU_SET is bounds-checked by the guard before it.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(std::io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: as above.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid for the size given; 0 is the calling thread.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Timers of the calling thread may be this late at most; the kernel's default of 50 us would blur
/// due times.
pub fn sharpen_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64) };
}

/// Memory of the machine in bytes.
pub fn memory_bytes() -> u64 {
    // SAFETY: sysconf reads constants.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    pages.max(0) as u64 * size.max(0) as u64
}

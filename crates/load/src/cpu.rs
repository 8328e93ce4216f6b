//! CPU time of the process, and where threads run.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use crate::outcome::CpuUse;

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

/// Time that all cores together spent at work and in all, in clock ticks, by proc_stat(5). Time
/// stolen by the hypervisor counts as work: it was not there to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineCpu {
    busy: u64,
    all: u64,
}

impl MachineCpu {
    /// Until now; `None` where the kernel does not tell.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        // user nice system idle iowait irq softirq steal; guest time is in user already
        let ticks: Vec<u64> =
            fields.split_whitespace().take(8).map_while(|f| f.parse().ok()).collect();
        let all = ticks.iter().sum();
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some(MachineCpu { busy: all - idle, all })
    }

    /// Share of all cores at work since `earlier`, in percent.
    pub fn busy_percent_since(self, earlier: MachineCpu) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        Some(self.busy.saturating_sub(earlier.busy) as f64 * 100.0 / all as f64)
    }
}

/// CPU of this process and of the whole machine, at one end of a window.
#[derive(Clone, Copy, Debug)]
pub struct CpuMark {
    process: ProcessCpu,
    machine: Option<MachineCpu>,
}

impl CpuMark {
    /// Until now.
    pub fn now() -> Self {
        CpuMark { process: ProcessCpu::now(), machine: MachineCpu::now() }
    }

    /// What was used from here to `end`, in a window of `length_ns`; `workers`: of each worker
    /// thread, in ns; `cores`: that they could use.
    pub fn until(self, end: CpuMark, length_ns: u64, workers: &[u64], cores: usize) -> CpuUse {
        let used = end.process.since(self.process);
        let machine = end.machine.zip(self.machine);
        let busiest = workers.iter().copied().max().unwrap_or(0) as f64;
        CpuUse {
            user_ns: used.user_ns,
            system_ns: used.system_ns,
            cores,
            worker_ns: workers.iter().sum(),
            busiest_worker_percent: busiest * 100.0 / length_ns.max(1) as f64,
            machine_busy_percent: machine.and_then(|(end, begin)| end.busy_percent_since(begin)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_but_idle_and_waiting_for_io() {
        let first = MachineCpu::parse("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1").unwrap();
        let later = MachineCpu::parse("cpu  130 0 60 840 60 0 5 5 9 9\n").unwrap();
        assert_eq!(later.busy_percent_since(first), Some(50.0));
        assert_eq!(first.busy_percent_since(first), None);
        assert_eq!(MachineCpu::parse("intr 1 2 3"), None);
    }
}

//! CPU time of the process, its workers and the machine; pinning of threads to cores.

use std::fs::File;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use serde::Serialize;
use storlab_base::{monotonic_ns, narrowest, thread_cpu_ns};

use crate::window::Window;

/// Largest accepted time in ns between the clock readings before and after a reading of CPU time.
/// If it took longer, CPU time is read again.
const PROMPT_NS: u64 = 50_000;
const TRIES: usize = 4;

/// CPU time of the whole process, including kernel threads that work for it, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessCpu {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in kernel mode.
    pub system_ns: u64,
}

impl ProcessCpu {
    /// Read the CPU time that the process has used so far.
    #[allow(unsafe_code)]
    pub fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // Uses libc, because no dependency of storlab wraps getrusage.
        // SAFETY: `usage` is valid for writes, and all zeros are a valid rusage if the call fails.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        ProcessCpu { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
    }

    /// Return the time on the run's clock, and the CPU time used until then. If the thread is
    /// interrupted between the two readings, they do not match. Of several attempts, the one that
    /// took the least time is therefore used.
    pub fn timed() -> (u64, Self) {
        narrowest(TRIES + 1, PROMPT_NS, || {
            let before = monotonic_ns();
            let used = Self::now();
            let width = monotonic_ns() - before;
            (width, (before + width / 2, used))
        })
    }

    /// Return the CPU time used since the reading `earlier`.
    #[must_use]
    pub fn since(self, earlier: ProcessCpu) -> ProcessCpu {
        ProcessCpu {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// Busy time and total time of the machine, summed over all cores, in clock ticks of proc_stat(5).
/// Time stolen by the hypervisor counts as busy, because it was not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineCpu {
    busy: u64,
    stolen: u64,
    all: u64,
    cores: usize,
}

impl MachineCpu {
    /// Read the counters of the machine; `None` if `/proc/stat` cannot be read.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        // The fields are: user nice system idle iowait irq softirq steal. The fields that follow
        // are not read, because guest time is already part of user.
        let ticks: Vec<u64> =
            fields.split_whitespace().take(8).map_while(|f| f.parse().ok()).collect();
        let all = ticks.iter().sum();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let cores = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        Some(MachineCpu { busy: all - idle, stolen: *ticks.get(7).unwrap_or(&0), all, cores })
    }

    /// Return the busy time and the stolen time since `earlier`, each in percent of all cores'
    /// time. Stolen time is part of busy time.
    pub fn percent_since(self, earlier: MachineCpu) -> Option<(f64, f64)> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)? as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 * 100.0 / all;
        Some((share(self.busy, earlier.busy), share(self.stolen, earlier.stolen)))
    }
}

/// CPU use of the load generator and of the machine during the window.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct CpuUse {
    pub user_ns: u64,
    pub system_ns: u64,
    pub cores: usize,
    pub worker_ns: u64,
    pub busiest_worker_percent: f64,
    pub machine_busy_percent: Option<f64>,
    pub machine_cores: Option<usize>,
    pub machine_steal_percent: Option<f64>,
    pub waited_ns: Option<u64>,
    pub longest_wait_percent: Option<f64>,
}

/// Readings of the CPU counters of this process and of the machine, at the start or end of a
/// window.
#[derive(Clone, Copy, Debug)]
pub struct CpuMark {
    /// Time at which the process's counters were read, in ns on the run's clock.
    at_ns: u64,
    process: ProcessCpu,
    machine: Option<MachineCpu>,
}

impl CpuMark {
    /// Read all counters now.
    pub fn now() -> Self {
        Self::of(ProcessCpu::timed())
    }

    /// Read all counters now, but record `end_ns` as the time of the reading. This is right if the
    /// run has done no work since then.
    pub fn of_the_end(end_ns: u64) -> Self {
        CpuMark { at_ns: end_ns, ..Self::now() }
    }

    /// Combine a reading of the process's counters with the machine's counters, which are read now.
    fn of((at_ns, process): (u64, ProcessCpu)) -> Self {
        CpuMark { at_ns, process, machine: MachineCpu::now() }
    }

    /// Compute the CPU use between this reading and `end`.
    ///
    /// `length_ns` is the length of the window, and `cores` the number of cores that the workers
    /// could use. If the counters were read after the window's end, the use is scaled down to the
    /// window, on the assumption that it grew evenly.
    pub fn until(self, end: CpuMark, length_ns: u64, workers: &[Spent], cores: usize) -> CpuUse {
        let used = end.process.since(self.process);
        let between_ns = end.at_ns.saturating_sub(self.at_ns).max(1);
        let share = (length_ns as f64 / between_ns as f64).min(1.0);
        let part = |ns: u64| (ns as f64 * share).round() as u64;
        let machine = end.machine.zip(self.machine).and_then(|(end, begin)| {
            end.percent_since(begin).map(|(busy, stolen)| (busy, stolen, end.cores))
        });
        let percent = |ns: u64| ns as f64 * 100.0 / length_ns.max(1) as f64;
        let waited: Vec<u64> = workers.iter().filter_map(|worker| worker.waited_ns).collect();
        CpuUse {
            user_ns: part(used.user_ns),
            system_ns: part(used.system_ns),
            cores,
            worker_ns: workers.iter().map(|worker| worker.cpu_ns).sum(),
            busiest_worker_percent: percent(workers.iter().map(|w| w.busy_ns).max().unwrap_or(0)),
            machine_busy_percent: machine.map(|(busy, _, _)| busy),
            machine_cores: machine.map(|(_, _, cores)| cores),
            machine_steal_percent: machine.map(|(_, stolen, _)| stolen),
            waited_ns: (!waited.is_empty()).then(|| waited.iter().sum()),
            longest_wait_percent: waited.iter().copied().max().map(percent),
        }
    }
}

/// CPU time of the process at the start and end of a window. The first thread of the run that sees
/// that a reading is due takes it, because the coordinator may wake much later.
#[derive(Default)]
pub struct WindowCpu {
    start: OnceLock<(u64, ProcessCpu)>,
    end: OnceLock<(u64, ProcessCpu)>,
}

impl WindowCpu {
    /// Take the readings that are due at `now_ns`. Every thread of the run calls this each time it
    /// has read the clock.
    pub fn pass(&self, window: &Window, now_ns: u64) {
        if now_ns >= window.start_ns {
            self.start.get_or_init(ProcessCpu::timed);
        }
        if now_ns >= window.end_ns {
            self.end.get_or_init(ProcessCpu::timed);
        }
    }

    /// Return the CPU counters at the window's start. Called by the coordinator.
    pub fn start(&self) -> CpuMark {
        CpuMark::of(*self.start.get_or_init(ProcessCpu::timed))
    }

    /// Return the CPU counters at the window's end. Called by the coordinator.
    pub fn end(&self) -> CpuMark {
        CpuMark::of(*self.end.get_or_init(ProcessCpu::timed))
    }
}

/// CPU time of one worker, and its waiting time in run queues, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// CPU time of the worker's own thread and its helper threads.
    pub cpu_ns: u64,
    /// Busy time relative to one core: the CPU time of the worker's own thread, or the CPU time of
    /// all its threads divided by the cores available to them, whichever is greater.
    pub busy_ns: u64,
    /// Time spent waiting in a run queue; `None` if the kernel does not report it.
    pub waited_ns: Option<u64>,
}

impl Spent {
    /// Add all counters of `more` to this.
    pub fn add(&mut self, more: Spent) {
        self.cpu_ns += more.cpu_ns;
        self.busy_ns += more.busy_ns;
        self.waited_ns = match (self.waited_ns, more.waited_ns) {
            (None, None) => None,
            (waited, more_waited) => Some(waited.unwrap_or(0) + more_waited.unwrap_or(0)),
        };
    }
}

/// Reading of the CPU time that a worker has used so far, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// CPU time of the worker's own thread.
    pub used_ns: u64,
    /// CPU time of the worker's helper threads.
    pub helpers_ns: u64,
    /// Time just after both CPU times were read, in ns on the run's clock.
    pub at_ns: u64,
}

impl Reading {
    /// Read the CPU time of the calling thread, for a worker that has no helper threads.
    pub fn of_this_thread() -> Self {
        Reading { used_ns: thread_cpu_ns(), helpers_ns: 0, at_ns: monotonic_ns() }
    }
}

/// Time that one thread has waited in run queues, from /proc/PID/task/TID/schedstat. It always
/// refers to the thread that created it.
pub struct RunQueue(Option<File>);

impl RunQueue {
    /// Open the scheduler statistics of the calling thread.
    pub fn of_this_thread() -> Self {
        RunQueue(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Return how long the thread has waited in run queues so far, in ns; `None` if unknown.
    pub fn waited_ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let length = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        // Fields: time on a core, time in run queues, number of time slices.
        std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

/// CPU accounting of one worker. The worker reads its own counters when an interval has ended, so
/// that a late coordinator does not distort them. Time after the window's end is not counted.
pub struct WorkerCpu {
    queue: RunQueue,
    start_ns: u64,
    end_ns: u64,
    /// Number of cores that the worker and its helper threads can use at once.
    cores: u64,
    last: Reading,
    waited_ns: Option<u64>,
    /// Time waited in a run queue, in ns, that is added to the next result. It belongs to the
    /// window, but was read with the ramp, because the thread was late at the window's start.
    carried_ns: Option<u64>,
    /// CPU use between the last reading and the window's end that is not handed over yet.
    rest: Option<Spent>,
}

impl WorkerCpu {
    /// Start CPU accounting of the calling thread, which must have been started for this run.
    /// `cores` is the number of cores that it and its helper threads can use at once.
    pub fn begin(window: &Window, cores: usize, reading: Reading) -> Self {
        let mut cpu = WorkerCpu {
            queue: RunQueue::of_this_thread(),
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            cores: cores.max(1) as u64,
            last: Reading { at_ns: 0, ..reading },
            waited_ns: Some(0),
            carried_ns: None,
            rest: None,
        };
        // If the window has already begun, this carries the wait since its start over to the first
        // result.
        cpu.take(reading);
        cpu
    }

    /// Return the CPU time and waiting time of the worker since the previous call.
    pub fn take(&mut self, reading: Reading) -> Spent {
        let waited_ns = self.queue.waited_ns();
        self.account(reading, waited_ns)
    }

    fn account(&mut self, reading: Reading, waited_ns: Option<u64>) -> Spent {
        if let Some(rest) = self.rest.as_mut() {
            return std::mem::take(rest);
        }
        let (last, now_ns) = (self.last, reading.at_ns);
        let begins = last.at_ns < self.start_ns && now_ns >= self.start_ns;
        let ends = now_ns >= self.end_ns;
        let mut own_ns = reading.used_ns.saturating_sub(last.used_ns);
        let mut all_ns = own_ns + reading.helpers_ns.saturating_sub(last.helpers_ns);
        let mut waited = waited_ns.zip(self.waited_ns).map(|(now, then)| now.saturating_sub(then));
        let mut carried_ns = None;
        if begins {
            // The thread passed the window's start late because it waited in a run queue directly
            // before this reading. The wait thus counts for the window, up to the time since its
            // start.
            let late_ns = now_ns.min(self.end_ns) - self.start_ns;
            carried_ns = waited.map(|waited| waited.min(late_ns));
            waited = waited.zip(carried_ns).map(|(waited, carried)| waited - carried);
        } else if ends {
            // If a hypervisor stopped the thread, the kernel may count that time as CPU time. CPU
            // time is therefore limited to what was left of the window.
            let left_ns = self.end_ns - last.at_ns;
            own_ns = own_ns.min(left_ns);
            all_ns = all_ns.min(left_ns.saturating_mul(self.cores));
            waited = waited.map(|waited| waited.min(left_ns));
        }
        if let (Some(waited), Some(carried)) = (&mut waited, self.carried_ns.take()) {
            *waited += carried;
        }
        if ends {
            self.rest = Some(Spent { waited_ns: carried_ns, ..Spent::default() });
        } else {
            self.carried_ns = carried_ns;
        }
        (self.last, self.waited_ns) = (reading, waited_ns);
        let busy_ns = own_ns.max(all_ns / self.cores);
        Spent { cpu_ns: all_ns, busy_ns, waited_ns: waited }
    }

    /// If the window is over, end the accounting at `reading`. Later use is not counted.
    pub fn close(&mut self, reading: Reading) {
        if self.rest.is_none() && reading.at_ns >= self.end_ns {
            self.rest = Some(self.take(reading));
        }
    }
}

/// Return the number of cores that this process may run on, by CPU affinity and cpuset. A CPU quota
/// is not considered here; `storlab/lab/watch/limits.py` records it.
pub fn available_cores() -> usize {
    sched_getaffinity(None).map_or(1, |set| set.count().max(1) as usize)
}

/// Pin the calling thread to one core.
///
/// # Errors
/// The kernel's error if the core does not exist or the process may not use it.
pub fn pin_to(cpu: usize) -> std::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Set the timer slack of the calling thread to 1 ns. With the kernel's default of 50 us,
/// operations would start late.
pub fn sharpen_timers() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_but_idle_and_waiting_for_io() {
        let first = MachineCpu::parse("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1").unwrap();
        let later = MachineCpu::parse("cpu  130 0 60 840 60 0 5 5 9 9\n").unwrap();
        assert_eq!(later.percent_since(first), Some((50.0, 5.0)));
        assert_eq!(first.percent_since(first), None);
        assert_eq!((first.cores, later.cores), (1, 0));
        assert_eq!(MachineCpu::parse("intr 1 2 3"), None);
    }

    const WINDOW: Window = Window { load_start_ns: 900, start_ns: 1000, end_ns: 2000 };

    fn used(used_ns: u64, at_ns: u64) -> Reading {
        Reading { used_ns, helpers_ns: 0, at_ns }
    }

    fn worker(waited_ns: Option<u64>) -> WorkerCpu {
        let mut cpu = WorkerCpu::begin(&WINDOW, 1, used(0, 900));
        cpu.waited_ns = waited_ns;
        cpu
    }

    fn spent(cpu_ns: u64, waited_ns: u64) -> Spent {
        Spent { cpu_ns, busy_ns: cpu_ns, waited_ns: Some(waited_ns) }
    }

    #[test]
    fn a_worker_that_sees_the_end_late_has_used_no_more_than_the_window() {
        let mut cpu = worker(Some(0));
        assert_eq!(cpu.account(used(100, 1000), Some(0)), spent(100, 0));
        assert_eq!(cpu.account(used(600, 1500), Some(0)), spent(500, 0));
        // While a hypervisor stopped the thread, its CPU clock went on.
        assert_eq!(cpu.account(used(3600, 4500), Some(0)), spent(500, 0));
        assert_eq!(cpu.account(used(9999, 9900), Some(0)), Spent::default());
    }

    #[test]
    fn a_worker_that_waited_across_the_end_waited_in_the_window_until_then() {
        let mut cpu = worker(Some(0));
        cpu.account(used(100, 1000), Some(0));
        cpu.close(used(300, 1999));
        assert_eq!(cpu.account(used(400, 4500), Some(2700)), spent(300, 1000));
        assert_eq!(cpu.account(used(450, 4600), Some(2800)), Spent::default());
    }

    #[test]
    fn a_worker_that_sees_the_start_late_has_waited_since_then() {
        let mut cpu = worker(Some(50));
        assert_eq!(cpu.account(used(60, 1300), Some(550)), spent(60, 200));
        assert_eq!(cpu.account(used(90, 1900), Some(560)), spent(30, 310));
        assert_eq!(cpu.account(used(100, 2000), Some(560)), spent(10, 0));
    }

    #[test]
    fn a_worker_that_sees_none_of_the_window_has_waited_through_it() {
        let mut cpu = worker(Some(0));
        assert_eq!(cpu.account(used(60, 3000), Some(2000)), spent(60, 1000));
        assert_eq!(cpu.account(used(500, 3100), Some(2100)), spent(0, 1000));
    }

    #[test]
    fn a_kernel_that_tells_nothing_of_waiting_leaves_it_out() {
        let mut cpu = worker(None);
        let nothing = Spent { waited_ns: None, ..spent(10, 0) };
        assert_eq!(cpu.account(used(10, 1000), None), nothing);
        assert_eq!(cpu.account(used(20, 2000), None), nothing);
    }

    #[test]
    fn helpers_keep_a_worker_busy_where_they_fill_all_its_cores() {
        let mut cpu = WorkerCpu::begin(&WINDOW, 4, used(0, 900));
        let mut account = |used_ns, helpers_ns, at_ns| {
            let Spent { cpu_ns, busy_ns, .. } =
                cpu.account(Reading { used_ns, helpers_ns, at_ns }, None);
            (cpu_ns, busy_ns)
        };
        account(0, 0, 1000);
        // 3.5 of 4 cores are busy; in the next interval the worker's own thread is the busiest.
        assert_eq!(account(100, 1300, 1400), (1400, 350));
        assert_eq!(account(400, 1500, 1700), (500, 300));
        // No core can have been busy for longer than the rest of the window.
        assert_eq!(account(900, 9999, 2500), (1200, 300));
    }

    #[test]
    fn a_reading_after_the_window_is_scaled_to_it() {
        let mark = |at_ns, user_ns, system_ns| CpuMark {
            at_ns,
            process: ProcessCpu { user_ns, system_ns },
            machine: None,
        };
        let workers = [spent(400, 30), spent(100, 70)];
        let cpu = mark(1000, 0, 0).until(mark(5000, 2000, 1000), 1000, &workers, 2);
        assert_eq!((cpu.user_ns, cpu.system_ns, cpu.worker_ns), (500, 250, 500));
        assert!((cpu.busiest_worker_percent - 40.0).abs() < 1e-9);
        assert_eq!((cpu.waited_ns, cpu.longest_wait_percent), (Some(100), Some(7.0)));
        let early = mark(1000, 0, 0).until(mark(1900, 2000, 1000), 1000, &workers, 2);
        assert_eq!((early.user_ns, early.system_ns), (2000, 1000));
    }

    #[test]
    fn the_queue_of_a_thread_is_read_where_the_kernel_tells() {
        let told = std::path::Path::new("/proc/thread-self/schedstat").exists();
        assert_eq!(RunQueue::of_this_thread().waited_ns().is_some(), told);
    }
}

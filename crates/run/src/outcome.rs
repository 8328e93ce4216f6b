//! Outcome of a run. It is written as JSON and read as `RunOutcome` of `storlab/model/result.py`,
//! so change both together.

use std::collections::BTreeMap;

use serde::Serialize;
use storlab_base::{Clock, Error, Histogram};

use crate::cpu::CpuUse;
use crate::sampling::{ByWorker, Collector, KindStats, Row};
use crate::threads::panicked;

/// Way in which a run ended.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The run was completed.
    Finished,
    /// An error ended the run.
    Failed,
    /// The user cancelled the run.
    Cancelled,
}

impl Status {
    /// Return the status of a run. A failure takes precedence over a cancellation.
    pub fn of(failed: bool, cancelled: bool) -> Self {
        match (failed, cancelled) {
            (true, _) => Status::Failed,
            (false, true) => Status::Cancelled,
            (false, false) => Status::Finished,
        }
    }
}

/// Summary of a latency histogram, in ns.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct LatencySummary {
    pub count: u64,
    pub mean_ns: f64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub p9999_ns: u64,
    pub max_ns: u64,
    pub stdev_ns: f64,
}

impl LatencySummary {
    fn of(histogram: &Histogram) -> Option<Self> {
        (!histogram.is_empty()).then(|| LatencySummary {
            count: histogram.count(),
            mean_ns: histogram.mean_ns(),
            min_ns: histogram.min_ns(),
            p50_ns: histogram.percentile(50.0),
            p90_ns: histogram.percentile(90.0),
            p99_ns: histogram.percentile(99.0),
            p999_ns: histogram.percentile(99.9),
            p9999_ns: histogram.percentile(99.99),
            max_ns: histogram.max_ns(),
            stdev_ns: histogram.stdev_ns(),
        })
    }
}

/// Totals of one kind of operation over the whole window.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Totals {
    pub operations: u64,
    pub bytes: u64,
    pub late_operations: u64,
    pub unfinished_operations: u64,
    pub unfinished_longest_ns: u64,
    pub latency: Option<LatencySummary>,
    pub intended: Option<LatencySummary>,
    pub ttfb: Option<LatencySummary>,
    pub errors: BTreeMap<String, u64>,
}

impl Totals {
    /// Return the totals of each kind of operation over the whole window.
    pub fn of(collector: &Collector) -> BTreeMap<&'static str, Totals> {
        let totals = collector.totals();
        totals.into_iter().map(|(kind, stats)| (kind, Totals::from(&*stats))).collect()
    }

    /// Return the totals of each kind of operation over the whole window, by group of workers.
    pub fn by_group(collector: &Collector) -> BTreeMap<String, BTreeMap<&'static str, Totals>> {
        let mut groups: BTreeMap<String, BTreeMap<&'static str, Totals>> = BTreeMap::new();
        for (group, kind, stats) in collector.totals_by_group() {
            groups.entry(group.to_owned()).or_default().insert(kind, Totals::from(stats));
        }
        groups
    }
}

impl From<&KindStats> for Totals {
    fn from(stats: &KindStats) -> Self {
        Totals {
            operations: stats.operations,
            bytes: stats.bytes,
            late_operations: stats.late,
            unfinished_operations: stats.unfinished.operations,
            unfinished_longest_ns: stats.unfinished.longest_ns,
            latency: LatencySummary::of(&stats.latency),
            intended: stats.intended.as_ref().and_then(LatencySummary::of),
            ttfb: stats.ttfb.as_ref().and_then(LatencySummary::of),
            errors: stats.errors.clone(),
        }
    }
}

/// Reason why a run failed, with advice on how to fix it.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Failure {
    pub message: String,
    pub fix: String,
    pub errno: Option<i32>,
    pub errno_name: Option<&'static str>,
    pub operation: Option<String>,
    pub offset: Option<u64>,
    pub path: Option<String>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let mut failure = Failure {
            message: error.to_string(),
            fix: String::new(),
            errno: None,
            errno_name: None,
            operation: None,
            offset: None,
            path: None,
        };
        match error {
            Error::Io { operation, path, offset, source } => {
                failure.errno = source.raw_os_error();
                failure.errno_name = failure.errno.and_then(errno_name);
                failure.operation = Some((*operation).to_owned());
                failure.offset = Some(*offset);
                failure.path = Some(path.clone());
                failure.fix = advice(failure.errno).to_owned();
            }
            Error::Short { operation, path, offset, .. } => {
                failure.operation = Some((*operation).to_owned());
                failure.offset = Some(*offset);
                failure.path = Some(path.clone());
                failure.fix = match *operation {
                    "write" => "check for a full file system, and for a limit on file sizes",
                    _ => "check that the data set has the size given in the study",
                }
                .to_owned();
            }
            Error::Hung { .. } => {
                "look at the kernel log if the target is a device, or at the server's own log"
                    .clone_into(&mut failure.fix);
            }
            Error::Then { first, .. } => {
                failure = Failure { message: failure.message, ..Failure::from(&**first) };
            }
            Error::Silent { .. } => {
                "a system call does not return: look at the kernel log, and check that the \
                 target's file system or server responds"
                    .clone_into(&mut failure.fix);
            }
            Error::NotReady { .. } => {
                "a call that opens, registers or first reads a file does not return: look at \
                 the kernel log, and check that the target's file system or server responds"
                    .clone_into(&mut failure.fix);
            }
            Error::Dependency { fix, .. } => failure.fix.clone_from(fix),
            Error::Spec { field, what, fix } => {
                failure.message = format!("{field}: {what}");
                failure.fix.clone_from(fix);
            }
            Error::Backend { backend: "uring", .. } => {
                "use backend = \"auto\" or \"posix\", or allow io_uring on this machine: check \
                 sysctl kernel.io_uring_disabled, the container's seccomp profile and, before \
                 Linux 5.12, the memlock limit"
                    .clone_into(&mut failure.fix);
            }
            // An error of any other backend is a defect of storlab, for which there is no advice to
            // the user.
            Error::Backend { .. } => {}
        }
        failure
    }
}

fn advice(errno: Option<i32>) -> &'static str {
    match errno {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "free space on the target (of a thin volume: in its pool), or make the data set smaller"
        }
        Some(libc::EMFILE) => {
            "raise the hard limit of open files: LimitNOFILE of the service, or nofile in \
             /etc/security/limits.conf"
        }
        Some(libc::ENFILE) => "raise the system's limit of open files: sysctl fs.file-max",
        Some(libc::EROFS) => "mount the file system read-write",
        // The advice does not only suggest SMART. The kernel also fails a direct write with EIO if
        // it cannot invalidate cached pages that another program has mapped or written
        // (fs/iomap/direct-io.c).
        Some(libc::EIO) => {
            "look at the kernel log. If it names the device, the device failed: check its SMART \
             data. If it mentions page cache invalidation, another program reads or writes this \
             file through the page cache: stop that program"
        }
        Some(libc::EBUSY | libc::ETXTBSY) => {
            "another program uses the file or device: stop it, or choose another path"
        }
        Some(libc::ENODEV | libc::ENXIO | libc::EREMOTEIO) => {
            "the device has disappeared or failed: look at the kernel log and its SMART data"
        }
        // The kernel's NVMe driver also makes write faults and refused writes medium errors.
        Some(libc::ENODATA) => {
            "the device cannot read or write the data at this offset (a medium error, or an NVMe \
             namespace that is write-protected): look at the kernel log and its SMART data; lift \
             the protection, overwrite the data or replace the device"
        }
        Some(libc::EILSEQ) => {
            "data on the device does not match its checksums (protection information): look at \
             the kernel log, and write the data again"
        }
        Some(libc::ETIMEDOUT) => {
            "the device, or the server of the file system, did not answer in time: look at the \
             kernel log, and check the paths and cables to it"
        }
        Some(libc::ENOLINK) => {
            "the path to the device failed: check the kernel log, the cables and multipath -ll"
        }
        Some(libc::ESTALE) => {
            "the file no longer exists on the server: mount the file system again, and make sure \
             that no other program removes the data set"
        }
        // I/O that fails with EAGAIN is retried, so here EAGAIN means that a thread could not be
        // created.
        Some(libc::EAGAIN) => {
            "allow more threads (ulimit -u, TasksMax of the service, pids.max of its control \
             group), or use fewer jobs or a smaller queue_depth"
        }
        Some(libc::ENOMEM) => {
            "free memory, raise the limit of the control group, or lower queue_depth, jobs or \
             block_size"
        }
        Some(libc::EACCES | libc::EPERM) => "run as a user who may open the target",
        Some(libc::EINVAL) => {
            "check block size and alignment; the file system may not support O_DIRECT"
        }
        Some(libc::EOPNOTSUPP) => {
            "the target does not support this operation; remove trims from the workload"
        }
        _ => "",
    }
}

fn errno_name(errno: i32) -> Option<&'static str> {
    Some(match errno {
        libc::EIO => "EIO",
        libc::ENOSPC => "ENOSPC",
        libc::EDQUOT => "EDQUOT",
        libc::EROFS => "EROFS",
        libc::EMFILE => "EMFILE",
        libc::ENFILE => "ENFILE",
        libc::ENODEV => "ENODEV",
        libc::ENXIO => "ENXIO",
        libc::EINVAL => "EINVAL",
        libc::EACCES => "EACCES",
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EBADF => "EBADF",
        libc::ENOMEM => "ENOMEM",
        libc::EFBIG => "EFBIG",
        libc::EBUSY => "EBUSY",
        libc::ETXTBSY => "ETXTBSY",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EREMOTEIO => "EREMOTEIO",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECANCELED => "ECANCELED",
        libc::EILSEQ => "EILSEQ",
        libc::ENODATA => "ENODATA",
        libc::ENOLINK => "ENOLINK",
        libc::EAGAIN => "EAGAIN",
        libc::ESTALE => "ESTALE",
        _ => return None,
    })
}

/// Program that executed the run.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct EngineInfo {
    pub name: &'static str,
    pub version: &'static str,
    pub backend: Option<&'static str>,
    pub features: Vec<&'static str>,
    pub clock: &'static str,
}

impl EngineInfo {
    /// Return the native engine, with the I/O backend and the features that it used.
    pub fn native(backend: Option<&'static str>, features: Vec<&'static str>) -> Self {
        EngineInfo {
            name: "native",
            version: env!("CARGO_PKG_VERSION"),
            backend,
            features,
            clock: Clock::in_use(),
        }
    }
}

/// Named part of the window, such as the write of one checkpoint, one epoch or one stage.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Span {
    /// Kind of this part of the window: `write`, `restore`, `epoch`, ...
    pub kind: &'static str,
    /// Name of this part of the window, such as `checkpoint 3`.
    pub name: String,
    /// Start of this part of the window, in ns on the run's clock.
    pub start_ns: u64,
    /// End of this part of the window, in ns on the run's clock.
    pub end_ns: u64,
    /// Bytes read or written in this part of the window.
    pub bytes: u64,
}

/// Outcome of a run without its samples.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Summary {
    pub status: Status,
    pub engine: EngineInfo,
    pub window_start_ns: u64,
    pub window_end_ns: u64,
    pub totals: BTreeMap<&'static str, Totals>,
    /// Totals of each group of workers; empty if workers form no groups.
    pub groups: BTreeMap<String, BTreeMap<&'static str, Totals>>,
    /// Operations and bytes of each worker; `None` if workers take tasks from a shared queue.
    pub by_worker: Option<ByWorker>,
    pub cpu: Option<CpuUse>,
    pub failure: Option<Failure>,
    pub notes: Vec<String>,
    pub final_sync_ns: Option<u64>,
    pub drain_ns: u64,
    /// Delay of the first operation of the run relative to its planned time, in ns.
    pub first_io_late_ns: Option<u64>,
    /// Delay of the first operation of the worker that began last, relative to its planned time, in
    /// ns; `None` if workers take tasks from a shared queue.
    pub last_worker_late_ns: Option<u64>,
    /// Results of verification; `None` if the run verified no data.
    pub verify: Option<serde_json::Value>,
    /// Named parts of the window, in order of time.
    pub spans: Vec<Span>,
    /// Further results of the workload family.
    pub details: serde_json::Map<String, serde_json::Value>,
}

impl Summary {
    /// Create the summary of a finished run, without any results.
    pub fn new(engine: EngineInfo, window_start_ns: u64, window_end_ns: u64) -> Self {
        Summary {
            status: Status::Finished,
            engine,
            window_start_ns,
            window_end_ns,
            totals: BTreeMap::new(),
            groups: BTreeMap::new(),
            by_worker: None,
            cpu: None,
            failure: None,
            notes: Vec::new(),
            final_sync_ns: None,
            drain_ns: 0,
            first_io_late_ns: None,
            last_worker_late_ns: None,
            verify: None,
            spans: Vec::new(),
            details: serde_json::Map::new(),
        }
    }
}

/// Outcome of a run: its summary and its samples.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Everything except the samples.
    pub summary: Summary,
    /// Samples, in order of interval.
    pub rows: Vec<Row>,
}

impl Outcome {
    /// Return the outcome of a run whose coordinator panicked at `now_ns`.
    pub fn lost(now_ns: u64) -> Self {
        Outcome::failed(now_ns, &panicked("native", "the run"))
    }

    /// Return the outcome of a run that failed because of `why` before it did anything.
    pub fn failed(now_ns: u64, why: &Error) -> Self {
        let mut summary = Summary::new(EngineInfo::native(None, Vec::new()), now_ns, now_ns);
        summary.status = Status::Failed;
        summary.failure = Some(Failure::from(why));
        Outcome { summary, rows: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_of(errno: i32) -> Failure {
        let source = std::io::Error::from_raw_os_error(errno);
        Failure::from(&Error::io("read", "disk", 4096, source))
    }

    #[test]
    fn what_devices_and_limits_say_has_a_fix() {
        for (errno, name, word) in [
            (libc::ENODATA, "ENODATA", "SMART"),
            (libc::EIO, "EIO", "another program"),
            (libc::ETXTBSY, "ETXTBSY", "another program"),
            (libc::EILSEQ, "EILSEQ", "protection information"),
            (libc::ETIMEDOUT, "ETIMEDOUT", "cables"),
            (libc::ENOLINK, "ENOLINK", "multipath"),
            (libc::ESTALE, "ESTALE", "mount"),
            (libc::EAGAIN, "EAGAIN", "TasksMax"),
            (libc::ENOMEM, "ENOMEM", "memory"),
        ] {
            let failure = failure_of(errno);
            assert_eq!(failure.errno_name, Some(name));
            assert!(failure.fix.contains(word), "{name}: {}", failure.fix);
        }
    }

    #[test]
    fn a_ring_that_is_forbidden_has_a_fix_and_a_mistake_says_where_to_look() {
        let what = "io_uring_setup was refused: Operation not permitted".to_owned();
        let forbidden = Failure::from(&Error::Backend { backend: "uring", what });
        assert!(forbidden.fix.contains("posix"), "{forbidden:?}");
        let mistake = Failure::from(&panicked("native", "job 3"));
        assert!(mistake.message.contains("standard error") && mistake.fix.is_empty());
    }

    #[test]
    fn what_came_first_is_what_is_to_be_mended() {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let silent = Error::Silent { workers: 2, waited_ms: 5000 };
        assert!(Failure::from(&silent).fix.contains("kernel log"));
        let failure = Failure::from(&silent.after(Some(Error::io("write", "disk", 0, full))));
        assert_eq!(failure.errno_name, Some("ENOSPC"));
        assert!(failure.fix.starts_with("free space"), "{failure:?}");
        let both = "failed: No space left on device (os error 28); then 2 of the workers did \
                    not respond for 5000 ms";
        assert!(failure.message.ends_with(both), "{failure:?}");
    }
}

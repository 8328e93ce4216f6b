"""Texts on fio options that a study cannot fully express, for ``storlab init --from-fio``."""

from __future__ import annotations

LAYOUT = "not translated: storlab lays out whole files before the runs and removes them afterwards"
OUTPUT = (
    "not translated: it concerns fio's processes or output; storlab runs threads, and keeps every "
    "latency and a time series"
)
SEEDS = "not translated: offsets and content follow from seed in [study]"
UNKNOWN = "not translated: storlab has no field for it, so the load may differ"
_PAUSES = "not translated: storlab has no pauses between operations; rate_iops limits the rate"
_BATCHES = "not translated: storlab has only batch, the most operations per system call"
_FILES = "not translated: each job has one file, of the size of all its files together"
_VERIFY = "not translated: verify = true writes storlab's own headers and checks them afterwards"
_LATENCY_TARGET = (
    "not translated: storlab does not search for a depth; sweep queue_depth, and see which value "
    "keeps the latency"
)
_CHECKS = "not translated: check it after the runs, with a [[gate]] rule"
_STEADY = (
    "not translated: runs have a fixed length; precondition of a target brings it to steady state"
)
_ZONES = "not translated: storlab uses one region; region_start and region_size limit it"
_KERNEL = "not translated: storlab has no field for this mode of the kernel's interface"
_CGROUP = "not translated: run storlab under nice, ionice or systemd-run instead"

_MEANINGS = {
    "thinktime": _PAUSES,
    "thinktime_blocks": _PAUSES,
    "thinktime_blocks_type": _PAUSES,
    "thinktime_spin": _PAUSES,
    "thinktime_iotime": _PAUSES,
    "iodepth_low": _BATCHES,
    "iodepth_batch_complete_min": _BATCHES,
    "iodepth_batch_complete_max": _BATCHES,
    "nrfiles": _FILES,
    "openfiles": _FILES,
    "file_service_type": _FILES,
    "verify": "not translated: only jobs that write can verify, and storlab reads only its own "
    "headers",
    "latency_target": _LATENCY_TARGET,
    "latency_window": _LATENCY_TARGET,
    "latency_percentile": _LATENCY_TARGET,
    "latency_run": _LATENCY_TARGET,
    "rate_min": _CHECKS,
    "rate_iops_min": _CHECKS,
    "max_latency": _CHECKS,
    "steadystate": _STEADY,
    "steadystate_duration": _STEADY,
    "steadystate_ramp_time": _STEADY,
    "steadystate_check_interval": _STEADY,
    "zonemode": _ZONES,
    "zonesize": _ZONES,
    "zonerange": _ZONES,
    "zoneskip": _ZONES,
    "zonecapacity": _ZONES,
    "hipri": _KERNEL,
    "fixedbufs": _KERNEL,
    "registerfiles": _KERNEL,
    "sqthread_poll": _KERNEL,
    "sqthread_poll_cpu": _KERNEL,
    "nowait": _KERNEL,
    "uncached": _KERNEL,
    "atomic": _KERNEL,
    "userspace_reap": _KERNEL,
    "mem": "not translated: storlab allocates its own buffers, in huge pages if it can get them",
    "hugepage-size": "not translated: storlab allocates its own buffers",
    "iomem_align": "not translated: storlab aligns its own buffers",
    "nice": _CGROUP,
    "prio": _CGROUP,
    "prioclass": _CGROUP,
    "cgroup": _CGROUP,
    "cgroup_weight": _CGROUP,
    "cpus_allowed": "not translated: cpus pins each job to one CPU, not to a set of them",
    "cpus_allowed_policy": "not translated: cpus pins each job to one CPU, not to a set of them",
    "numa_cpu_nodes": "not translated: pin jobs with cpus, or set numa_local = true in [study]",
    "numa_mem_policy": "not translated: run storlab under numactl",
    "percentage_random": "not translated: accesses are either all random or all sequential",
    "bs_is_seq_rand": "not translated: accesses are either all random or all sequential",
    "startdelay": "not translated: all jobs of a run start together",
    "flow": "not translated: use read_percent for a mix, or rate_iops for rates",
    "flow_id": "not translated: use read_percent for a mix, or rate_iops for rates",
    "loops": "not translated: the run has a fixed length, and starts again at the region's end",
    "invalidate": "not translated: storlab does not drop cached pages of targets with "
    "direct = false; runs through the page cache are flagged",
    "pre_read": "not translated: storlab does not read files into the page cache beforehand",
    "offset_increment": "not translated: storlab divides the region equally among its jobs",
    "ba": "not translated: offsets are multiples of the block size",
    "bs_unaligned": "not translated: offsets are multiples of the block size",
    "rw_sequencer": "not translated: sequential offsets advance with every operation",
    "exitall": "not translated: each workload runs for its whole time",
    "exit_what": "not translated: each workload runs for its whole time",
    "exec_prerun": "not translated: run the command yourself before storlab run",
    "exec_postrun": "not translated: run the command yourself after storlab run",
    "fadvise_hint": "not translated: storlab gives the kernel no hints on page-cache use",
    "write_hint": "not translated: storlab gives the drive no hints on lifetimes",
    "continue_on_error": "not translated: a failed operation fails storlab's run",
    "ignore_error": "not translated: a failed operation fails storlab's run",
    "buffer_pattern": "not translated: written data is random, or zeros by compress_percent",
    "buffer_compress_chunk": "not translated: compress_percent counts per 4 KiB",
    "dedupe_mode": "not translated: dedupe_percent repeats 4 KiB chunks",
    "dedupe_working_set_percentage": "not translated: dedupe_percent repeats 4 KiB chunks",
    "gtod_reduce": "not translated: storlab times every operation",
    "ioscheduler": "not translated: set the I/O scheduler yourself; storlab records it",
    "rate_process": "not translated: the spacing applies only if every kind of operation has a "
    "rate",
    "filename_format": LAYOUT,
    "unique_filename": LAYOUT,
    "trim_percentage": "not translated: storlab does not verify trimmed blocks",
    "trim_backlog": "not translated: storlab does not verify trimmed blocks",
    "trim_verify_zero": "not translated: storlab does not verify trimmed blocks",
    "io_submit_mode": "not translated: each job submits and reaps in its own thread",
}
_LAYOUT_OPTIONS = frozenset({
    "create_serialize", "create_fsync", "create_on_open", "create_only", "fallocate", "overwrite",
    "file_append", "allow_file_create", "unlink", "unlink_each_loop", "opendir", "fill_device",
    "allow_mounted_write",
})  # fmt: skip
_SEEDS = frozenset({"randrepeat", "allrandrepeat", "randseed", "random_generator"})


def untranslated(name: str) -> str:
    """Return a remark on an option that is not translated."""
    if name in _LAYOUT_OPTIONS:
        return LAYOUT
    if name in _SEEDS:
        return SEEDS
    if name.startswith(("verify", "experimental_verify", "do_verify")) and name not in _MEANINGS:
        return _VERIFY
    return _MEANINGS.get(name, UNKNOWN)


def unrunnable_engine(name: str) -> str | None:
    """Return the reason why jobs of an I/O engine cannot be translated, or None."""
    if name in ("cpuio", "exec", "filecreate", "filestat", "filedelete", "mkdir", "rmdir"):
        return f"left out: ioengine={name} does no reads and writes"
    if name in ("ftruncate", "falloc", "e4defrag", "dircreate", "dirstat", "dirdelete"):
        return f"left out: ioengine={name} does no reads and writes"
    if name in ("libcufile", "libhipfile"):
        return 'left out: write a workload with kind = "gpudirect", which has GPU fields'
    if name == "http":
        return 'left out: write a target with s3 and a workload with kind = "object"'
    if name in ("rados", "rbd", "libhdfs", "gfapi", "gfapi_async", "nfs", "libiscsi", "nbd", "dfs"):
        return (
            f"left out: ioengine={name} uses no path; map or mount the storage (rbd map, mount), "
            "and give its path"
        )
    if name in ("net", "netsplice", "rdma", "librpma_apm_client", "librpma_gpspm_client"):
        return f"left out: ioengine={name} measures a network; storlab measures storage"
    if name in ("io_uring_cmd", "sg", "libzbc", "xnvme", "spdk", "libblkio"):
        return (
            f"left out: ioengine={name} sends commands past the block layer; give the block "
            "device's path and ioengine=io_uring"
        )
    if name.startswith(("external", "/")):
        return f"left out: ioengine={name} is a plug-in of fio whose I/O is unknown to storlab"
    return None


def other_engine(name: str) -> str | None:
    """Return the difference between storlab's I/O and that of an engine of fio, or None."""
    if name in ("psync", "io_uring", "null"):
        return None
    if name in ("sync", "vsync", "pvsync", "pvsync2"):
        return "backend = posix uses pread and pwrite, with one operation in flight per job"
    if name == "libaio":
        return "storlab uses io_uring (or threads, if the kernel refuses it) instead of Linux AIO"
    if name in ("mmap", "splice", "dev-dax", "libpmem", "libpmem2", "pmemblk"):
        return f"not translated: storlab does reads and writes instead of {name}"
    return f"storlab uses io_uring, or threads if the kernel refuses it, instead of {name}"


SAME_OFFSETS = (
    "all of fio's jobs access the same offsets in turn; storlab gives each job its own part of the "
    "region"
)
ALL_FILES = "each of fio's jobs uses all files; storlab divides the files among its jobs"
TOGETHER = (
    "fio runs these jobs at the same time; storlab runs the workloads one after the other, so "
    "they do not compete for the storage"
)
ONE_BACKEND = "groups of a workload share one backend: storlab uses io_uring for all if it can"
WAIT_FOR = "storlab waits for all earlier jobs, not only for the named one"
NO_SIZE = "no size is given: fill in the size of the file, which is now 1GiB"
NO_PLACE = (
    "no file, device or directory is given; fio creates files in the current directory. Fill in "
    "the target's directory"
)
SHORTER = (
    "fio ends before its runtime if it has done all of size; storlab runs for the whole runtime"
)
NO_LENGTH = (
    "neither a runtime nor a size is given: fio ends after the whole device; storlab runs for the "
    "study's runtime"
)
RAMPED = "this workload ends after total_bytes; the study's ramp precedes it too"
NULL_DEVICE = "storlab completes each operation at once instead (null:), which measures the engine"
ONE_DIRECTORY = "storlab uses one directory; give the others as targets of their own"
SKEWED_RATES = (
    "the rates of reads and writes differ from the mix; storlab applies the sum to the mix"
)
MEAN_SIZE = "all files of a target have the same size; it is the mean of the two bounds"
MEAN_RATE = "storlab limits operations per second; the limit is the rate divided by the block size"

OTHER_VERIFY = "storlab writes its own headers, and reads them back after the run"
SYNC_WRITES = "storlab flushes after every write and times the flush apart; fio's write includes it"
TRIM_WRITE = (
    "fio trims each block before it writes it; storlab draws trims and writes half and half"
)
REPEATED_OFFSETS = "storlab draws a new offset for each operation; fio only for every n-th"


def undefined(names: tuple[str, ...]) -> str:
    """Return a remark on a path whose variables are not set."""
    shown = ", ".join(names)
    return f"{shown} is not set in the environment: fill in the target's path"


def longest(kind: str, value: str) -> str:
    """Return a remark on a ramp or runtime that differs from the study's."""
    return f"all workloads of a study have the same {kind}: {value}, the longest of the jobs"

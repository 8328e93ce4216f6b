"""Translation of a BlockJob into fio's job file and command line.

Options follow fio's HOWTO for 3.33 and later. Options for which a BlockJob has no field keep fio's
defaults, since published numbers were measured with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from storlab.engines.fio import gate
from storlab.model.job import Member
from storlab.process.member_files import absolute
from storlab.stores.zones import zones_of
from storlab.workloads.block.job import BlockJob, GroupedBlockJob

IoEngine = Literal["io_uring", "psync", "null", "libcufile"]
IO_ENGINES: dict[str, IoEngine] = {"uring": "io_uring", "posix": "psync", "null": "null"}
"""fio's I/O engine for each backend; other backends have no counterpart in fio."""
BACKENDS = {engine: backend for backend, engine in IO_ENGINES.items()}
_SHORTEST_STATUS_MS = 100
# Paths that fio would change, so that it would write to another file: it truncates values at # and
# ;, strips blanks, replaces some words after $, and interprets backslashes.
_NO_PATH = re.compile(r"[\n\r#;\\]|\$(\{|ncpus|pagesize|mb_memory)|\s\Z")


@dataclass(frozen=True, slots=True)
class Section:
    """Section of fio's job file, which describes one job or several identical ones."""

    members: tuple[Member, ...]
    offset: int  # start of the region, the same in each member
    size: int
    cpu: int | None
    options: tuple[str, ...] = ()


def sections(job: BlockJob) -> list[Section]:
    """Return the files, region and CPU of each fio job, assigned as in the native engine.

    Sequential and permuted jobs that share a file or device each get an equal part of its region.
    """
    result = []
    for index in range(job.jobs):
        members = members_of(job, index)
        offset, size = members[0].offset, members[0].size
        if job.offsets.kind in ("sequential", "permutation") and job.layout != "per_job":
            begin, end = _part(job, index, size)
            offset, size = offset + begin, end - begin
        cpu = job.cpus[index % len(job.cpus)] if job.cpus else None
        result.append(Section(tuple(members), offset, size, cpu))
    return result


def _part(job: BlockJob, index: int, size: int) -> tuple[int, int]:
    """Return begin and end of the part of a file that belongs to a job, in bytes.

    A file of ``size`` bytes is divided among its jobs in multiples of the largest block.
    """
    members = len(job.members)
    place, sharers = index // members, len(range(index % members, job.jobs, members))
    block = max(s.bytes for s in job.block_sizes)
    begin = size // block * place // sharers * block
    end = size // block * (place + 1) // sharers * block
    return begin, size if place + 1 == sharers else end


def members_of(job: BlockJob, index: int) -> list[Member]:
    """Return the files or devices that job ``index`` uses.

    With at least as many jobs as files, each job has one file; else each has several.
    """
    count = len(job.members)
    if job.layout == "per_job" or job.jobs >= count:
        return [job.members[index % count]]
    return [m for number, m in enumerate(job.members) if number % job.jobs == index]


def ioengine(job: BlockJob, uring_available: bool) -> IoEngine:
    """Return fio's I/O engine for a backend; ``auto`` is io_uring if the kernel permits it."""
    if all(member.kind == "null" for member in job.members):
        return "null"
    if job.backend == "auto":
        return "io_uring" if uring_available else "psync"
    return IO_ENGINES[job.backend]


def refusal(job: BlockJob, uring_available: bool) -> str | None:
    """Return why fio cannot run the job, or None if it can."""
    if job.backend not in ("auto", *IO_ENGINES):
        return f'fio cannot do backend = "{job.backend}": use {", ".join(IO_ENGINES)}'
    checks = (
        _refuse_mode(job),
        _refuse_members(job),
        _refuse_mix(job),
        _refuse_percents(job),
        _refuse_rate(job),
    )
    for reason in checks:
        if reason is not None:
            return reason
    if ioengine(job, uring_available) == "psync" and job.queue_depth > 1:
        fallback, cure = "", 'use backend = "uring"'
        if job.backend == "auto":
            fallback = "io_uring is not available to this process, and "
            cure = "allow io_uring (storlab doctor prints why it was refused)"
        return (
            f"{fallback}fio's psync engine has one I/O in flight per job: set queue_depth = 1 "
            f"and increase jobs, or {cure}"
        )
    return None


def grouped_refusal(job: GroupedBlockJob, uring_available: bool) -> str | None:
    """Return the reason why fio cannot run a job with groups, or None."""
    for group in job.groups:
        if reason := refusal(group.job, uring_available):
            return f"group {group.name}: {reason}"
    return None


def together(job: GroupedBlockJob) -> BlockJob:
    """Return a single job with all groups' files, jobs, times and flushes, for use by FioRun.

    Other fields are those of the first group.
    """
    jobs = [group.job for group in job.groups]
    pinned = [cpu for own in jobs for cpu in own.cpus or ()]
    flushing = [own.sync for own in jobs if own.sync.kind != "none" and own.sync.every_writes]
    syncs = [*flushing, *(own.sync for own in jobs if own.sync.final), jobs[0].sync]
    return jobs[0].model_copy(
        update={
            "members": job.places(),
            "jobs": job.jobs,
            "cpus": pinned if all(own.cpus for own in jobs) else None,
            "sync": syncs[0].model_copy(update={"final": any(own.sync.final for own in jobs)}),
        }
    )


def _refuse_mode(job: BlockJob) -> str | None:
    if job.verify is not None:
        return "fio does not write storlab's verify headers: use engine native for verify = true"
    if job.layout == "stripe":
        return 'fio cannot stripe one job over devices: use layout = "jbod", or native'
    if (job.window_ns is None) == (job.window_bytes is None):
        return "a job needs exactly one of window_ns and window_bytes"
    if job.window_bytes is not None and job.ramp_ns:
        return (
            "fio counts the bytes of the ramp among total_bytes and may end before the window: "
            "set ramp = 0, or use native"
        )
    return None


def _refuse_members(job: BlockJob) -> str | None:
    if job.layout == "per_job" and len(job.members) < job.jobs:
        return (
            f"{job.jobs} jobs need one file each, but there are {len(job.members)}: reduce jobs, "
            "or add files"
        )
    for member in job.members:
        if _NO_PATH.search(_path(member)):
            return (
                f"{member.name}: fio's job files cannot hold a path with #, ;, a backslash, ${{, "
                "$ncpus, $pagesize, $mb_memory, a line break or a trailing blank: rename it"
            )
    for section in sections(job):
        if section.size <= 0:
            return f"{section.members[0].name} is too small to be divided among its jobs"
        if len({(m.size, m.offset) for m in section.members}) > 1:
            return (
                "a fio job over several devices uses the same region of each, but the devices "
                "differ in size or offset: set the target's size, or use at least one job per "
                "device"
            )
    return None


def _refuse_mix(job: BlockJob) -> str | None:
    mix = job.mix
    if mix.trim and mix.trim != 100:
        return "fio cannot mix trim with reads and writes: set trim_percent = 100, or use native"
    if mix.read != int(mix.read):
        return f"fio takes whole percentages only: round read_percent, which is {mix.read}"
    return None


def _refuse_percents(job: BlockJob) -> str | None:
    shares = [("compress_percent", job.payload.compress_percent)]
    shares.append(("dedupe_percent", job.payload.dedupe_percent))
    if job.offsets.kind == "hot_cold":
        shares.append(("hot_space_percent", job.offsets.hot_space_percent))
        shares.append(("hot_access_percent", job.offsets.hot_access_percent))
    for name, value in shares:
        if value != int(value):
            return f"fio takes whole percentages only: round {name}, which is {value}"
    if 0 in _bssplit_percents(job):
        return (
            "fio takes whole percentages of block sizes, but one weight in block_size is below "
            "half a percent: raise it, or use native"
        )
    if job.offsets.kind == "zipf" and job.offsets.theta == 1:
        return "fio's zipf distribution is undefined at zipf_theta = 1: use 1.01 or 0.99"
    return None


def _refuse_rate(job: BlockJob) -> str | None:
    if job.arrival.kind == "closed":
        return None
    if not job.arrival.rate_iops:
        return "an open loop needs rate_iops"
    if any(share > 0 and rate == 0 for share, rate in _rates(job)):
        return (
            "fio takes whole operations per second for each job and direction, but rate_iops = "
            f"{job.arrival.rate_iops} over {job.jobs} jobs is less than one: increase rate_iops or "
            "reduce jobs"
        )
    return None


def _rates(job: BlockJob) -> list[tuple[float, int]]:
    """Return the percentage and the rate of reads, of writes and of trims.

    Rates are whole operations per second of one job.
    """
    total = (job.arrival.rate_iops or 0) / job.jobs
    return [(p, round(total * p / 100)) for p in (job.mix.read, job.mix.write, job.mix.trim)]


def _bssplit_percents(job: BlockJob) -> list[int]:
    """Return whole percentages of the block sizes, rounded by the largest-remainder method.

    Their sum is 100.
    """
    total = sum(size.weight for size in job.block_sizes)
    exact = [100 * size.weight / total for size in job.block_sizes]
    whole = [int(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for index in by_remainder[: 100 - sum(whole)]:
        whole[index] += 1
    return whole


def _is_zoned(job: BlockJob) -> bool:
    return any(zones_of(member.path) for member in job.members)


def grouped_caveats(job: GroupedBlockJob) -> list[str]:
    """Return notes on how fio deviates from the native engine for each group of jobs."""
    named: dict[str, list[str]] = {}
    for group in job.groups:
        for note in caveats(group.job):
            named.setdefault(note, []).append(group.name)
    return [f"{', '.join(names)}: {note}" for note, names in named.items()]


def caveats(job: BlockJob) -> list[str]:
    """Return notes on how fio deviates from the native engine for this job."""
    notes = []
    if job.arrival.kind != "closed":
        notes.append(
            "fio counts latency from submission: stalls of an open loop are missing from it "
            "(coordinated omission), and there is no latency from the intended start"
        )
        rounded, meant = sum(rate for _, rate in _rates(job)) * job.jobs, job.arrival.rate_iops
        if rounded != meant:
            notes.append(f"fio takes whole rates: it ran {rounded} operations/s instead of {meant}")
    percents = _bssplit_percents(job)
    total = sum(size.weight for size in job.block_sizes)
    if any(
        abs(100 * size.weight / total - percent) > 1e-9
        for size, percent in zip(job.block_sizes, percents, strict=True)
    ):
        notes.append(f"fio takes whole percentages: the block sizes have {percents} percent")
    mixed = 0 < job.mix.read < 100
    if job.offsets.kind == "sequential" and mixed:
        notes.append(
            "fio's sequential reads and writes each have their own position; native's share one"
        )
    if job.offsets.kind == "hot_cold":
        notes.append("fio's hot zone is at the beginning of the region; native scatters it")
    if job.offsets.kind == "permutation" and job.jobs > len(job.members):
        notes.append("fio permutes each job's part of the region; native permutes the whole region")
    if _is_zoned(job) and job.mix.write and job.queue_depth > 1:
        notes.append("fio writes one zone of a job at a time; native as many as writes in flight")
    if job.sync.final:
        notes.append("the final sync is part of fio's run, but fio does not report its duration")
    return notes


_HUGE_PAGE_BYTES = 2 << 20


def job_file(
    job: BlockJob,
    engine: IoEngine,
    *,
    huge_pages: bool = False,
    held: bool = False,
    parts: Sequence[Section] | None = None,
    options: Sequence[str] = (),
) -> str:
    """Return the text of fio's job file for a job.

    Args:
        job: The job to translate.
        engine: fio's I/O engine.
        huge_pages: Whether to align each job's buffers to a huge page (see
            :func:`huge_page_tunables`); otherwise buffers of a few MiB are partly in normal pages.
        held: Whether the jobs wait at a gate until their load starts (see ``gate.py``).
        parts: Sections to use instead of those of ``sections(job)``.
        options: Additional options that the I/O engine needs.
    """
    parts = sections(job) if parts is None else parts
    lines = ["# written by storlab", "[global]", *_of_run(job, engine), *_of_load(job, parts)]
    lines += [*options, *_optional(huge_pages, held)]
    if len(set(parts)) == 1:
        lines += ["", "[jobs]", *_section(parts[0]), f"numjobs={job.jobs}"]
    else:
        for index, part in enumerate(parts):
            lines += ["", f"[job{index}]", *_section(part)]
    return "\n".join(lines) + "\n"


def grouped_job_file(
    job: GroupedBlockJob, engine: IoEngine, *, huge_pages: bool = False, held: bool = False
) -> str:
    """Return the text of fio's job file for a job with groups, which fio reports separately.

    The sections of all groups start at the same time, because none has ``stonewall``. The arguments
    are those of :func:`job_file`.
    """
    lines = ["# written by storlab", "[global]", *_of_run(job.groups[0].job, engine)]
    lines += _optional(huge_pages, held)
    for name, own in ((group.name, group.job) for group in job.groups):
        parts = sections(own)
        alike = len(set(parts)) == 1
        for index, part in enumerate(parts[:1] if alike else parts):
            lines += ["", f"[{name}]" if alike else f"[{name} {index}]"]
            lines += [] if index else ["new_group=1"]
            lines += [*_of_load(own, parts), *_section(part)]
            lines += [f"numjobs={own.jobs}"] if alike else []
    return "\n".join(lines) + "\n"


def _optional(huge_pages: bool, held: bool) -> list[str]:
    return [gate.OPTION] * held + [f"iomem_align={_HUGE_PAGE_BYTES}"] * huge_pages


def _section(section: Section) -> list[str]:
    lines = [
        "filename=" + ":".join(_path(m).replace(":", "\\:") for m in section.members),
        f"size={section.size * len(section.members)}",
    ]
    if section.offset:
        lines.append(f"offset={section.offset}")
    if section.cpu is not None:
        lines.append(f"cpus_allowed={section.cpu}")
    return [*lines, *section.options]


def _path(member: Member) -> str:
    return "storlab-null" if member.kind == "null" else absolute(member)


def _of_run(job: BlockJob, engine: IoEngine) -> list[str]:
    """Return the options of a run that all sections of the job file share."""
    return [
        "thread=1",
        "group_reporting=1",
        "lat_percentiles=1",
        "clat_percentiles=0",
        "exitall_on_error=1",
        # These three keep fio from creating, growing or deleting the files, and from dropping them
        # from the page cache.
        "allow_file_create=0",
        "fallocate=none",
        "invalidate=0",
        f"ioengine={engine}",
        f"direct={int(job.direct and engine != 'null')}",
        *_window(job),
    ]


def _of_load(job: BlockJob, parts: Sequence[Section]) -> list[str]:
    """Return the options that describe the load of a job or group of jobs."""
    lines = [
        f"iodepth={job.queue_depth}",
        f"randseed={job.seed & 0x7FFF_FFFF_FFFF_FFFF}",
        *_access(job, parts),
    ]
    if job.batch > 1:
        lines += [
            f"iodepth_batch_submit={job.batch}",
            "iodepth_batch_complete_min=1",
            f"iodepth_batch_complete_max={job.batch}",
        ]
    if job.arrival.kind != "closed":
        # fio takes one value for a single direction, and "reads,writes" for a mix.
        lines.append("rate_iops=" + ",".join(str(rate) for share, rate in _rates(job) if share))
        lines.append(f"rate_process={'poisson' if job.arrival.kind == 'poisson' else 'linear'}")
    if _is_zoned(job):
        lines.append("zonemode=zbd")
    if job.sync.kind != "none" and job.sync.every_writes:
        lines.append(f"{job.sync.kind}={job.sync.every_writes}")
    if job.sync.final:
        lines.append("end_fsync=1")
    return lines + _payload(job)


def _access(job: BlockJob, parts: Sequence[Section]) -> list[str]:
    kind, mix = job.offsets.kind, job.mix
    random = "" if kind == "sequential" else "rand"
    if mix.trim:
        lines = [f"rw={random}trim"]
    elif mix.read in (0, 100):
        lines = [f"rw={random}{'read' if mix.read else 'write'}"]
    else:
        lines = [f"rw={'rw' if kind == 'sequential' else 'randrw'}", f"rwmixread={int(mix.read)}"]
    if len(job.block_sizes) == 1:
        lines.append(f"bs={job.block_sizes[0].bytes}")
    else:
        pairs = zip(job.block_sizes, _bssplit_percents(job), strict=True)
        lines.append("bssplit=" + ":".join(f"{size.bytes}/{percent}" for size, percent in pairs))
    if kind == "uniform":
        lines.append("norandommap=1")
    elif kind == "zipf":
        lines.append(f"random_distribution=zipf:{job.offsets.theta}")
    elif kind == "hot_cold":
        access, space = int(job.offsets.hot_access_percent), int(job.offsets.hot_space_percent)
        lines.append(f"random_distribution=zoned:{access}/{space}:{100 - access}/{100 - space}")
    if any(len(section.members) > 1 for section in parts):
        lines.append("file_service_type=roundrobin:1")
    return lines


def _window(job: BlockJob) -> list[str]:
    lines = [f"ramp_time={job.ramp_ns // 1000}us"] if job.ramp_ns else []
    if job.window_ns is not None:
        return [*lines, f"runtime={job.window_ns // 1000}us", "time_based=1"]
    return [*lines, f"io_size={-(-(job.window_bytes or 0) // job.jobs)}"]


def _payload(job: BlockJob) -> list[str]:
    lines = []
    if job.payload.compress_percent:
        lines.append(f"buffer_compress_percentage={int(job.payload.compress_percent)}")
        lines.append("buffer_compress_chunk=4096")
    if job.payload.dedupe_percent:
        lines.append(f"dedupe_percentage={int(job.payload.dedupe_percent)}")
    if not lines:
        lines.append("scramble_buffers=1")
    return lines


def status_interval_ms(job: BlockJob) -> int:
    """Return the interval between fio's status documents in ms: that of samples, at least 100."""
    return max(_SHORTEST_STATUS_MS, job.interval_ns // 1_000_000)


def command(binary: Path, job_path: Path, job: BlockJob) -> list[str]:
    """Return fio's command line, with an option to print its status at every interval.

    The status documents give the time series. They also make fio end soon after storlab dies,
    because writing into the closed pipe then fails.
    """
    return [
        str(binary),
        "--output-format=json+",
        "--eta=never",
        f"--status-interval={status_interval_ms(job)}ms",
        str(job_path),
    ]


def huge_page_tunables() -> str:
    """Return glibc tunables that place fio's buffers in huge pages, if the kernel provides them.

    The native engine's buffers are in huge pages. With 4 KiB pages a large I/O needs many segments,
    which on a virtual disk costs up to half of the throughput, so the engines would not be
    comparable. These settings make the heap one arena that grows by ``brk`` (mapped chunks would be
    misaligned), has spare room at its end, and is advised to use huge pages.
    """
    return ":".join(
        (
            "glibc.malloc.hugetlb=1",
            "glibc.malloc.arena_max=1",
            f"glibc.malloc.mmap_threshold={1 << 40}",
            f"glibc.malloc.top_pad={4 << 20}",
        )
    )

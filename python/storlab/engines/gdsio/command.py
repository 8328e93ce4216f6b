"""Translation of a GpuDirectJob into a command line of gdsio.

Checked against NVIDIA's guides for gdsio 1.11 and 1.12 and gdsio's help text; the files in
``tests/golden/gdsio`` name their sources. A job that uses a field without a gdsio flag is refused;
if the results stay comparable, ``caveats`` returns a note instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from storlab.base.errors import Problem
from storlab.base.processor import cpus_of
from storlab.base.units import NS_PER_S, format_duration, format_size
from storlab.model.job import Member
from storlab.process.member_files import absolute
from storlab.stores.devices import read_fact
from storlab.workloads.gpudirect.job import GpuDirectJob

XFER_TYPES: dict[tuple[str, str], int] = {
    ("direct", "sync"): 0,
    ("host", "sync"): 1,
    ("bounce", "sync"): 2,
    ("bounce-overlapped", "sync"): 3,
    ("direct", "async"): 5,
    ("direct", "batch"): 6,
    ("direct", "batch-stream"): 7,
}
CACHED_BOUNCE = 4  # transfer through the page cache and pinned host memory to the GPU
LARGEST_BATCH = 128
NODES = Path("/sys/devices/system/node")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Group:
    """Threads of gdsio on one GPU; they share one file, or each has its own file in a folder."""

    gpu: int
    threads: int
    members: tuple[Member, ...]
    place: str  # file or folder, relative to the run's directory

    @property
    def one_file(self) -> bool:
        """Whether all threads of this group share one file."""
        return len(self.members) == 1

    def links(self) -> Iterator[tuple[str, str]]:
        """Yield each link that gdsio opens, as a pair of link name and path of the real file."""
        for number, member in enumerate(self.members):
            name = self.place if self.one_file else f"{self.place}/gdsio.{number}"
            yield name, absolute(member)


def members_of(job: GpuDirectJob) -> list[Member]:
    """Return the file or device of each worker, assigned as in the native engine."""
    # Use only as many files as the workers need; the target may have more.
    used = job.members[: -(-job.workers // job.workers_per_file)]
    return [used[worker // job.workers_per_file % len(used)] for worker in range(job.workers)]


def _distinct(job: GpuDirectJob) -> list[Member]:
    return list({member.path: member for member in members_of(job)}.values())


def groups(job: GpuDirectJob) -> list[Group]:
    """Return one group of threads per GPU. Of ``n`` GPUs, worker ``w`` uses GPU ``w % n``."""
    members, shared = members_of(job), _distinct(job)
    made = []
    for place, gpu in enumerate(job.gpus):
        own = tuple(members[place :: len(job.gpus)])
        if own and len(shared) == 1:
            made.append(Group(gpu, _threads(job, len(own)), tuple(shared), f"file{place}"))
        elif own:
            made.append(Group(gpu, len(own), own, f"gpu{place}"))
    return made


def _threads(job: GpuDirectJob, workers: int) -> int:
    """Return ``-w`` for a shared file: entries per batch if I/O is batched, else the workers."""
    return job.queue_depth if job.in_batches else workers


def xfer_type(job: GpuDirectJob) -> int | None:
    """Return the value of gdsio's ``-x`` (transfer type) for the job's path and API.

    Returns None if gdsio has no such transfer type.
    """
    if not job.direct:
        return CACHED_BOUNCE if (job.path, job.api) == ("bounce", "sync") else None
    return XFER_TYPES.get((job.path, job.api))


def numa_node(job: GpuDirectJob) -> int | None:
    """Return the NUMA node, for ``-n``, that has exactly the job's CPUs; None if none has."""
    wanted = None if job.cpus is None else set(job.cpus)
    for place in sorted(NODES.glob("node[0-9]*")) if wanted else ():
        if cpus_of(read_fact(place / "cpulist") or "") == wanted:
            return int(place.name.removeprefix("node"))
    return None


def io_type(job: GpuDirectJob) -> str:
    """Return gdsio's name for the job's kind of I/O, such as ``RANDREAD``."""
    kind = "READ" if job.mix.read else "WRITE"
    return kind if job.offsets.kind == "sequential" else f"RAND{kind}"


_IO_TYPES = {"READ": 0, "WRITE": 1, "RANDREAD": 2, "RANDWRITE": 3}


def refusal(job: GpuDirectJob) -> str | None:
    """Return why gdsio cannot run the job, or None if it can."""
    found = problem(job)
    return None if found is None else f"{found.what}: {found.fix}"


def problem(job: GpuDirectJob) -> Problem | None:
    """Return the first reason why gdsio cannot run the job, with the field to change.

    Returns None if it can run the job.
    """
    checks = (_refuse_work, _refuse_arrangement, _refuse_depth, _refuse_files)
    return next((found for check in checks if (found := check(job)) is not None), None)


def _refuse_work(job: GpuDirectJob) -> Problem | None:
    if job.do != "load":
        what = f'gdsio has no task "{job.do}", it runs loads only'
        return Problem(("engine",), what, "use the native engine")
    if job.window_ns is None:
        fix = "remove total_bytes and set runtime, or use native"
        return Problem(
            ("total_bytes",), "gdsio ends after a given time, not after a number of bytes", fix
        )
    if job.mix.read and job.mix.write:
        fix = "set read_percent to 100 or 0, or use native for a mix"
        return Problem(("read_percent",), "gdsio cannot mix reads and writes in one run", fix)
    if job.offsets.kind not in ("uniform", "sequential"):
        what = f'gdsio has no "{job.offsets.kind}" offsets'
        return Problem(("offsets",), what, "use uniform or sequential, or native")
    if job.arrival.kind != "closed":
        fix = "remove rate_iops, or use native"
        return Problem(("rate_iops",), "gdsio has no open loop", fix)
    if not job.direct and xfer_type(job) is None:
        what = 'gdsio uses the page cache only with path = "bounce" and api = "sync"'
        return Problem(("direct",), what, "set direct = true, or use native")
    if xfer_type(job) is None:
        what = f'gdsio has no path "{job.path}" with api "{job.api}"'
        return Problem(("api",), what, "use native")
    return None


def _refuse_arrangement(job: GpuDirectJob) -> Problem | None:
    if job.cpus is not None and numa_node(job) is None:
        fix = "set cpus to all CPUs of one NUMA node, remove it, or run storlab under taskset"
        return Problem(("cpus",), "gdsio can be bound to a NUMA node, but not to single CPUs", fix)
    if len(job.block_sizes) > 1:
        fix = "set one block_size, or use native"
        return Problem(("block_size",), "gdsio uses one I/O size in a run", fix)
    if job.longest % _KIB:
        what = f"gdsio takes whole KiB as I/O size, but this is {format_size(job.longest)}"
        return Problem(("block_size",), what, "use a multiple of 1 KiB, or native")
    return None


def _refuse_depth(job: GpuDirectJob) -> Problem | None:
    if job.api == "async" and job.queue_depth > 1:
        what = 'with api = "async" each thread of gdsio has only one I/O in flight'
        fix = "set queue_depth = 1 and increase workers, or use native"
        return Problem(("queue_depth",), what, fix)
    if job.in_batches and job.workers > 1:
        fix = "set workers = 1, or use native"
        return Problem(("workers",), "gdsio submits batches from one thread only", fix)
    if job.in_batches and job.queue_depth > LARGEST_BATCH:
        what = f"gdsio's batches have at most {LARGEST_BATCH} entries"
        return Problem(("queue_depth",), what, f"set queue_depth to at most {LARGEST_BATCH}")
    return None


def _refuse_files(job: GpuDirectJob) -> Problem | None:
    members = _distinct(job)
    if any(member.kind == "null" for member in members):
        what = "gdsio needs a file or a device, but the null target has none"
        return Problem(("path",), what, "use a file, a device or a directory")
    if len({(member.size, member.offset) for member in members}) > 1:
        what = "gdsio uses the same region of every file, but the target's files differ in size"
        return Problem(("size",), what, "set the target's size")
    member = members[0]
    if member.offset % _KIB:
        what = f"gdsio takes offsets in KiB, but {member.name} begins at {member.offset} bytes"
        return Problem(("region_start",), what, "set a multiple of 1 KiB")
    if _size(job) < job.longest:
        what = f"{member.name} is smaller than one I/O"
        return Problem(("block_size",), what, "use a smaller block_size, or a larger size")
    if job.offsets.kind == "sequential" and 1 < len(members) < job.workers:
        what = (
            "gdsio's threads share a single file, or have a whole file each, but here "
            f"{job.workers} sequential workers share {len(members)} files"
        )
        fix = "set workers_per_file = 1, or use one file"
        return Problem(("workers_per_file",), what, fix)
    return None


def _size(job: GpuDirectJob) -> int:
    """Return how many bytes of each file are used: a whole number of blocks."""
    return members_of(job)[0].size // job.longest * job.longest


def seconds(length_ns: int) -> int:
    """Convert a duration to whole seconds, which gdsio needs; round up, at least to 1."""
    return max(1, -(-length_ns // NS_PER_S))


def caveats(job: GpuDirectJob) -> list[str]:
    """Return notes on how gdsio deviates from the native engine for this job."""
    notes = [
        "gdsio reports only a mean latency: no percentiles, no maximum and no values over time"
    ]
    if job.path == "direct":
        notes.append(
            "gdsio does not report whether data went directly to the GPU: it prints GPUD in "
            "compatibility mode, too"
        )
    if job.verify_bytes:
        notes.append("gdsio does not check the data it reads: nothing was verified")
    window_ns = job.window_ns or 0
    if seconds(window_ns) * NS_PER_S != window_ns:
        asked, taken = format_duration(window_ns), seconds(window_ns)
        notes.append(f"gdsio takes whole seconds: it ran for {taken} s instead of {asked}")
    if job.ramp_ns:
        notes.append(
            f"gdsio has no ramp: a separate gdsio process ran for {seconds(job.ramp_ns)} s "
            "before, and the target was idle until the measured process had started"
        )
    if job.mix.write:
        notes.append("gdsio writes the same random buffer of each thread again and again")
    if job.path == "bounce-overlapped":
        notes.append("gdsio does not report how many reads overlap with its asynchronous copies")
    if job.in_batches:
        notes.append(
            "gdsio's latency of a batch is not used: depending on the version, it is the "
            "latency of all entries or of one entry"
        )
    return notes


def arguments(job: GpuDirectJob, length_ns: int) -> list[str]:
    """Return gdsio's command-line arguments for a run that lasts ``length_ns``."""
    words, node = [], numa_node(job)
    for group in groups(job):
        words += ["-f" if group.one_file else "-D", group.place]
        words += ["-d", str(group.gpu), "-w", str(group.threads)]
        if node is not None:
            words += ["-n", str(node)]
    member = members_of(job)[0]
    words += ["-s", f"{_size(job) // _KIB}K", "-i", f"{job.longest // _KIB}K"]
    if member.offset:
        words += ["-o", f"{member.offset // _KIB}K"]
    words += ["-x", str(xfer_type(job)), "-I", str(_IO_TYPES[io_type(job)])]
    words += ["-T", str(seconds(length_ns))]
    if job.offsets.kind != "sequential":
        words += ["-k", str(job.seed & 0x7FFF_FFFF)]
    if job.mix.write:
        words.append("-R")  # without it, gdsio writes highly compressible data
    if not job.register_buffers and job.path == "direct":
        words.append("-b")
    return words


def command(program: Path, job: GpuDirectJob, unbuffered: Sequence[str] = ()) -> list[str]:
    """Return the command line that runs gdsio; a ramp is a separate gdsio run before it.

    Args:
        program: The gdsio program.
        job: The job to run.
        unbuffered: A command prefix that disables output buffering. The result line must arrive
            when the load ends, not after gdsio has released its resources.
    """
    measured = [*unbuffered, str(program), *arguments(job, job.window_ns or 0)]
    if not job.ramp_ns:
        return measured
    ramp = shlex.join([str(program), *arguments(job, job.ramp_ns)])
    script = (
        f"{ramp} >ramp.txt 2>&1 || {{ cat ramp.txt >&2; exit 1; }}; exec {shlex.join(measured)}"
    )
    return ["/bin/sh", "-c", script]


def make_links(job: GpuDirectJob, work_dir: Path) -> None:
    """Create links to the target's files under the names that gdsio expects, in ``work_dir``."""
    for group in groups(job):
        for name, target in group.links():
            link = work_dir / name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(target)

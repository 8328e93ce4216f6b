"""Translation of a GpuDirectJob for fio's I/O engine libcufile.

Options follow fio's HOWTO and examples for libcufile (fio 3.26 and later, if built with it). The
I/O engine is synchronous: each job has one I/O in flight. ``cuda_io=cufile`` moves data to and from
GPU memory by cuFile; ``cuda_io=posix`` moves it through host memory with a copy.
"""

from __future__ import annotations

import re
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.engines.fio import job as fio_job
from storlab.engines.fio.job import Section
from storlab.model.job import Member
from storlab.model.result import Failure
from storlab.process.program import ask_program, asked_once
from storlab.workloads.block.job import BlockJob, Mix
from storlab.workloads.gpudirect.job import GpuDirectJob

BACKEND = "libcufile"
CUDA_IO = {"direct": "cufile", "bounce": "posix"}
MISSING = (
    "the installed fio has no libcufile engine, as in all distributions: build fio with "
    "`./configure --enable-libcufile` and the CUDA toolkit and set STORLAB_FIO to it, or use "
    "gdsio (crosscheck: --reference gdsio)"
)
_ASK_S = 60  # generous: fio with libcufile loads the CUDA libraries
_CALLS = re.compile(
    r"(?P<call>cuFile\w+|cufile register|cuda runtime api call failed \S+)(?: \w+)?\s*: "
    r"err=(?P<code>-?\d+)(?::(?P<name>.*))?"
)
_CUDA_FIX = (
    "run `nvidia-smi`: the GPU may be lost, out of memory, used by another process, or have "
    "another number"
)
_CUFILE_FIX = "run `storlab doctor`, which shows what cuFile lacks here and which path it uses"


def refusal(job: GpuDirectJob) -> str | None:
    """Return why fio's libcufile cannot run the job, or None if it can."""
    if job.do != "load":
        return f'its task is "{job.do}", which only the native engine does'
    if job.path not in CUDA_IO:
        return (
            f'fio\'s libcufile cannot do path = "{job.path}": use direct or bounce '
            "(cuda_io=cufile or posix), or engine native"
        )
    if job.api != "sync" or job.queue_depth > 1:
        return (
            "fio's libcufile is synchronous, with one I/O in flight for each worker: set api = "
            '"sync" and queue_depth = 1 and increase workers, or use native'
        )
    if job.path == "direct" and not job.register_buffers:
        return (
            "fio's libcufile always registers its GPU buffers: set register_buffers = true, or use "
            "native"
        )
    if job.path == "direct" and not job.direct:
        return "fio's cuda_io=cufile needs O_DIRECT: set direct = true on the target"
    return fio_job.refusal(as_block(job), uring_available=False)


def as_block(job: GpuDirectJob) -> BlockJob:
    """Return a BlockJob with the same settings except for the GPU, to reuse code for block jobs."""
    return BlockJob(
        members=used(job),
        backend="posix",
        direct=job.direct,
        jobs=job.workers,
        queue_depth=1,
        cpus=job.cpus,
        mix=Mix(read=job.mix.read, write=job.mix.write),
        block_sizes=job.block_sizes,
        offsets=job.offsets,
        arrival=job.arrival,
        window_ns=job.window_ns,
        window_bytes=job.window_bytes,
        ramp_ns=job.ramp_ns,
        interval_ns=job.interval_ns,
        drain_timeout_ns=job.drain_timeout_ns,
        seed=job.seed,
    )


def used(job: GpuDirectJob) -> list[Member]:
    """Return the target's files or devices that at least one worker uses."""
    return job.members[: -(-job.workers // job.workers_per_file)]


def sections(job: GpuDirectJob) -> list[Section]:
    """Return the file, region, CPU and GPU of each worker, assigned as in the native engine.

    Every section names its GPU, since fio would begin with the first GPU in each section.
    """
    members = used(job)
    places = [worker // job.workers_per_file % len(members) for worker in range(job.workers)]
    made = []
    for worker, place in enumerate(places):
        member = members[place]
        begin, end = 0, member.size
        if job.offsets.kind == "sequential":
            blocks, sharers = member.size // job.longest, places.count(place)
            turn = places[:worker].count(place)
            begin = blocks * turn // sharers * job.longest
            if turn + 1 < sharers:
                end = blocks * (turn + 1) // sharers * job.longest
        cpu = job.cpus[worker % len(job.cpus)] if job.cpus else None
        gpu = f"gpu_dev_ids={job.gpus[worker % len(job.gpus)]}"
        made.append(Section((member,), member.offset + begin, end - begin, cpu, (gpu,)))
    return made


def job_file(job: GpuDirectJob, *, held: bool = False) -> str:
    """Return the text of fio's job file; with ``held``, jobs wait until their load is started."""
    options = (f"cuda_io={CUDA_IO[job.path]}",)
    block = as_block(job)
    return fio_job.job_file(block, "libcufile", held=held, parts=sections(job), options=options)


def caveats(job: GpuDirectJob) -> list[str]:
    """Return notes on how fio deviates from the native engine for this job."""
    notes = fio_job.caveats(as_block(job))
    if job.path == "direct":
        notes.append(
            "fio does not report whether data went directly to the GPU: cuFile may have used POSIX"
        )
    else:
        notes.append("fio's host memory is not pinned, so copies to and from the GPU are slower")
    if job.verify_bytes:
        notes.append("nothing was verified: fio checks only data that it wrote with own headers")
    return notes


@asked_once
def available(program: Path) -> bool:
    """Return whether a fio binary has the libcufile I/O engine."""
    try:
        done = ask_program([str(program), "--enghelp=libcufile"], MISSING, _ASK_S)
    except EngineError:
        return False
    return done.returncode == 0 and "cuda_io" in done.stdout


def explained(failure: Failure, messages: str) -> Failure:
    """Return a failure with the cuFile or CUDA error from fio's messages added, if there is one."""
    match = _CALLS.search(messages)
    if match is None:
        return failure
    code, name = match["code"], (match["name"] or "").strip()
    cuda = match["call"].startswith("cuda")
    call = match["call"].split()[-1].rstrip(":") if cuda else match["call"]
    return failure.model_copy(
        update={
            "message": f"fio: {call}: error {code}" + (f", {name}" if name else ""),
            "fix": _CUDA_FIX if cuda else _CUFILE_FIX,
        }
    )

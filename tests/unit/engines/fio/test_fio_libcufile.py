"""A GpuDirectJob as options of fio's libcufile engine."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.engines.fio import libcufile
from storlab.model.job import Arrival
from storlab.model.result import Failure
from storlab.workloads.gpudirect.job import GpuDirectJob
from support.gpudirect_jobs import MIB, make_job


def options(job: GpuDirectJob) -> dict[str, str]:
    return dict(line.split("=", 1) for line in libcufile.job_file(job).splitlines() if "=" in line)


def section_lines(job: GpuDirectJob) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in libcufile.job_file(job).splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line and name:
            found.setdefault(name, []).append(line)
    return {name: lines for name, lines in found.items() if name != "global"}


def test_threads_on_one_file_are_one_section() -> None:
    given = options(make_job("/a", workers=8, workers_per_file=8, ramp_ns=500_000_000))
    assert given["ioengine"] == "libcufile"
    assert (given["cuda_io"], given["gpu_dev_ids"], given["direct"]) == ("cufile", "0", "1")
    assert (given["thread"], given["iodepth"], given["numjobs"]) == ("1", "1", "8")
    assert (given["filename"], given["rw"], given["bs"]) == ("/a", "randread", "65536")
    assert (given["runtime"], given["ramp_time"]) == ("1000000us", "500000us")
    assert given["allow_file_create"] == "0"
    assert "iomem_align" not in given


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"path": "bounce"}, {"cuda_io": "posix"}),
        ({"mix": {"read": 70, "write": 30}}, {"rw": "randrw", "rwmixread": "70"}),
        ({"offsets": {"kind": "sequential"}}, {"rw": "read"}),
        ({"gpus": [2]}, {"gpu_dev_ids": "2"}),
        ({"cpus": [1]}, {"cpus_allowed": "1"}),
        ({"path": "bounce", "direct": False}, {"direct": "0"}),
        ({"window_ns": None, "window_bytes": MIB}, {"io_size": str(MIB)}),
        ({"arrival": Arrival(kind="poisson", rate_iops=100)}, {"rate_iops": "100"}),
    ],
)
def test_fields_in_fios_words(changes: dict[str, Any], wanted: dict[str, str]) -> None:
    assert libcufile.refusal(make_job("/a", **changes)) is None
    assert options(make_job("/a", **changes)).items() >= wanted.items()


def test_every_section_names_its_gpu() -> None:
    """Check that every section names its GPU, because fio restarts the assignment in each."""
    found = section_lines(make_job("/a", "/b", "/c", gpus=[0, 1]))
    assert [lines[0] for lines in found.values()] == ["filename=/a", "filename=/b", "filename=/c"]
    assert [lines[-1] for lines in found.values()] == [f"gpu_dev_ids={n}" for n in (0, 1, 0)]


def test_workers_of_a_file_stand_next_to_each_other() -> None:
    job = make_job("/a", "/b", workers=4, workers_per_file=3, offsets={"kind": "sequential"})
    found = list(section_lines(job).values())
    assert [lines[0] for lines in found] == ["filename=/a"] * 3 + ["filename=/b"]
    parts = [dict(line.split("=", 1) for line in lines) for lines in found]
    assert sum(int(part["size"]) for part in parts[:3]) == 8 * MIB  # each has its own part
    assert [int(part.get("offset", 0)) for part in parts[:3]] == [0, 42 * 65536, 85 * 65536]
    assert int(parts[3]["size"]) == 8 * MIB


def test_files_for_more_workers_than_this_run_has_are_left_alone() -> None:
    """Check that surplus files, laid out for the campaign's largest point, are ignored."""
    given = options(make_job("/a", "/b", "/c", workers=1))
    assert (given["filename"], given["numjobs"]) == ("/a", "1")
    assert [m.name for m in libcufile.as_block(make_job("/a", "/b", workers=1)).members] == ["/a"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"do": "probe"}, '"probe"'),
        ({"path": "host"}, 'path = "host"'),
        ({"path": "bounce-overlapped"}, "bounce-overlapped"),
        ({"api": "batch"}, "synchronous"),
        ({"api": "async"}, "synchronous"),
        ({"path": "bounce", "queue_depth": 2}, "queue_depth = 1"),
        ({"register_buffers": False}, "registers"),
        ({"direct": False}, "O_DIRECT"),
        ({"mix": {"read": 99.5, "write": 0.5}}, "whole percentages"),
        ({"window_ns": None}, "exactly one of"),
        ({"window_ns": None, "window_bytes": MIB, "ramp_ns": 1}, "ramp = 0"),
    ],
)
def test_what_libcufile_cannot_do_is_refused_with_the_reason(
    changes: dict[str, Any], word: str
) -> None:
    reason = libcufile.refusal(make_job("/a", **changes))
    assert reason is not None
    assert word in reason


@pytest.mark.parametrize("path", ["/data/a#b", "/data/a;b"])
def test_a_path_that_fio_would_cut_is_refused(path: str) -> None:
    assert "cannot hold a path" in str(libcufile.refusal(make_job(path)))


def test_what_differs_is_told() -> None:
    def told(**changes: Any) -> str:
        return " ".join(libcufile.caveats(make_job("/a", **changes)))

    assert "cuFile may have used POSIX" in told()
    assert "not pinned" in told(path="bounce")
    assert "nothing was verified" in told(verify_bytes=MIB)
    assert "verified" not in told()


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (
            "cuFileDriverOpen: err=5001:nvidia-fs driver is not loaded. Set allow_compat_mode\n",
            "fio: cuFileDriverOpen: error 5001, nvidia-fs driver is not loaded. Set allow_compat_",
        ),
        ("cuFileRead: err=-5:\n", "fio: cuFileRead: error -5"),
        ("cufile Read: err=-5:IO error\n", "plain"),
        ("cufile register: err=5027:GPUDirect Storage not", "fio: cufile register: error 5027, GP"),
        (
            "cuda runtime api call failed cudaMalloc(mem,size):119 : err=2:cudaErrorMemory\n",
            "fio: cudaMalloc(mem,size):119: error 2, cudaErrorMemory",
        ),
        ("fio: pid=1, err=5/file:x.c:1, func=xfer, error=Input/output error", "plain"),
    ],
)
def test_words_of_cufile_and_cuda_are_in_the_failure(printed: str, message: str) -> None:
    found = libcufile.explained(Failure(message="plain", fix="see raw/"), printed)
    assert found.message.startswith(message)
    assert found.fix

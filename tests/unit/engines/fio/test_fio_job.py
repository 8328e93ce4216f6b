"""A BlockJob as fio options: every supported field, and a reason for each other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import EngineError
from storlab.engines.fio import job as fio_job
from storlab.model.job import Arrival, Member, WeightedSize
from storlab.process.member_files import check_lengths
from storlab.workloads.block.job import BlockJob, Mix, Offsets, Payload, Sync, Verify

MIB = 1 << 20


def member(number: int = 0, **changes: Any) -> Member:
    path = f"/data/m{number}"
    fields = {"path": path, "name": f"m{number}", "kind": "file", "size": 64 * MIB, **changes}
    return Member(**fields)


def block_job(**changes: Any) -> BlockJob:
    fields: dict[str, Any] = {
        "members": [member()],
        "jobs": 2,
        "queue_depth": 16,
        "mix": Mix(read=70, write=30),
        "block_sizes": [WeightedSize(bytes=4096)],
        "offsets": Offsets(kind="uniform"),
        "window_ns": 2_000_000_000,
    }
    return BlockJob(**{**fields, **changes})


def options(job: BlockJob) -> dict[str, str]:
    """Return the options of a job file, ignoring sections."""
    text = fio_job.job_file(job, fio_job.ioengine(job, True))
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def section_lines(job: BlockJob) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in fio_job.job_file(job, "io_uring").splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line and name:
            found.setdefault(name, []).append(line)
    return found


def test_plain_job_has_one_section_for_all_jobs() -> None:
    given = options(block_job(ramp_ns=1_500_000_000))
    assert given["numjobs"] == "2"
    assert given["filename"] == "/data/m0"
    assert given["size"] == str(64 * MIB)
    assert (given["rw"], given["rwmixread"], given["bs"]) == ("randrw", "70", "4096")
    assert (given["runtime"], given["ramp_time"]) == ("2000000us", "1500000us")
    assert given["norandommap"] == "1"  # uniform offsets may repeat, as in native
    assert given["direct"] == "1"
    assert "iodepth_batch_submit" not in given


def test_nothing_lets_fio_make_grow_or_drop_what_was_laid_out() -> None:
    given = options(block_job())
    assert given["allow_file_create"] == "0"
    assert given["fallocate"] == "none"
    assert given["invalidate"] == "0"


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"batch": 8}, {"iodepth_batch_submit": "8", "iodepth_batch_complete_max": "8"}),
        ({"offsets": Offsets(kind="zipf", theta=1.2)}, {"random_distribution": "zipf:1.2"}),
        ({"offsets": Offsets(kind="hot_cold")}, {"random_distribution": "zoned:90/10:10/90"}),
        ({"mix": Mix(read=100, write=0)}, {"rw": "randread"}),
        ({"mix": Mix(read=0, write=100)}, {"rw": "randwrite"}),
        ({"mix": Mix(read=0, write=0, trim=100)}, {"rw": "randtrim"}),
        ({"offsets": Offsets(kind="sequential")}, {"rw": "rw"}),
        (
            {"arrival": Arrival(kind="poisson", rate_iops=1000)},
            {"rate_iops": "350,150", "rate_process": "poisson"},
        ),
        (
            {"arrival": Arrival(kind="constant", rate_iops=1000), "mix": Mix(read=0, write=100)},
            {"rate_iops": "500", "rate_process": "linear"},
        ),
        ({"sync": Sync(kind="fdatasync", every_writes=4)}, {"fdatasync": "4"}),
        ({"sync": Sync(kind="fsync", final=True)}, {"end_fsync": "1"}),
        ({"payload": Payload(compress_percent=50)}, {"buffer_compress_percentage": "50"}),
        ({"payload": Payload(dedupe_percent=25)}, {"dedupe_percentage": "25"}),
        ({"window_ns": None, "window_bytes": 3 * MIB}, {"io_size": str(3 * MIB // 2)}),
        ({"direct": False}, {"direct": "0"}),
        ({"backend": "posix", "queue_depth": 1}, {"ioengine": "psync"}),
        ({"backend": "null"}, {"ioengine": "null"}),
        ({"seed": 42}, {"randseed": "42"}),
    ],
)
def test_each_field_has_its_option(changes: dict[str, Any], wanted: dict[str, str]) -> None:
    given = options(block_job(**changes))
    assert {name: given.get(name) for name in wanted} == wanted


def test_permutation_keeps_fios_random_map() -> None:
    assert "norandommap" not in options(block_job(offsets=Offsets(kind="permutation")))


def test_weights_become_whole_percentages_that_sum_to_100() -> None:
    sizes = [WeightedSize(bytes=4096 << i, weight=1) for i in range(3)]
    given = options(block_job(block_sizes=sizes))["bssplit"]
    assert given == "4096/34:8192/33:16384/33"
    assert any("percent" in note for note in fio_job.caveats(block_job(block_sizes=sizes)))


def test_more_jobs_than_members_take_turns() -> None:
    found = section_lines(block_job(members=[member(0), member(1)], jobs=5))
    names = [
        next(line for line in lines if line.startswith("filename"))
        for lines in found.values()
        if any(line.startswith("filename") for line in lines)
    ]
    assert names == [f"filename=/data/m{n}" for n in (0, 1, 0, 1, 0)]


def test_fewer_jobs_than_members_share_them_out() -> None:
    members = [member(n) for n in range(5)]
    found = section_lines(block_job(members=members, jobs=2))
    assert "filename=/data/m0:/data/m2:/data/m4" in found["job0"]
    assert f"size={3 * 64 * MIB}" in found["job0"]
    assert "filename=/data/m1:/data/m3" in found["job1"]
    assert "file_service_type=roundrobin:1" in found["global"]


def test_one_file_per_job() -> None:
    job = block_job(members=[member(0), member(1)], layout="per_job")
    assert "filename=/data/m1" in section_lines(job)["job1"]


def test_sequential_jobs_on_one_member_have_parts_that_tile_it() -> None:
    size = 10 * 4096 + 512
    job = block_job(
        members=[member(size=size, offset=8192)], jobs=3, offsets=Offsets(kind="sequential")
    )
    parts = fio_job.sections(job)
    assert parts[0].offset == 8192
    assert [p.offset + p.size for p in parts[:-1]] == [p.offset for p in parts[1:]]
    assert parts[-1].offset + parts[-1].size == 8192 + size
    assert all((p.offset - 8192) % 4096 == 0 for p in parts)


def test_cpus_are_pinned_in_turn() -> None:
    found = section_lines(block_job(jobs=3, cpus=[4, 7]))
    pinned = [next(x for x in found[f"job{n}"] if x.startswith("cpus")) for n in range(3)]
    assert pinned == ["cpus_allowed=4", "cpus_allowed=7", "cpus_allowed=4"]


def test_colons_are_escaped_and_relative_paths_resolved() -> None:
    given = options(block_job(members=[member(path="/dev/disk/by-id/nvme:1")]))
    assert given["filename"] == "/dev/disk/by-id/nvme\\:1"
    given = options(block_job(members=[member(path="data.bin")]))
    assert given["filename"] == str(Path.cwd() / "data.bin")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"verify": Verify(state="s", block=4096)}, "verify"),
        ({"layout": "stripe", "stripe_chunk": 65536}, "stripe"),
        ({"window_ns": None, "window_bytes": MIB, "ramp_ns": 1}, "ramp = 0"),
        ({"mix": Mix(read=50, write=40, trim=10)}, "trim"),
        ({"mix": Mix(read=33.3, write=66.7)}, "whole percentages"),
        ({"backend": "posix"}, "queue_depth = 1"),
        ({"layout": "per_job"}, "one file each"),
        ({"members": [member(0), member(1, size=MIB)], "jobs": 1}, "size or offset"),
        ({"payload": Payload(compress_percent=12.5)}, "compress_percent"),
        ({"arrival": Arrival(kind="constant", rate_iops=0.5)}, "less than one"),
        (
            {"block_sizes": [WeightedSize(bytes=4096, weight=1000), WeightedSize(bytes=8192)]},
            "half",
        ),
        ({"members": [member(path="/data/${HOME}")]}, "line break"),
        ({"members": [member(path="/data/a#b")]}, "#"),
        ({"members": [member(path="/data/a;b")]}, ";"),
        ({"members": [member(path="/data/a ")]}, "blank"),
        ({"members": [member(path="/data/a\\b")]}, "backslash"),
        ({"members": [member(path="/data/a$ncpus")]}, "$ncpus"),
        ({"members": [member(path="/data/$pagesize-")]}, "$pagesize"),
        ({"members": [member(path="/data/$mb_memory/a")]}, "$mb_memory"),
    ],
)
def test_what_fio_cannot_do_is_refused_with_the_reason(changes: dict[str, Any], word: str) -> None:
    reason = fio_job.refusal(block_job(**changes), True)
    assert reason is not None
    assert word in reason


def test_a_path_is_judged_as_fio_is_given_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "disk#2"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert fio_job.refusal(block_job(members=[member(path="data.bin")]), True) is not None
    assert fio_job.refusal(block_job(members=[member(path="null:", kind="null")]), True) is None


@pytest.mark.parametrize("path", ["/data/a:b", "/data/$a", "/data/a b", '/data/"a"'])
def test_a_path_that_fio_takes_as_it_is_is_not_refused(path: str) -> None:
    assert fio_job.refusal(block_job(members=[member(path=path)]), True) is None


def test_a_backend_that_fio_has_no_counterpart_of_is_refused() -> None:
    job = block_job().model_copy(update={"backend": "spdk"})
    reason = fio_job.refusal(job, True)
    assert reason is not None
    assert 'backend = "spdk": use uring, posix, null' in reason


def test_without_io_uring_auto_means_psync() -> None:
    assert fio_job.ioengine(block_job(), uring_available=False) == "psync"
    assert fio_job.refusal(block_job(queue_depth=1), uring_available=False) is None
    reason = fio_job.refusal(block_job(), uring_available=False)
    assert reason is not None and "allow io_uring" in reason
    # Advice must not lead to another refused option.
    assert 'backend = "uring"' not in reason


def test_open_loop_says_what_its_latency_lacks() -> None:
    notes = fio_job.caveats(block_job(arrival=Arrival(kind="constant", rate_iops=1001)))
    assert any("coordinated omission" in note for note in notes)
    assert any("1000 operations/s instead of 1001" in note for note in notes)


def test_short_and_missing_files_are_found(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(b"x" * 100)
    fits = member(path=str(short), size=50, offset=50)
    check_lengths([fits], "it would be cut")
    for bad, what in (
        (member(path=str(short), size=101), "has 100 bytes, and the job needs 101"),
        (member(path=str(tmp_path / "absent"), size=1), "is missing, and the job needs 1"),
    ):
        with pytest.raises(EngineError) as caught:
            check_lengths([fits, bad], "it would be cut")
        assert caught.value.what == what
        assert caught.value.fix == "run the study again, which writes the file; it would be cut"


def test_buffers_begin_on_a_huge_page_where_fio_is_given_them() -> None:
    job = block_job()
    assert "iomem_align=2097152" in fio_job.job_file(job, "io_uring", huge_pages=True)
    assert "iomem_align" not in fio_job.job_file(job, "io_uring")

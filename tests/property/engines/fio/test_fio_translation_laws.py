"""A workload as fio's job, translated back, is the same workload."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storlab.base.units import parse_size
from storlab.engines.fio.job import grouped_job_file, job_file, refusal
from storlab.engines.fio.translation import translate
from storlab.model.job import WeightedSize
from storlab.workloads.block.job import BlockJob, GroupedBlockJob, Mix, Offsets
from storlab.workloads.common.random_choice import sizes_of

KIB, GIB = 1 << 10, 1 << 30
PLACE = "/data/file"

mixes = st.one_of(
    st.integers(0, 100).map(lambda read: Mix(read=read, write=100 - read)),
    st.just(Mix(read=0, write=0, trim=100)),
)
block_sizes = st.lists(
    st.sampled_from([4, 8, 16, 64, 128, 1024]), min_size=1, max_size=3, unique=True
).map(lambda kib: [WeightedSize(bytes=k * KIB, weight=1.0) for k in kib])
offsets = st.one_of(
    st.sampled_from(["uniform", "sequential", "permutation"]).map(lambda kind: Offsets(kind=kind)),
    st.sampled_from([0.8, 1.1, 2.5]).map(lambda theta: Offsets(kind="zipf", theta=theta)),
    st.just(Offsets(kind="hot_cold", hot_space_percent=20, hot_access_percent=75)),
)
windows = st.one_of(
    st.integers(1, 1000).map(lambda ms: {"window_ns": ms * 1_000_000, "ramp_ns": ms * 1000}),
    st.integers(1, 64).map(lambda n: {"window_bytes": n * 16 * 1024 * KIB}),
)


@st.composite
def jobs(draw: st.DrawFn) -> BlockJob:
    backend = draw(st.sampled_from(["uring", "posix"]))
    paths = [f"{PLACE}{n}" for n in range(draw(st.integers(1, 3)))]
    depth = draw(st.integers(1, 64)) if backend == "uring" else 1
    members = [{"path": p, "name": p, "kind": "file", "size": GIB} for p in paths]
    fields: dict[str, Any] = {
        "members": members,
        "backend": backend,
        "direct": draw(st.booleans()),
        # fio has sections of one size only if each member has as many jobs as any other.
        "jobs": draw(st.sampled_from([1, 2, 4])) * len(paths),
        "queue_depth": depth,
        "batch": draw(st.integers(1, depth)),
        "mix": draw(mixes),
        "block_sizes": draw(block_sizes),
        "offsets": draw(offsets),
    }
    return BlockJob.model_validate({**fields, **draw(windows)})


@given(jobs())
def test_a_workload_survives_the_way_through_a_job_file(job: BlockJob) -> None:
    engine = "io_uring" if job.backend == "uring" else "psync"
    assert refusal(job, True) is None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.fio"
        path.write_text(job_file(job, engine))  # type: ignore[arg-type]
        translation = translate([str(path)])
    (workload,) = translation.workloads
    (target,) = translation.targets
    fields = workload.fields
    places = [target.fields["path"]] if "path" in target.fields else target.fields["paths"]
    assert sorted(places) == sorted(member.path for member in job.members)
    assert target.fields["size"] == "1GiB"
    assert target.fields.get("direct", True) == job.direct
    assert fields["jobs"] == job.jobs
    assert fields["queue_depth"] == job.queue_depth
    assert fields.get("batch", 1) == job.batch
    assert fields["backend"] == job.backend
    assert fields["read_percent"] == job.mix.read
    assert fields.get("trim_percent", 0) == job.mix.trim
    sequential = job.offsets.kind == "sequential"
    assert fields["access"] == ("sequential" if sequential else "random")
    assert fields.get("offsets", "sequential") == job.offsets.kind
    if job.offsets.kind == "zipf":
        assert fields["zipf_theta"] == job.offsets.theta
    if job.offsets.kind == "hot_cold":
        assert fields["hot_space_percent"] == job.offsets.hot_space_percent
        assert fields["hot_access_percent"] == job.offsets.hot_access_percent
    assert "region_start" not in fields
    assert "region_size" not in fields
    assert translation.runtime_ns == job.window_ns
    assert translation.ramp_ns == job.ramp_ns
    sizes = fields["block_size"]
    assert set(sizes_of(sizes if isinstance(sizes, dict) else parse_size(sizes))) == {
        size.bytes for size in job.block_sizes
    }
    if job.window_bytes is None:
        assert "total_bytes" not in fields
    else:  # fio has the same number of bytes for each job
        assert 0 <= parse_size(fields["total_bytes"]) - job.window_bytes < job.jobs


def test_groups_survive_the_way_through_a_job_file(tmp_path: Path) -> None:
    member = {"path": f"{PLACE}0", "name": "f", "kind": "file", "size": GIB}
    common: dict[str, Any] = {"members": [member], "window_ns": 10**9, "direct": True}
    readers = BlockJob.model_validate(
        common
        | {
            "jobs": 4,
            "queue_depth": 8,
            "mix": {"read": 100, "write": 0},
            "block_sizes": [{"bytes": 4 * KIB}],
            "offsets": {"kind": "uniform"},
        }
    )
    writer = BlockJob.model_validate(
        common
        | {
            "jobs": 2,  # each has its own part
            "queue_depth": 1,
            "mix": {"read": 0, "write": 100},
            "block_sizes": [{"bytes": 64 * KIB}],
            "offsets": {"kind": "sequential"},
            "arrival": {"kind": "constant", "rate_iops": 50},
        }
    )
    groups = [{"name": "readers", "job": readers}, {"name": "writer", "job": writer}]
    path = tmp_path / "a.fio"
    path.write_text(
        grouped_job_file(GroupedBlockJob.model_validate({"groups": groups}), "io_uring")
    )
    (workload,) = translate([str(path)]).workloads
    first, second = (group.fields for group in workload.fields["group"])
    assert (first["name"], first["jobs"], first["queue_depth"]) == ("readers", 4, 8)
    assert (first["offsets"], first["block_size"]) == ("uniform", "4KiB")
    assert (second["jobs"], second["access"], second["rate_iops"]) == (2, "sequential", 50)
    assert "region_size" not in second

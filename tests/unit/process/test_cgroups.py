"""Limits of control groups, read from trees of both versions."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from storlab.process import cgroups


def tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")


def proc(root: Path, groups: str, mounts: str) -> Path:
    tree(root / "proc", {"cgroup": groups, "mountinfo": mounts})
    return root / "proc"


def test_all_groups_above_count_and_the_smallest_quota_binds_in_version_2(tmp_path: Path) -> None:
    top = tmp_path / "unified tree"
    tree(
        top,
        {
            "a/cpu.max": "150000 100000",
            "a/b/cpu.max": "max 100000",
            "a/b/c/cpu.max": "300000 100000",
            "other/cpu.max": "1000 100000",
            "a/memory.high": "5000",
            "a/b/memory.max": "9000",
            "a/b/c/pids.max": "100",
            "a/b/c/pids.current": "30",
            "a/cpu.stat": "usage_usec 7\nthrottled_usec 12",
            "a/memory.events": "low 1\nhigh 2\nmax 3\noom 0\noom_kill 0",
            "a/io.max": "8:0 rbps=1000 wbps=max riops=max wiops=20\n8:16 rbps=max wbps=5",
            "a/b/io.max": "8:0 rbps=700 wbps=max riops=max wiops=max",
        },
    )
    point = str(top).replace(" ", "\\040")
    mounts = f"38 31 0:35 / {point} rw - cgroup2 cgroup2 rw"
    groups = cgroups.groups_of("cpu", proc(tmp_path, "0::/a/b/c", mounts))
    assert groups == [top / "a/b/c", top / "a/b", top / "a", top]
    quota = cgroups.quotas(groups)[0]
    assert (quota.cores, quota.group) == (1.5, str(top / "a"))
    assert cgroups.throttled_ns(quota.group) == 12_000
    assert cgroups.memory_limit(groups) == (5000, str(top / "a"))
    assert cgroups.memory_events(str(top / "a")) == 5
    assert cgroups.most_threads(groups) == (70, str(top / "a/b/c"))
    assert {dataclasses.astuple(limit) for limit in cgroups.io_limits(groups)} == {
        ("8:0", "reads", "bytes", 700, str(top / "a/b")),
        ("8:0", "writes", "operations", 20, str(top / "a")),
        ("8:16", "writes", "bytes", 5, str(top / "a")),
    }


def test_version_1_has_a_hierarchy_for_each_controller(tmp_path: Path) -> None:
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    tree(
        cpu,
        {
            "cpu.cfs_quota_us": "-1",
            "cpu.cfs_period_us": "100000",
            "job/cpu.cfs_quota_us": "10000",
            "job/cpu.cfs_period_us": "100000",
            "job/blkio.throttle.read_bps_device": "8:0 4000000",
            "job/blkio.throttle.write_iops_device": "8:16 12",
            "job/cpu.stat": "nr_periods 9\nnr_throttled 8\nthrottled_time 77",
        },
    )
    tree(
        memory,
        {
            "memory.limit_in_bytes": "9223372036854771712",
            "job/memory.limit_in_bytes": "7000",
            "job/memory.usage_in_bytes": "6000",
            "job/memory.stat": "total_inactive_file 1500\ntotal_active_file 500",
            "job/memory.failcnt": "4",
        },
    )
    mounts = (
        f"32 31 0:29 / {cpu} rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"35 31 0:32 /docker {memory} rw - cgroup cgroup rw,memory"
    )
    place = proc(tmp_path, "5:cpu,cpuacct:/job\n4:memory:/docker/job", mounts)
    (quota,) = cgroups.quotas(cgroups.groups_of("cpu", place))
    assert (quota.cores, cgroups.throttled_ns(quota.group)) == (0.1, 77)
    assert {dataclasses.astuple(limit) for limit in cgroups.io_limits([cpu / "job"])} == {
        ("8:0", "reads", "bytes", 4_000_000, str(cpu / "job")),
        ("8:16", "writes", "operations", 12, str(cpu / "job")),
    }
    own = cgroups.groups_of("memory", place)
    assert cgroups.memory_limit(own) == (7000, str(memory / "job"))
    assert cgroups.memory_left(own) == 3000  # cached memory can be reclaimed
    assert cgroups.memory_events(str(memory / "job")) == 4


@pytest.mark.parametrize("kind", ["", "garbage"])
def test_no_hierarchy_is_no_limit(tmp_path: Path, kind: str) -> None:
    place = proc(tmp_path, "0::/x", f"1 2 3:4 / / rw - {kind} x rw")
    assert cgroups.groups_of("cpu", place) == []
    assert cgroups.quotas([]) == []
    assert cgroups.memory_left([]) is None

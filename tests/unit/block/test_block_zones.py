"""Block workloads on zoned drives: what is refused, and the jobs that fill them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.contracts.registry import FAMILIES
from storlab.engines.fio.job import caveats, job_file
from storlab.lab.study.file import parse_study
from storlab.model.job import Member
from storlab.model.study import Precondition, Target
from storlab.stores.zones import Zones
from storlab.workloads.block.job import BlockJob

BLOCK = FAMILIES["block"]
DRIVE = Target(name="t", path="/dev/zoned", size=1 << 30)  # type: ignore[call-arg]
ZONES = Zones(zone_bytes=64 << 20, count=16, max_open=6, max_active=8)
WRITES = 'access = "sequential"\nread_percent = 0\nqueue_depth = 2\n'
READER_AND_WRITER = f"""
jobs = 1
[[workload.group]]
name = "readers"
{{region}}
[[workload.group]]
name = "writer"
{WRITES}region_start = "50%"
"""


@pytest.fixture(autouse=True)
def _zoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def zones(place: Path | str) -> Zones | None:
        return ZONES if str(place).startswith("/dev/zoned") else None

    for module in ("workloads.block.rules", "workloads.block.layout", "engines.fio.job"):
        monkeypatch.setattr(f"storlab.{module}.zones_of", zones)


def params(lines: str) -> dict[str, Any]:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\npath = "x"\nsize = "1GiB"\n'
        f'[[workload]]\nkind = "block"\n{lines}'
    )
    (values,) = study.workload[0].values()
    return dict(values)


def fields(lines: str, target: Target = DRIVE) -> list[str]:
    return [str(problem.field[0]) for problem in BLOCK.check(params(lines), target)]


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (WRITES, []),
        (WRITES + "jobs = 3", []),
        (WRITES + "jobs = 4", ["queue_depth"]),
        ("queue_depth = 100", []),
        ('access = "sequential"\nqueue_depth = 100', []),
        ("read_percent = 0", ["access"]),
        ("read_percent = 70", ["access"]),
        ('access = "sequential"\nread_percent = 50', ["read_percent"]),
        ("trim_percent = 100\nread_percent = 0", ["trim_percent"]),
        (WRITES + "verify = true", ["verify"]),
        (READER_AND_WRITER.format(region='region_size = "50%"'), []),
        (READER_AND_WRITER.format(region='region_size = "51%"'), ["group"]),
        (READER_AND_WRITER.format(region=""), ["group"]),
    ],
)
def test_work_that_zones_cannot_take_is_refused(lines: str, refused: list[str]) -> None:
    assert fields(lines) == refused
    assert fields(lines, DRIVE.model_copy(update={"path": "/dev/other"})) == []


def test_writes_of_zones_bypass_the_page_cache() -> None:
    buffered = DRIVE.model_copy(update={"direct": False})
    assert (fields(WRITES, buffered), fields("jobs = 1", buffered)) == (["direct"], [])


def test_a_target_of_several_zoned_drives_has_the_open_zones_of_all() -> None:
    two = Target(name="t", paths=["/dev/zoned1", "/dev/zoned2"], size=1 << 30)  # type: ignore[call-arg]
    assert fields(WRITES + "jobs = 6", two) == []
    assert fields(WRITES + "jobs = 7", two) == ["queue_depth"]
    assert fields(WRITES, two.model_copy(update={"layout": "stripe"})) == ["layout"]


def member(path: str) -> Member:
    return Member(path=path, name=path, kind="block_device", size=1 << 30)


def test_zoned_drives_are_filled_to_their_capacity_and_overwritten_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "storlab.workloads.block.layout.zoned_bytes",
        lambda m: 900 << 20 if m.path == "/dev/zoned" else None,
    )
    spec = Precondition()  # type: ignore[call-arg]
    for path, size, depth, kind in (
        ("/dev/zoned", 900 << 20, 6, "sequential"),
        ("/dev/other", 1 << 30, 8, "uniform"),
    ):
        job = BLOCK.fill_job(member(path), 1 << 20, direct=True, seed=1)
        assert (job.window_bytes, job.queue_depth) == (size, depth)
        job = BLOCK.overwrite_job(DRIVE, spec, [member(path)], seed=1)
        assert job.offsets.kind == kind
        assert job.queue_depth == min(spec.queue_depth, 6 if path == "/dev/zoned" else 1 << 16)


def test_fio_writes_zones_and_says_how_it_differs() -> None:
    def made(path: str, depth: int) -> BlockJob:
        job = BLOCK.fill_job(member(path), 1 << 20, direct=True, seed=1)
        assert isinstance(job, BlockJob)
        return job.model_copy(update={"queue_depth": depth})

    assert "zonemode=zbd" in job_file(made("/dev/zoned", 2), "io_uring").splitlines()
    assert "zonemode" not in job_file(made("/dev/other", 2), "io_uring")
    assert any("one zone" in note for note in caveats(made("/dev/zoned", 2)))
    assert not any("one zone" in note for note in caveats(made("/dev/zoned", 1)))


def test_limits_of_zones_are_named_if_the_drive_has_any() -> None:
    assert ZONES.text == "zoned drive: 16 zones of 64MiB, at most 6 open and 8 active"
    free = Zones(zone_bytes=256 << 20, count=52_156, max_open=0, max_active=0)
    assert free.text == "zoned drive: 52,156 zones of 256MiB"
    assert (ZONES.most_written, free.most_written) == (6, 52_156)

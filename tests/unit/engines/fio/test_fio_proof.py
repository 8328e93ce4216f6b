"""Whether ``disk_util`` of imported fio runs proves that the devices served them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.fio.exporter import FioJsonExport
from storlab.exchange.importer import import_files
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

GOLDEN = Path(__file__).parents[3] / "golden" / "fio" / "group-3.33.json"
MIB = 1 << 20


def device(share: float, name: str = "nvme0n1", **changes: Any) -> dict[str, Any]:
    """Return a device that moved this share of the run's 100 MiB, as printed by fio 3.37+."""
    sectors = round(share * 100 * MIB / 512)
    return {"name": name, "read_sectors": sectors, "write_sectors": sectors, **changes}


def imported(
    place: Path,
    kind: str,
    devices: list[dict[str, Any]] | None,
    *,
    runtime_ms: int = 60_000,
    **options: str,
) -> ResultStore:
    """Return a run of 100 MiB reads or writes, with O_DIRECT by default."""
    document = json.loads(GOLDEN.read_text())
    (job,) = document["jobs"]
    other = "write" if kind == "read" else "read"
    job[kind].update(io_bytes=100 * MIB, runtime=runtime_ms)
    job[other] = {"total_ios": 0, "io_bytes": 0, "runtime": 0}
    job["job options"].update({"rw": f"rand{kind}", **options})
    if devices is not None:
        document["disk_util"] = devices
    path = place / "fio.json"
    path.write_text(json.dumps(document))
    return import_files([path], place / "result")


def only(store: ResultStore) -> RunRecord:
    (record,) = store.records()
    return record


def judged(store: ResultStore) -> tuple[str, list[str], set[str]]:
    """Return state, reasons, and the flags about the medium."""
    record = only(store)
    assert record.proof is not None
    kinds = {flag.kind for flag in record.flags}
    of_medium = {"page-cache", "device-bytes", "never-written", "medium-unproven"}
    return record.proof.state, record.proof.reasons, kinds & of_medium


def test_a_file_without_device_counters_proves_nothing(tmp_path: Path) -> None:
    state, reasons, flags = judged(imported(tmp_path, "write", None))
    assert (state, flags) == ("unproven", {"medium-unproven"})
    assert len(reasons) == 1


@pytest.mark.parametrize(
    ("kind", "share", "state", "flags"),
    [
        ("write", 1.01, "proven", set()),
        ("write", 0.5, "contradicted", {"device-bytes"}),
        ("read", 0.5, "contradicted", {"device-bytes"}),
        # A drive may answer reads of unwritten blocks itself; the fio file does not show that.
        ("read", 1.01, "unproven", {"medium-unproven"}),
    ],
)
def test_the_bytes_of_devices_are_compared_with_those_of_the_job(
    tmp_path: Path, kind: str, share: float, state: str, flags: set[str]
) -> None:
    assert judged(imported(tmp_path, kind, [device(share)]))[::2] == (state, flags)


def test_several_devices_count_together(tmp_path: Path) -> None:
    halves = [device(0.5), device(0.5, "nvme1n1")]
    assert judged(imported(tmp_path, "write", halves))[0] == "proven"


@pytest.mark.parametrize(
    ("devices", "options"),
    [
        ([{"name": "sda", "read_ios": 1, "write_ios": 1}], {}),
        ([device(0.0)], {}),
        ([device(1.0, "loop0")], {}),
        ([device(1.0, "dm-0", aggr_write_ios=1), device(1.0)], {}),
        ([device(1.0)], {"ramp_time": "5s"}),
        (["damaged"], {}),
    ],
)
def test_counts_that_are_not_those_of_the_run_decide_nothing(
    tmp_path: Path, devices: list[dict[str, Any]], options: dict[str, str]
) -> None:
    state, reasons, flags = judged(imported(tmp_path, "write", devices, **options))
    assert (state, len(reasons), flags) == ("unproven", 1, {"medium-unproven"})


def test_the_end_of_a_short_run_that_fio_does_not_count_is_no_contradiction(
    tmp_path: Path,
) -> None:
    """Check that 89 % of the sectors, as counted by fio 3.33, does not contradict."""
    short = imported(tmp_path, "read", [device(0.89)], runtime_ms=1000)
    assert judged(short)[::2] == ("unproven", {"medium-unproven"})


def test_jobs_that_share_the_counts_are_not_judged_by_them(tmp_path: Path) -> None:
    document = json.loads((GOLDEN.parent / "two-jobs-3.33.json").read_text())
    document["disk_util"] = [device(1.0)]
    path = tmp_path / "two.json"
    path.write_text(json.dumps(document))
    records = import_files([path], tmp_path / "result").records()
    assert [r.proof and r.proof.state for r in records] == ["unproven", "unproven"]


def test_memory_and_the_page_cache_are_no_medium(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    state, _, flags = judged(imported(tmp_path / "memory", "write", [device(1.0, "ram0")]))
    assert (state, flags) == ("contradicted", {"page-cache"})
    state, _, flags = judged(imported(tmp_path, "write", [device(1.0)], direct="0"))
    assert (state, flags) == ("unproven", {"page-cache"})


def test_a_proof_survives_export_and_import(tmp_path: Path) -> None:
    before = imported(tmp_path, "write", [device(0.5)])
    path = tmp_path / "export.json"
    path.write_bytes(FioJsonExport().content(before, samples=False))
    after = import_files([path], tmp_path / "again")
    assert only(before).proof == only(after).proof
    assert judged(after)[0] == "contradicted"

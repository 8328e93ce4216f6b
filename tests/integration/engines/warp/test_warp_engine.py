"""The real warp against a real S3 server, if both are installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import need_warp
from storlab.engines.warp import records as warp_records
from storlab.engines.warp.engine import WarpEngine
from storlab.engines.warp.run import WarpRun
from storlab.exchange.importer import import_files
from storlab.model.job import WeightedSize
from storlab.model.result import RunOutcome
from storlab.model.s3 import Credentials
from storlab.workloads.object.job import ObjectJob, ObjectMix, ObjectSizes, Pool
from support.s3_servers import S3Server, versitygw

KIB = 1 << 10
OBJECTS = 40
SIZES = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=64 * KIB)])
FOREIGN = "somebody/else.txt"


@pytest.fixture(autouse=True)
def warp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLAB_WARP", str(need_warp()))


@contextmanager
def filled(place: Path, *, tls: bool) -> Iterator[S3Server]:
    """Provide a server with a pool and a foreign object."""
    need_warp()  # before the server starts
    with versitygw(place, tls=tls) as running:
        running.make_bucket()
        running.put(FOREIGN)
        for number in range(OBJECTS):
            running.put(f"storlab-1/pool-2/0000/{number:08x}", bytes(64 * KIB))
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with filled(tmp_path_factory.mktemp("s3"), tls=False) as running:
        yield running


def job(server: S3Server, **changes: Any) -> ObjectJob:
    fields: dict[str, Any] = {
        "store": server.store(),
        "pool": Pool(prefix="storlab-1/pool-2/", objects=OBJECTS, sizes=SIZES),
        "write_prefix": "storlab-1/run-3/",
        "sizes": SIZES,
        "mix": ObjectMix(get=100),
        "concurrency": 4,
        "ramp_ns": 500_000_000,
        "window_ns": 1_500_000_000,
        "interval_ns": 500_000_000,
    }
    return ObjectJob(**{**fields, **changes})


def start(wanted: ObjectJob, tmp_path: Path) -> WarpRun:
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    return WarpEngine().start(wanted, work_dir)


def run(wanted: ObjectJob, tmp_path: Path) -> RunOutcome:
    outcome = start(wanted, tmp_path).wait(120)
    assert outcome is not None
    assert outcome.failure is None, outcome.failure
    assert outcome.status == "finished"
    return outcome


def test_reads_of_the_pool(server: S3Server, tmp_path: Path) -> None:
    before = server.keys()
    outcome = run(job(server), tmp_path)
    assert server.keys() == before
    assert list(outcome.totals) == ["get"]
    get = outcome.totals["get"]
    assert get.bytes == get.operations * 64 * KIB > 0
    assert get.errors == {}
    assert get.latency is not None
    assert get.ttfb is not None
    assert get.ttfb.mean_ns < get.latency.mean_ns
    assert len(outcome.samples) == 3
    assert sum(s.operations for s in outcome.samples) == get.operations
    window_ns = outcome.window_end_ns - outcome.window_start_ns
    assert window_ns == 1_500_000_000
    outstanding = get.operations * get.latency.mean_ns / window_ns
    assert 3 < outstanding < 4.2  # a closed loop of four
    assert outcome.cpu is not None
    assert 0 < outcome.cpu.user_ns < window_ns * outcome.cpu.cores
    assert 0 < (outcome.cpu.machine_busy_percent or 0) <= 100
    assert "warp-summary.json" in outcome.raw
    file = tmp_path / "requests.csv.zst"
    file.write_bytes(outcome.raw["requests.csv.zst"])
    (record,) = import_files([file], tmp_path / "result").records()
    assert record.params["get_percent"] == 100
    assert record.totals["get"].operations >= get.operations  # includes the ramp


def test_a_mix_with_everything_stays_below_its_prefix(server: S3Server, tmp_path: Path) -> None:
    before = set(server.keys())
    mix = ObjectMix(get=40, head=20, put=30, delete=10)
    weighted = ObjectSizes(
        kind="weighted",
        sizes=[WeightedSize(bytes=4 * KIB, weight=70), WeightedSize(bytes=256 * KIB, weight=30)],
    )
    pool = Pool(prefix="storlab-1/pool-2/", objects=OBJECTS, sizes=weighted)
    outcome = run(job(server, mix=mix, pool=pool, sizes=weighted), tmp_path)
    assert list(outcome.totals) == ["get", "put", "head", "delete"]
    total = sum(t.operations for t in outcome.totals.values())
    for kind, percent in (("get", 40), ("put", 30), ("head", 20), ("delete", 10)):
        assert 100 * outcome.totals[kind].operations / total == pytest.approx(percent, abs=8)
    text = warp_records.unpacked(outcome.raw["requests.csv.zst"])
    records = warp_records.read_records(text)
    assert set(records.bytes[records.kind("put")].tolist()) == {4 * KIB, 256 * KIB}
    made = set(server.keys()) - before
    assert before <= set(server.keys())  # no foreign object was removed
    assert made
    assert all(key.startswith("storlab-1/run-3/") for key in made)


def test_uploads_of_drawn_sizes_with_checksums(server: S3Server, tmp_path: Path) -> None:
    uniform = ObjectSizes(kind="uniform", low=1000, high=1003)
    outcome = run(
        job(server, mix=ObjectMix(put=100), pool=None, sizes=uniform, payload="trailer-crc"),
        tmp_path,
    )
    put = outcome.totals["put"]
    assert put.ttfb is None
    assert 1000 * put.operations <= put.bytes <= 1003 * put.operations
    text = warp_records.unpacked(outcome.raw["requests.csv.zst"])
    assert set(warp_records.read_records(text).bytes.tolist()) == {1000, 1001, 1002, 1003}


def test_uploads_in_parts(server: S3Server, tmp_path: Path) -> None:
    large = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=11 << 20)])
    wanted = job(
        server,
        mix=ObjectMix(put=100),
        pool=None,
        sizes=large,
        part_size=5 << 20,
        part_concurrency=4,
        concurrency=1,
        write_prefix="storlab-1/run-parts/",
    )
    outcome = run(wanted, tmp_path)
    assert outcome.totals["put"].operations > 0
    made = [key for key in server.keys() if key.startswith("storlab-1/run-parts/")]  # noqa: SIM118
    key = made[0]
    assert (server.root / "bench" / key).stat().st_size == 11 << 20


def test_ranges(server: S3Server, tmp_path: Path) -> None:
    outcome = run(job(server, range_size=4 * KIB), tmp_path)
    assert outcome.totals["get"].bytes == outcome.totals["get"].operations * 4 * KIB


def test_wrong_keys_fail_with_warps_words_and_without_the_keys(
    server: S3Server, tmp_path: Path
) -> None:
    wrong = Credentials(server.credentials.access_key, "notTheSecretAtAll")
    wanted = job(server, store=server.store(credentials=wrong), mix=ObjectMix(put=100), pool=None)
    outcome = start(wanted, tmp_path).wait(120)
    assert outcome is not None
    assert (outcome.status, outcome.totals) == ("failed", {})
    assert outcome.failure is not None
    assert "Error preparing server" in outcome.failure.message
    assert "keys" in outcome.failure.fix
    kept = [repr(outcome.failure).encode(), *outcome.raw.values()]
    assert not any(b"notTheSecretAtAll" in content for content in kept)


def test_a_missing_pool_and_a_cancelled_run(server: S3Server, tmp_path: Path) -> None:
    pool = Pool(prefix="storlab-1/pool-none/", objects=OBJECTS, sizes=SIZES)
    outcome = start(job(server, pool=pool), tmp_path).wait(120)
    assert outcome is not None
    assert outcome.failure is not None
    assert "missing objects" in outcome.failure.fix
    (tmp_path / "cancelled").mkdir()
    handle = start(job(server, window_ns=600_000_000_000), tmp_path / "cancelled")
    assert handle.wait(1) is None
    handle.cancel()
    outcome = handle.wait(60)
    assert outcome is not None
    assert outcome.status == "cancelled"


def test_tls_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    with filled(tmp_path, tls=True) as secure:
        outcome = run(job(secure, window_ns=500_000_000), tmp_path)
        assert outcome.totals["get"].operations > 0
        (tmp_path / "stranger").mkdir()
        stranger = job(secure, store=secure.store(ca_file=None))
        failed = start(stranger, tmp_path / "stranger").wait(120)
        assert failed is not None
        assert failed.failure is not None
        assert "certificate" in failed.failure.message
        assert "ca_file" in failed.failure.fix


def test_failed_requests_are_errors_and_warps_summary_is_corrected(
    server: S3Server, tmp_path: Path
) -> None:
    for number in range(OBJECTS):
        server.put(f"storlab-1/pool-err/0000/{number:08x}", bytes(64 * KIB))
    pool = Pool(prefix="storlab-1/pool-err/", objects=OBJECTS, sizes=SIZES)
    handle = start(job(server, pool=pool, window_ns=5_000_000_000), tmp_path)
    while handle.snapshot().phase == "prepare":
        assert handle.wait(0.1) is None
    for number in range(0, OBJECTS, 2):
        (server.root / "bench" / f"storlab-1/pool-err/0000/{number:08x}").unlink()
    outcome = handle.wait(120)
    assert outcome is not None
    assert outcome.failure is None
    get = outcome.totals["get"]
    assert get.bytes == get.operations * 64 * KIB
    assert get.errors.keys() == {"NoSuchKey (404)"}
    assert any("warp's own summary" in note for note in outcome.notes)

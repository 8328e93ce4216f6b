"""Device bytes during a run, and the flag for reads that did not reach the device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import need_root
from storlab.base.clock import monotonic_ns
from storlab.base.units import MB
from storlab.contracts.family import Access
from storlab.contracts.registry import FAMILIES, study_class
from storlab.lab.watch import device_bytes
from storlab.lab.watch.device_bytes import DeviceBytes, devices_behind
from storlab.model.job import Member
from storlab.model.result import EngineInfo, OperationTotals, RunOutcome
from storlab.model.study import Target
from storlab.process.counters import CounterWatch
from storlab.stores.devices import Device
from storlab.stores.filesystems import file_system_of, supports_direct

SIZE = 8 << 20
DEVICE = {"read_bytes": 0, "written_bytes": 0, "over_ns": 1_000_000_000, "devices": ["sda"]}


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Return a directory on a disk: memory has no device below it."""
    return disk_path


def members(path: Path) -> Access:
    return Access([Member(path=str(path), name=path.name, kind="file", size=SIZE)])


def on_a_device(place: Path) -> list[Device]:
    devices = devices_behind(Target(name="t", path="f"), members(place / "f"), place)
    if not devices:
        pytest.skip(f"{place} lies on no block device that counts")
    return devices


def test_direct_reads_and_writes_are_counted(tmp_path: Path) -> None:
    devices = on_a_device(tmp_path)
    if not supports_direct(tmp_path):
        pytest.skip(f"O_DIRECT does not work in {tmp_path}")
    path = tmp_path / "f"
    with DeviceBytes(devices) as moved:
        start = monotonic_ns()
        path.write_bytes(os.urandom(SIZE))
        with path.open("rb") as file:
            os.fsync(file.fileno())
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = _aligned(1 << 20)
        while os.preadv(handle, [buffer], _at(handle)):
            os.lseek(handle, 1 << 20, os.SEEK_CUR)
        os.close(handle)
        end = monotonic_ns()
    found = moved.around(start, end)
    assert found is not None
    assert found["read_bytes"] >= SIZE
    assert found["written_bytes"] >= SIZE
    assert found["over_ns"] >= end - start
    assert found["devices"] == [device.name for device in devices]


def _at(handle: int) -> int:
    return os.lseek(handle, 0, os.SEEK_CUR)


def _aligned(size: int) -> memoryview:
    import mmap

    return memoryview(mmap.mmap(-1, size))


def test_the_readings_around_a_window_are_taken_not_those_inside() -> None:
    watch = DeviceBytes([])
    watch._readings += [
        device_bytes.CounterReading(time_ns, (read, 0))
        for time_ns, read in ((10, 100), (20, 200), (30, 300), (40, 400))
    ]
    found = watch.around(15, 35)
    assert found is not None
    assert (found["read_bytes"], found["over_ns"]) == (300, 30)
    exact = watch.around(20, 30)
    assert exact is not None
    assert (exact["read_bytes"], exact["over_ns"]) == (100, 10)
    assert watch.around(5, 35) is None
    assert watch.around(15, 45) is None


def test_memory_networks_and_stores_have_no_device(tmp_path: Path) -> None:
    shm = Path("/dev/shm")
    if shm.is_dir() and file_system_of(shm).in_memory:
        assert devices_behind(Target(name="t", path="f"), members(shm / "f"), tmp_path) == []
    null = Access([Member(path="null:", name="null:", kind="null", size=SIZE)])
    assert devices_behind(Target(name="t", path="null:"), null, tmp_path) == []
    store = Target(name="t", s3="https://s3.example.com/bench")
    assert devices_behind(store, Access(), tmp_path) == []


def test_a_home_and_an_embedded_store_lie_on_the_device_of_their_directory(tmp_path: Path) -> None:
    of_file = on_a_device(tmp_path)
    home = Access(home=tmp_path / "storlab-data")
    assert devices_behind(Target(name="t", directory="."), home, tmp_path) == of_file
    embedded = Target(name="t", s3="embedded:objects")
    assert devices_behind(embedded, Access(), tmp_path) == of_file


@pytest.mark.root
def test_a_loop_device_is_its_own(tmp_path: Path) -> None:
    need_root("losetup")
    image = tmp_path / "image"
    image.write_bytes(os.urandom(SIZE))
    name = subprocess.run(
        ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        target = Target(name="t", path=name)
        access = Access([Member(path=name, name=name, kind="block_device", size=SIZE)])
        subprocess.run(
            ["dd", f"if={name}", "of=/dev/null", "bs=1M", "iflag=direct", "status=none"],
            check=True,
        )
        (device,) = devices_behind(target, access, tmp_path)
        assert f"/dev/{device.name}" == name
    finally:
        subprocess.run(["losetup", "--detach", name], check=True)


def test_a_counter_that_goes_is_read_no_more_and_long_runs_are_thinned_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def read() -> tuple[int, ...]:
        calls.append(1)
        if len(calls) > 3:
            raise OSError
        return (len(calls),)

    with CounterWatch(read, "test") as watch:
        watch._take()
        watch._take()
        watch._take()
        watch._take()
    assert len(calls) == 4
    assert [reading.values for reading in watch.readings] == [(1,), (2,), (3,)]
    monkeypatch.setattr("storlab.process.counters.MOST_READINGS", 4)
    thin = CounterWatch(lambda: (0,), "test")
    for _ in range(9):
        thin._take()
    assert len(thin.readings) <= 5
    times = [reading.time_ns for reading in thin.readings]
    assert times == sorted(times)


def flags(device: object, read: int = 100 * MB, written: int = 0, **given: object) -> list[str]:
    study = study_class().model_validate(
        {
            "study": {"name": "s"},
            "target": [{"name": "t", "path": "f", "size": "1GiB", **given}],
            "workload": [{"kind": "block"}],
        }
    )
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0", backend="uring"),
        window_start_ns=0,
        window_end_ns=1_000_000_000,
        samples=[],
        totals={
            "read": OperationTotals(operations=1, bytes=read),
            "write": OperationTotals(operations=1, bytes=written),
        },
        cpu=None,
        details={"device": device},
    )
    block = FAMILIES["block"]
    point = _point(study.workload[0].values()[0])
    found = block.flags(point, study.target[0], outcome)
    return [flag.kind for flag in found if flag.kind == "device-bytes"]


def _point(params: dict[str, object]):  # type: ignore[no-untyped-def]
    from storlab.model.point import Point

    return Point(
        target="t",
        workload="block",
        workload_index=0,
        kind="block",
        engine="native",
        params=params,
    )


def test_reads_that_a_cache_served_are_flagged() -> None:
    assert flags({**DEVICE, "read_bytes": 40 * MB}) == ["device-bytes"]
    assert flags({**DEVICE, "read_bytes": 89 * MB}) == ["device-bytes"]
    assert flags({**DEVICE, "read_bytes": 91 * MB}) == []
    assert flags({**DEVICE, "read_bytes": 500 * MB}) == []  # others read as well
    assert flags(None) == []
    assert flags(DEVICE, read=0) == []
    assert flags({**DEVICE, "read_bytes": 0}, direct=False) == []  # page-cache already reports that


def test_writes_that_never_came_to_the_device_are_flagged() -> None:
    seen = {**DEVICE, "read_bytes": 100 * MB}
    assert flags({**seen, "written_bytes": 40 * MB}, written=100 * MB) == ["device-bytes"]
    assert flags({**seen, "written_bytes": 89 * MB}, written=100 * MB) == ["device-bytes"]
    assert flags({**seen, "written_bytes": 91 * MB}, written=100 * MB) == []


def test_what_a_device_did_around_the_window_does_not_count_as_of_it() -> None:
    """Check that device bytes before and after the window are not attributed to it."""
    around = {**DEVICE, "over_ns": 2_000_000_000}
    assert flags({**around, "read_bytes": 90 * MB}) == ["device-bytes"]
    assert flags({**around, "read_bytes": 110 * MB}) == []

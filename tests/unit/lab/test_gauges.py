"""Gauges during a run: power from the last readings, and drive temperatures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.contracts.reporter import Gauge
from storlab.lab.run import gauges as gauges_module
from storlab.lab.run.gauges import Gauges
from storlab.lab.watch.device_bytes import MOST_OF_COURSE, DeviceBytes
from storlab.meters import rapl
from storlab.model.power import Reading, SensorInfo
from storlab.model.study import MeterSpec, Target
from storlab.power import metering as metering_module
from storlab.power.metering import Metering
from storlab.process.counters import CounterReading
from storlab.process.temperature import TemperatureWatch, celsius, temperature_files
from storlab.stores.devices import Device
from support.sysfs_trees import RunningCounter, put, rapl_tree, replace

RANGE_UJ = 262_143_328_850


def target(**meter: object) -> Target:
    meters = [MeterSpec.model_validate(meter)] if meter else []
    return Target(name="disk", path="null:", meters=meters)


def test_power_now_is_of_all_parts_also_where_a_counter_wraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rapl, "ROOT", tmp_path)
    counters = rapl_tree(tmp_path, packages=2)
    zones = ["package-0", "package-1"]
    metered = target(kind="rapl", boundary="host", rate_hz=100, zones=zones)
    with (
        RunningCounter(counters[0], 40.0, RANGE_UJ, RANGE_UJ - 1_000_000),
        RunningCounter(counters[1], 20.0, RANGE_UJ),
        Metering([metered, target()], tmp_path) as metering,
    ):
        gauges = Gauges([metered], metering, {})
        readings = metering._meters["disk"][0].thread
        while len(readings.last("rapl:package-1", 0)) < 20:
            sleep_s(0.01)
        for _ in range(1000):  # counters are threads, which a busy machine may delay
            (found,) = gauges()
            if found.value == pytest.approx(60, rel=0.2):
                break
            sleep_s(0.05)
    assert (found.kind, found.target, found.place) == ("power", "disk", "host")
    assert found.value == pytest.approx(60, rel=0.2)
    assert gauges() == []  # the meters are closed


@pytest.mark.parametrize(
    ("sampling", "values", "counter_max", "watts"),
    [
        ("instantaneous", [10.0, 30.0], None, 15.0),
        ("interval_mean", [10.0], None, 5.0),
        ("counter", [100.0, 140.0], 1000.0, 10.0),
        ("counter", [990.0, 30.0], 1000.0, 10.0),
        ("counter", [990.0, 30.0], None, None),
        ("counter", [990.0], 1000.0, None),
        ("counter", [100.0, 140.0, 0.0, 40.0], 1e9, None),  # it was reset
        ("instantaneous", [], None, None),
    ],
)
def test_a_sensor_says_what_its_kind_allows(
    sampling: str, values: list[float], counter_max: float | None, watts: float | None
) -> None:
    unit = "J" if sampling == "counter" else "W"
    info = SensorInfo.model_validate(
        {
            "sensor": "s",
            "kind": "k",
            "description": "",
            "boundary": "wall",
            "unit": unit,
            "sampling": sampling,
            "counter_max": counter_max,
            "share": 0.5,
        }
    )
    readings = [Reading("s", number * 2 * 10**9, value) for number, value in enumerate(values)]
    assert metering_module._watts_now(info, readings) == watts


def disk(root: Path, place: str, value: object) -> Path:
    put(root / "disk" / place, str(value))
    return root / "disk"


@pytest.mark.parametrize(
    "place",
    [
        "device/hwmon3/temp1_input",
        "device/device/hwmon/hwmon1/temp1_input",
        "device/nvme0/hwmon0/temp1_input",
    ],
)
def test_drives_have_their_sensor_in_different_places(tmp_path: Path, place: str) -> None:
    (file,) = temperature_files(disk(tmp_path, place, 41_850)).values()
    assert celsius(file) == 41.85
    replace(file, "none")
    assert celsius(file) is None
    file.unlink()
    assert celsius(file) is None


def test_what_is_made_of_drives_has_those_of_each(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path / f"nvme{number}n1" / "device/hwmon0/temp1_input", 30_000 + number * 1000)
    put(tmp_path / "nvme2n1" / "nvme2n1p1" / "partition", 1)
    slaves = tmp_path / "md0" / "slaves"
    slaves.mkdir(parents=True)
    (slaves / "nvme1n1").symlink_to(tmp_path / "nvme1n1")
    (slaves / "nvme2n1p1").symlink_to(tmp_path / "nvme2n1" / "nvme2n1p1")
    found = temperature_files(tmp_path / "md0")
    assert {name: celsius(file) for name, file in found.items()} == {"nvme1n1": 31, "nvme2n1": 32}
    assert temperature_files(tmp_path / "nothing") == {}


def a_device(root: Path) -> Device:
    """Return a fake device for gauges."""
    sysfs = disk(root, "device/hwmon3/temp1_input", 41_000)
    whole = SimpleNamespace(sysfs=sysfs)
    return cast(Device, SimpleNamespace(name="disk", sysfs=sysfs, whole=whole))


def test_what_devices_moved_is_asked_each_time(tmp_path: Path) -> None:
    device = a_device(tmp_path)
    put(device.sysfs / "stat", "5 0 10 0 5 0 20 0")
    gauges = Gauges([], Metering([], tmp_path), {"a": [device], "b": [device]})
    moved = [g for g in gauges() if g.kind != "temperature"]
    assert moved == [
        Gauge(kind, name, "disk", value)
        for name in "ab"
        for kind, value in (("read", 5120), ("written", 10240))
    ]
    replace(device.sysfs / "stat", "6 0 11 0 5 0 20 0")
    assert gauges()[0] == Gauge("read", "a", "disk", 5632)
    (device.sysfs / "stat").unlink()
    assert [g.kind for g in gauges()] == ["temperature"] * 2


def test_a_drive_is_asked_seldom_and_once_for_all_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges_module, "TEMPERATURE_EVERY_NS", 10**15)
    device = a_device(tmp_path)
    file = temperature_files(device.sysfs)["disk"]
    asked: list[Path] = []

    def ask(place: Path) -> float | None:
        asked.append(place)
        return celsius(place)

    monkeypatch.setattr(gauges_module, "celsius", ask)
    gauges = Gauges([], Metering([], tmp_path), {"a": [device], "b": [device]})
    warm = [Gauge("temperature", name, "disk", 41.0) for name in "ab"]
    assert gauges() == warm  # a device without counters has no other gauges
    replace(file, 50_000)
    assert gauges() == warm
    assert asked == [file]
    gauges._due_ns = monotonic_ns()
    assert gauges()[0].value == 50


def test_counters_along_a_window_are_few() -> None:
    watch = DeviceBytes([])
    watch._readings = [CounterReading(time, (time, 2 * time)) for time in range(0, 5000, 7)]
    found = watch.course(1000, 4000)
    assert 100 < len(found["time_ns"]) <= MOST_OF_COURSE
    assert 1000 <= found["time_ns"][0] < 1010
    assert found["written_bytes"] == [2 * time for time in found["time_ns"]]
    assert watch.course(6000, 7000) == {}


def test_temperatures_along_a_run(tmp_path: Path) -> None:
    file = temperature_files(disk(tmp_path, "device/hwmon3/temp1_input", 41_000))["disk"]
    with TemperatureWatch({"sda": file}) as watch:
        replace(file, 50_000)
    assert [value for _, value in watch.by_drive()["sda"]] == [41, 50]  # at least at both ends
    file.unlink()
    with TemperatureWatch({"sda": file}) as watch:
        pass
    assert watch.by_drive() == {"sda": []}

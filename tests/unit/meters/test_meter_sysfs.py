"""rapl and hwmon on trees laid out like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import MeterError, StudyError
from storlab.meters import hwmon, rapl
from storlab.model.power import Boundary
from storlab.model.study import MeterSpec, Target
from support.sysfs_trees import hwmon_tree, put, rapl_tree

TARGET = Target(name="t", path="null:")


def spec(kind: str, **fields: object) -> MeterSpec:
    return MeterSpec.model_validate({"kind": kind, **fields})


def open_rapl(root: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> rapl.RaplMeter:
    monkeypatch.setattr(rapl, "ROOT", root)
    return rapl.open_meter(spec("rapl", **fields), TARGET)


def test_rapl_finds_packages_and_what_is_inside_but_no_doubles(tmp_path: Path) -> None:
    rapl_tree(tmp_path, packages=2)
    names = sorted(zone.name for zone in rapl.zones(tmp_path))
    assert names == [
        "package-0",
        "package-0/core",
        "package-0/dram",
        "package-1",
        "package-1/core",
        "package-1/dram",
        "psys",
    ]


def test_rapl_adds_packages_and_memory_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter, _ = rapl_tree(tmp_path, packages=2)
    meter = open_rapl(tmp_path, monkeypatch)
    infos = {info.sensor: info for info in meter.describe()}
    assert sorted(infos) == [
        "rapl:package-0",
        "rapl:package-0/dram",
        "rapl:package-1",
        "rapl:package-1/dram",
    ]
    assert {info.whole for info in infos.values()} == {"rapl"}
    assert {info.boundary for info in infos.values()} == {"host"}
    info = infos["rapl:package-0"]
    assert info.counter_max == pytest.approx(262_143.32885)
    assert (info.unit, info.sampling, info.quantum) == ("J", "counter", 1e-6)
    put(counter, 5_000_000)
    readings = {reading.sensor: reading for reading in meter.sample()}
    assert readings["rapl:package-0"].value == 5
    assert meter.describe()[0].clock_uncertainty_ns > 0


def test_rapl_takes_other_zones_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rapl_tree(tmp_path)
    infos = open_rapl(tmp_path, monkeypatch, zones=["psys", "package-0"]).describe()
    assert [info.sensor for info in infos] == ["rapl:psys", "rapl:package-0"]
    assert len({info.whole for info in infos}) == 2  # psys already includes the package
    with pytest.raises(StudyError, match="package-0/core, package-0/dram, psys"):
        open_rapl(tmp_path, monkeypatch, zones=["package-9"])


@pytest.mark.parametrize("boundary", ["device", "enclosure", "wall"])
def test_rapl_is_not_the_power_of_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boundary: Boundary
) -> None:
    rapl_tree(tmp_path)
    with pytest.raises(StudyError, match='boundary = "host"'):
        open_rapl(tmp_path, monkeypatch, boundary=boundary)


def test_rapl_gone_and_rapl_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeterError, match="no RAPL counters"):
        open_rapl(tmp_path, monkeypatch)
    (counter,) = rapl_tree(tmp_path)
    meter = open_rapl(tmp_path, monkeypatch)
    counter.unlink()
    with pytest.raises(MeterError, match="package-0 cannot be read"):
        meter.sample()
    put(counter, "not a number")
    with pytest.raises(MeterError, match="not contain a number"):
        meter.sample()


def test_a_misspelled_field_of_a_meter_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rapl_tree(tmp_path)
    with pytest.raises(StudyError, match='did you mean "zones"'):
        open_rapl(tmp_path, monkeypatch, zone=["package-0"])


def test_rapl_is_discovered(tmp_path: Path) -> None:
    (absent,) = rapl.discover(tmp_path)
    assert not absent.available
    rapl_tree(tmp_path)
    found = rapl.discover(tmp_path)
    assert [sensor.sensor for sensor in found if '"host" }' in sensor.how] == [
        "rapl:package-0",
        "rapl:package-0/dram",
    ]
    assert all(sensor.available for sensor in found)


@pytest.fixture
def chips(tmp_path: Path) -> Path:
    hwmon_tree(
        tmp_path,
        0,
        "acpi_power_meter",
        "ACPI000D:00",
        power1_average=180_500_000,
        power1_input=181_000_000,
        power1_average_interval=1000,
        power1_accuracy="98.5%",
        temp1_input=40_000,
    )
    hwmon_tree(tmp_path, 1, "ina226", "1-0040", power1_input=9_250_000, energy1_input=77_000_000)
    hwmon_tree(tmp_path, 2, "ina226", "1-0041", power1_input=4_000_000, power1_label="slot 2")
    hwmon_tree(tmp_path, 3, "coretemp", "coretemp.0", temp1_input=40_000)
    return tmp_path


def open_hwmon(root: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> hwmon.HwmonMeter:
    monkeypatch.setattr(hwmon, "ROOT", root)
    return hwmon.open_meter(spec("hwmon", **fields), TARGET)


def test_hwmon_prefers_the_average_and_knows_its_interval(
    chips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = open_hwmon(chips, monkeypatch, chip="acpi_power_meter", boundary="host")
    (info,) = meter.describe()
    assert info.sampling == "interval_mean"
    assert info.sensor_interval_ns == 1_000_000_000
    assert info.gain_accuracy == pytest.approx(0.015)
    assert info.boundary == "host"
    (reading,) = meter.sample()
    assert reading.value == pytest.approx(180.5)


def test_hwmon_of_two_equal_chips_needs_the_device(
    chips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StudyError, match="ina226 1-0040, ina226 1-0041"):
        open_hwmon(chips, monkeypatch, chip="ina226")
    meter = open_hwmon(chips, monkeypatch, chip="ina226 1-0040")
    by_unit = {info.unit: info for info in meter.describe()}
    assert by_unit["J"].sampling == "counter"
    assert by_unit["W"].sampling == "instantaneous"
    assert by_unit["J"].whole == by_unit["W"].whole == ""  # two views of the same power
    assert {round(r.value, 6) for r in meter.sample()} == {9.25, 77.0}


def test_hwmon_inputs_by_name_or_label(chips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = open_hwmon(chips, monkeypatch, chip="ina226 1-0041", inputs=["slot 2"])
    assert [round(r.value) for r in labelled.sample()] == [4]
    with pytest.raises(StudyError, match="power1"):
        open_hwmon(chips, monkeypatch, chip="ina226 1-0041", inputs=["power2"])
    with pytest.raises(MeterError, match="acpi_power_meter"):
        open_hwmon(chips, monkeypatch, chip="acpi_power_metre")


def test_hwmon_gone(chips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = open_hwmon(chips, monkeypatch, chip="ina226 1-0041")
    (chips / "class/hwmon/hwmon2/power1_input").unlink()
    with pytest.raises(MeterError, match="cannot be read: No such file"):
        meter.sample()


def test_what_the_study_knows_of_a_sensor_counts(
    chips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = open_hwmon(
        chips,
        monkeypatch,
        chip="ina226 1-0041",
        accuracy_percent=0.5,
        accuracy_w=0.02,
        share=0.25,
        share_rule="1 of 4 drives",
        supply="dc",
        part_of="shelf",
    )
    (info,) = meter.describe()
    assert (info.gain_accuracy, info.offset_accuracy_w) == (0.005, 0.02)
    assert (info.share, info.share_rule, info.supply, info.whole) == (
        0.25,
        "1 of 4 drives",
        "dc",
        "shelf",
    )


def test_hwmon_is_discovered(chips: Path, tmp_path: Path) -> None:
    found = hwmon.discover(chips)
    assert [sensor.sensor for sensor in found] == [
        "hwmon:acpi_power_meter ACPI000D:00:power1",
        "hwmon:ina226 1-0040:energy1",
        "hwmon:ina226 1-0040:power1",
        "hwmon:ina226 1-0041:power1",
    ]
    assert 'chip = "ina226 1-0041"' in found[-1].how
    assert found[0].accuracy == "1.5 %"
    (none,) = hwmon.discover(tmp_path / "nothing")
    assert not none.available

"""The ipmi meter: the real ipmitool against a BMC simulator that speaks RMCP+."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import need_program
from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError, PreflightError, StudyError
from storlab.meters import ipmi
from storlab.model.study import MeterSpec, Target
from support.ports import free_port

SIMULATOR = Path(__file__).parents[2] / "simulators" / "bmc.py"
PASSWORD = "hunter2-of-the-bmc"
TARGET = Target(name="box", path="null:")


class Bmc:
    """A simulator process, and the file that controls its answers."""

    def __init__(self, state: Path) -> None:
        self.port = free_port()
        self._file = state
        self._state: dict[str, Any] = {
            "watts": 220,
            "state": 1,
            "stamp": 1_700_000_000,
            "delay_s": 0,
            "dcmi": True,
            "sensors": {"PS1 Input Power": 120, "PS2 Input Power": 98, "PS3 Input Power": None},
            "password": PASSWORD,
        }
        self.set()
        self.start()

    def set(self, **changes: Any) -> None:
        self._state.update(changes)
        whole = self._file.with_suffix(".new")
        whole.write_text(json.dumps(self._state))
        whole.replace(self._file)

    def start(self) -> None:
        command = [sys.executable, str(SIMULATOR), str(self.port), str(self._file)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Bmc]:
    need_program("ipmitool")
    simulator = Bmc(tmp_path / "bmc.json")
    yield simulator
    simulator.stop()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLAB_TEST_BMC", PASSWORD)


def spec(bmc: Bmc, **more: Any) -> MeterSpec:
    fields = {"host": "127.0.0.1", "port": bmc.port, "user": "metering", "timeout": "4s"}
    return MeterSpec(kind="ipmi", **{**fields, "password_env": "STORLAB_TEST_BMC", **more})


def test_dcmi_readings_follow_the_bmc(bmc: Bmc) -> None:
    meter = ipmi.open_meter(spec(bmc), TARGET)
    before_ns = monotonic_ns()
    [first] = meter.sample()
    bmc.set(watts=305, stamp=1_700_000_001)
    [second] = meter.sample()
    after_ns = monotonic_ns()
    [info] = meter.describe()
    meter.close()
    assert (first.value, second.value) == (220.0, 305.0)
    assert before_ns < first.time_ns < second.time_ns < after_ns
    assert first.sensor == info.sensor == "ipmi:127.0.0.1"
    assert first.sensor_time is not None
    assert first.sensor_time != second.sensor_time
    assert (info.boundary, info.unit, info.sampling) == ("host", "W", "instantaneous")
    assert (info.quantum, info.gain_accuracy) == (1.0, None)
    assert info.clock_uncertainty_ns > 0


def test_a_bmc_that_stands_still_shows_it_by_its_own_stamp(bmc: Bmc) -> None:
    meter = ipmi.open_meter(spec(bmc), TARGET)
    [first], [second] = meter.sample(), meter.sample()
    meter.close()
    assert first.sensor_time == second.sensor_time
    assert first.time_ns < second.time_ns


def test_a_slow_bmc_is_read_and_the_time_it_took_is_uncertainty(bmc: Bmc) -> None:
    meter = ipmi.open_meter(spec(bmc, timeout="10s"), TARGET)
    bmc.set(delay_s=2)
    begin_ns = monotonic_ns()
    [reading] = meter.sample()
    end_ns = monotonic_ns()
    [info] = meter.describe()
    bmc.set(delay_s=0)
    meter.close()
    assert reading.value == 220.0
    assert begin_ns + 10**9 <= reading.time_ns <= end_ns - 10**9  # the midpoint of 2 s or more
    assert info.clock_uncertainty_ns >= 10**9


def test_a_session_that_is_opened_under_a_load_of_many_files(bmc: Bmc) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.enter_context(Path("/dev/null").open("rb"))
        meter = ipmi.open_meter(spec(bmc), TARGET)
        stack.callback(meter.close)
        assert [reading.value for reading in meter.sample()] == [220.0]


def test_sensors_by_name_are_added_up(bmc: Bmc) -> None:
    bmc.set(dcmi=False)
    names = ["PS1 Input Power", "PS2 Input Power"]
    meter = ipmi.open_meter(spec(bmc, sensors=names), TARGET)
    [reading] = meter.sample()
    [info] = meter.describe()
    meter.close()
    assert reading.value == 218.0
    assert info.offset_accuracy_w == 8.0  # the tolerances that both state
    assert all(name in info.description for name in names)


def test_without_dcmi_the_error_names_the_sensors_there_are(bmc: Bmc) -> None:
    bmc.set(dcmi=False)
    with pytest.raises(MeterError) as caught:
        ipmi.open_meter(spec(bmc), TARGET)
    assert "DCMI" in caught.value.what
    assert 'sensors = ["PS1 Input Power", "PS2 Input Power"]' in caught.value.fix


@pytest.mark.parametrize(
    ("name", "what"), [("PS3 Input Power", "no reading in W"), ("PS9", "not found")]
)
def test_a_sensor_without_a_reading_is_an_error_never_zero(bmc: Bmc, name: str, what: str) -> None:
    with pytest.raises(MeterError, match=what):
        ipmi.open_meter(spec(bmc, sensors=["PS1 Input Power", name]), TARGET)


@pytest.mark.parametrize(
    ("change", "what"), [({"state": 0}, "turned off"), ({"watts": 0}, "reports 0 W")]
)
def test_no_measurement_is_an_error_never_zero(bmc: Bmc, change: dict[str, int], what: str) -> None:
    bmc.set(**change)
    with pytest.raises(MeterError, match=what):
        ipmi.open_meter(spec(bmc), TARGET)


def test_wrong_password_is_said_and_not_shown(bmc: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLAB_TEST_BMC", "not-the-password")
    with pytest.raises(MeterError) as caught:
        ipmi.open_meter(spec(bmc), TARGET)
    assert "password is wrong" in caught.value.what
    assert "not-the-password" not in str(caught.value)


def test_unknown_user(bmc: Bmc) -> None:
    with pytest.raises(MeterError, match="does not know this user"):
        ipmi.open_meter(spec(bmc, user="nobody"), TARGET)


def test_nobody_answers() -> None:
    need_program("ipmitool")
    lonely = MeterSpec(
        kind="ipmi",
        host="127.0.0.1",
        port=free_port(),
        timeout="1s",
        user="metering",
        password_env="STORLAB_TEST_BMC",
    )
    with pytest.raises(MeterError, match="does not answer"):
        ipmi.open_meter(lonely, TARGET)


def test_a_bmc_that_comes_back_is_read_in_a_new_session(bmc: Bmc) -> None:
    meter = ipmi.open_meter(spec(bmc, timeout="4s"), TARGET)
    bmc.stop()
    bmc.set(watts=180)
    bmc.start()
    [reading] = meter.sample()
    meter.close()
    assert reading.value == 180.0


def test_a_bmc_that_is_gone_ends_the_meter_with_an_error(bmc: Bmc) -> None:
    meter = ipmi.open_meter(spec(bmc, timeout="1s"), TARGET)
    bmc.stop()
    with pytest.raises(MeterError, match="does not answer"):
        meter.sample()
    meter.close()


def test_the_password_is_on_no_command_line(bmc: Bmc) -> None:
    meter = ipmi.open_meter(spec(bmc), TARGET)
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    meter.close()
    assert any(b"ipmitool" in line for line in lines)
    assert not any(PASSWORD.encode() in line for line in lines)


def test_the_secret_must_be_there(bmc: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORLAB_TEST_BMC")
    with pytest.raises(PreflightError, match="STORLAB_TEST_BMC"):
        ipmi.open_meter(spec(bmc), TARGET)


def test_this_machines_own_bmc_where_there_is_none() -> None:
    need_program("ipmitool")
    with pytest.raises(MeterError, match="no such device"):
        ipmi.open_meter(MeterSpec(kind="ipmi", device=9), TARGET)


def test_fields_are_read_strictly() -> None:
    wrong = {"host": "a", "passwort_env": "X", "port": "623"}
    with pytest.raises(StudyError) as caught:
        ipmi.open_meter(MeterSpec(kind="ipmi", **wrong), TARGET)
    text = str(caught.value)
    assert 'did you mean "password_env"?' in text
    assert "port" in text


def test_a_sensor_is_not_added_twice() -> None:
    with pytest.raises(StudyError, match="a sensor is listed twice"):
        ipmi.open_meter(MeterSpec(kind="ipmi", sensors=["PS1", "PS2", "PS1"]), TARGET)


def test_network_fields_without_host_are_refused() -> None:
    with pytest.raises(StudyError, match="over the network"):
        ipmi.open_meter(MeterSpec(kind="ipmi", user="root"), TARGET)


def test_discovery_says_what_is_missing(tmp_path: Path) -> None:
    [lacking] = ipmi.discover(tmp_path)
    assert not lacking.available
    assert "/dev/ipmi0" in lacking.how
    need_program("ipmitool")
    (tmp_path / "ipmi0").touch()
    [found] = ipmi.discover(tmp_path)
    assert found.available

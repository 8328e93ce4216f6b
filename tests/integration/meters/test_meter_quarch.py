"""The quarch meter against a stand-in for QIS at the level of its text protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simulators.qis import POWERS, RAILS, STATUS, FakeQis, header
from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError, StorlabError, StudyError
from storlab.meters.qis import Channel, parse_header, parse_stripe, power_channels
from storlab.meters.quarch import QuarchMeter, discover, open_meter
from storlab.model.study import MeterSpec, Target

DEVICE = "usb::QTL1847-01-016"


@pytest.fixture
def qis() -> Iterator[FakeQis]:
    server = FakeQis()
    yield server
    server.close()


@pytest.fixture
def opened() -> Iterator[list[QuarchMeter]]:
    meters: list[QuarchMeter] = []
    yield meters
    for meter in meters:
        meter.close()


def _open(qis: FakeQis, **fields: Any) -> QuarchMeter:
    spec = MeterSpec.model_validate({"kind": "quarch", "port": qis.port, "timeout": "2s", **fields})
    return open_meter(spec, Target(name="t", path="null:"))


def _failure(qis: FakeQis, **fields: Any) -> StorlabError:
    with pytest.raises(StorlabError) as found:
        _open(qis, **fields)
    return found.value


def _line(index: int, total_uw: int) -> str:
    """Return a line: time (us) at 100 ms per line, volts, amperes, powers; the total is last."""
    return f"{index * 100_000} 3300 100000 12000 500000 330000 6000000 {total_uw}"


def test_the_total_of_the_module(qis: FakeQis, opened: list[QuarchMeter]) -> None:
    before = monotonic_ns()
    meter = _open(qis)
    opened.append(meter)
    (info,) = meter.describe()
    assert (info.sensor, info.boundary, info.supply) == (f"quarch:{DEVICE}", "device", "dc")
    assert (info.sampling, info.unit, info.sensor_interval_ns) == (
        "interval_mean",
        "W",
        100_000_000,
    )
    assert info.quantum == 1e-6
    assert "XLC Programmable Power Module" in info.description
    assert info.clock_uncertainty_ns >= 100_000_000
    assert meter.sample() == []
    qis.lines = [_line(0, 6_330_000), _line(1, 7_000_000)]
    readings = meter.sample()
    assert [reading.value for reading in readings] == [6.33, 7.0]
    assert readings[1].time_ns - readings[0].time_ns == 100_000_000
    assert before < readings[1].time_ns <= monotonic_ns()
    assert [reading.sensor_time for reading in readings] == ["0", "100000000"]


def test_the_commands_and_that_power_is_never_switched(qis: FakeQis) -> None:
    qis.resample = "10ms"
    meter = _open(qis, period="250ms")
    assert qis.resample == "250000us"
    meter.close()
    assert qis.commands.index("stream mode header v3") < qis.commands.index("rec stream")
    assert qis.commands[-2:] == ["rec stop", "stream mode resample 10ms"]
    assert not [c for c in qis.commands if "run" in c or "power up" in c or "power down" in c]


def test_voltage_times_current_where_the_module_computes_no_power(
    qis: FakeQis, opened: list[QuarchMeter]
) -> None:
    qis.header = header(RAILS)
    qis.refuses = {"stream mode power enable": "FAIL", "stream mode power total enable": "FAIL"}
    meter = _open(qis)
    opened.append(meter)
    qis.lines = ["0 3300 100000 12000 500000"]
    (reading,) = meter.sample()
    assert reading.value == pytest.approx(0.33 + 6.0)
    assert meter.describe()[0].quantum is None
    assert "3V3 + 12V" in meter.describe()[0].description


def test_chosen_rails(qis: FakeQis, opened: list[QuarchMeter]) -> None:
    meter = _open(qis, channels=["12V"])
    opened.append(meter)
    qis.lines = [_line(0, 6_330_000)]
    assert meter.sample()[0].value == 6.0
    assert "not contain 5V" in _failure_of_rails(["5V"])
    assert "only voltage" in _failure_of_rails([], [STATUS, ("12V", "voltage", "mV")])
    assert "not contain any rail" in _failure_of_rails([], [STATUS])


def _failure_of_rails(wanted: list[str], channels: list[tuple[str, str, str]] | None = None) -> str:
    with pytest.raises(MeterError) as found:
        power_channels(parse_header(header(channels or RAILS), "module"), wanted, "module")
    return found.value.what


def test_lines_that_print_the_status_column_too() -> None:
    head = parse_header(header([*RAILS, *POWERS]), "module")
    total = power_channels(head, [], "module")
    assert parse_stripe(_line(3, 5_000_000), head, total).watts == 5.0
    with_status = _line(3, 5_000_000).replace(" ", " 0 ", 1)
    stripe = parse_stripe(with_status, head, total)
    assert (stripe.watts, stripe.time_ns) == (5.0, 300_000_000)
    with pytest.raises(ValueError, match="columns"):
        parse_stripe("0 1 2", head, total)


def test_headers(qis: FakeQis) -> None:
    ns = header(RAILS).replace("<devicePeriod>4us</devicePeriod>", "").replace("100000us", "500ns")
    head = parse_header(ns, "module")
    assert (head.period_ns, head.time_unit_ns) == (500, 1)
    assert head.channels[0] == Channel("3V3", "voltage", 1e-3, 1)
    with pytest.raises(MeterError, match="not of version V3"):
        parse_header("Version: 5\r\nFormat: 15\r\nAverage: 14", "module")
    groups = header(RAILS).replace("<group>", "<groupId>0</groupId><group>", 1)
    groups = groups.replace("<group>current", "<groupId>1</groupId><group>current", 1)
    with pytest.raises(MeterError, match="different sample rates"):
        parse_header(groups, "module")
    with pytest.raises(MeterError, match="period"):
        parse_header(header(RAILS).replace("100000us", "soon"), "module")
    with pytest.raises(MeterError, match="unknown channel"):
        parse_header(header([("12V", "voltage", "parsec")]), "module")


def test_a_header_that_takes_a_while(qis: FakeQis, opened: list[QuarchMeter]) -> None:
    qis.header_delays = 2
    opened.append(_open(qis))
    assert qis.commands.count("stream text header") == 3


def test_means_never_end_after_they_were_fetched(qis: FakeQis, opened: list[QuarchMeter]) -> None:
    meter = _open(qis)
    opened.append(meter)
    # 100 s at once: the stream started earlier.
    qis.lines = [_line(i, 1_000_000) for i in range(1_000)]
    readings = meter.sample()
    assert readings[-1].time_ns <= monotonic_ns()
    qis.lines = [_line(1_000, 2_000_000)]  # the module's clock is fast
    (later,) = meter.sample()
    assert readings[-1].time_ns < later.time_ns <= monotonic_ns()


@pytest.mark.parametrize("status", ["Stopped: User", "Overrun: out of buffer"])
def test_a_stream_that_stops_in_mid_run(
    qis: FakeQis, opened: list[QuarchMeter], status: str
) -> None:
    meter = _open(qis)
    opened.append(meter)
    qis.status, qis.lines = status, [_line(0, 1_000_000)]
    assert len(meter.sample()) == 1  # data that had arrived still counts
    with pytest.raises(MeterError) as found:
        meter.sample()
    assert f"the stream has stopped: {status}" in found.value.what


def test_a_server_that_is_gone_in_mid_run(qis: FakeQis) -> None:
    meter = _open(qis)
    qis.hang_up.set()
    with pytest.raises(MeterError, match="connection is lost"):
        meter.sample()
    meter.close()


def test_a_server_that_hangs_is_not_waited_for(qis: FakeQis) -> None:
    meter = _open(qis, timeout="2s")
    qis.hang.set()
    with pytest.raises(MeterError, match="no answer within 2 s"):
        meter.sample()
    meter.close()


def test_a_damaged_line(qis: FakeQis, opened: list[QuarchMeter]) -> None:
    meter = _open(qis)
    opened.append(meter)
    qis.lines = ["0 1 2 3"]
    with pytest.raises(MeterError, match="malformed"):
        meter.sample()


def test_a_module_that_streams_already_is_left_alone(qis: FakeQis) -> None:
    qis.status = "Running"
    assert "already streaming" in _failure(qis).what
    assert "rec stop" not in qis.commands


def test_what_cannot_be_opened(qis: FakeQis) -> None:
    assert "module usb::other is not connected" in _failure(qis, device="usb::other").what
    qis.resample = "10ms"
    qis.refuses = {"rec stream": "FAIL: 0x28 -Module Not Responding"}
    error = _failure(qis)
    assert "rejects the command 'rec stream'" in error.what
    assert qis.resample == "10ms"
    qis.refuses = {}
    qis.listed.append("2) tcp::QTL1999-02-020 IP:192.0.2.9")
    error = _failure(qis)
    assert "2 modules are connected" in error.what
    assert "tcp::QTL1999-02-020" in error.fix
    qis.listed = []
    assert "no module" in _failure(qis).what
    qis.version = "hello"
    assert "not QIS" in _failure(qis).what


def test_a_failed_opening_stops_the_stream_again(qis: FakeQis) -> None:
    qis.header = "Version: 5\r\nFormat: 15"
    assert "V3" in _failure(qis).what
    assert qis.status == "Stopped: User"


def test_a_greeting_without_a_prompt(qis: FakeQis, opened: list[QuarchMeter]) -> None:
    qis.greeting = b"Quarch Instrument Server"
    opened.append(_open(qis))


def test_nobody_there_and_bad_fields(qis: FakeQis) -> None:
    free = FakeQis()
    free.close()
    assert "no connection" in _failure(free).what
    for fields in ({"port": 0}, {"period": "1ns"}, {"chanels": ["12V"]}):
        assert isinstance(_failure(qis, **fields), StudyError)
    assert qis.commands == []


def test_discovery(qis: FakeQis) -> None:
    (found,) = discover(port=qis.port)
    assert (found.sensor, found.available) == (DEVICE, True)
    qis.listed = []
    (found,) = discover(port=qis.port)
    assert not found.available
    assert "$scan" in found.how
    free = FakeQis()
    free.close()
    (found,) = discover(port=free.port)
    assert not found.available

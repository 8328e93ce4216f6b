"""The snmp meter against Net-SNMP's agent, an independent implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import need_program
from simulators.snmp_agent import Agent
from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError, PreflightError, StudyError
from storlab.meters import snmp
from storlab.model.study import MeterSpec, Target
from support.ports import free_port

TARGET = Target(name="box", path="null:")
COMMUNITY, AUTH, PRIV = "hunter2-community", "hunter2-authentication", "hunter2-privacy"
APC = "1.3.6.1.4.1.318.1.1.26.9.4.3.1.7"
RARITAN = "1.3.6.1.4.1.13742.6"
OTHER = "1.3.6.1.4.1.99999.1"


def raritan(outlet: int, value: int, *, digits: int = 1, valid: int = 1, stamp: int = 1000) -> Any:
    """Configure one outlet of the second unit of a chain."""
    at = f"2.{outlet}.5"
    return {
        f"{RARITAN}.5.4.3.1.4.{at}": ("gauge", value),
        f"{RARITAN}.3.5.4.1.7.{at}": ("gauge", digits),
        f"{RARITAN}.5.4.3.1.2.{at}": ("integer", valid),
        f"{RARITAN}.5.4.3.1.5.{at}": ("gauge", stamp),
    }


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    running = Agent(need_program("snmpd"), tmp_path, free_port(), COMMUNITY, AUTH, PRIV)
    running.set({f"{APC}.7": ("integer", 210), f"{APC}.8": ("integer", 195)})
    yield running
    running.stop()


Open = Callable[..., snmp.SnmpMeter]


@pytest.fixture
def opened(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    for name, value in (("COMMUNITY", COMMUNITY), ("AUTH", AUTH), ("PRIV", PRIV)):
        monkeypatch.setenv(f"STORLAB_TEST_{name}", value)
    meters: list[snmp.SnmpMeter] = []

    def open_it(**more: Any) -> snmp.SnmpMeter:
        fields = {
            "host": "127.0.0.1",
            "port": agent.port,
            "community_env": "STORLAB_TEST_COMMUNITY",
            "timeout": "500ms",
            **more,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        meters.append(snmp.open_meter(MeterSpec(kind="snmp", **given), TARGET))
        return meters[-1]

    yield open_it
    for meter in meters:
        meter.close()


def v3(**more: str) -> dict[str, Any]:
    return {
        "version": "3",
        "community_env": None,
        "user": "metering",
        "auth": "sha256",
        "auth_password_env": "STORLAB_TEST_AUTH",
        "priv_password_env": "STORLAB_TEST_PRIV",
        "mib": "apc-rpdu2",
        "outlets": [7],
        **more,
    }


def test_outlets_of_apc_are_one_sensor(agent: Agent, opened: Open) -> None:
    meter = opened(mib="apc-rpdu2", outlets=[7, 8])
    before_ns = monotonic_ns()
    [first] = meter.sample()
    agent.set({f"{APC}.8": ("integer", 205)})
    [second] = meter.sample()
    after_ns = monotonic_ns()
    [info] = meter.describe()
    assert (first.value, second.value) == (405.0, 415.0)
    assert before_ns < first.time_ns < second.time_ns < after_ns
    assert first.sensor == info.sensor == "snmp:127.0.0.1/7+8"
    assert (info.boundary, info.supply, info.unit) == ("wall", "ac", "W")
    assert (info.sampling, info.quantum, info.gain_accuracy) == ("instantaneous", 1.0, None)
    assert info.clock_uncertainty_ns > 0
    assert "outlets 7, 8" in info.description


def test_outlets_of_raritan_with_their_own_digits_and_stamp(agent: Agent, opened: Open) -> None:
    agent.set(raritan(3, 1234) | raritan(4, 56, digits=0, stamp=1001))
    meter = opened(mib="raritan-pdu2", pdu=2, outlets=[3, 4])
    [reading] = meter.sample()
    assert reading.value == pytest.approx(123.4 + 56)
    assert reading.sensor_time == "1000 1001"
    assert meter.describe()[0].quantum == 1.0  # of the coarser outlet


def test_an_unavailable_reading_is_an_error_never_zero(agent: Agent, opened: Open) -> None:
    agent.set(raritan(3, 100))
    meter = opened(mib="raritan-pdu2", pdu=2, outlets=[3])
    agent.set(raritan(3, 0, valid=2))
    with pytest.raises(MeterError, match="outlet 3 has no valid reading"):
        meter.sample()


def test_minus_one_stands_for_no_metering(agent: Agent, opened: Open) -> None:
    agent.set({f"{APC}.8": ("integer", -1)})
    with pytest.raises(MeterError, match=r"outlet 8 has no valid reading \(-1\)"):
        opened(mib="apc-rpdu2", outlets=[7, 8])


def test_a_pdu_that_stands_still_shows_it_by_its_own_stamp(agent: Agent, opened: Open) -> None:
    agent.set(raritan(3, 100))
    meter = opened(mib="raritan-pdu2", pdu=2, outlets=[3])
    [first], [second] = meter.sample(), meter.sample()
    assert first.sensor_time == second.sensor_time
    agent.set(raritan(3, 100, stamp=1003))
    assert meter.sample()[0].sensor_time != second.sensor_time


def test_any_object_with_scale_and_unit(agent: Agent, opened: Open) -> None:
    agent.set({f"{OTHER}.0": ("gauge", 1234)})
    meter = opened(oid=f".{OTHER}.0", scale=0.1, unit="W")
    assert meter.sample()[0].value == pytest.approx(123.4)
    assert meter.describe()[0].quantum == pytest.approx(0.1)
    agent.set({f"{OTHER}.0": ("string", "98.5")})
    assert meter.sample()[0].value == pytest.approx(9.85)
    agent.set({f"{OTHER}.0": ("string", "off")})
    with pytest.raises(MeterError, match="is not a number"):
        meter.sample()


def test_an_energy_counter_and_where_it_wraps(agent: Agent, opened: Open) -> None:
    last = 2**32 - 1
    agent.set({f"{OTHER}.1": ("counter", last), f"{OTHER}.2": ("counter", 10)})
    meter = opened(oid=OTHER, outlets=[1, 2], unit="Wh")
    [before] = meter.sample()
    agent.set({f"{OTHER}.1": ("counter", 4)})  # 5 Wh later
    [after] = meter.sample()
    [info] = meter.describe()
    assert info.counter_max is not None
    assert (info.sampling, info.unit, info.quantum) == ("counter", "J", 3600.0)
    assert info.counter_max == last * 3600.0
    assert (after.value - before.value) % (info.counter_max + 3600.0) == 5 * 3600.0


def test_a_gauge_of_energy_is_not_said_to_wrap(agent: Agent, opened: Open) -> None:
    agent.set({f"{OTHER}.1": ("gauge", 7)})
    [info] = opened(oid=f"{OTHER}.1", unit="kWh", scale=0.1).describe()
    assert (info.sampling, info.counter_max) == ("counter", None)
    assert info.quantum == pytest.approx(360_000)


def test_version_3_with_authentication_and_privacy(opened: Open) -> None:
    assert opened(**v3()).sample()[0].value == 210.0


@pytest.mark.parametrize(
    ("secret", "change", "what"),
    [
        ("AUTH", {}, "authentication password or its algorithm is wrong"),
        ("PRIV", {}, "user or password is wrong"),
        ("", {"user": "nobody"}, "does not know this user"),
        ("", {"auth": "sha512"}, "authentication password or its algorithm is wrong"),
    ],
)
def test_wrong_version_3_credentials_are_said_and_not_shown(
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
    secret: str,
    change: dict[str, str],
    what: str,
) -> None:
    if secret:
        monkeypatch.setenv(f"STORLAB_TEST_{secret}", "not-the-password")
    with pytest.raises(MeterError, match=what) as caught:
        opened(**v3(**change))
    assert "not-the-password" not in str(caught.value)


def test_wrong_community_is_a_silence_that_is_explained(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORLAB_TEST_COMMUNITY", "not-the-community")
    with pytest.raises(MeterError, match="or the community is wrong") as caught:
        opened(mib="apc-rpdu2", outlets=[7])
    assert "not-the-community" not in str(caught.value)


def test_an_agent_that_is_gone(agent: Agent, opened: Open) -> None:
    meter = opened(mib="apc-rpdu2", outlets=[7])
    agent.stop()
    with pytest.raises(MeterError, match="no answer within 1 s"):
        meter.sample()
    agent.start()
    for _ in range(20):  # a busy machine may answer slowly
        with suppress(MeterError):
            assert meter.sample()[0].value == 210.0
            return
    pytest.fail("the agent that is back is not heard")


def test_an_outlet_that_is_not_there(opened: Open) -> None:
    with pytest.raises(MeterError, match="no such object") as caught:
        opened(mib="apc-rpdu2", outlets=[7, 99])
    assert f"{APC}.99" in caught.value.where


def test_an_outlet_that_disappears(agent: Agent, opened: Open) -> None:
    meter = opened(mib="apc-rpdu2", outlets=[7, 8])
    agent.set({f"{APC}.8": None})
    with pytest.raises(MeterError, match="no such object"):
        meter.sample()


def test_more_outlets_than_fit_in_one_packet(agent: Agent, opened: Open) -> None:
    outlets = list(range(1, 49))
    agent.set({f"{APC}.{outlet}": ("integer", outlet) for outlet in outlets})
    meter = opened(mib="apc-rpdu2", outlets=outlets, timeout="5s")
    assert meter.sample()[0].value == sum(outlets)


def test_a_slow_agent_is_read_and_the_time_it_took_is_uncertainty(
    agent: Agent, opened: Open
) -> None:
    meter = opened(mib="apc-rpdu2", outlets=[7], timeout="10s")
    agent.set({}, delay_s=2)
    begin_ns = monotonic_ns()
    [reading] = meter.sample()
    end_ns = monotonic_ns()
    assert reading.value == 210.0
    assert begin_ns + 10**9 <= reading.time_ns <= end_ns - 10**9
    assert meter.describe()[0].clock_uncertainty_ns >= 10**9


def test_a_name_without_an_address(opened: Open) -> None:
    with pytest.raises(MeterError, match="cannot be reached"):
        opened(host="nowhere.invalid", mib="apc-rpdu2", outlets=[7])


def test_the_secret_must_be_there(opened: Open) -> None:
    with pytest.raises(PreflightError, match="STORLAB_TEST_NONE"):
        opened(community_env="STORLAB_TEST_NONE", mib="apc-rpdu2", outlets=[7])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mib": "apc-rpdu2", "outlets": [7]}, "needs community_env"),
        ({"community": "public", "mib": "apc-rpdu2"}, "community is a secret"),
        ({"community_env": "C", "mib": "apc_rpdu2"}, 'did you mean "apc-rpdu2"'),
        ({"community_env": "C", "mib": "apc-rpdu2"}, "outlets is missing"),
        ({"community_env": "C", "mib": "apc-rpdu2", "outlets": [7, 7]}, "twice"),
        ({"community_env": "C", "mib": "apc-rpdu2", "outlets": [7], "scale": 2.0}, "its own unit"),
        ({"community_env": "C", "oid": "1.2.3"}, "unit of the oid"),
        ({"community_env": "C", "oid": "1.2.x", "unit": "W"}, "oid"),
        ({"community_env": "C"}, "either a mib"),
        ({"version": "3", "mib": "apc-rpdu2", "outlets": [7]}, "needs user"),
        ({"version": "3", "user": "u", "community_env": "C", "oid": "1.2"}, "not for version"),
        ({"version": "3", "user": "u", "priv_password_env": "P"}, "needs authentication"),
    ],
)
def test_fields_are_read_strictly(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message) as caught:
        snmp.open_meter(MeterSpec.model_construct(kind="snmp", host="pdu", **fields), TARGET)
    assert "public" not in str(caught.value)

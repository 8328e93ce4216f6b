"""Shared parts of network meters: pages, missing libraries, value formats."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from storlab.base.errors import MeterError
from storlab.meters import redfish, snmp
from storlab.meters.ipmi import IpmiOptions
from storlab.meters.ipmitool import Connection, login_error
from storlab.meters.options import MeterOptions
from storlab.meters.redfish import RedfishOptions
from storlab.meters.redfish_sources import duration_ns, find_source, read_value
from storlab.meters.snmp import SnmpOptions
from storlab.model.study import MeterSpec, Target

PAGES = Path(__file__).parents[3] / "docs" / "meters"
TARGET = Target(name="box", path="null:")


@pytest.mark.parametrize(
    ("kind", "options"),
    [("ipmi", IpmiOptions), ("redfish", RedfishOptions), ("snmp", SnmpOptions)],
)
def test_the_page_of_a_meter_explains_every_field(kind: str, options: type[MeterOptions]) -> None:
    page = (PAGES / f"{kind}.md").read_text()
    common = set(MeterOptions.model_fields) - {"boundary"}
    missing = [f for f in options.model_fields if f not in common and f"`{f}`" not in page]
    assert not missing


@pytest.mark.parametrize(
    ("module", "library", "fields"),
    [
        (redfish, "httpx", {"url": "https://bmc"}),
        (snmp, "pysnmp", {"host": "p", "version": "3", "user": "u", "oid": "1.2", "unit": "W"}),
    ],
)
def test_without_its_library_a_meter_says_what_to_install(
    module: ModuleType, library: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)  # type: ignore[arg-type]
    kind = module.__name__.rsplit(".", 1)[-1]
    monkeypatch.delitem(sys.modules, f"storlab.meters.{kind}_client", raising=False)
    [found] = module.discover()
    assert not found.available
    assert 'pip install "storlab[power]"' in found.how
    with pytest.raises(MeterError) as caught:
        module.open_meter(MeterSpec(kind=kind, **fields), TARGET)
    assert library in caught.value.what
    assert 'pip install "storlab[power]"' in caught.value.fix


@pytest.mark.parametrize("module", [redfish, snmp])
def test_discovery_with_the_library(module: ModuleType) -> None:
    [found] = module.discover()
    assert found.available
    assert "_env" in found.how


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT4S", 4),
        ("PT0.5S", 0.5),
        ("PT1M30S", 90),
        ("P1DT1H", 90_000),
        ("4S", None),
        ("", None),
        (4, None),
        (None, None),
    ],
)
def test_durations_of_redfish(text: object, seconds: float | None) -> None:
    assert duration_ns(text) == (None if seconds is None else round(seconds * 10**9))


@pytest.mark.parametrize(
    ("resource", "quantity"),
    [
        ({}, "power"),
        ({"PowerWatts": {"Reading": None}}, "power"),
        ({"PowerWatts": {"Reading": True}}, "power"),
        ({"PowerWatts": {"Reading": "300"}}, "power"),
        ({"PowerWatts": {"Reading": 300}}, "energy"),
        ({"PowerWatts": {"Reading": 300}}, "average"),
        ({"PowerControl": []}, "power"),
        ({"PowerControl": [{"PowerMetrics": {"AverageConsumedWatts": 3}}]}, "average"),
        ({"PowerControl": [{"PowerMetrics": None}]}, "average"),
        ({"ReadingType": "Temperature", "Reading": 40}, "power"),
        ({"ReadingType": "Power", "AverageReading": 40}, "average"),
    ],
)
def test_resources_without_the_quantity(resource: dict[str, Any], quantity: Any) -> None:
    assert read_value(resource, quantity) is None


@pytest.mark.parametrize(
    ("number", "step"),
    [(300, 1.0), (Decimal("300.5"), 0.1), (Decimal("300.50"), 0.01), (Decimal("3E+2"), 1.0)],
)
def test_the_step_is_the_last_digit_that_is_printed(number: Any, step: float) -> None:
    value = read_value({"PowerWatts": {"Reading": number}}, "power")
    assert value is not None
    assert value.step == pytest.approx(step)


def test_collections_of_several_pages_that_even_run_in_circles() -> None:
    pages: dict[str, dict[str, Any]] = {
        "/": {"Chassis": {"@odata.id": "/c"}},
        "/c": {"Members": [{"@odata.id": "/c/a"}], "Members@odata.nextLink": "/c2"},
        "/c2": {"Members": [{"@odata.id": "/c/b"}], "Members@odata.nextLink": "/c"},
        "/c/a": {},
        "/c/b": {"Power": {"@odata.id": "/c/b/p"}},
        "/c/b/p": {"PowerControl": [{"PowerConsumedWatts": 5}]},
    }
    assert find_source(pages.__getitem__, "/", "power", None).paths == ("/c/b/p",)
    with pytest.raises(MeterError, match="chassis: a, b"):
        find_source(pages.__getitem__, "/", "energy", None)


def test_what_ipmitool_says_last_is_repeated_without_the_password() -> None:
    connection = Connection(host="bmc", password="hunter2")
    error = login_error(connection, "some new words about hunter2\n")
    assert 'the message "some new words about ***"' in error.what
    assert "hunter2" not in repr(connection)


def test_options_of_ipmitool_never_hold_the_password() -> None:
    connection = Connection(host="bmc", user="u", password="hunter2", cipher_suite=17)
    assert "hunter2" not in " ".join(connection.arguments())
    assert connection.environment()["IPMI_PASSWORD"] == "hunter2"
    local = Connection(device=2)
    assert local.arguments()[-2:] == ["-d", "2"]
    assert "IPMI_PASSWORD" not in local.environment()

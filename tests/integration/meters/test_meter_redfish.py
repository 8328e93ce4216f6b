"""The redfish meter against a service over real HTTPS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from simulators.redfish import SESSIONS, Service, collection, link, tree
from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError, StudyError
from storlab.meters import redfish
from storlab.model.study import MeterSpec, Target

PASSWORD = "hunter2-of-the-service"
TARGET = Target(name="box", path="null:")
SENSOR = {
    "@odata.type": "#Sensor.v1_9_0.Sensor",
    "ReadingType": "Power",
    "ReadingUnits": "W",
    "Reading": 341.5,
    "ReadingTime": "2026-11-20T10:00:00Z",
    "Accuracy": 2,
    "SensingInterval": "PT4S",
    "AverageReading": 340,
    "AveragingInterval": "PT30S",
}


def newest() -> dict[str, Any]:
    """Return EnvironmentMetrics that refer to a Sensor, with counters."""
    resources = tree(one={"EnvironmentMetrics": link("/Chassis/one/EnvironmentMetrics")})
    resources["/Chassis/one/EnvironmentMetrics"] = {
        "PowerWatts": {
            "Reading": 341.5,
            "DataSourceUri": "/redfish/v1/Chassis/one/Sensors/TotalPower",
        },
        "EnergykWh": {"Reading": 12.25},
    }
    resources["/Chassis/one/Sensors/TotalPower"] = dict(SENSOR)
    return resources


def supplies() -> dict[str, Any]:
    """Return two supplies that report their input, and an empty bay."""
    at = "/Chassis/one/PowerSubsystem"
    resources = tree(one={"PowerSubsystem": link(at)})
    resources[at] = {"PowerSupplies": link(f"{at}/PowerSupplies")}
    bays = [f"{at}/PowerSupplies/{number}" for number in range(3)]
    resources[f"{at}/PowerSupplies"] = collection(*bays)
    for bay, watts in zip(bays, (170, 160.5, None), strict=True):
        state = "Absent" if watts is None else "Enabled"
        resources[bay] = {
            "Status": {"State": state},
            "InputNominalVoltageType": "AC240V",
            "Metrics": link(f"{bay}/Metrics"),
        }
        resources[f"{bay}/Metrics"] = {
            "InputPowerWatts": {"Reading": watts},
            "OutputPowerWatts": {"Reading": 150},
        }
    return resources


def legacy(**control: Any) -> dict[str, Any]:
    resources = tree(one={"Power": link("/Chassis/one/Power")}, backplane={})
    metrics = {"AverageConsumedWatts": 300, "IntervalInMin": 2}
    fields = {"PowerConsumedWatts": 330, "PowerMetrics": metrics, **control}
    resources["/Chassis/one/Power"] = {"PowerControl": [fields]}
    return resources


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


Serve = Callable[[dict[str, Any]], Service]


@pytest.fixture
def serve(authority: trustme.CA) -> Iterator[Serve]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    running: list[Service] = []

    def start(resources: dict[str, Any]) -> Service:
        running.append(Service(resources, PASSWORD, tls))
        return running[-1]

    yield start
    for service in running:
        service.stop()


@pytest.fixture
def opened(ca_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    monkeypatch.setenv("STORLAB_TEST_REDFISH", PASSWORD)
    meters: list[redfish.RedfishMeter] = []

    def open_it(service: Service, path: str = "", **more: Any) -> redfish.RedfishMeter:
        fields = {
            "url": service.url + path,
            "user": "metering",
            "password_env": "STORLAB_TEST_REDFISH",
            "ca": str(ca_file),
            **more,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        meters.append(redfish.open_meter(MeterSpec(kind="redfish", **given), TARGET))
        return meters[-1]

    yield open_it
    for meter in meters:
        meter.close()


Open = Callable[..., redfish.RedfishMeter]


def test_the_sensor_behind_environment_metrics(serve: Serve, opened: Open) -> None:
    service = serve(newest())
    meter = opened(service)
    before_ns = monotonic_ns()
    [first] = meter.sample()
    service.resources["/Chassis/one/Sensors/TotalPower"] |= {
        "Reading": 350,
        "ReadingTime": "2026-11-20T10:00:04Z",
    }
    [second] = meter.sample()
    after_ns = monotonic_ns()
    [info] = meter.describe()
    assert (first.value, second.value) == (341.5, 350.0)
    assert before_ns < first.time_ns < second.time_ns < after_ns
    assert (first.sensor_time, second.sensor_time) == (
        "2026-11-20T10:00:00Z",
        "2026-11-20T10:00:04Z",
    )
    assert first.sensor == info.sensor == "redfish:localhost/Chassis/one/Sensors/TotalPower"
    assert (info.boundary, info.unit, info.sampling) == ("host", "W", "instantaneous")
    assert (info.gain_accuracy, info.quantum) == (0.02, 0.1)
    assert info.clock_uncertainty_ns > 2_000_000_000  # half of the sensor's own 4 s, plus the read


def test_average_of_a_sensor_is_a_mean_over_its_interval(serve: Serve, opened: Open) -> None:
    meter = opened(serve(newest()), quantity="average")
    [info] = meter.describe()
    assert meter.sample()[0].value == 340.0
    assert (info.sampling, info.sensor_interval_ns) == ("interval_mean", 30_000_000_000)


def test_energy_is_a_counter_in_joules(serve: Serve, opened: Open) -> None:
    meter = opened(serve(newest()), quantity="energy")
    [info] = meter.describe()
    assert meter.sample()[0].value == 12.25 * 3_600_000
    assert (info.sampling, info.unit) == ("counter", "J")
    assert info.quantum == pytest.approx(36_000)  # 0.01 kWh, the last digit printed


def test_an_excerpt_without_its_sensor(serve: Serve, opened: Open) -> None:
    resources = newest()
    del resources["/Chassis/one/EnvironmentMetrics"]["PowerWatts"]["DataSourceUri"]
    [reading] = opened(serve(resources)).sample()
    assert (reading.value, reading.sensor_time) == (341.5, None)


def test_inputs_of_the_supplies_are_added_up(serve: Serve, opened: Open) -> None:
    meter = opened(serve(supplies()))
    [info] = meter.describe()
    assert meter.sample()[0].value == 330.5
    assert info.supply == "ac"
    assert "2 power supplies" in info.description


def test_a_supply_that_reports_nothing_makes_the_sum_unknown(serve: Serve, opened: Open) -> None:
    service = serve(supplies())
    meter = opened(service)
    bay = "/Chassis/one/PowerSubsystem/PowerSupplies/1/Metrics"
    service.resources[bay]["InputPowerWatts"]["Reading"] = None
    with pytest.raises(MeterError, match="null or missing"):
        meter.sample()


def test_legacy_power(serve: Serve, opened: Open) -> None:
    service = serve(legacy())
    now, mean = opened(service), opened(service, quantity="average")
    assert now.sample()[0].value == 330.0
    assert mean.sample()[0].value == 300.0
    assert now.describe()[0].sampling == "instantaneous"
    assert mean.describe()[0].sensor_interval_ns == 120_000_000_000


def test_legacy_power_that_only_has_a_mean_is_said_to_be_one(serve: Serve, opened: Open) -> None:
    meter = opened(serve(legacy(PowerConsumedWatts=None)))
    assert meter.describe()[0].sampling == "interval_mean"


def test_a_present_value_never_turns_silently_into_a_mean(serve: Serve, opened: Open) -> None:
    service = serve(legacy())
    meter = opened(service)
    service.resources["/Chassis/one/Power"]["PowerControl"][0]["PowerConsumedWatts"] = None
    with pytest.raises(MeterError, match="no longer"):
        meter.sample()


def test_an_explicit_resource(serve: Serve, opened: Open) -> None:
    service = serve(newest())
    meter = opened(service, "/redfish/v1/Chassis/one/EnvironmentMetrics", auth="basic")
    assert meter.sample()[0].value == 341.5
    assert service.logins == 0


def test_several_chassis_need_a_choice(serve: Serve, opened: Open) -> None:
    resources = tree(a={"Power": link("/Chassis/a/Power")}, b={"Power": link("/Chassis/b/Power")})
    for name, watts in (("a", 100), ("b", 200)):
        resources[f"/Chassis/{name}/Power"] = {"PowerControl": [{"PowerConsumedWatts": watts}]}
    service = serve(resources)
    with pytest.raises(MeterError, match="several chassis") as caught:
        opened(service)
    assert "a, b" in caught.value.what
    assert opened(service, chassis="b").sample()[0].value == 200.0
    with pytest.raises(MeterError, match="chassis c has no power"):
        opened(service, chassis="c")


def test_a_null_sensor_is_not_measured(serve: Serve, opened: Open) -> None:
    service = serve(newest())
    meter = opened(service)
    service.resources["/Chassis/one/Sensors/TotalPower"]["Reading"] = None
    with pytest.raises(MeterError, match="null or missing"):
        meter.sample()


def test_a_sensor_that_disappears(serve: Serve, opened: Open) -> None:
    service = serve(newest())
    meter = opened(service)
    del service.resources["/Chassis/one/Sensors/TotalPower"]
    with pytest.raises(MeterError, match="404"):
        meter.sample()


def test_a_service_that_is_gone(serve: Serve, opened: Open) -> None:
    service = serve(newest())
    meter = opened(service)
    service.stop()
    with pytest.raises(MeterError, match="cannot be reached"):
        meter.sample()


def test_a_slow_service_is_read_and_the_time_it_took_is_uncertainty(
    serve: Serve, opened: Open
) -> None:
    service = serve(legacy())
    meter = opened(service)
    service.delay_s = 2
    begin_ns = monotonic_ns()
    [reading] = meter.sample()
    end_ns = monotonic_ns()
    assert begin_ns + 10**9 <= reading.time_ns <= end_ns - 10**9
    assert meter.describe()[0].clock_uncertainty_ns >= 10**9
    service.delay_s = 0


def test_a_service_slower_than_the_timeout(serve: Serve, opened: Open) -> None:
    service = serve(legacy())
    meter = opened(service, timeout="2s")
    service.delay_s = 4
    with pytest.raises(MeterError, match="no answer within 2 s"):
        meter.sample()
    service.delay_s = 0


@pytest.mark.parametrize("auth", ["session", "basic"])
def test_wrong_password_is_said_and_not_shown(
    serve: Serve, opened: Open, monkeypatch: pytest.MonkeyPatch, auth: str
) -> None:
    service = serve(newest())
    monkeypatch.setenv("STORLAB_TEST_REDFISH", "not-the-password")
    with pytest.raises(MeterError, match="rejects this user") as caught:
        opened(service, auth=auth)
    assert "not-the-password" not in str(caught.value)


def test_no_user_where_one_is_needed(serve: Serve, opened: Open) -> None:
    with pytest.raises(MeterError, match="requires a user"):
        opened(serve(newest()), user=None, password_env=None)


def test_a_session_that_ended_is_renewed_and_the_last_one_closed(
    serve: Serve, opened: Open
) -> None:
    service = serve(newest())
    meter = opened(service)
    service.tokens.clear()
    assert meter.sample()[0].value == 341.5
    assert service.logins == 2
    meter.close()
    assert service.tokens == set()
    assert service.requests[-1] == ("DELETE", SESSIONS.removeprefix("/redfish/v1") + "/2")


def test_a_certificate_of_an_unknown_ca_is_refused(serve: Serve, opened: Open) -> None:
    service = serve(newest())
    with pytest.raises(MeterError, match="certificate is not trusted") as caught:
        opened(service, ca=None)
    assert "ca = " in caught.value.fix
    assert service.requests == []  # the password was not sent
    assert opened(service, ca=None, insecure=True).sample()[0].value == 341.5


def test_a_ca_file_that_is_none(serve: Serve, opened: Open, tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="cannot be read"):
        opened(serve(newest()), ca=str(tmp_path / "none.pem"))


def test_a_link_to_elsewhere_is_not_followed(serve: Serve, opened: Open) -> None:
    elsewhere = serve(newest())
    resources = newest()
    resources["/Chassis"] = {"Members": [{"@odata.id": f"{elsewhere.url}/redfish/v1/Chassis/one"}]}
    with pytest.raises(MeterError, match="a link to another host"):
        opened(serve(resources))
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "http://bmc"}, "unencrypted"),
        ({"url": "https://root:calvin@bmc"}, "password in its address"),
        ({"url": "https://bmc", "password": "calvin"}, "is a secret"),
        ({"url": "https://bmc", "user": "root"}, "only one of"),
        ({"url": "https://bmc:99999"}, "Port"),
        ({"url": "bmc"}, "url"),
        ({"url": "https://bmc", "quantity": "watts"}, "power, average, energy"),
        ({}, "url is missing"),
    ],
)
def test_fields_are_read_strictly(fields: dict[str, str], message: str) -> None:
    with pytest.raises(StudyError, match=message) as caught:
        redfish.open_meter(MeterSpec.model_construct(kind="redfish", **fields), TARGET)
    assert "calvin" not in str(caught.value)

"""Meters read after a run: declared power, and logged traces."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.errors import MeterError, StudyError
from storlab.contracts.registry import METERS
from storlab.meters import csv, declared, hwmon, rapl
from storlab.meters.options import MeterOptions
from storlab.model.power import Reading
from storlab.model.result import EngineInfo, Operation, OperationTotals, RunOutcome, Sample
from storlab.model.study import MeterSpec, Target

PAGES = Path(__file__).parents[3] / "docs" / "meters"
S = 1_000_000_000
TARGET = Target(name="t", path="null:")


def outcome(
    start_ns: int = 10 * S, *, samples: bool = True, kinds: tuple[str, str] = ("read", "write")
) -> RunOutcome:
    """Return two intervals of 1 s: 1 GB read, then 2 GB written."""
    moved: list[tuple[Operation, int]] = [(kinds[0], 10**9), (kinds[1], 2 * 10**9)]
    rows = [
        Sample(i, start_ns + i * S, start_ns + (i + 1) * S, operation, 1, size, b"")
        for i, (operation, size) in enumerate(moved)
    ]
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        window_start_ns=start_ns,
        window_end_ns=start_ns + 2 * S,
        samples=rows if samples else [],
        totals={operation: OperationTotals(operations=1, bytes=size) for operation, size in moved},
        cpu=None,
    )


def open_declared(**fields: object) -> declared.DeclaredMeter:
    spec = MeterSpec.model_validate({"kind": "declared", "idle_watts": 5, **fields})
    return declared.open_meter(spec, TARGET)


@pytest.mark.parametrize("kinds", [("read", "write"), ("get", "put")])
def test_declared_energy_follows_the_bytes(kinds: tuple[str, str]) -> None:
    meter = open_declared(joules_per_gb_read=0.5, joules_per_gb_written=1.5, source="data sheet")
    readings = meter.after_run(outcome(kinds=kinds))
    assert [(r.time_ns, r.value) for r in readings] == [
        (10 * S, 0.0),
        (11 * S, pytest.approx(5 + 0.5)),
        (12 * S, pytest.approx(10 + 0.5 + 3)),
    ]
    (info,) = meter.describe()
    assert (info.provenance, info.sampling) == ("declared", "counter")
    assert "data sheet" in info.description
    assert meter.idle_w() == 5
    assert meter.sample() == []


def test_declared_energy_without_samples_comes_from_the_totals() -> None:
    meter = open_declared(joules_per_byte=1e-9)
    readings = meter.after_run(outcome(samples=False))
    assert [r.value for r in readings] == [0.0, pytest.approx(10 + 3)]


@pytest.mark.parametrize("counted", [True, False])
def test_declared_energy_of_stages_is_that_of_what_the_device_moved(counted: bool) -> None:
    run = outcome(kinds=("ingest", "encode"))
    moved = {"device_read_bytes": 10**9, "device_written_bytes": 4 * 10**9}
    run.details["stages"] = [
        {
            "start_ns": 10 * S,
            "end_ns": 11.5 * S,
            "input_bytes": 10**9,
            "output_bytes": 2 * 10**9,
            **(moved if counted else dict.fromkeys(moved)),
        }
    ]
    meter = open_declared(joules_per_gb_read=2, joules_per_gb_written=1)
    bytes_j = 6 if counted else 4
    assert [(r.time_ns, r.value) for r in meter.after_run(run)] == [
        (10 * S, 0.0),
        (11 * S, pytest.approx(5 + bytes_j * 2 / 3)),
        (11.5 * S, pytest.approx(7.5 + bytes_j)),
        (12 * S, pytest.approx(10 + bytes_j)),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "energy of the bytes is missing"),
        ({"joules_per_gb_read": 1}, "energy of the bytes is missing"),
        ({"joules_per_byte": 1, "joules_per_gb_read": 1}, "both state the energy"),
        ({"joules_per_byte": -1}, "at least 0, not -1"),
        ({"joules_per_byte": 1, "idle_watt": 3}, "idle_watts"),
        ({"joules_per_byte": 1, "share": 0.5}, "share_rule"),
        ({"joules_per_byte": 1, "rate_hz": 0}, "rate_hz"),
    ],
)
def test_a_declaration_that_does_not_say_enough(fields: dict[str, object], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        open_declared(**fields)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("csv", csv.CsvOptions),
        ("declared", declared.DeclaredOptions),
        ("hwmon", hwmon.HwmonOptions),
        ("rapl", rapl.RaplOptions),
    ],
)
def test_the_page_of_a_meter_explains_every_field(kind: str, options: type[MeterOptions]) -> None:
    page = (PAGES / f"{kind}.md").read_text()
    own = set(options.model_fields) - set(MeterOptions.model_fields)
    assert own
    assert not [field for field in sorted(own) if f"`{field}`" not in page]


def test_the_page_about_power_explains_the_fields_of_every_meter() -> None:
    page = (PAGES.parent / "power.md").read_text()
    assert not [f for f in MeterOptions.model_fields if f != "kind" and f"`{f}`" not in page]
    assert not [kind for kind in METERS if f"(meters/{kind}.md)" not in page]


def open_csv(path: Path, **fields: object) -> csv.CsvMeter:
    given = {
        "kind": "csv",
        "boundary": "wall",
        "path": str(path),
        "time_column": "time",
        "time_format": "monotonic",
        "clock_offset": 0,
        "columns": ["power"],
        **fields,
    }
    return csv.open_meter(MeterSpec.model_validate(given), TARGET)


def write(path: Path, rows: list[str], header: str = "time,power,other") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_a_trace_is_read_for_its_run_and_placed_by_its_offset(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", ["8.000000001,100,x", "9.5,101,x", "99999,5,x"])
    meter = open_csv(log, clock_offset="-500ms", clock_uncertainty="100ms")
    assert meter.after_run(outcome()) == [
        Reading("csv:power", 7_500_000_001, 100.0),
        Reading("csv:power", 9 * S, 101.0),
    ]
    (info,) = meter.describe()
    assert (info.unit, info.sampling, info.clock_uncertainty_ns) == (
        "W",
        "instantaneous",
        100_000_000,
    )


@pytest.mark.parametrize("form", ["epoch", "epoch_ms", "epoch_ns", "iso"])
def test_a_wall_clock_is_turned_into_the_clock_of_the_run(tmp_path: Path, form: str) -> None:
    now = monotonic_ns()
    wall = wall_at_ns(now)
    text = {
        "epoch": f"{wall // S}.{wall % S:09d}",
        "epoch_ms": str(wall // 1_000_000),
        "epoch_ns": str(wall),
        "iso": datetime.fromtimestamp(wall / S, UTC).isoformat(),
    }[form]
    log = write(tmp_path / "log.csv", [f"{text},7,x"])
    (reading,) = open_csv(log, time_format=form).after_run(outcome(now))
    assert abs(reading.time_ns - now) < 50_000_000
    assert reading.value == 7


def test_units_columns_and_counters_of_a_trace(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", ["9;1,5;0", "10;;2"], header="time;power;energy")
    log.write_text(log.read_text().replace("1,5", "1.5"))
    meter = open_csv(log, delimiter=";", columns=["energy"], unit="Wh", counter_max=2.5)
    assert [r.value for r in meter.after_run(outcome())] == [0, 7200]
    (info,) = meter.describe()
    assert (info.unit, info.sampling, info.counter_max) == ("J", "counter", 9000)
    power = open_csv(log, delimiter=";", unit="kW", interval="2s", sampling="interval_mean")
    assert [r.value for r in power.after_run(outcome())] == [1500]  # an empty cell is not a reading
    assert power.describe()[0].sensor_interval_ns == 2 * S


def test_comments_and_a_half_written_last_row_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("# analyser 3\n\ntime,power\n9,1\n# note\n10,2\n11")
    assert [r.value for r in open_csv(log).after_run(outcome())] == [1, 2]
    for half in ("11,9", "11,-"):  # torn lines: 95 and -1 were cut
        log.write_text(f"time,power\n10,93\n{half}")
        assert [r.value for r in open_csv(log).after_run(outcome())] == [93]


def test_what_was_logged_at_another_time_keeps_no_run_from_its_power(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", ["-90000,OVERLOAD,x", "9,1,x"])
    assert [r.value for r in open_csv(log).after_run(outcome())] == [1]


@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        (["9,1,x"], {"columns": ["powr"]}, "power"),
        (["9,1,x"], {"clock_offset": None}, "clock_offset"),
        (["9,1,x"], {"clock_offset": "soon"}, "clock_offset"),
        (["9,1,x"], {"sampling": "counter"}, "does not go with W"),
        (["9,1,x"], {"time_format": "unix"}, "epoch"),
        (["nine,1,x"], {}, "line 2"),
        (["9,nan,x"], {}, "not a finite number"),
        (["inf,1,x"], {}, "line 2"),
        (["9,1,x"], {"interval": "-1s"}, "-1s is not a positive duration"),
        (["2026-11-20T10:00:00,1,x"], {"time_format": "iso"}, "has no zone"),
    ],
)
def test_a_trace_that_cannot_be_placed(
    tmp_path: Path, rows: list[str], fields: dict[str, object], message: str
) -> None:
    log = write(tmp_path / "log.csv", rows)
    with pytest.raises((MeterError, StudyError), match=message):
        open_csv(log, **fields).after_run(outcome())


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="cannot be read"):
        open_csv(tmp_path / "none.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(MeterError, match="has no complete row"):
        open_csv(tmp_path / "empty.csv")

"""One note per kind of fact that a table does not state."""

from __future__ import annotations

from storlab.audit.finding import Finding
from unit.audit.audit_rows import check, row, setting

COMPLETE = [
    setting("runs_averaged", 5),
    setting("throughput_stdev", 2, "%"),
    setting("power_meter", "PDU", "model"),
    setting("data_set_size", 10, "TB"),
    setting("memory", 256, "GB"),
    setting("iodepth", 32),
]


def results() -> list[dict[str, str]]:
    common = {"config": "A", "rw_mix": "100/0", "kind": "measured"}
    common |= {"x_name": "numjobs", "x_value": "4"}
    return [
        row(**common, metric="throughput", value=1000, unit="MB/s"),
        row(**common, metric="latency_avg", value=1, unit="ms"),
        row(**common, metric="power_efficiency", value=50, unit="MB/s/W"),
    ]


def lacking(found: list[Finding]) -> list[str]:
    assert all(f.severity == "note" for f in found)
    return [f.recomputed.removeprefix("the table states ") for f in found]


def test_a_complete_table_has_no_note() -> None:
    assert check("missing", [*COMPLETE, *results()]) == []


def test_each_thing_missing_is_one_note() -> None:
    for index, word in enumerate(("repeats", "spread", "meter", "data set", "memory")):
        rest = [made for place, made in enumerate(COMPLETE) if place != index]
        notes = lacking(check("missing", [*rest, *results()]))
        assert len(notes) == 1, word
        assert word in notes[0]


def test_nothing_stated_is_one_note_each_not_one_per_row() -> None:
    found = check("missing", results() + results())
    assert len(found) == 4
    assert len(found[0].rows) >= 2


def test_an_operating_point_that_is_not_named() -> None:
    rows = [dict(made, x_name="", x_value="") for made in results()]
    without_depth = COMPLETE[:-1]
    notes = lacking(check("missing", [*without_depth, *rows]))
    assert notes == ["no concurrency (clients, jobs, depth)"]
    fixed = [*COMPLETE, setting("numjobs", 8)]
    assert check("missing", [*fixed, *rows]) == []  # a fixed load is stated
    rows[1] |= {"x_name": "numjobs", "x_value": "not_stated"}
    assert lacking(check("missing", [*fixed, *rows])) == ["no value of numjobs"]


def test_ratios_without_values() -> None:
    common = {"config": "A", "compare_config": "B", "kind": "ratio_claim", "unit": "%"}
    rows = [
        row(**common, metric="throughput_increase", value=30),
        row(**common, metric="latency_reduction", value=10),
    ]
    found = check("missing", [*COMPLETE, *rows])
    assert [f.rows for f in found] == [["001", "002"]] or [f.rows for f in found] == [
        ["007", "008"]
    ]
    assert lacking(found) == ["no value of either side"]
    assert check("missing", [*COMPLETE, *results(), *rows]) == []


def test_direct_io_answers_for_the_memory() -> None:
    rows = [*COMPLETE[:3], COMPLETE[5], setting("direct_io", 1), *results()]
    assert check("missing", rows) == []


def test_other_spellings() -> None:
    rows = [
        setting("iterations", 3),
        setting("confidence_interval", 95, "%"),
        setting("wattmeter_sensor", 1),
        setting("working_set", 4, "TiB"),
        setting("dram", 128, "GiB"),
        setting("queue_depth", 32),
        *results(),
    ]
    assert check("missing", rows) == []


def test_a_parameter_count_is_no_meter() -> None:
    rows = [*COMPLETE[:2], *COMPLETE[3:], setting("model_parameters", 7, "params"), *results()]
    assert len(check("missing", rows)) == 1


def test_a_table_of_settings_lacks_nothing() -> None:
    assert check("missing", [setting("iodepth", 4), setting("power_limit", 20, "W", "A")]) == []

"""Rules on power: the meter's accuracy, its boundary, and a meter without readings."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.gate import Gate, judge
from storlab.analysis.gate_power import repeats_to_decide
from storlab.base.errors import ExitCode, StudyError
from storlab.cli.main import main
from storlab.history.record import read_record
from storlab.model.gate import GateRule
from storlab.model.power import Boundary
from storlab.model.result import Metric, RunRecord
from support.large_campaign import large_campaign

METER = 'meters = [{ kind = "declared", idle_watts = 5.0 }]'
ACCEPTED = "accept_unequal_boundaries = true"
WATTS = 10.0


def metered(
    boundary: Boundary = "device",
    *,
    uncertainty: float = 0.0,
    works: Callable[[RunRecord], bool] = lambda record: True,
    watts: float = WATTS,
) -> Callable[[RunRecord], RunRecord]:
    """Add a meter to the disk, with readings that scatter by 1 %."""
    draw = random.Random(5)

    def change(record: RunRecord) -> RunRecord:
        if record.target != "Disk" or not works(record):
            return record
        seconds = (record.window_end_ns - record.window_start_ns) / 1e9
        energy = watts * seconds * draw.gauss(1, 0.01)
        found = Metric(
            name="energy_j", value=energy, unit="J", boundary=boundary,
            uncertainty=uncertainty * energy,
        )  # fmt: skip
        more = {"metrics": [*record.metrics, found], "power_boundary": boundary}
        return record.model_copy(update=more)

    return change


def results(place: Path, change: Callable[[RunRecord], RunRecord], **more: Any) -> Comparison:
    store = large_campaign(
        place, runs=20, repeats=5, draw=random.Random(2), change=change, **more
    )  # fmt: skip
    return compare(load_dataset([store]))


def judged(found: Comparison, baseline: Comparison | None = None, **fields: Any) -> Gate:
    rule = {"metric": "power", "at": {"jobs": 1}, "target": "Disk", **fields}
    return judge([GateRule.model_validate(rule)], found, baseline)


def test_an_interval_of_power_holds_the_accuracy_of_its_meter(tmp_path: Path) -> None:
    """Check that the interval includes the meter's 5 %: 9.7 W does not exclude 10 W."""
    exact, coarse = (
        results(tmp_path / name, metered(uncertainty=share))
        for name, share in (("exact", 0.0), ("coarse", 0.05))
    )
    assert judged(exact, at_least="9.7W").verdict == "held"
    (check,) = judged(coarse, at_least="9.7W").checks
    assert check.verdict == "inconclusive"
    assert check.reason == "the meter is not accurate enough to decide it"
    assert judged(coarse, at_least="8W").verdict == "held"
    by_page = coarse.rows[next(iter(coarse.rows))].cells["Disk"].values["power_w.all"]
    assert check.interval == by_page  # one check at 95 %, as in the brief


def test_a_ratio_of_power_holds_the_accuracy_of_both_meters(tmp_path: Path) -> None:
    exact, coarse = (
        results(tmp_path / name, metered(uncertainty=share))
        for name, share in (("exact", 0.0), ("coarse", 0.05))
    )
    other = results(tmp_path / "other", metered(uncertainty=0.0, watts=9.7))
    assert judged(exact, other, at_least="1.01 x baseline").verdict == "held"
    assert judged(coarse, other, at_least="1.01 x baseline").verdict == "inconclusive"


def test_a_ratio_across_power_boundaries_is_refused(tmp_path: Path) -> None:
    device, wall = (results(tmp_path / b, metered(b)) for b in ("device", "wall"))  # type: ignore[arg-type]
    for metric in ("power", "efficiency_mb_s_w", "iops_w"):
        (check,) = judged(device, wall, metric=metric, at_least="0.5 x baseline").checks
        assert (check.verdict, check.outcome, check.interval) == ("inconclusive", "refused", None)
        assert "device against wall" in check.reason
        assert "accept_unequal_boundaries" in check.reason
    assert judged(device, wall, metric="throughput", at_least="0.5 x baseline").verdict == "held"


def test_studies_that_accept_unequal_boundaries_have_their_ratio_marked(tmp_path: Path) -> None:
    device, wall = (
        results(tmp_path / b, metered(b), header=ACCEPTED)  # type: ignore[arg-type]
        for b in ("device", "wall")
    )
    (check,) = judged(device, wall, at_least="0.5 x baseline").checks
    assert check.verdict == "held"
    assert "across power boundaries: device against wall" in check.remarks


def with_one_job(record: RunRecord) -> bool:
    return bool(record.params["jobs"] == 1)


@pytest.mark.parametrize("metric", ["power", "efficiency_mb_s_w", "energy_j"])
def test_a_meter_that_gave_nothing_at_a_point_holds_no_rule(metric: str, tmp_path: Path) -> None:
    found = judged(
        results(tmp_path / "out", metered(works=with_one_job)), metric=metric, at_least=1e-6, at={}
    )
    assert found.verdict == "inconclusive"
    lost = [check for check in found.checks if check.verdict == "inconclusive"]
    assert len(found.checks) == len(lost) + 1
    for check in lost:
        assert check.reason == "no energy was measured: no meter"
        assert "1 job" not in check.where.replace("\u00a0", " ")
        assert len(check.runs[0]) == 5  # for inspection: none has a value
        assert check.boundary == ""


def test_nor_does_one_that_gave_less_than_that_of_the_baseline(tmp_path: Path) -> None:
    none = results(tmp_path / "none", metered(works=lambda record: record.target != "Disk"))
    with pytest.raises(StudyError, match='no run has the metric "power"'):
        judged(none, at_least=1)
    some = results(tmp_path / "some", metered(works=with_one_job))
    whole = results(tmp_path / "whole", metered())
    assert judged(some, whole, at_least="0.5 x baseline", at={}).verdict == "inconclusive"
    told = {check.reason for check in judged(whole, some, at_least="0.5 x baseline", at={}).checks}
    told.remove("")
    (reason,) = told
    assert reason.endswith("no energy was measured: no meter")


def test_nor_does_a_target_whose_meters_all_gave_nothing(tmp_path: Path) -> None:
    """Check that meters without readings leave a power rule inconclusive."""

    def swapped(record: RunRecord) -> RunRecord:
        target = {"Disk": "Memory", "Memory": "Disk"}[record.target]
        found = metered()(record.model_copy(update={"target": target}))
        return found.model_copy(update={"target": record.target})

    for more, targets in ((METER, {"Disk", "Memory"}), ("", {"Memory"})):
        found = results(tmp_path / str(len(more)), swapped, more=more)
        checks = judged(found, target=None, at_least=1).checks
        assert {check.target for check in checks} == targets
        assert {c.verdict for c in checks if c.target == "Disk"} <= {"inconclusive"}


def test_runs_without_energy_are_told(tmp_path: Path) -> None:
    found = results(tmp_path / "out", metered(works=lambda record: record.repeat > 2))
    (check,) = judged(found, at_least=1).checks
    assert (check.verdict, check.repeats) == ("held", 3)
    assert "2 of 5 runs have no value of it: no meter" in check.remarks
    assert [run.rpartition("-r")[2] for run in check.runs[0]] == ["3", "4", "5"]


def with_both(other: Boundary | None) -> Callable[[RunRecord], RunRecord]:
    """Give the disk a device and a wall meter (its main one), and memory another."""
    draw = random.Random(9)

    def change(record: RunRecord) -> RunRecord:
        if record.target == "Memory" and other is None:
            return record
        seconds = (record.window_end_ns - record.window_start_ns) / 1e9
        watts = {"device": WATTS, "wall": 2 * WATTS} if record.target == "Disk" else {other: WATTS}
        noise = 1 + 0.001 * (record.repeat - draw.random())
        energies = [
            Metric(name="energy_j", value=w * seconds * noise, unit="J", boundary=boundary)
            for boundary, w in watts.items()
        ]
        headline = "wall" if record.target == "Disk" else other
        more = {"metrics": [*record.metrics, *energies], "power_boundary": headline}
        return record.model_copy(update=more)

    return change


RULES = """
[[gate]]
metric = "power"
target = "Disk"
at = { jobs = 1 }
at_most = "15W"
"""


def test_what_another_target_is_metered_by_decides_nothing_about_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    others: list[Boundary | None] = ["wall", "device", None]
    for other in others:
        place = tmp_path / str(other)
        large_campaign(place, runs=20, repeats=5, draw=random.Random(2), change=with_both(other))
        rules = str(tmp_path / "rules.toml")
        assert main(["gate", str(place), "--rules", rules, "--json"]) == ExitCode.DISAGREE
        (check,) = json.loads(capsys.readouterr().out)["checks"]
        assert (check["verdict"], check["boundary"]) == ("broken", "wall")
        assert check["interval"]["estimate"] == pytest.approx(2 * WATTS, rel=0.01)
        main(["gate", str(place), "--rules", rules])
        assert "power at the wall, Disk" in capsys.readouterr().out.replace("\n", " ")
        disks = [p for p in read_record(place)["points"] if p["target"] == "Disk"]
        values = [p["values"]["efficiency_mb_s_w.all"] for p in disks]
        assert {(value["boundary"], value["supply"]) for value in values} == {("wall", "")}
        assert all("boundary" not in p["values"]["throughput_mb_s.all"] for p in disks)


def test_no_number_of_repeats_beats_a_meter() -> None:
    values = [10.0, 10.1, 9.9, 10.05, 9.95]
    assert repeats_to_decide(values, [], 9.9, 0.95) == repeats_to_decide(values, [], 9.9, 0.95, 0)
    few, more = (repeats_to_decide(values, [], 9.9, 0.95, meter) for meter in (0.0, 0.002))
    assert few is not None
    assert more is not None
    assert few < more
    assert repeats_to_decide(values, [], 9.9, 0.95, 0.02) is None

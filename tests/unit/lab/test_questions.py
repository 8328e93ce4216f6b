"""``plan``, ``doctor`` and ``run`` warn of questions that the planned runs cannot answer."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from types import ModuleType

import pytest

from storlab.analysis.stats import ratio_interval
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.contracts.check import Check
from storlab.contracts.registry import METERS
from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.questions import LARGEST_UNCLEAR, least_clear_ratio, question_checks
from storlab.lab.study.file import load_study

STUDY = """
[study]
name = "questions"
repeats = {repeats}
ramp = "0s"
runtime = "50ms"
interval = "10ms"
{header}
[[target]]
name = "A"
path = "null:"
size = "1MiB"
{first}
[[target]]
name = "B"
path = "null:"
size = "1MiB"
{other}
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = {mixes}
"""
RAPL = 'meters = [{ kind = "rapl" }]'
DRIVE = 'meters = [{ kind = "nvme" }]'


def write(
    place: Path,
    *,
    repeats: int = 5,
    question: str = "",
    header: str = "",
    first: str = "",
    other: str = "",
    mixes: str = "[0, 100]",
) -> Path:
    header += f'\nquestion = ["{question}"]' if question else ""
    study = place / "study.toml"
    study.write_text(
        STUDY.format(repeats=repeats, header=header, first=first, other=other, mixes=mixes)
    )
    return study


def checks(study: Path) -> list[Check]:
    loaded = load_study(study)
    return question_checks(loaded.study, make_plan(loaded))


@pytest.mark.parametrize(("other", "names"), [(DRIVE, []), (RAPL, ["power"])])
def test_a_meter_without_a_boundary_measures_the_device(
    other: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METERS.loaded, "clamp", ModuleType("clamp"))
    study = write(tmp_path, first='meters = [{ kind = "clamp" }]', other=other)
    assert [check.name for check in checks(study)] == names


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, []),
        ({"question": "efficiency"}, ["power"]),
        ({"first": DRIVE}, ["power"]),
        ({"first": DRIVE, "other": DRIVE}, []),
        ({"first": DRIVE, "other": RAPL}, ["power"]),
        ({"first": DRIVE, "other": RAPL, "question": "throughput"}, []),
        ({"first": DRIVE, "other": RAPL, "header": "accept_unequal_boundaries = true"}, []),
        ({"question": "cost"}, ["cost"]),
        ({"first": "price = 10"}, ["cost"]),
        ({"first": "price = 10", "other": 'price = 9\ncurrency = "EUR"'}, ["cost"]),
        ({"first": "price = 10", "other": "price = 9"}, []),
        ({"first": 'capacity = "1TB"'}, []),
        ({"question": "density", "first": 'capacity = "1TB"'}, ["capacity"]),
    ],
)
def test_missing_facts_are_known_before_the_run(
    given: dict[str, str], names: list[str], tmp_path: Path
) -> None:
    found = checks(write(tmp_path, **given))  # type: ignore[arg-type]
    assert [check.name for check in found] == names
    assert all(check.status == "warning" and check.fix for check in found)


@pytest.mark.parametrize(
    ("repeats", "mixes", "warns"),
    [(1, "[0]", True), (2, "[0]", False), (2, "[0, 30, 70, 100]", True), (5, "[0, 100]", False)],
)
def test_too_few_repeats_are_known_before_the_run(
    repeats: int, mixes: str, warns: bool, tmp_path: Path
) -> None:
    found = checks(write(tmp_path, repeats=repeats, mixes=mixes))
    assert [check.name for check in found] == ["repeats"] * warns


def test_the_advised_repeats_need_no_warning(tmp_path: Path) -> None:
    (check,) = checks(write(tmp_path, repeats=2, mixes="[0, 30, 70, 100]"))
    advised = int("".join(filter(str.isdigit, check.fix)))
    assert checks(write(tmp_path, repeats=advised, mixes="[0, 30, 70, 100]")) == []


def test_one_target_has_nothing_to_compare(tmp_path: Path) -> None:
    study = write(tmp_path, repeats=1)
    text = study.read_text().replace('kind = "block"', 'kind = "block"\ntargets = ["A"]')
    study.write_text(text)
    assert checks(study) == []


@pytest.mark.parametrize("repeats", [3, 5, 8])
def test_the_least_clear_ratio_is_found_by_about_four_of_five(repeats: int) -> None:
    draw, comparisons, tries = random.Random(repeats), 4, 2_000
    ratio = least_clear_ratio(repeats, comparisons)

    def values(mean: float) -> list[float]:
        return [mean * math.exp(draw.gauss(0, 0.05)) for _ in range(repeats)]

    confidence = 1 - 0.05 / comparisons
    intervals = (ratio_interval(values(ratio), values(1.0), confidence) for _ in range(tries))
    clear = sum(interval.excludes(1) for interval in intervals)
    assert 0.7 < clear / tries < 0.95
    assert least_clear_ratio(repeats + 1, comparisons) < ratio


def test_any_number_of_comparisons_has_a_least_clear_ratio() -> None:
    assert 1 < least_clear_ratio(2, 10**6) < math.inf


def test_plan_doctor_and_run_print_the_same_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = str(write(tmp_path, repeats=1, header='question = ["throughput", "cost"]'))
    expected = [check.what for check in checks(Path(study))]
    assert len(expected) == 2
    assert main(["plan", study, "--json"]) == ExitCode.OK
    planned = json.loads(capsys.readouterr().out)["warnings"]
    assert [check["what"] for check in planned] == expected
    main(["doctor", study, "--json"])
    examined = [check["what"] for check in json.loads(capsys.readouterr().out)["checks"]]
    assert set(expected) <= set(examined)
    assert main(["run", study, "--quiet", "--no-report", "--out", "out"]) == ExitCode.OK
    printed = "".join(capsys.readouterr())
    assert all(what in printed for what in expected)
    assert LARGEST_UNCLEAR > 1

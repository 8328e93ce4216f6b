"""Times stated in ready-made studies and in templates equal those of ``storlab plan``."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from storlab.base.units import parse_duration
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import loaded_study
from storlab.lab.study.templates import template_names, template_text

STUDIES = Path(__file__).parents[3] / "studies"
TEXTS = {str(path.relative_to(STUDIES)): path.read_text() for path in STUDIES.rglob("*.toml")}
TEXTS |= {name: template_text(name) for name in template_names()}
TEXTS |= {f"{name}, quick": template_text(name, quick=True) for name in template_names()}
_STATED = re.compile(r"^# Time by `storlab plan`(?: on (\d+) cores)?: (.+)\.$", re.MULTILINE)
_PART = re.compile(r"[\d.]+ (?:h|min|s)")


@pytest.mark.parametrize("name", TEXTS)
def test_the_header_states_the_time_of_the_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the stated times; a study whose time depends on cores states their number."""
    header, _, _ = TEXTS[name].partition("[study]")
    ((cores, stated),) = _STATED.findall(header)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(int(cores or 1))))
    parts = _PART.findall(stated)
    assert " ".join(parts) == stated
    total_ns = sum(parse_duration(part.replace(" ", "")) for part in parts)
    planned_ns = make_plan(loaded_study(TEXTS[name], Path(name))).estimated_ns
    assert total_ns == pytest.approx(planned_ns, rel=0.02)

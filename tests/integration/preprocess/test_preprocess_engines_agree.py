"""native, pandas and Polars write the same bytes as the straightforward implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.workloads.preprocess.job import STAGES
from support.preprocess_runs import assert_as_expected, expected_of, messy, order, outcome_of

ENGINES = ("native", "pandas", "polars")
SAID = ("rows", "lines", "malformed", "input_bytes", "output_bytes", "output")
VARIANTS: dict[str, dict[str, Any]] = {
    "keep all": {"threshold": 0, "numerical": "float32", "compression": "none"},
    "few and small": {"threshold": 2, "workers": 3, "row_group_rows": 7, "compression": "lz4"},
    "modulo": {"modulo": 97, "workers": 2, "part_bytes": 1 << 20, "malformed_samples": 3},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_engines_agree(tmp_path: Path, variant: str) -> None:
    inputs = messy(tmp_path / "raw")
    seen = []
    for engine in ENGINES:
        job = order(inputs, tmp_path / engine, **VARIANTS[variant])
        outcome = outcome_of(engine, job, tmp_path / f"work-{engine}")
        assert_as_expected(outcome, job, expected_of(job))
        seen.append({name: outcome.details[name] for name in SAID})
        assert tuple(span.name for span in outcome.spans) == STAGES
        assert tuple(stage["name"] for stage in outcome.details["stages"]) == STAGES
    assert seen[1:] == seen[:-1]


@pytest.mark.parametrize("change", [{"malformed": "refuse"}, {"inputs": "none"}])
def test_engines_refuse_the_same(tmp_path: Path, change: dict[str, Any]) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    inputs = [empty] if "inputs" in change else messy(tmp_path / "raw")
    wanted = {name: value for name, value in change.items() if name != "inputs"}
    for engine in ENGINES:
        job = order(inputs, tmp_path / engine, **wanted)
        outcome = outcome_of(engine, job, tmp_path / f"work-{engine}")
        assert outcome.status == "failed", engine
        assert outcome.failure is not None
        assert str(inputs[0]) in outcome.failure.message
        if wanted:
            first = expected_of(job).samples[0]
            assert f"line {first['line']}: {first['reason']}" in outcome.failure.message
            reason = f"{outcome.failure.message} {outcome.failure.fix}"
            assert 'correct the file, or set malformed = "skip"' in reason
        assert not (tmp_path / engine / "binary").exists()

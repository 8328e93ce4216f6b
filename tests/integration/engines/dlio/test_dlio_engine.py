"""The real DLIO on a small data set, if installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import need_dlio
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.engine import DlioEngine
from storlab.workloads.training.metrics import au_percent, epochs_of
from support.torch_data import FILES, job_of, make_set


@pytest.mark.parametrize("accelerators", [1, 2])
def test_a_real_run_has_every_step_of_every_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accelerators: int
) -> None:
    monkeypatch.setenv("STORLAB_DLIO", str(need_dlio()))
    home, work = tmp_path / "set", tmp_path / "work"
    work.mkdir()
    job = job_of(home, make_set(home, resize_bytes=1024), accelerators=accelerators, epochs=2)
    engine = DlioEngine()
    assert engine.refuse(job) is None
    outcome = engine.start(job, work).wait(300)
    assert outcome is not None
    assert (outcome.status, outcome.failure) == ("finished", None), outcome.raw["stderr.txt"]
    steps = FILES // accelerators // 2
    for epoch in outcome.details["epochs"]:
        assert [each["steps"] for each in epoch["accelerators"]] == [steps] * accelerators
        total = sum(path.stat().st_size for path in (home / "train").iterdir())
        assert epoch["bytes"] == pytest.approx(total, abs=FILES)
    au = au_percent(epochs_of(outcome))
    assert au is not None
    results = dlio_result.read_results(outcome.raw)
    printed = results.metric["train_au_mean_percentage"]
    assert au >= printed - 1  # DLIO uses the configured step time, which is the minimum
    assert 0 < au <= 100
    assert sorted(path.name for path in home.iterdir()) == ["train"]

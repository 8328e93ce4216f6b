"""The plan of a study with checkpoints."""

from __future__ import annotations

from pathlib import Path

from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study


def test_clients_together_write_what_one_alone_would(tmp_path: Path) -> None:
    text = (
        f'[study]\nname = "s"\nrepeats = 1\n[[target]]\nname = "d"\ndirectory = "{tmp_path}"\n'
        '[[workload]]\nkind = "checkpoint"\nprofile = "llama3-8b"\nscale = 0.001\nwrites = 2\n'
    )
    plans = []
    for cluster in ("", '[cluster]\nhosts = ["localhost"]\nclients = 4\n'):
        (tmp_path / "s.toml").write_text(text + cluster)
        plans.append(make_plan(load_study(tmp_path / "s.toml")))
    alone, together = plans
    assert together.bytes_written == alone.bytes_written > 0

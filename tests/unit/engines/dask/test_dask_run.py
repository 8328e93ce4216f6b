"""The live view of a cluster run, from the lines its coordinator prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.dask.child import close
from storlab.engines.dask.run import DaskRun
from storlab.model.result import EngineInfo
from storlab.process.child import Launch
from support.preprocess_runs import order

SCRIPT = """
import sys, time
for number in range(1, 400):
    print('{"units": %d, "bytes": %d}' % (number, number * 1000), flush=True)
    print("a library says something", flush=True)
    print("[1]", flush=True)
    time.sleep(0.02)
"""


def test_units_and_bytes_become_rates(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text("{}")
    launch = Launch("Dask", [sys.executable, "-c", SCRIPT], {}, tmp_path)
    run = DaskRun(order([], tmp_path), launch, EngineInfo(name="dask", version="1"), [])
    rates = []
    while not rates or not rates[-1][0]:
        assert run.wait(0.05) is None
        snapshot = run.snapshot()
        rates.append((snapshot.operations_s, snapshot.bytes_s))
    units, moved = rates[-1]
    assert moved == pytest.approx(units * 1000)
    run.cancel()
    outcome = run.wait(60)
    assert outcome is not None
    assert outcome.status == "cancelled"
    assert run.snapshot().phase == "done"


class SlowToEnd:
    """Fake client and cluster whose workers do not end in time, as on a busy machine."""

    def __init__(self) -> None:
        self.asked = False

    def close(self, timeout: float) -> None:
        self.asked = True
        raise TimeoutError(f"timed out after {timeout} s.")


def test_workers_that_are_slow_to_end_fail_no_run_that_is_done() -> None:
    client, own = SlowToEnd(), SlowToEnd()
    both: Any = (client, own)
    close(*both)
    assert client.asked
    assert own.asked

"""A failed run whose file was changed by another program or whose file system vanished."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlab.contracts.family import Estimate
from storlab.lab.watch.member_watch import MemberWatch
from storlab.model.job import Member
from storlab.model.result import EngineInfo, Failure, RunOutcome
from storlab.process.execution import StopRequest
from storlab.stores.medium import Medium

ENGINE = Failure(message="read failed", errno=5, errno_name="EIO", operation="read")
LENGTH = 1 << 16


def watched(path: Path, happens: str) -> Failure | None:
    path.parent.mkdir()
    path.write_bytes(os.urandom(LENGTH))
    member = Member(path=str(path), name="data", kind="file", size=LENGTH)
    estimate = Estimate(duration_ns=1, bytes_written=0, writes=False)
    outcome = RunOutcome(
        status="failed",
        engine=EngineInfo(name="native", version="1"),
        window_start_ns=0,
        window_end_ns=0,
        samples=[],
        totals={},
        cpu=None,
        failure=ENGINE,
        details={"medium": {}},
    )
    with MemberWatch([member], Medium(), estimate, direct=True, seed=1) as watch:
        if happens == "truncated":
            os.truncate(path, 10)
        elif happens == "removed":
            path.unlink()
        elif happens == "gone with its directory":
            path.parent.rename(path.parent.with_name("elsewhere"))
        watch.judge(outcome, StopRequest())
    assert outcome.status == "failed"
    return outcome.failure


@pytest.mark.parametrize(
    ("happens", "changed"),
    [
        ("truncated", "resized"),
        ("removed", "removed"),
        ("gone with its directory", None),
        ("nothing", None),
    ],
)
def test_what_another_program_did_is_named_beside_what_the_engine_met(
    happens: str, changed: str | None, tmp_path: Path
) -> None:
    failure = watched(tmp_path / "mount" / "data", happens)
    assert failure is not None
    assert (failure.errno, failure.operation) == (5, "read")
    assert failure.changed == changed
    assert (failure.path == "data") == (changed is not None)
    assert ENGINE.message in failure.message

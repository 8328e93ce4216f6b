"""The lab's queries to the installed families."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import EngineError
from storlab.contracts import services
from storlab.contracts.registry import FAMILIES, Registry
from storlab.model.job import Member, RereadJob

MEMBER = Member(path="data", name="data", kind="file", size=1 << 20)


def test_an_installed_family_lays_out_files_and_reads_its_own_jobs_again() -> None:
    job = services.fills_members().fill_job(MEMBER, 1 << 20, direct=False, seed=7)
    assert isinstance(job, RereadJob)
    assert (job.members, job.seed, job.touches()) == ([MEMBER], 7, [MEMBER])
    assert job.state is None
    with pytest.raises(ValueError, match="verify mode"):
        job.with_state(Path("state"))
    again = services.rereads_members().stored_job(job.stored())
    assert again == job


@pytest.mark.parametrize(
    "ask", [services.fills_members, services.rereads_members, services.clears_buckets]
)
def test_without_such_a_family_the_cure_is_named(
    monkeypatch: pytest.MonkeyPatch, ask: object
) -> None:
    empty: Registry[object] = Registry("storlab.none")
    monkeypatch.setattr(services, "FAMILIES", empty)
    assert len(FAMILIES) > 0
    with pytest.raises(EngineError) as caught:
        ask()  # type: ignore[operator]
    assert "install" in caught.value.fix

"""Cluster test helpers handle processes that end while they are read."""

from __future__ import annotations

import os

import pytest

from support import cluster_lab as module
from support.cluster_lab import Lab, is_rank

RANK = ["python3", "-m", "storlab.lab.site.rank"]


def test_a_rank_that_ends_between_two_looks_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    environments = {7: {}, 8: {"STORLAB_MPI_JOB": "job", "PMI_RANK": "2"}, 9: {"PMI_RANK": "1"}}
    monkeypatch.setattr(module, "all_pids", lambda: iter([*environments, os.getpid()]))
    monkeypatch.setattr(module, "is_rank", lambda pid: pid != os.getpid())
    monkeypatch.setattr(module, "variables", lambda pid: environments.get(pid, {}))
    lab = object.__new__(Lab)
    lab._mark = "job"
    monkeypatch.setattr(Lab, "mpiexec", lambda _: 7)
    assert lab.ranks() == {2: 8}


def test_words_that_are_gone_at_a_second_look_are_not_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([RANK, []])
    monkeypatch.setattr(module, "words", lambda _: next(looks))
    assert is_rank(1)

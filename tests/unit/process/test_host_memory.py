"""Memory of the machine that this process may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab import _native
from storlab.process import host_memory
from storlab.process.host_memory import (
    host_memory_bytes,
    host_memory_text,
    most_dirty_bytes,
)


@pytest.mark.parametrize(("given", "percent", "share"), [(0, 20, 0.2), (10**6, 0, 0)])
def test_one_of_two_settings_bounds_what_is_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: int, percent: int, share: float
) -> None:
    (tmp_path / "dirty_bytes").write_text(f"{given}\n")
    (tmp_path / "dirty_ratio").write_text(f"{percent}\n")
    monkeypatch.setattr(host_memory, "_SETTINGS", tmp_path)
    assert most_dirty_bytes() == pytest.approx(given + share * host_memory_bytes(), abs=1)


@pytest.mark.parametrize("group", [None, "/sys/fs/cgroup/job"])
def test_the_text_names_who_sets_how_much_memory_there_is(
    monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    monkeypatch.setattr(_native, "memory_group", lambda: group)
    monkeypatch.setattr(_native, "memory_bytes", lambda: 419_430_400)
    text = host_memory_text()
    assert "419 MB" in text
    assert ("machine" in text) == (group is None)
    assert group is None or group in text

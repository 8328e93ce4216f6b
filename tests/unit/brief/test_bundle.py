"""The figures' script: built once, cached per user, and optional."""

from __future__ import annotations

from pathlib import Path

import pytest
import vl_convert

from storlab.brief import bundle

SCRIPT = "window.vegaEmbed = 'ü';"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return how often it was built."""
    calls: list[object] = []

    def make(snippet: object) -> str:
        calls.append(snippet)
        return SCRIPT

    monkeypatch.setattr(vl_convert, "javascript_bundle", make)
    return calls


def test_it_is_made_once_for_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[object]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert [bundle.vega_bundle() for _ in range(2)] == [SCRIPT] * 2
    assert len(made) == 1
    (kept,) = (tmp_path / "cache" / "storlab").iterdir()
    assert kept.read_text("utf-8") == SCRIPT
    monkeypatch.setattr(bundle, "version", lambda name: f"another of {name}")
    assert bundle.vega_bundle() == SCRIPT
    assert len(made) == 2


def test_where_nothing_can_be_kept_it_is_made_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[object]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # not a directory, even for root
    assert [bundle.vega_bundle() for _ in range(2)] == [SCRIPT] * 2
    assert len(made) == 2


def test_a_relative_name_is_ignored_and_no_home_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[object]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert bundle.vega_bundle() == SCRIPT
    assert made and not list(tmp_path.iterdir())

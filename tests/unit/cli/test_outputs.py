"""Commands write only to the given path, replace nothing else, and never half-write."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode, UsageError
from storlab.base.files import write_output
from storlab.cli.main import main
from support.large_campaign import large_campaign


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide two results of the same work, ``a`` and ``b``."""
    place = tmp_path_factory.mktemp("outputs")
    for seed, name in enumerate("ab"):
        large_campaign(place / name, runs=8, repeats=2, draw=random.Random(seed))
    return place


def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, b"rows")
    assert os.read(reader, 100) == b"rows"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("verb", ["export", "schema"])
def test_no_block_device_is_written_to(
    verb: str,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    device, link = tmp_path / "sdb", tmp_path / "by-id"
    device.write_bytes(b"somebody's data")  # stands in for a device, which only root can make
    link.symlink_to(device)
    for name, so in (("is_block_device", True), ("is_file", False)):
        monkeypatch.setattr(Path, name, lambda path, so=so: (path.resolve() == device) is so)
    results = [str(made / "a")] if verb == "export" else []
    assert main([verb, *results, "--output", str(link)]) == ExitCode.USAGE
    assert f"{link}: is a block device" in capsys.readouterr().err
    assert device.read_bytes() == b"somebody's data"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(file)
    write_output(link, b"rows")
    assert link.is_symlink()
    assert file.read_bytes() == b"rows"


def test_what_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a file in it"):
        write_output(tmp_path, b"rows")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("no /dev/full here")
    assert main(["export", str(made / "a"), "--output", "/dev/full"]) == ExitCode.USAGE
    assert "No space left on device\n  fix: make room" in capsys.readouterr().err
    assert full.is_char_device()


@pytest.mark.parametrize("name", ["study.toml", "brief.pdf", "data"])
def test_a_brief_replaces_nothing_but_a_page(
    name: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    out.write_text("out")
    assert main(["report", str(made / "a"), "--out", str(out), "--no-pdf"]) == ExitCode.USAGE
    assert f"{name} does not end in .html" in capsys.readouterr().err
    assert out.read_text() == "out"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("out", ["a", "a/brief.html", "b/../b"])
def test_a_brief_of_both_does_not_replace_that_of_either(
    out: str, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    assert main(["report", "a", "b", "--out", out, "--no-pdf"]) == ExitCode.USAGE
    assert "belongs to the brief of" in capsys.readouterr().err
    assert not list(made.glob("?/brief.html"))


def test_a_brief_of_both_goes_into_a_directory(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.write_text("out")
    words = ["report", str(made / "a"), str(made / "b"), "--out", str(out)]
    assert main(words) == ExitCode.USAGE
    assert "out is a file, not a directory" in capsys.readouterr().err
    assert out.read_text() == "out"


def test_one_stream_has_one_content(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(made / "a"), "--output", "-", "--json"]) == ExitCode.USAGE
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["where"] == "--json"


def test_an_unknown_run_is_named(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(made / "a"), "nope"]) == ExitCode.USAGE
    assert 'RUN: "nope" is not a run' in capsys.readouterr().err


def test_an_unwritten_brief_is_named_by_its_own_name(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / ("n" * 251 + ".html")  # one byte too long for a file name
    assert main(["report", str(made / "a"), "--out", str(page), "--no-pdf"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert ".tmp" not in told
    assert page.name in told


def test_a_list_has_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["published", "list", "x.csv"]) == ExitCode.USAGE
    assert "storlab published show x.csv" in capsys.readouterr().err

"""``storlab try`` and its short form, on directories, files, a loop device and an S3 store."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.lab.study.short_study import LEAST_FILE_BYTES
from storlab.results.store import ResultStore
from support.s3_servers import versitygw

SHORT = ["--seconds", "20", "--no-report", "--quiet"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(directory: str = ".") -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


def test_two_directories_by_the_short_form_and_their_study_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["./a", "./b", *SHORT, "--out", "r"]) == ExitCode.OK
    printed = capsys.readouterr().out
    assert "48 of 48 runs finished" in printed
    assert "study: r/study.toml" in printed
    assert "random I/O" in printed
    store = ResultStore.open(place / "r")
    assert [target.name for target in store.study.target] == ["./a", "./b"]
    assert {record.status for record in store.records()} == {"finished"}
    assert names("a") == names("b") == []
    study = Path("r/study.toml").read_text()
    short = study.replace("repeats = 3", "repeats = 1").replace("[1, 32]", "1")
    Path("again.toml").write_text(short)
    assert main(["run", "again.toml", "--no-report", "--out", "again"]) == ExitCode.OK
    assert names("a") == []


def test_one_file_is_read_and_stays_as_it_is(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = os.urandom(LEAST_FILE_BYTES)
    Path("data").write_bytes(content)
    assert main(["data", *SHORT, "--json", "--out", "r"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["runs"]["finished"] == 9
    assert Path("data").read_bytes() == content
    assert names() == ["a", "b", "data", "r"]
    assert main(["compare", "r"]) == ExitCode.OK


@pytest.mark.versitygw
def test_a_bucket(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with versitygw(place / "store") as server:
        bucket = server.make_bucket("bench")
        server.set_environment(monkeypatch)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        assert main(["try", "s3://bench", *SHORT, "--out", "r"]) == ExitCode.OK
        assert [path for path in bucket.rglob("*") if path.is_file()] == []
        assert main(["try", "s3://missing", *SHORT, "--out", "none"]) == ExitCode.PREFLIGHT
    assert not Path("none").exists()


@pytest.mark.root
def test_a_device_is_only_read(place: Path) -> None:
    image = place / "image"
    image.write_bytes(os.urandom(64 << 20))
    words = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    before = image.read_bytes()
    try:
        assert main([device, *SHORT, "--out", "r"]) == ExitCode.OK
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    assert image.read_bytes() == before


@pytest.mark.parametrize("given", ["plna", "./missing", "/dev/null"])
def test_what_is_no_storage_leaves_nothing_behind(
    given: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([given]) == ExitCode.USAGE
    assert capsys.readouterr().err
    assert names() == ["a", "b"]


def test_a_full_file_system_is_refused_before_anything_is_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("storlab.lab.study.short_study.free_bytes", lambda _: 0)
    assert main(["./a", *SHORT]) == ExitCode.PREFLIGHT
    assert "free" in capsys.readouterr().err
    assert names("a") == []
    assert not Path("results").exists()

"""``storlab doctor`` on a study with points to a simulated GPU, through the command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from support.gpu_simulators import Word, faults, simulators

STUDY = """\
[study]
name = "storage to a simulated GPU"
runtime = "200ms"

[[target]]
name = "folder"
directory = "."
size = "4MiB"

[[workload]]
kind = "gpudirect"
name = "to the GPU"
cuda_library = "{cuda}"
cufile_library = "{cufile}"
block_size = ["4KiB", "1MiB"]
workers = [1, 4]
gpu = [0, 1]
"""

# Large enough in total, so that the plan is valid, but in use by others.
FULL: dict[str, Word] = {"memory": "4M", "used": "3M"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    built = simulators()
    (tmp_path / "study.toml").write_text(STUDY.format(cuda=built.cuda, cufile=built.cufile))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _order(patch: pytest.MonkeyPatch, cufile: Mapping[str, Word], cuda: Mapping[str, Word]) -> None:
    for name, value in faults(cufile, cuda).items():
        patch.setenv(name, value)


def _doctor(
    patch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cufile: Mapping[str, Word],
    **cuda: Word,
) -> dict[str, tuple[str, str]]:
    _order(patch, cufile, cuda)
    capsys.readouterr()
    main(["doctor", "study.toml", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return {
        check["name"].removeprefix("folder: "): (check["status"], check["what"])
        for check in checks
        if check["name"].startswith("folder: ")
    }


def test_doctor_says_what_a_study_needs_of_its_gpus(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = _doctor(monkeypatch, capsys, {}, gpus=2, memory="1G")
    status, what = rows["GPU memory"]
    assert (status, "buffers of 1MiB on GPU 1 take 2.1 MB" in what) == ("ok", True)
    assert rows["GPU file system"][0] in ("ok", "warning")
    assert not [name for name, (status, _) in rows.items() if status == "error"]
    assert sorted(each.name for each in place.iterdir()) == ["study.toml"]


@pytest.mark.parametrize(
    ("cufile", "cuda", "name", "words"),
    [
        ({}, {"gpus": 2, **FULL}, "GPU memory", "1.05 MB of 4.19 MB are free"),
        ({}, {"gpus": 1}, "GPU", "GPU 1 does not exist"),
        ({}, {"no_device": 1}, "libcuda", "CUDA_ERROR_NO_DEVICE"),
        ({"error": "DriverOpen:5001"}, {"gpus": 2}, "libcufile", "5001"),
    ],
)
def test_what_no_run_can_be_without_is_an_error(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cufile: Mapping[str, Word],
    cuda: Mapping[str, Word],
    name: str,
    words: str,
) -> None:
    status, what = _doctor(monkeypatch, capsys, cufile, **cuda)[name]
    assert (status, words in what) == ("error", True), what


def test_buffers_that_do_not_fit_are_refused_before_any_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _order(monkeypatch, {}, {"gpus": 2, **FULL})
    ended = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert ended == ExitCode.PREFLIGHT
    assert "GPU memory" in capsys.readouterr().err
    assert sorted(each.name for each in place.iterdir()) == ["study.toml"]


def test_runs_that_will_fail_are_refused_beside_others_that_would_not(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (place / "study.toml").read_text()
    swept = 'path = ["direct", "host"]\nblock_size = "4KiB"\nworkers = 1\ngpu = [0]\n'
    text = text[: text.index("block_size")] + swept
    (place / "study.toml").write_text(text.replace('"200ms"', '"200ms"\nrepeats = 1\nramp = 0'))
    _order(monkeypatch, {"error": "DriverOpen:5001"}, {})
    ended = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert ended == ExitCode.PREFLIGHT
    assert "5001" in capsys.readouterr().err
    assert sorted(each.name for each in place.iterdir()) == ["study.toml"]

"""``storlab clean`` removes a campaign's data, but neither foreign files nor results."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study
from storlab.results.store import ResultStore
from storlab.stores.s3.target import S3Hold
from support.s3_servers import S3Server, versitygw

FILES = """
[study]
name = "kept"
repeats = 1
ramp = 0
interval = "50ms"

[[target]]
name = "one"
path = "one.dat"
size = "1MiB"
direct = false
keep_data = true

[[target]]
name = "many"
directory = "many"
size = "1MiB"
direct = false
keep_data = true

[[workload]]
kind = "block"
jobs = 2
total_bytes = "1MiB"
"""

OBJECTS = """
[study]
name = "objects"
repeats = 1

[[target]]
name = "store"
s3 = "{address}"
{options}

[[workload]]
kind = "object"
object_size = "4KiB"
objects = 10
"""


@dataclass(frozen=True)
class Printed:
    stdout: str
    stderr: str


class Verb:
    """The command, run in this process to save start-up time."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path, code: int = 0) -> Printed:
        self._capsys.readouterr()
        ended = main([str(argument) for argument in arguments])
        printed = Printed(*self._capsys.readouterr())
        assert ended == code, printed
        return printed


@pytest.fixture
def storlab(capsys: pytest.CaptureFixture[str]) -> Verb:
    return Verb(capsys)


def sums(directory: Path) -> dict[str, str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name != "campaign.lock"
    }


@pytest.fixture
def kept(tmp_path: Path, storlab: Verb, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the result directory of a campaign that kept its data files."""
    (tmp_path / "study.toml").write_text(FILES)
    (tmp_path / "many").mkdir()
    monkeypatch.chdir(tmp_path)
    storlab("run", "study.toml", "--out", "out", "--no-report", "--quiet")
    assert (tmp_path / "one.dat").exists()
    assert len(list((tmp_path / "many").glob("*.dat"))) == 2
    return tmp_path / "out"


def test_kept_data_files_go_and_results_stay(
    kept: Path, tmp_path: Path, storlab: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sums(kept)
    elsewhere = tmp_path / "elsewhere"  # relative paths are relative to the campaign's directory
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    report = json.loads(storlab("clean", kept, "--json").stdout)
    names = ("one.dat", "many/storlab.0.dat", "many/storlab.1.dat")
    assert sorted(report["removed"]) == sorted(str(tmp_path / name) for name in names)
    assert report["problems"] == []
    assert list((tmp_path / "many").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("elsewhere", "many", "out", "study.toml")
    ]
    assert sums(kept) == before
    assert "nothing to remove" in storlab("clean", kept).stdout


def test_a_file_that_somebody_put_in_its_place_stays(
    kept: Path, tmp_path: Path, storlab: Verb
) -> None:
    (tmp_path / "thesis").write_text("years of work")
    (tmp_path / "thesis").replace(tmp_path / "one.dat")
    printed = storlab("clean", kept).stdout
    assert "one.dat" not in printed
    assert (tmp_path / "one.dat").read_text() == "years of work"


def test_nothing_is_removed_under_a_running_campaign(
    kept: Path, tmp_path: Path, storlab: Verb
) -> None:
    with ResultStore.open(kept).campaign_lock():
        printed = storlab("clean", kept, "--json", code=ExitCode.RESULT).stdout
    assert "another campaign is running" in json.loads(printed)["error"]["what"]
    assert (tmp_path / "one.dat").exists()


def test_what_is_no_campaign(tmp_path: Path, storlab: Verb) -> None:
    printed = storlab("clean", tmp_path, code=ExitCode.RESULT)
    assert "not a result directory" in printed.stderr


def begun(place: Path, address: str, options: str = "") -> tuple[Path, dict[str, Any]]:
    """Provide a campaign killed after making two objects, before its first run."""
    study_file = place / "study.toml"
    study_file.write_text(OBJECTS.format(address=address, options=options))
    loaded = load_study(study_file)
    with S3Hold(loaded.study.target[0], "0123456789ab", place, None) as hold:
        for rest in ("pool-01234567/0000/00000001", "run-0123456789ab-r1/x"):
            hold.control.put(hold.access.prefix + rest, b"data")
        record = hold.record()
    guard = {
        "schema_version": 1,
        "plan_hash_given": None,
        "working_directory": str(place),
        "devices": {},
        "campaign": "0123456789ab",
        "s3": {"store": record},
    }
    plan = make_plan(loaded)
    ResultStore.create(place / "out", loaded.text, loaded.study, plan, {"guard": guard})
    return place / "out", record


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with versitygw(tmp_path / "server") as running:
        running.make_bucket()
        running.set_environment(monkeypatch)
        yield running


def test_objects_of_a_killed_campaign_go(server: S3Server, tmp_path: Path, storlab: Verb) -> None:
    server.put("somebody/else")
    out, record = begun(tmp_path, f"{server.endpoint}/bench")
    before = sums(out)
    assert len(server.keys()) == 4
    report = json.loads(storlab("clean", out, "--json").stdout)
    assert report["removed"] == [f"{server.endpoint}/bench/{record['prefix']}"]
    assert server.keys() == ["somebody/else"]
    assert sums(out) == before
    report = storlab("clean", out).stdout
    assert "nothing to remove" in report
    assert "makes the data again" in report


def test_foreign_objects_stop_it_and_are_named(
    server: S3Server, tmp_path: Path, storlab: Verb
) -> None:
    out, record = begun(tmp_path, f"{server.endpoint}/bench")
    server.put(f"{record['prefix']}thesis.tex")
    before = server.keys()
    done = storlab("clean", out, "--json", code=ExitCode.GUARD)
    (problem,) = json.loads(done.stdout)["problems"]
    assert "thesis.tex" in problem["what"]
    assert server.keys() == before
    printed = storlab("clean", out, code=ExitCode.GUARD)
    assert "thesis.tex" in printed.stderr
    assert "makes the data again" not in printed.stdout


def test_keys_are_asked_for_anew_and_never_shown(
    server: S3Server, tmp_path: Path, storlab: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = 's3_options = { credentials_env = "BENCH" }'
    keys = {
        "BENCH_ACCESS_KEY_ID": server.credentials.access_key,
        "BENCH_SECRET_ACCESS_KEY": server.credentials.secret_key,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        out, _ = begun(tmp_path, f"{server.endpoint}/bench", options)
    done = storlab("clean", out, code=ExitCode.PREFLIGHT)
    assert "BENCH_SECRET_ACCESS_KEY" in done.stderr
    assert len(server.keys()) == 3
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    done = storlab("clean", out)
    assert server.keys() == []
    kept = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    for value in keys.values():
        assert value not in done.stdout + done.stderr
        assert value.encode() not in kept


def test_the_directory_of_an_embedded_store_goes(tmp_path: Path, storlab: Verb) -> None:
    out, _ = begun(tmp_path, "embedded:objects")
    assert (tmp_path / "objects").is_dir()
    printed = storlab("clean", out).stdout
    assert f"removed {tmp_path / 'objects'}" in printed
    assert not (tmp_path / "objects").exists()

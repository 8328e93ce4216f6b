"""Data files of two campaigns at one path: one at a time; each removes only its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode, GuardError
from storlab.cli.main import main
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.plan import make_plan
from storlab.lab.prepare.dataset import PrepareError, lay_out
from storlab.lab.study.file import load_study
from storlab.model.job import Member
from storlab.process.execution import StopRequest
from storlab.stores.sidecar import DataFileHold, Sidecar, sidecar_path

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]
STUDY = """
[study]
name = "locks"
repeats = 1
ramp = 0
runtime = "{runtime}"
interval = "50ms"
[[target]]
name = "file"
path = "{place}/data"
size = "1MiB"
direct = false
keep_data = {keep}
[[target]]
name = "other"
path = "{place}/{other}"
size = "1MiB"
direct = false
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = 0
"""


def write_study(
    place: Path, *, runtime: str = "100ms", keep: bool = False, other: str = "other"
) -> Path:
    path = place / f"study-{runtime}-{keep}.toml"
    path.write_text(STUDY.format(place=place, runtime=runtime, keep=str(keep).lower(), other=other))
    return path


def run(study: Path, out: Path) -> int:
    return main(["run", str(study), "--out", str(out), "--no-report", "--json"])


@contextmanager
def endless(study: Path, out: Path) -> Iterator[None]:
    """Provide a campaign running in another process."""
    command = [*COMMAND, "run", str(study), "--out", str(out), "--no-report"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    try:
        while not (out / "work").exists() and process.poll() is None:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()
        yield
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate()


def test_two_campaigns_do_not_share_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_study(tmp_path, runtime="1h")
    study = write_study(tmp_path)
    with endless(first, tmp_path / "first"):
        while not json.loads(sidecar_path(tmp_path / "data").read_text())["inode"]:
            time.sleep(0.01)
        before = (tmp_path / "data").stat().st_ino
        assert run(study, tmp_path / "second") == ExitCode.GUARD
        assert "in use by another campaign" in capsys.readouterr().out
        assert main(["doctor", str(study)]) != ExitCode.OK
        assert "in use by another campaign" in capsys.readouterr().out
        assert main(["clean", str(tmp_path / "first")]) == ExitCode.RESULT
        assert (tmp_path / "data").stat().st_ino == before
        assert not (tmp_path / "second").exists()
    assert run(study, tmp_path / "second") == ExitCode.OK


def test_what_another_campaign_kept_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write_study(tmp_path, keep=True), tmp_path / "first") == ExitCode.OK
    inode = (tmp_path / "data").stat().st_ino
    capsys.readouterr()
    assert run(write_study(tmp_path), tmp_path / "second") == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told["removed_data_files"] == [str(tmp_path / "other")]
    assert main(["clean", str(tmp_path / "second")]) == ExitCode.OK
    assert (tmp_path / "data").stat().st_ino == inode
    assert main(["clean", str(tmp_path / "first")]) == ExitCode.OK
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "study-100ms-False.toml",
        "study-100ms-True.toml",
    ]


def test_what_another_campaign_has_overwritten_is_no_wrong_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path, keep=True)
    study.write_text(f"{study.read_text()}verify = true\n")
    for out in ("first", "second"):
        assert run(study, tmp_path / out) == ExitCode.OK
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "first")]) == ExitCode.RESULT
    assert "has overwritten it" in capsys.readouterr().err


def test_a_refused_study_leaves_no_sidecar(tmp_path: Path) -> None:
    loaded = load_study(write_study(tmp_path))
    with (
        DataFileHold(tmp_path / "other", "another"),
        pytest.raises(GuardError, match="in use by another campaign"),
        Guard(loaded.study, make_plan(loaded)),
    ):
        pytest.fail("the guard let it pass")
    assert [p.suffix for p in tmp_path.iterdir()] == [".toml"]


def test_the_lock_stays_while_the_sidecar_is_rewritten(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with DataFileHold(data, "first") as hold:
        for state in ("started", "complete"):
            hold.write(Sidecar(1, 1, "0", state, campaign="first"))  # type: ignore[arg-type]
            with pytest.raises(GuardError, match="in use"), DataFileHold(data, "second"):
                pytest.fail("two hold it")
    with DataFileHold(data, "second"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_under_our_name_is_not_laid_out_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    member = Member(path=str(data), name=str(data), kind="file", size=1 << 20)
    with DataFileHold(data, "c") as hold:
        hold.begin(member.size, 1, writes=True)

        class Meanwhile(Reporter):
            def step(self, *_: object) -> None:
                data.write_bytes(b"years of work")

        with pytest.raises(PrepareError, match="File exists"):
            lay_out(
                [member],
                {str(data): hold},
                direct=False,
                seed=1,
                stop=StopRequest(),
                reporter=Meanwhile(),
            )
        assert not hold.remove()
    assert data.read_bytes() == b"years of work"


def test_a_reader_that_looks_keeps_no_campaign_out(tmp_path: Path) -> None:
    """Check that a process polling the file's lock does not block a campaign."""
    data = tmp_path / "data"
    with DataFileHold(data, "c") as hold:
        hold.begin(1, 1, writes=True)
        data.touch()
    code = (
        "import sys, pathlib; from storlab.base.locks import is_locked\n"
        "path = pathlib.Path(sys.argv[1]); print('go', flush=True)\n"
        "while True: is_locked(path)\n"
    )
    command = [sys.executable, "-c", code, str(sidecar_path(data))]
    looking = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert looking.stdout is not None
        assert looking.stdout.readline() == b"go\n"
        for _ in range(300):
            with DataFileHold(data, "c"):
                pass
    finally:
        looking.kill()
        looking.communicate()
    assert data.exists()

"""A lost terminal, and a full disk while the brief is written."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode, ResultError
from storlab.cli.main import main
from storlab.lab.run.capacity import write_capacity
from storlab.lab.site.clients import Clients
from storlab.model.cluster import Cluster
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore
from support.mounts import mounted

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]
STUDY = """
[study]
name = "endings"
repeats = {repeats}
ramp = 0
runtime = "200ms"
interval = "20ms"
[[target]]
name = "one"
path = "{place}/one.dat"
size = "1MiB"
direct = false
[[target]]
name = "nothing"
path = "null:"
size = "1MiB"
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = [0, 100]
"""


def write_study(place: Path, repeats: int) -> Path:
    path = place / "study.toml"
    path.write_text(STUDY.format(place=place, repeats=repeats))
    return path


@pytest.mark.usefixtures("hangups_end_programs")
def test_a_lost_terminal_ends_the_campaign_cleanly(tmp_path: Path) -> None:
    """Check a clean end on SIGHUP with failing output, as after a lost ssh connection."""
    study, out = write_study(tmp_path, repeats=1000), tmp_path / "out"
    controller, terminal = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *COMMAND, "run", str(study), "--out", str(out), "--clean"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    while not list((out / "runs").glob("[!.]*")) and process.poll() is None:
        time.sleep(0.01)
    os.close(controller)
    assert process.wait() == ExitCode.INTERRUPTED
    assert ResultStore.open(out).records()
    assert not (out / "work").exists()
    assert not (tmp_path / "one.dat").exists()


def test_many_hangups_are_one_wish_and_a_second_interrupt_ends_it() -> None:
    code = (
        "import os, signal\n"
        "from storlab.process.execution import StopRequest\n"
        "with StopRequest().installed() as stop:\n"
        "    for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):\n"
        "        os.kill(os.getpid(), number)\n"
        "    print(stop.requested, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stdout == b"True\n"
    assert done.returncode == -signal.SIGINT


def test_under_nohup_a_hangup_is_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest().installed() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.root
def test_a_disk_that_is_full_while_the_brief_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path, repeats=1)
    tmpfs = ("-t", "tmpfs", "-o", "size=600k", "storlab-test")
    with mounted(tmp_path / "small", *tmpfs) as small:
        out = small / "out"
        assert main(["run", str(study), "--out", str(out)]) == ExitCode.RESULT
        told = capsys.readouterr()
        assert "4 of 4 runs finished" in told.out
        assert os.strerror(errno.ENOSPC) in told.err
        assert f"storlab report {out}" in told.err
        assert main(["report", str(out), "--json"]) == ExitCode.RESULT
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["where"].startswith(str(out))
        with (small / "filler").open("wb", 0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))
        assert main(["resume", str(out), "--json"]) == ExitCode.RESULT
        told_json = json.loads(capsys.readouterr().out)
        assert told_json["runs"]["missing"] == 0
        assert told_json["brief_error"]["exit_code"] == ExitCode.RESULT
        assert main(["export", str(out), "--format", "fio-json"]) == ExitCode.USAGE
        assert not list(small.rglob("*.tmp"))
        (small / "filler").unlink()
        assert len(ResultStore.open(out).records()) == 4


@pytest.mark.root
def test_a_full_disk_is_named_whatever_is_written_to_it(tmp_path: Path) -> None:
    study = write_study(tmp_path, repeats=1)
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=600k", "storlab-test") as small:
        assert main(["run", str(study), "--out", str(small / "out")]) == ExitCode.RESULT
        store = ResultStore.open(small / "out")
        (store.directory / "campaign.lock").unlink()
        cluster = Cluster.model_validate({"hosts": ["localhost"], "clients": [1]})
        clients = Clients.of(cluster, tmp_path)
        with (small / "filler").open("wb", 0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))
        full, resume = os.strerror(errno.ENOSPC), f"storlab resume {store.directory}"
        with pytest.raises(ResultError, match=f"campaign.lock .*{full}") as told:
            store.campaign_lock().__enter__()
        assert resume in told.value.fix
        with pytest.raises(ResultError, match=f"plan .*{full}"):
            store.extend(store.plan)
        search = ResultStore(
            store.directory, store.study_text, store.study, store.plan, {"capacity": True}
        )
        with pytest.raises(ResultError, match=f"capacity.json .*{full}") as told:
            write_capacity(search, {})
        assert f"storlab capacity STUDY --out {store.directory}" in told.value.fix
        with pytest.raises(ResultError, match=f"task: .*{full}"):
            clients.begin("run", [], small / "task", {}, {1: bytes(8192)})

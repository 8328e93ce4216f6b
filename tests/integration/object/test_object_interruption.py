"""Campaigns on a real store that are interrupted, continued and cleaned up.

Only storlab's own objects may be removed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from support.s3_servers import S3Server, versitygw

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]
FOREIGN = ["somebody/else", "storlab-notours/pool-1/x", "storlab.json"]
STUDY = """\
[study]
name = "cut off"
repeats = 3
ramp = 0
runtime = "500ms"
interval = "50ms"

[[target]]
name = "store"
s3 = "{endpoint}/{bucket}"
s3_options = {{ create_bucket = {create} }}
keep_data = {keep}

[[workload]]
kind = "object"
get_percent = 50
object_size = "4KiB"
objects = 20
concurrency = 2
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with versitygw(tmp_path_factory.mktemp("s3")) as running:
        yield running


@dataclass(frozen=True)
class Printed:
    stdout: str
    stderr: str


class Campaign:
    """One study in its own directory; it runs as a process so that it can be killed."""

    def __init__(self, place: Path, server: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.server = place, server
        self.out = place / "out"
        self.bucket = ""
        self._capsys = capsys

    def write(self, bucket: str, *, create: bool = False, keep: bool = False) -> None:
        self.bucket = bucket
        study = STUDY.format(
            endpoint=self.server.endpoint,
            bucket=bucket,
            create=str(create).lower(),
            keep=str(keep).lower(),
        )
        (self.place / "study.toml").write_text(study)

    def __call__(self, *arguments: str, code: int = 0) -> Printed:
        self._capsys.readouterr()
        ended = main(list(arguments))
        printed = Printed(*self._capsys.readouterr())
        assert ended == code, printed
        return printed

    def cut_off(self, number: signal.Signals = signal.SIGINT) -> None:
        """Start the campaign and kill it in its second run."""
        code = int(ExitCode.INTERRUPTED if number is signal.SIGINT else -number)
        self.disturb(lambda process: process.send_signal(number), code)

    def disturb(self, by: Callable[[subprocess.Popen[str]], None], code: int) -> str:
        """Start the campaign, call ``by`` in its second run, and return its output."""
        command = [*COMMAND, "run", "study.toml", "--out", "out", "--quiet"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                while not list(self.server.root.glob(f"{self.bucket}/storlab-*/run-*-r2")):
                    assert process.poll() is None, process.communicate()
                    time.sleep(0.005)
                by(process)
                printed = process.communicate()
            finally:
                process.kill()
        assert process.returncode == code, printed
        # A server completes a started request even if the client is gone.
        before = None
        while before != (before := self.keys()):
            time.sleep(0.2)
        return printed[1]

    def keys(self, part: str = "") -> list[str]:
        if not (self.server.root / self.bucket).is_dir():
            return []
        return [key for key in self.server.keys(self.bucket) if part in key]

    def own_keys(self) -> list[str]:
        return [key for key in self.keys() if key not in FOREIGN]

    def status(self) -> dict[str, int]:
        runs: dict[str, int] = json.loads(self("status", "out", "--json").stdout)["runs"]
        return runs


@pytest.fixture
def new(
    tmp_path: Path,
    server: S3Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Campaign:
    """Provide a campaign without a study."""
    server.set_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return Campaign(tmp_path, server, capsys)


@pytest.fixture
def campaign(new: Campaign, server: S3Server, request: pytest.FixtureRequest) -> Campaign:
    """Provide a campaign in its own bucket with foreign objects."""
    bucket = request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    server.make_bucket(bucket)
    for key in FOREIGN:
        server.put(key, bucket=bucket)
    new.write(bucket)
    return new


def test_interrupted_then_resumed(campaign: Campaign) -> None:
    campaign.cut_off()
    before = campaign.status()
    assert before["finished"] == 3 - before["missing"] < 3
    assert before["failed"] == 0
    assert len([key for key in campaign.own_keys() if "/pool-" in key]) == 20
    campaign("resume", "out", "--quiet", "--no-report")
    assert campaign.status()["finished"] == 3
    assert campaign.keys() == FOREIGN


def test_interrupted_then_cleaned(campaign: Campaign) -> None:
    campaign.cut_off()
    before = campaign.status()
    assert len({key.partition("/")[0] for key in campaign.own_keys()}) == 1
    report = json.loads(campaign("clean", "out", "--json").stdout)
    assert len(report["removed"]) == 1
    assert report["problems"] == []
    assert campaign.keys() == FOREIGN
    assert campaign.status() == before


def test_killed_in_a_run_then_cleaned(campaign: Campaign) -> None:
    campaign.cut_off(signal.SIGKILL)
    assert campaign.keys("-r2/")
    campaign("clean", "out")
    assert campaign.keys() == FOREIGN


def test_killed_in_a_run_then_resumed(campaign: Campaign) -> None:
    campaign.cut_off(signal.SIGKILL)
    campaign("resume", "out", "--quiet", "--no-report")
    assert campaign.status()["finished"] == 3
    assert campaign.keys() == FOREIGN


def test_a_foreign_object_below_the_prefix_stops_everything(campaign: Campaign) -> None:
    campaign.cut_off()
    (prefix,) = {key.partition("/")[0] for key in campaign.own_keys()}
    campaign.server.put(f"{prefix}/thesis.tex", bucket=campaign.bucket)
    before = campaign.keys()
    for verb in ("resume", "clean"):
        printed = campaign(verb, "out", code=ExitCode.GUARD)
        assert "thesis.tex" in printed.stderr
        assert campaign.keys() == before


def test_kept_objects_stay_until_clean(new: Campaign, server: S3Server) -> None:
    server.make_bucket("kept-objects")
    new.write("kept-objects", keep=True)
    new("run", "study.toml", "--out", "out", "--quiet", "--no-report")
    assert len(new.keys("/pool-")) == 20
    assert new.keys("/run-") == []
    new("clean", "out")
    assert new.keys() == []
    assert (server.root / "kept-objects").is_dir()  # storlab did not create it


def test_a_bucket_that_storlab_made_goes_with_its_campaign(new: Campaign, server: S3Server) -> None:
    new.write("made-here", create=True)
    new.cut_off()
    removed = json.loads(new("clean", "out", "--json").stdout)["removed"]
    assert f"bucket {server.endpoint}/made-here" in removed
    assert not (server.root / "made-here").exists()


def test_a_bucket_that_storlab_made_stays_with_what_others_put_in(
    new: Campaign, server: S3Server
) -> None:
    new.write("made-and-used", create=True)
    new.cut_off()
    server.put("somebody/else", bucket="made-and-used")
    new("clean", "out")
    assert new.keys() == ["somebody/else"]


def test_a_bucket_that_was_there_is_never_deleted(new: Campaign, server: S3Server) -> None:
    server.make_bucket("was-there")
    new.write("was-there", create=True)
    new("run", "study.toml", "--out", "out", "--quiet", "--no-report")
    assert new.keys() == []
    assert (server.root / "was-there").is_dir()


def test_a_suspended_campaign_whose_place_another_has_taken_ends(campaign: Campaign) -> None:
    """Check that a suspended campaign that lost its lease fails its run and ends."""
    ended = {"campaign": "ba9876543210", "session": "another", "until_s": 1.0}  # an expired lease

    def take(process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGSTOP)
        claim = campaign.server.root / campaign.bucket / "storlab-claim.json"
        content = json.loads(claim.read_text()) | ended
        claim.write_text(json.dumps(content))
        process.send_signal(signal.SIGCONT)

    printed = campaign.disturb(take, ExitCode.GUARD)
    assert "is in use by campaign ba9876543210" in " ".join(printed.split())
    assert "storlab resume" in printed
    assert campaign.status() | {"finished": 1, "failed": 1, "missing": 1} == campaign.status()
    record = json.loads(next(campaign.out.glob("runs/*-r2/run.json")).read_text())
    assert "is in use by campaign ba9876543210" in record["failure"]["message"]
    campaign("resume", "out", "--retry-failed", "--quiet", "--no-report")
    assert campaign.status()["finished"] == 3
    assert campaign.keys() == FOREIGN

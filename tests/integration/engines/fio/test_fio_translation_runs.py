"""Job files as fio itself reads and runs them, against their translation."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from conftest import need_program
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.engines.fio import importer_options
from storlab.engines.fio.job_files import JobSection, read_jobs
from storlab.results.store import ResultStore

FULL = """\
; options of all kinds, with comments where fio allows them
[global]
direct=0
bs=4k # a comment
  size=16m
include more.fio
[first job]
rw=randread
io_limit=8m ; another
iodepth=$ncpus
norandommap

[second]
readwrite=randrw
stonewall
wait_for_previous
numjobs=2*$ncpus
bssplit=4k/60:16k/40
description=${NAME} job
[second]
rw=trim
buffered=1
filename=${PLACE}/a:${PLACE}/b
"""


pytestmark = pytest.mark.fio


def own_options(section: JobSection, shared: int) -> dict[str, str]:
    settings = section.settings[shared:]
    return {
        importer_options.plain(s.name, "")[0]: "1" if s.value is None else s.value for s in settings
    }


def test_sections_and_options_are_those_that_fio_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_program("fio")
    monkeypatch.setenv("NAME", "my")
    monkeypatch.setenv("PLACE", "/data")
    (tmp_path / "a.fio").write_text(FULL)
    (tmp_path / "more.fio").write_text("ioengine=psync\nthread\n")
    shown = subprocess.run(
        ["fio", "--showcmd", str(tmp_path / "a.fio")], capture_output=True, text=True, check=True
    ).stdout
    # fio prints the global options, and then each section's name and own options.
    parts: list[tuple[str, dict[str, str]]] = [("", {})]
    rest = shown.replace("--name=first job", "--name='first job'")
    rest = rest.replace("--description=my job", "--description='my job'")
    for word in shlex.split(rest)[1:]:
        name, sign, value = word.removeprefix("--").partition("=")
        if name == "name":
            parts.append((value, {}))
        else:
            parts[-1][1][importer_options.plain(name, "")[0]] = value if sign else "1"
    jobs = read_jobs(str(tmp_path / "a.fio"))
    shared = len(parts[0][1])
    assert [job.name for job in jobs] == [name for name, _ in parts[1:]]
    assert own_options(JobSection("", "", jobs[0].settings[:shared]), 0) == parts[0][1]
    assert [own_options(job, shared) for job in jobs] == [options for _, options in parts[1:]]


def test_a_study_does_the_work_of_the_job_that_it_was_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_program("fio")
    monkeypatch.chdir(tmp_path)
    job = "[global]\nfilename=f.dat\nsize=4m\nfallocate=none\n"
    job += "[log]\nrw=write\nbs=8k\nfdatasync=16\n"
    job += "[split]\nstonewall\nrw=randread\nbs=64k\nnumjobs=2\nloops=2\n"
    Path("a.fio").write_text(job)
    done = subprocess.run(
        ["fio", "--output-format=json", "a.fio"], capture_output=True, text=True, check=True
    )
    by_name: dict[str, list[int]] = {}
    for entry in json.loads(done.stdout[done.stdout.index("{") :])["jobs"]:
        counts = by_name.setdefault(entry["jobname"], [0, 0, 0])
        for index, kind in enumerate(("read", "write")):
            counts[index] += entry[kind]["total_ios"]
        counts[2] += entry["read"]["io_bytes"] + entry["write"]["io_bytes"]
    Path("f.dat").unlink()  # storlab lays out its own
    assert main(["init", "--from-fio", "a.fio"]) == ExitCode.OK
    arguments = ["run", "study.toml", "--out", "result", "--quiet", "--no-report"]
    assert main(arguments) == ExitCode.OK
    capsys.readouterr()
    records = ResultStore.open(Path("result")).records()
    assert len(records) == 6  # three repeats
    for record in records:
        reads, writes, moved = by_name[record.workload]
        totals = record.totals
        assert (totals["read"].operations if reads else 0) == reads
        assert (totals["write"].operations if writes else 0) == writes
        assert sum(totals[kind].bytes for kind in ("read", "write") if kind in totals) == moved
        if writes:
            # The window ends with the last write, before or after the flush that follows it.
            assert writes // 16 - totals["sync"].operations in (0, 1)

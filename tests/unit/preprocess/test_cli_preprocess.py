"""``storlab preprocess``: refusals before any read, and its report.

``tests/integration/test_preprocess_verb.py`` tests it with real engines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import EngineError, ExitCode
from storlab.cli.main import main
from storlab.model.job import Job
from storlab.model.result import EngineInfo, Failure, RunOutcome, Snapshot
from storlab.workloads.preprocess import standalone as preprocessing
from storlab.workloads.preprocess.job import STAGES, PreprocessJob
from storlab.workloads.preprocess.rules import usable_cores

LINE = b"1" + b"\t" * 39 + b"\n"
SAMPLE = {"line": 7, "reason": "label", "field": 1, "text": "2"}


@dataclass
class FakeRun:
    """Fake run that has ended, or that runs until it is cancelled."""

    outcome: RunOutcome
    endless: bool = False

    def snapshot(self) -> Snapshot:
        return Snapshot("measure", 0, bytes_s=1e6)

    def cancel(self) -> None:
        self.endless = False

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        del timeout_s
        return None if self.endless else self.outcome


@dataclass
class FakeEngine:
    """Fake engine that records its jobs."""

    failure: Failure | None = None
    endless: bool = False
    missing: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    jobs: list[PreprocessJob] = field(default_factory=list)
    before_end: Callable[[], None] = lambda: None
    name: str = "native"
    kinds: tuple[str, ...] = ("preprocess",)

    def describe(self) -> EngineInfo:
        if self.missing:
            raise EngineError("pandas", "is not installed", "`pip install 'storlab[preprocess]'`")
        return EngineInfo(name=self.name, version="1")

    def refuse(self, job: Job) -> str | None:
        return None if job.kind in self.kinds else "another kind"

    def start(self, job: Job, work_dir: Path) -> FakeRun:
        assert isinstance(job, PreprocessJob)
        assert work_dir.is_dir()
        self.jobs.append(job)
        self.before_end()
        outcome = RunOutcome(
            status="finished" if self.failure is None else "failed",
            engine=self.describe(),
            window_start_ns=0,
            window_end_ns=6_000_000_000,
            samples=[],
            totals={},
            cpu=None,
            failure=self.failure,
            details=self.details or told(job),
        )
        return FakeRun(outcome, self.endless)


def told(job: PreprocessJob, resumed: int = 0, malformed: int = 0) -> dict[str, Any]:
    """Return details of a run with 2 s per stage."""
    stages = [
        {
            "name": name,
            "start_ns": 2_000_000_000 * number,
            "end_ns": 2_000_000_000 * (number + 1),
            "rows": 1000,
            "input_bytes": 4_000_000,
            "output_bytes": 5,
            "cpu_ns": 1_500_000_000,
            "peak_memory_bytes": 3_000_000,
            "parts": 4,
            "resumed_parts": resumed if number == 0 else 0,
            "passes": 1,
            "device_read_bytes": None,
            "device_written_bytes": None,
        }
        for number, name in enumerate(STAGES)
    ]
    samples = [{"file": job.inputs[0], **SAMPLE} for _ in range(min(malformed, 20))]
    return {
        "stages": stages,
        "rows": 1000,
        "lines": 1000 + malformed,
        "malformed": {"count": malformed, "by_reason": {"label": malformed}, "samples": samples},
        "resumed_parts": resumed,
        "peak_memory_bytes": 3_000_000,
        "output": {
            "rows": 1000,
            "bytes": 131_000,
            "rows_digest": "0123456789abcdef",
            "dictionary_digest": "fedcba9876543210",
            "columns": {"label": "0" * 16},
        },
    }


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setattr(preprocessing, "get_engine", lambda _name: fake)
    return fake


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide raw files, a foreign directory, and outputs begun with the default options."""
    monkeypatch.chdir(tmp_path)
    for name in ("day_0", "day_1"):
        (tmp_path / name).write_bytes(LINE * 100)
    (tmp_path / "day_2.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "mine" / "parquet").mkdir(parents=True)
    (tmp_path / "mine" / "parquet" / "thesis").write_text("years of work")
    size = (tmp_path / "day_0").stat().st_size
    entry = {"bytes": size, "modified_ns": 1, "path": str(tmp_path / "day_0")}
    for name in ("begun", "beside"):
        begin(tmp_path / name, [entry], engine="native")
    (tmp_path / "beside" / "notes.txt").write_text("years of work")
    return tmp_path


def begin(directory: Path, inputs: list[Any], engine: str) -> None:
    """Start an output as engines do."""
    directory.mkdir()
    fields = {
        "engine": engine,
        "inputs": inputs,
        "part_bytes": 64 << 20,
        "row_group_rows": 262_144,
        "compression": "snappy",
        "threshold": 15,
        "modulo": None,
        "numerical": "float16",
    }
    (directory / "run.json").write_text(json.dumps(fields))


def lines_of(text: str) -> dict[str, list[str]]:
    """Return the words of each line by its first word."""
    return {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}


WRONG = [
    ("nothing --out o", ExitCode.USAGE, "nothing: there is no such file"),
    ("mine --out o", ExitCode.USAGE, "mine: is not a regular file"),
    ("/dev/null --out o", ExitCode.USAGE, "/dev/null: is not a regular file"),
    ("day_2.gz --out o", ExitCode.USAGE, "day_2.gz: is compressed"),
    ("day_0 day_1 ./day_0 --out o", ExitCode.USAGE, "day_0: is given twice"),
    ("day_0 --out .", ExitCode.USAGE, "day_0: is in the output directory"),
    ("day_0 --out day_1", ExitCode.USAGE, "--out day_1: is not a directory"),
    ("day_0 --out day_1/o", ExitCode.PREFLIGHT, "--out day_1/o: "),
    ("day_0", ExitCode.USAGE, "--out"),
    ("--out o", ExitCode.USAGE, "FILE"),
    ("day_0 --out o --engine spark", ExitCode.USAGE, "--engine: should be 'native', 'pandas'"),
    ("day_0 --out o --workers 0", ExitCode.USAGE, "--workers: must be at least 1, not 0"),
    ("day_0 --out o --threshold -1", ExitCode.USAGE, "--threshold: must be at least 0, not -1"),
    ("day_0 --out o --modulo 0", ExitCode.USAGE, "--modulo: must be at least 1, not 0"),
    ("day_0 --out o --numerical int8", ExitCode.USAGE, "--numerical: should be 'float16' or"),
    ("day_0 --out o --malformed keep", ExitCode.USAGE, "--malformed: should be 'refuse' or"),
    ("day_0 --out o --memory 4G", ExitCode.USAGE, '--memory: "4G" is ambiguous'),
    (
        "day_0 --out o --part-size 1KiB",
        ExitCode.USAGE,
        "--part-size: must be at least 4KiB, not 1KiB",
    ),
    ("day_0 --out o --row-group-rows 0", ExitCode.USAGE, "--row-group-rows: must be at least 1"),
    ("day_0 --out o --compression gzip", ExitCode.USAGE, "--compression: should be 'none', "),
    ("day_0 --out o --workers 64", ExitCode.USAGE, "--memory: 4GiB is too small for a row group"),
    ("day_0 --out o --memory 1MiB", ExitCode.USAGE, "--memory: 1MiB is too small for a row group"),
    ("day_0 --out mine", ExitCode.GUARD, "--out mine: contains parquet/thesis"),
    ("day_0 --out beside", ExitCode.GUARD, "--out beside: contains notes.txt, "),
    ("day_1 --out begun", ExitCode.USAGE, "begun was started with other files"),
    ("day_0 day_1 --out begun", ExitCode.USAGE, "begun was started with other files"),
    ("day_0 --out begun --engine pandas", ExitCode.USAGE, "give --engine native, or name another"),
    (
        "day_0 --out begun --modulo 5",
        ExitCode.USAGE,
        "--modulo: the run in begun was started without it",
    ),
    ("day_0 --out begun --part-size 1MiB", ExitCode.USAGE, "give --part-size 64MiB"),
    (
        "day_0 --out begun --threshold 3",
        ExitCode.USAGE,
        "--threshold: the run in begun was started with 15",
    ),
]


@pytest.mark.parametrize(("call", "code", "words"), WRONG, ids=[call for call, *_ in WRONG])
def test_what_cannot_be_is_refused_before_anything_is_written(
    call: str,
    code: ExitCode,
    words: str,
    place: Path,
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(place.rglob("*"))
    assert main(["preprocess", *call.split()]) == code
    assert words in capsys.readouterr().err
    assert engine.jobs == []
    assert sorted(place.rglob("*")) == before


def test_files_that_have_changed_since_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (place / "day_0").open("ab") as file:
        file.write(LINE)
    assert main(["preprocess", "day_0", "--out", "begun"]) == ExitCode.USAGE
    assert "day_0: has changed since the run in begun" in capsys.readouterr().err


def test_an_output_of_a_data_framework_is_recognised(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    day = place / "day_0"
    begin(place / "frame", [[str(day), day.stat().st_size]], engine="pandas")
    assert main(["preprocess", "day_0", "--out", "frame"]) == ExitCode.USAGE
    assert "--engine: the run in frame was started with pandas" in capsys.readouterr().err
    assert main(["preprocess", "day_0", "--out", "frame", "--engine", "pandas"]) == ExitCode.OK
    assert len(engine.jobs) == 1


def test_an_output_that_was_only_just_begun_is_gone_on_with(
    place: Path, engine: FakeEngine
) -> None:
    (place / "o" / "vocabulary").mkdir(parents=True)
    (place / "o" / "run.json.partial").write_text("{")
    assert main(["preprocess", "day_0", "--out", "o"]) == ExitCode.OK
    assert len(engine.jobs) == 1


def test_an_engine_that_is_not_installed(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    del place
    engine.missing = True
    assert main(["preprocess", "day_0", "--out", "o", "--engine", "pandas"]) == ExitCode.ENGINE
    assert "storlab[preprocess]" in capsys.readouterr().err


def test_the_order_says_what_the_options_say(place: Path, engine: FakeEngine) -> None:
    """Check that the job equals the options, with absolute paths."""
    (place / "link").symlink_to(place / "day_1")
    call = (
        "day_1 ../{}/day_0 --out o --workers 2 --threshold 3 --modulo 100 --numerical float32 "
        "--malformed skip --memory 2GB --part-size 1MiB --row-group-rows 1000 --compression zstd"
    )
    assert main(["preprocess", *call.format(place.name).split()]) == ExitCode.OK
    (job,) = engine.jobs
    assert job == PreprocessJob(
        inputs=[str(place / "day_1"), str(place / "day_0")],
        directory=str(place / "o"),
        workers=2,
        threshold=3,
        modulo=100,
        numerical="float32",
        malformed="skip",
        memory_bytes=2_000_000_000,
        part_bytes=1 << 20,
        row_group_rows=1000,
        compression="zstd",
        cold=False,
        resume=True,
    )


def test_defaults_are_those_of_studies(place: Path, engine: FakeEngine) -> None:
    assert main(["preprocess", "day_0", "--out", "o"]) == ExitCode.OK
    assert engine.jobs == [
        PreprocessJob(
            inputs=[str(place / "day_0")], directory=str(place / "o"), cold=False, resume=True
        )
    ]


@pytest.mark.parametrize(
    ("parts", "memory", "workers"),
    [
        (2 * usable_cores(), "4GiB", usable_cores()),
        (1, "4GiB", 1),
        (2 * usable_cores(), "80MB", 1),  # a row group, plus a worker's own memory
    ],
)
def test_workers_are_what_cores_parts_and_memory_allow(
    parts: int, memory: str, workers: int, place: Path, engine: FakeEngine
) -> None:
    (place / "day_0").write_bytes(bytes(4096 * parts))
    call = ["preprocess", "day_0", "--out", "o", "--part-size", "4KiB", "--memory", memory]
    assert main(call) == ExitCode.OK
    assert engine.jobs[0].workers == workers


@pytest.mark.parametrize(("free", "code"), [(5_000, ExitCode.PREFLIGHT), (8_000, ExitCode.OK)])
def test_room_is_looked_at_beforehand(
    free: int,
    code: ExitCode,
    place: Path,
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Check free space: 100 rows need 53 bytes each in binary, at most 321 of output."""
    (place / "day_0").write_bytes(b"x" * 245 * 100)
    monkeypatch.setattr(preprocessing, "free_bytes", lambda _path: free)
    assert main(["preprocess", "day_0", "--out", "o"]) == code
    assert ("warning: --out" in capsys.readouterr().err) == (code == ExitCode.OK)
    assert len(engine.jobs) == (code == ExitCode.OK)


def test_what_cannot_be_written_is_said(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (place / "closed").mkdir(mode=0o500)
    assert main(["preprocess", "day_0", "--out", "closed/o"]) == ExitCode.PREFLIGHT
    assert "may not create files" in capsys.readouterr().err
    assert engine.jobs == []


def test_two_at_a_time_do_not_share_an_output(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    del place
    codes: list[int] = []

    def second() -> None:
        engine.before_end = lambda: None
        codes.append(main(["preprocess", "day_0", "--out", "o"]))

    engine.before_end = second
    assert main(["preprocess", "day_0", "--out", "o"]) == ExitCode.OK
    assert codes == [ExitCode.RESULT]
    assert "in use by another process" in capsys.readouterr().err


def test_stages_digests_and_the_feature_specification_are_told(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preprocess", "day_0", "--out", "o"]) == ExitCode.OK
    printed = capsys.readouterr()
    rows = lines_of(printed.out)
    assert rows["ingest"] == ["ingest", "2", "s", "500", "2.00", "1.50", "3", "MB", "4"]
    assert rows["all"] == ["all", "6", "s", "167", "0.667", "4.50", "3", "MB"]
    assert "rows: 1,000, in binary 131 KB, digest 0123456789abcdef" in printed.out
    assert "vocabularies: digest fedcba9876543210" in printed.out
    assert str(place / "o" / "binary" / "feature_spec.yaml") in printed.out.replace("\n", "")
    assert "ingest: 1 part\n" in printed.err
    del engine


def test_rates_of_what_an_earlier_process_did_are_not_told(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.details = told(PreprocessJob(inputs=[str(place / "day_0")], directory="o"), resumed=3)
    assert main(["preprocess", "day_0", "--out", "o"]) == ExitCode.OK
    rows = lines_of(capsys.readouterr().out)
    assert rows["ingest"] == ["ingest", "2", "s", "1.50", "3", "MB", "4,", "3", "before"]
    assert rows["all"] == ["all", "6", "s", "4.50", "3", "MB"]
    assert rows["encode"][3:5] == ["500", "2.00"]


def test_malformed_lines_are_told_with_the_first_of_them(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    day = place / "day_0"
    engine.details = told(PreprocessJob(inputs=[str(day)], directory="o"), malformed=30)
    call = ["preprocess", "day_0", "--out", "o", "--malformed", "skip"]
    assert main(call) == ExitCode.OK
    out = capsys.readouterr().out
    assert out.count(f"{day}, line 7: label, field 1: 2\n") == 5
    assert "and 25 malformed lines more" in out
    assert "malformed-lines: 30 of 1,030 lines (2.9 %) are malformed and left out" in out
    assert main([*call, "--json"]) == ExitCode.OK
    report = json.loads(capsys.readouterr().out)
    assert report["malformed"]["samples"] == [{"file": str(day), **SAMPLE}] * 20
    assert [flag["kind"] for flag in report["flags"]] == ["malformed-lines"]


def test_refused_lines_fail_the_run_with_an_option_as_the_cure(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.details = told(PreprocessJob(inputs=[str(place / "day_0")], directory="o"), malformed=30)
    engine.failure = Failure(message="30 lines are malformed", fix='set malformed = "skip"')
    assert main(["preprocess", "day_0", "--out", "o"]) == ExitCode.RUN_FAILED
    printed = capsys.readouterr()
    assert "30 lines are malformed" in printed.err
    assert "fix: give --malformed skip" in printed.err
    assert "line 7: label" in printed.out
    assert "digest" not in printed.out


def test_a_failed_run_says_why_and_keeps_what_its_program_printed(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.failure = Failure(message="pandas ended by signal 9", fix="see raw/stderr.txt; or so")
    engine.details = {"stages": []}
    call = ["preprocess", "day_0", "--out", "o"]
    assert main(call) == ExitCode.RUN_FAILED
    printed = capsys.readouterr()
    assert f"error: {place / 'o'}: pandas ended by signal 9" in printed.err
    assert "Traceback" not in printed.err + printed.out
    (place_of_raw,) = [word for word in printed.err.split() if word.endswith("stderr.txt;")]
    work_dir = Path(place_of_raw.rstrip(";")).parent
    assert work_dir.is_dir()
    work_dir.rmdir()
    engine.failure = Failure(message="no space", fix="make room")
    assert main([*call, "--json"]) == ExitCode.RUN_FAILED
    found = json.loads(capsys.readouterr().out)
    assert found["error"] == {
        "kind": "RunError",
        "where": str(place / "o"),
        "what": "no space",
        "fix": "make room",
        "exit_code": 6,
    }
    assert found["feature_spec"] is None


def test_json_has_what_the_engine_told(
    place: Path, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preprocess", "day_0", "--out", "o", "--json"]) == ExitCode.OK
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert found["directory"] == str(place / "o")
    assert found["feature_spec"] == str(place / "o" / "binary" / "feature_spec.yaml")
    assert (found["exit_code"], found["interrupted"]) == (0, False)
    assert found["order"]["inputs"] == [str(place / "day_0")]
    assert [stage["name"] for stage in found["stages"]] == list(STAGES)
    assert found["output"]["rows_digest"] == "0123456789abcdef"
    assert "error" not in found
    del engine


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_run_says_how_to_go_on(
    as_json: bool,
    place: Path,
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine.endless = True
    engine.before_end = lambda: os.kill(os.getpid(), 2)
    monkeypatch.setattr("storlab.process.execution.POLL_S", 0.001)
    call = ["preprocess", "day_0", "--out", "o", *["--json"] * as_json]
    assert main(call) == ExitCode.INTERRUPTED
    printed = capsys.readouterr()
    assert "the same command goes on" in printed.err
    if as_json:
        document = json.loads(printed.out)
        assert document["schema"] == "preprocess"
        assert document["directory"] == str(place / "o")
        assert (document["interrupted"], document["exit_code"]) == (True, 7)
        assert document["engine"] is document["feature_spec"] is None

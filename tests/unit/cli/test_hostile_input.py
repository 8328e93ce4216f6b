"""Malicious or broken files and studies give an error that names the problem.

No traceback, no endless wait, no write outside of the named place.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode, ResultError
from storlab.cli.main import main
from storlab.results.store import ResultStore
from support.error_documents import STUDY, Error
from support.large_campaign import large_campaign

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Provide a result directory."""
    large_campaign(tmp_path / "r", runs=8, repeats=2, draw=random.Random(1))
    return tmp_path / "r"


def _study(folder: Path, before: str = "", after: str = "") -> Path:
    path = folder / "study.toml"
    assert before in STUDY
    path.write_text(STUDY.replace(before, after) if before else STUDY + after)
    return path


@pytest.mark.parametrize("verb", ["plan", "doctor", "run"])
def test_a_study_that_is_no_regular_file_is_refused_at_once(
    verb: str, tmp_path: Path, error: Error
) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    for path in ("/dev/zero", tmp_path / "pipe.toml", tmp_path / "loop.toml", "n" * 300):
        assert error(verb, path, code=ExitCode.STUDY)["where"] == str(path)


@pytest.mark.parametrize("verb", ["plan", "doctor", "run"])
@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("path", f'path = "{"n" * 300}"\nsize = "1MiB"'),
        ("path", 'path = "loop"\nsize = "1MiB"'),
        ("path", r'path = "a\u0000b"'),
        ("paths", f'paths = ["{"n" * 300}"]\nsize = "1MiB"'),
        ("directory", f'directory = "{"n" * 300}"\nsize = "1MiB"'),
        ("directory", 'directory = "loop/x"\nsize = "1MiB"'),
        ("s3", f's3 = "embedded:{"n" * 300}"'),
    ],
)
def test_a_path_that_cannot_be_one_is_named_by_its_field(
    verb: str,
    field: str,
    written: str,
    tmp_path: Path,
    error: Error,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    study = _study(tmp_path, 'path = "null:"', written)
    if field == "s3":
        study.write_text(study.read_text().replace('"block"\njobs = 1', '"object"\nobjects = 4'))
    problems = error(verb, study, code=ExitCode.STUDY)["problems"]
    assert [problem["line"] for problem in problems] == [6]
    assert f"[[target]] #1 {field}" in problems[0]["where"]


@pytest.mark.parametrize(
    ("place", "written"),
    [
        ("[[workload]] #1 jobs", f"jobs = {list(range(1, 300_001))}"),
        ("workload", f"jobs = {list(range(1, 201))}\nqueue_depth = {list(range(1, 201))}"),
        ("[study] published", f"jobs = 1\n[study]\nname = 't'\npublished = {['x'] * 20_000}"),
    ],
)
def test_a_list_without_end_is_refused_before_its_values_are_looked_at(
    place: str, written: str, tmp_path: Path, error: Error
) -> None:
    """Check that a list that is too long gives one error, not one per element."""
    study = _study(tmp_path, "jobs = 1", written)
    if "[study]" in written:
        study.write_text(study.read_text().replace('[study]\nname = "t"\nrepeats = 1\n', ""))
    problems = error("plan", study, code=ExitCode.STUDY)["problems"]
    assert len(problems) == 1
    assert place in problems[0]["where"]


def test_keys_and_tables_without_end_are_refused(tmp_path: Path, error: Error) -> None:
    for after in ("a" + ".a" * 50_000 + " = 1\n", "a = " + "[" * 50_000 + "]" * 50_000 + "\n"):
        assert error("plan", _study(tmp_path, "", after), code=ExitCode.STUDY)
    header = "".join(f'[[target]]\nname = "x{n}"\npath = "null:"\n' for n in range(12_000))
    assert error("plan", _study(tmp_path, "", header), code=ExitCode.STUDY)
    shallow = "cost.storage = 1.5\n[[workload]]\n"
    assert main(["plan", str(_study(tmp_path, "[[workload]]\n", shallow))]) == 0


def _rewrite(run: Path, content: bytes) -> None:
    """Edit a result and fix its checksum."""
    (run / "run.json").write_bytes(content)
    lines = (run / "SHA256SUMS").read_text().splitlines()
    kept = [line for line in lines if not line.endswith("  run.json")]
    kept.append(f"{hashlib.sha256(content).hexdigest()}  run.json")
    (run / "SHA256SUMS").write_text("\n".join(kept) + "\n")


def _first_run(made: Path) -> Path:
    return min((made / "runs").iterdir())


READERS = (["report", "--no-pdf"], ["compare"], ["export", "--output", "out.csv"], ["status"])


@pytest.mark.parametrize("words", READERS, ids=[words[0] for words in READERS])
def test_a_run_json_that_is_none_ends_every_reader(
    words: list[str], made: Path, error: Error, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made.parent)
    run = _first_run(made)
    whole = json.loads((run / "run.json").read_bytes())
    details = {**whole, "details": {"x": float("nan")}}
    for content in (
        b"[" * 100_000 + b"]" * 100_000,
        b'{"details":' * 100_000 + b"1" + b"}" * 100_000,
        json.dumps(details).encode(),
        json.dumps({**whole, "status": "weird"}).encode(),
    ):
        _rewrite(run, content)
        found = error(words[0], made, *words[1:], code=ExitCode.RESULT)
        assert found["where"].startswith(str(run / "run.json"))
        assert "pydantic" not in found["what"]
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")
    assert error(words[0], made, *words[1:], code=ExitCode.RESULT)["where"] == str(run / "run.json")


@pytest.mark.parametrize("words", READERS[:3], ids=[words[0] for words in READERS[:3]])
def test_values_that_contradict_the_totals_are_noticed(
    words: list[str], made: Path, error: Error, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made.parent)
    run = _first_run(made)
    whole = json.loads((run / "run.json").read_bytes())

    def changed(name: str, operation: str, factor: float) -> bytes:
        metrics = [
            {**m, "value": m["value"] * factor} if (m["name"], m["operation"]) == (name, operation)
            else m
            for m in whole["metrics"]
        ]  # fmt: skip
        assert factor == 1 or metrics != whole["metrics"]
        return json.dumps({**whole, "metrics": metrics}).encode()

    totals = json.loads(json.dumps(whole))
    next(iter(totals["totals"].values()))["bytes"] *= 2
    negative = json.loads(json.dumps(whole))
    next(iter(negative["totals"].values()))["operations"] = -1
    for content in (
        changed("throughput_mb_s", "all", 1.01),
        changed("iops", "read", 0.5),
        json.dumps(totals).encode(),
        json.dumps(negative).encode(),
    ):
        _rewrite(run, content)
        found = error(words[0], made, *words[1:], code=ExitCode.RESULT)
        assert found["where"] == str(run / "run.json")
    _rewrite(run, changed("iops", "read", 1))
    assert main([words[0], str(made), *words[1:]]) == 0


def _with_metrics(whole: dict[str, Any], changes: dict[str, float]) -> dict[str, Any]:
    """Return a record with other metrics; names without an operation mean reads."""
    wanted = {(*name.split("."), "read")[:2]: value for name, value in changes.items()}
    metrics = [
        {**m, "value": wanted.pop((m["name"], m["operation"]), m["value"])}
        for m in whole["metrics"]
    ]
    assert not wanted
    return {**whole, "metrics": metrics}


def _with_total(whole: dict[str, Any], path: str, value: float) -> dict[str, Any]:
    """Return a record with another number at a path of keys and indices."""
    changed = json.loads(json.dumps(whole))
    *keys, last = path.split(".")
    of = changed
    for key in keys:
        of = of[int(key)] if isinstance(of, list) else of[key]
    of[last] = value
    return dict(changed)


P99_BELOW = {
    "latency_p50_ns": 5.0, "latency_p90_ns": 5.0, "latency_p99_ns": 5.0, "latency_p999_ns": 5.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        ({"latency_mean_ns": -5.0}, "latency_mean_ns of read"),
        ({"latency_mean_ns": 1e12}, "latency_mean_ns of read"),
        ({"latency_mean_ns": 1e12, "latency_max_ns": 2e12}, "latency_mean_ns of read"),
        ({"latency_mean_ns": 5.0}, "latency_mean_ns of read"),
        ({"latency_p99_ns": 5.0}, "latency_p99_ns of read"),
        ({"latency_p50_ns": 4e8}, "latency_p90_ns of read"),
        (P99_BELOW, "latency_p50_ns of read"),
        ({"latency_max_ns": 9e11}, "latency_max_ns of read"),
        ({"latency_max_ns.all": 9e11}, "latency_max_ns of all"),
        ({f"{name}.all": 5.0 for name in P99_BELOW}, "latency_p50_ns of all"),
        ({"cpu_us_per_io.all": -1.0}, "cpu_us_per_io of all"),
    ],
)
def test_a_metric_that_cannot_be_is_named(
    metrics: dict[str, float], field: str, made: Path, error: Error
) -> None:
    run = _first_run(made)
    whole = json.loads((run / "run.json").read_bytes())
    _rewrite(run, json.dumps(_with_metrics(whole, metrics)).encode())
    found = error("compare", made, code=ExitCode.RESULT)
    assert found["where"] == str(run / "run.json")
    assert field in found["what"]
    assert str(run) in found["fix"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("totals.read.latency.p99_ns", 5),
        ("totals.read.latency.p99_ns", -5),
        ("totals.read.latency.min_ns", 10**12),
        ("totals.read.latency.mean_ns", 1e-3),
        ("totals.read.latency.count", -1),
        ("totals.read.late_operations", -1),
        ("totals.read.errors", {"timeout": -1}),
        ("cpu.user_ns", -1),
        ("by_worker", {"operations": [1, -1], "bytes": [1, 1]}),
        ("drain_ns", -1),
        ("window_end_ns", 1),
    ],
)
def test_a_total_that_cannot_be_is_named(path: str, value: Any, made: Path, error: Error) -> None:
    run = _first_run(made)
    whole = json.loads((run / "run.json").read_bytes())
    _rewrite(run, json.dumps(_with_total(whole, path, value)).encode())
    found = error("compare", made, code=ExitCode.RESULT)
    assert found["where"] == str(run / "run.json")
    assert path.rpartition(".")[2] in found["what"]
    assert str(run) in found["fix"]


@pytest.mark.parametrize(("drain_ns", "code"), [(0, ExitCode.RESULT), (10**10, ExitCode.OK)])
def test_a_latency_is_no_longer_than_ramp_window_and_drain(
    drain_ns: int, code: int, made: Path
) -> None:
    """Check the upper limit of latencies, with and without the drain."""
    run = _first_run(made)
    whole = json.loads((run / "run.json").read_bytes())
    waited = [
        {"name": f"intended_latency_{name}_ns", "value": 1e10, "unit": "ns", "operation": "read"}
        for name in ("mean", "p99", "max")
    ]
    record = {**whole, "drain_ns": drain_ns, "metrics": [*whole["metrics"], *waited]}
    _rewrite(run, json.dumps({**record, "wall_at_start_ns": 10**18}).encode())
    assert main(["compare", str(made)]) == code
    _rewrite(run, json.dumps(record).encode())  # imported: its window may be a part of the load
    assert main(["compare", str(made)]) == ExitCode.OK


@pytest.mark.parametrize("words", READERS, ids=[words[0] for words in READERS])
def test_every_damage_of_a_run_has_one_kind_of_message(
    words: list[str], made: Path, error: Error, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made.parent)
    run = _first_run(made)
    whole = json.loads((run / "run.json").read_bytes())
    nan = json.dumps({**whole, "details": {"x": float("nan")}})
    for content in ("{}", nan, "", "[]", json.dumps({**whole, "schema_version": None})):
        _rewrite(run, content.encode())
        found = error(words[0], made, *words[1:], code=ExitCode.RESULT)
        assert found["what"].startswith("is damaged: ")
        assert found["fix"].startswith(f"delete {run}, then run `storlab resume {made}")
    _rewrite(run, json.dumps({**whole, "schema_version": 2}).encode())
    found = error(words[0], made, *words[1:], code=ExitCode.RESULT)
    assert "format version 2" in found["what"]


def test_a_link_in_a_result_directory_leads_no_writer_elsewhere(
    made: Path, tmp_path: Path, error: Error
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(made / "figures", ignore_errors=True)
    (made / "figures").symlink_to(elsewhere)
    assert "figures" in str(error("report", made, "--no-pdf", code=ExitCode.RESULT))
    (made / "figures").unlink()
    assert main(["report", str(made), "--no-pdf"]) == 0
    precious = tmp_path / "precious"
    precious.write_text("data")
    (made / "metrics.csv").symlink_to(precious)
    assert main(["export", str(made)]) == 0
    assert precious.read_text() == "data"
    assert not (made / "metrics.csv").is_symlink()

    site = tmp_path / "site"
    assert main(["history", str(made), "--out", str(site)]) == 0
    shutil.rmtree(site / "points")
    (site / "points").symlink_to(elsewhere)
    found = error("history", made, "--out", site, code=ExitCode.USAGE)
    assert str(site / "points") in found["where"]

    somebodys = tmp_path / "somebodys"
    somebodys.write_text("data")
    (made / "campaign.lock").unlink(missing_ok=True)
    (made / "campaign.lock").symlink_to(somebodys)
    with pytest.raises(ResultError) as refused, ResultStore.open(made).campaign_lock():
        pass
    assert refused.value.where == str(made / "campaign.lock")
    (made / "campaign.lock").unlink()
    (made / "work").symlink_to(elsewhere)
    with pytest.raises(ResultError) as refused, ResultStore.open(made).campaign_lock():
        pass
    assert refused.value.where == str(made / "work")
    assert not list(elsewhere.iterdir())
    assert somebodys.read_text() == "data"


OBEYED = "\x1b\x07\x9b\u202e\u2069"
NAME = (
    "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)> [red]x[/red] {{7*7}} "
    f"[link=http://e]y[/link] javascript:alert(3) **b** #set page() $x$ {OBEYED}[31m end"
)


def test_names_are_text_wherever_they_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that names are never interpreted, in terminal, brief, figures, PDF and history."""
    names = (f"S {NAME}", f"T {NAME}")
    result, site = tmp_path / "r", tmp_path / "site"
    large_campaign(result, runs=8, repeats=2, draw=random.Random(1), names=names)
    for words in (["status"], ["compare"], ["report"], ["history", "--out", str(site)]):
        capsys.readouterr()
        assert main([words[0], str(result), *words[1:]]) == 0
        told = "".join(capsys.readouterr())
        assert not set(told) & set(OBEYED)
        if words[0] in ("status", "compare"):
            assert "[red]" in told.replace("\n", "")  # as written: not interpreted as markup
    assert (result / "brief.pdf").stat().st_size
    pages = [*result.glob("**/*.html"), *site.glob("**/*.html"), *result.glob("**/*.svg")]
    assert len(pages) > 5
    for page in pages:
        text = page.read_text()
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert not set(text) & set(OBEYED)


def test_no_name_is_a_formula_in_a_table(tmp_path: Path) -> None:
    names = ('=HYPERLINK("http://x")', "-2+3@cmd")
    large_campaign(tmp_path / "r", runs=4, repeats=2, draw=random.Random(1), names=names)
    assert main(["export", str(tmp_path / "r"), "--output", str(tmp_path / "m.csv")]) == 0
    with (tmp_path / "m.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["study"] for row in rows} == {f"'{names[0]}"}
    assert f"'{names[1]}" in {row["target"] for row in rows}
    for row in rows:
        assert not [text for text in row.values() if text.startswith(("=", "+", "-", "@"))]
        float(row["value"])


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["study.toml", "plan.json", "runs/RUN/run.json", "runs/new.html"])
@pytest.mark.parametrize(
    "words", [["export", "DIR", "--output"], ["schema", "--output"], ["report", "DIR", "--out"]]
)
def test_no_output_takes_the_place_of_results(
    made: Path, capsys: pytest.CaptureFixture[str], name: str, words: list[str]
) -> None:
    path = made / name.replace("RUN", _first_run(made).name)
    before = _contents(made)
    command = [word.replace("DIR", str(made)) for word in words]
    assert main([*command, str(path)]) == ExitCode.USAGE
    assert path.name in capsys.readouterr().err
    assert _contents(made) == before


def test_no_output_takes_the_place_of_a_study_or_of_data(
    made: Path, tmp_path: Path, error: Error
) -> None:
    study, data = _study(tmp_path), tmp_path / "data"
    data.write_bytes(b"data\0" * 1000)
    for path in (study, data):
        content = path.read_bytes()
        error("export", made, "--output", path, code=ExitCode.USAGE)
        assert path.read_bytes() == content
    table = str(tmp_path / "table.parquet")
    for _ in range(2):  # of the output's own format
        assert main(["export", str(made), "--format", "parquet", "--output", table]) == ExitCode.OK


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "another"},
        {"point_id": "000000000000"},
        {"repeat": 7},
        {"workload": "another"},
        {"params": {}},
        {"started_at": "yesterday"},
        {"metrics": []},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_record_that_contradicts_its_plan_or_itself_is_damage(
    made: Path, error: Error, changes: dict[str, Any]
) -> None:
    run = _first_run(made)
    whole = json.loads((run / "run.json").read_text())
    _rewrite(run, json.dumps({**whole, **changes}).encode())
    for words in (["compare"], ["report", "--no-pdf"], ["export"]):
        found = error(words[0], made, *words[1:], code=ExitCode.RESULT)
        assert found["where"] == str(run / "run.json")
        assert next(iter(changes)) in found["what"]

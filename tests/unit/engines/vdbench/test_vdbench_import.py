"""Import of vdbench's reports, made after its documentation and the formats in its sources."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.support.golden import golden_text
from tests.support.vdbench_reports import FILE_HEADS, Load, Run, flatfile, summary

from storlab.base.errors import ResultError
from storlab.contracts.exchange import UNKNOWN_START, ImportedRun
from storlab.engines.vdbench.importer import VdbenchDirectoryImport, VdbenchImport
from storlab.exchange.importer import import_files

READS = Run("rd1", [Load(500), Load(1000), Load(1003), Load(997)])
PARAMETERS = """<pre>
* Contents of parameter file: /tmp/parm
messagescan=no
hd=default,shell=ssh
hd=h1,system=a
hd=h2,system=b
sd=default,openflags=o_direct,threads=4
sd=sd1,lun=/dev/sdb,size=10g
sd=sd2,lun=/dev/sdc,size=6g   the rest of a line is a comment
*sd=sd3,lun=/dev/sdd
wd=wd1,sd=(sd1-sd2),xf=4k,
   seek=0,rdpct=100
wd=wd2,sd=sd*,xfersize=(4k,50,8k,50),rdpct=30,range=(10,20),rhpct=5
rd=rd1,wd=wd1,iorate=max,elapsed=4,interval=1
rd=rd2,wd=wd2,io=300,elapsed=4,threads=(8,16)
"""


def runs(text: str) -> list[ImportedRun]:
    assert VdbenchImport().matches(text)
    return VdbenchImport().read(text, "summary.html")


def only(text: str) -> ImportedRun:
    (run,) = runs(text)
    return run


def output(place: Path, parameters: str | None = PARAMETERS, *made: Run) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    made = made or (READS,)
    (place / "flatfile.html").write_text(flatfile(*made))
    (place / "summary.html").write_text(summary(*made))
    (place / "totals.html").write_text(summary(*made, title="Run totals"))
    (place / "sd1.html").write_text(summary(*made, title="SD report for sd=sd1"))
    (place / "logfile.html").write_text("Vdbench distribution: vdbench50407\n")
    if parameters is not None:
        (place / "parmfile.html").write_text(parameters)
    return place


def of_directory(place: Path) -> list[ImportedRun]:
    importer = VdbenchDirectoryImport()
    assert importer.directories(place.parent) == [place]
    return importer.read(place, importer.files(place))


def values(run: ImportedRun) -> dict[tuple[str, str], float]:
    return {(m.name, m.operation): m.value for m in run.metrics}


@pytest.mark.parametrize("report", [flatfile, summary])
def test_counts_are_exact_and_leave_out_the_first_interval(report: object) -> None:
    run = only(report(READS))  # type: ignore[operator]
    total = run.outcome.totals["read"]
    assert (total.operations, total.bytes) == (3000, 3000 * 4096)
    assert run.outcome.window_end_ns == 3_000_000_000
    assert run.ramp_ns == 1_000_000_000
    assert [sample.operations for sample in run.outcome.samples] == [1000, 1003, 997]
    assert [sample.end_ns for sample in run.outcome.samples][-1] == 3_000_000_000
    assert set(run.outcome.totals) == {"read"}


def test_response_times_have_the_digits_of_the_file() -> None:
    flat, printed = only(flatfile(READS)), only(summary(READS))
    assert flat.outcome.totals["read"].latency_mean_ns == pytest.approx(250_400)
    assert printed.outcome.totals["read"].latency_mean_ns == pytest.approx(250_000)
    assert values(flat)["latency_max_ns", "read"] == pytest.approx(9_750_000)
    assert any("to 1 µs" in note for note in printed.outcome.notes)
    assert not any("rounded" in note for note in flat.outcome.notes)


def test_reads_and_writes_are_divided_by_the_percentage() -> None:
    load = Load(7000, 3001, write_ms=1.5, write_max=30.0)
    run = only(flatfile(Run("mix", [load, load, load], columns={"rdpct": "70"})))
    totals = run.outcome.totals
    assert (totals["read"].operations, totals["write"].operations) == (14_000, 6002)
    assert totals["write"].latency_mean_ns == pytest.approx(1_500_000)
    assert run.fields["read_percent"] == 70
    assert values(run)["latency_max_ns", "write"] == pytest.approx(30_000_000)
    assert values(run)["latency_max_ns", "all"] == pytest.approx(30_000_000)
    assert values(run)["latency_mean_ns", "all"] == pytest.approx(625_000, rel=0.01)


def test_rounded_counts_are_noted() -> None:
    load = Load(500_000, 250, seconds=5.0)
    run = only(summary(Run("mix", [load, load])))
    assert run.outcome.window_end_ns == 5_000_000_000
    assert run.outcome.totals["write"].operations == pytest.approx(250, abs=26)
    assert any("write: the number of operations" in note for note in run.outcome.notes)


def test_totals_have_one_sample() -> None:
    first, second = runs(summary(READS, Run("rd2", READS.loads), title="Run totals"))
    assert first.outcome.window_end_ns == 3_000_000_000
    assert first.outcome.totals["read"].operations == 3000
    assert first.outcome.totals == second.outcome.totals
    assert len(first.outcome.samples) == 1


def test_settings_of_the_flatfile_are_the_load() -> None:
    columns = {"seekpct": "0", "rhpct": "20", "threads": "8"}
    run = only(flatfile(Run("rd1", READS.loads, columns=columns, reqrate="500")))
    assert run.fields == {
        "access": "sequential",
        "block_size": 4096,
        "read_percent": 100.0,
        "queue_depth": 1,
        "jobs": 16,  # two devices, by the 15.9 operations in flight
        "rate_iops": 500.0,
        "arrival": "poisson",
    }
    assert run.params["vdbench_options"] == {"rhpct": "20"}
    assert run.facts == {"size": 16 << 30}
    assert run.started_at == "2026-03-08T18:00:00.014+00:00"
    assert any("UTC is assumed" in note for note in run.outcome.notes)


def test_the_summary_has_the_time_zone_and_the_loops() -> None:
    settings = "I/O rate: 200; elapsed=4; For loops: threads=32 xfersize=4k"
    run = only(summary(Run("rd1", READS.loads, settings=settings)))
    assert run.started_at == "2026-03-08T17:00:00.000+00:00"
    assert (run.fields["rate_iops"], run.fields["jobs"]) == (200.0, 32)
    assert run.direct is None
    assert run.outcome.engine.version == "unknown"


def test_a_directory_has_the_devices_and_workloads(tmp_path: Path) -> None:
    second = Run(
        "rd2",
        [Load(30, 70, size=6144, write_ms=2.0, write_max=8.0)] * 3,
        start=19 * 3600,
        settings="I/O rate: 300; elapsed=4; For loops: threads=8",
        reqrate="300",
        columns={"xfersize": "4096", "threads": "8", "rdpct": "30"},
    )
    first, run = of_directory(output(tmp_path / "out", PARAMETERS, READS, second))
    assert first.fields["access"] == "sequential"
    assert (first.locations, first.target) == (["/dev/sdb", "/dev/sdc"], "sdb and 1 more")
    assert (first.direct, first.clients, first.fields["jobs"]) == (True, 2, 4)
    assert first.facts == {"size": 16 << 30}
    assert first.outcome.engine.version == "50407"
    assert first.params == {}
    assert run.fields["block_size"] == {"4096B": 50.0, "8192B": 50.0}
    assert (run.fields["read_percent"], run.fields["rate_iops"]) == (30.0, 300.0)
    assert (run.fields["jobs"], run.clients) == (8, 2)
    assert run.params["vdbench_options"] == {"range": "10,20", "rhpct": "5"}
    assert run.started_at == "2026-03-08T18:00:00.000+00:00"


def test_a_directory_is_one_source_and_devices_of_other_folders_are_others(tmp_path: Path) -> None:
    for number, folder in enumerate(("drive1/a", "drive1/b", "drive2/a")):
        run = Run("rd1", [Load(1000 + number)] * 3)
        output(tmp_path / folder, PARAMETERS, run)
    store = import_files([tmp_path], tmp_path.with_name("result"))
    records = store.records()
    assert len(records) == 3
    assert len({record.target for record in records}) == 2
    assert sorted(record.repeat for record in records) == [1, 1, 2]
    outcomes = store.environment["imported"]["outcomes"]
    assert {outcome["outcome"] for outcome in outcomes} == {"imported"}
    assert "flatfile.html" in records[0].raw


def test_reports_of_the_same_runs_are_not_repeats(tmp_path: Path) -> None:
    other = Run("rd2", READS.loads, start=19 * 3600)
    place = output(tmp_path / "out", PARAMETERS, READS, other)
    store = import_files(sorted(place.glob("*[ls]*.html")), tmp_path / "result")
    names = {
        Path(outcome["file"]).name: outcome["outcome"]
        for outcome in store.environment["imported"]["outcomes"]
    }
    assert len(store.records()) == 2
    assert names["flatfile.html"] == "imported"
    assert names["summary.html"] == names["totals.html"] == "duplicate"
    assert names["sd1.html"] == "refused"


def test_file_systems_have_reads_and_writes_by_kind() -> None:
    load = Load(800, 200, size=131_072, write_ms=2.0)
    settings = "elapsed=4; fwdrate=max. For loops: None"
    run = only(summary(Run("rd1", [load, load, load], settings=settings), heads=FILE_HEADS))
    totals = run.outcome.totals
    assert (totals["read"].operations, totals["write"].operations) == (1600, 400)
    assert totals["write"].bytes == 400 * 131_072
    assert totals["write"].latency_mean_ns == pytest.approx(2_000_000)
    assert any("open of files" in note for note in run.outcome.notes)


def test_parameters_of_file_systems(tmp_path: Path) -> None:
    parameters = """fsd=fsd1,anchor=/mnt/a,depth=1,width=2,files=10,size=1m,openflags=directio
fwd=fwd1,fsd=fsd1,operation=read,xfersize=128k,fileio=random,threads=6
rd=rd1,fwd=fwd1,fwdrate=100,format=yes,elapsed=4,interval=1
"""
    place = tmp_path / "out"
    place.mkdir()
    load = Load(100, size=131_072)
    settings = "elapsed=4; fwdrate=100; For loops: None"
    run = Run("rd1", [load, load, load], settings=settings)
    (place / "summary.html").write_text(summary(run, heads=FILE_HEADS))
    (place / "parmfile.html").write_text(parameters)
    (imported,) = of_directory(place)
    assert imported.fields["access"] == "random"
    assert imported.fields["jobs"] == 6
    assert (imported.locations, imported.direct) == (["/mnt/a"], True)
    assert imported.params["vdbench_options"]["fwdrate"] == "100"
    assert imported.params["vdbench_options"]["files"] == "10"


def test_runs_that_did_not_end_or_only_prepare_are_named() -> None:
    cut = "\n".join(line for line in summary(READS).splitlines() if "avg_" not in line)
    last = summary(Run("rd9", READS.loads)) + cut.replace("RD=rd1", "RD=rd8")
    preparing = summary(Run("SD_format", READS.loads))
    run, *others = runs(preparing + last)
    assert not others
    (note,) = (note for note in run.outcome.notes if note.startswith("not imported"))
    assert "SD_format" in note
    assert "rd8" in note
    for text in (preparing, cut):
        with pytest.raises(ResultError) as refused:
            runs(text)
        assert "rd1" in refused.value.what or "SD_format" in refused.value.what


def test_loops_are_points_and_rates_their_load() -> None:
    first = Run("rd1", READS.loads, settings="I/O rate: 10; elapsed=4; For loops: threads=1")
    second = Run("rd1", READS.loads, settings="I/O rate: 20; elapsed=4; For loops: threads=2")
    made = runs(summary(first, second))
    assert [run.fields["rate_iops"] for run in made] == [10, 20]
    assert [run.label for run in made] == ["rd1", "rd1"]


def test_a_damaged_row_is_named() -> None:
    text = flatfile(READS)
    with pytest.raises(ResultError) as refused:
        runs(text.rstrip("\n").rpartition(" ")[0] + "\n")
    assert "values" in refused.value.what
    line = next(line for line in summary(READS).splitlines() if "avg_" in line)
    with pytest.raises(ResultError):
        runs(summary(READS).replace(line, line[:45]))


@pytest.mark.parametrize("column", ["seekpct", "rdpct", "rhpct", "compratio", "lunsize"])
@pytest.mark.parametrize("value", ["seqnz", "nan"])
def test_a_setting_that_is_not_a_number_is_named(column: str, value: str) -> None:
    with pytest.raises(ResultError) as refused:
        runs(flatfile(Run("rd1", READS.loads, columns={column: value})))
    assert refused.value.where == f"summary.html: rd1: {column}"
    assert f'"{value}"' in refused.value.what


def test_shares_of_sizes_that_are_not_numbers_are_named(tmp_path: Path) -> None:
    run = Run("rd2", [Load(30, 70, size=6144, write_ms=2.0, write_max=8.0)] * 3)
    place = output(tmp_path / "out", PARAMETERS.replace("8k,50)", "8k,half)"), run)
    with pytest.raises(ResultError) as refused:
        of_directory(place)
    assert refused.value.where == f"{place}: rd2: xfersize"
    assert '"half"' in refused.value.what


def test_reports_on_a_part_are_not_runs() -> None:
    for title in ("SD report for sd=sd1", "Host summary report(s) for host=h1"):
        assert not VdbenchImport().matches(summary(READS, title=title))
    assert not VdbenchImport().matches(PARAMETERS)


def test_without_a_date_the_start_is_unknown() -> None:
    old = flatfile(READS).replace(" timestamp ", " ", 1)
    old = "\n".join(
        " ".join(word for word in line.split() if "03/08/2026" not in word)
        for line in old.splitlines()
    )
    assert only(old).started_at == UNKNOWN_START


def test_the_imported_directory_is_as_expected(tmp_path: Path) -> None:
    """Compare all of a run with a golden file."""
    (run,) = of_directory(output(tmp_path / "out"))
    shown = asdict(run)
    outcome = shown.pop("outcome")
    samples = [
        [s["interval"], s["start_ns"], s["end_ns"], s["operation"], s["operations"], s["bytes"]]
        for s in outcome["samples"]
    ]
    shown["metrics"] = [m.model_dump(exclude_none=True) for m in run.metrics]
    shown["totals"] = {k: t.model_dump(exclude_none=True) for k, t in run.outcome.totals.items()}
    shown |= {"samples": samples, "notes": outcome["notes"]}
    text = json.dumps(shown, indent=1, sort_keys=True) + "\n"
    assert text == golden_text("vdbench/directory.json", text)

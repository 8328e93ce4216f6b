"""Files as people have them: encodings, compression, logs, wrapped and appended results, trees."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from storlab.base import zstd
from storlab.base.errors import ResultError, StorlabError, UsageError
from storlab.exchange import input_files
from storlab.exchange.importer import import_files
from storlab.exchange.unread_formats import recognised
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

READS = 100_000


def fio(
    *,
    device: str = "/dev/nvme0n1",
    reads: int = READS,
    start_s: int = 1_700_000_000,
    runtime_ms: int = 10_000,
    **options: str,
) -> dict[str, Any]:
    """Return fio's JSON of a job of random reads of 4 KiB, as its documentation describes it."""
    read = {
        "io_bytes": reads * 4096,
        "runtime": runtime_ms,
        "total_ios": reads,
        "lat_ns": {
            "min": 50_000,
            "max": 900_000,
            "mean": 99_000.5,
            "stddev": 10.0,
            "N": reads,
            "percentile": {"50.000000": 98_000, "99.000000": 200_000},
        },
    }
    nothing = {"io_bytes": 0, "runtime": 0, "total_ios": 0}
    job = {
        "jobname": "job",
        "groupid": 0,
        "error": 0,
        "job options": {"rw": "randread", "bs": "4k", "direct": "1", "filename": device, **options},
        "read": read,
        "write": nothing,
        "job_runtime": runtime_ms,
        "usr_cpu": 1.0,
        "sys_cpu": 2.0,
    }
    end_ms = start_s * 1000 + runtime_ms
    return {
        "fio version": "fio-3.36",
        "timestamp": end_ms // 1000,
        "timestamp_ms": end_ms,
        "jobs": [job],
    }


TEXT = json.dumps(fio(), indent=2)


def put(path: Path, content: str | bytes | dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content, indent=2)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def records(tmp_path: Path, *paths: Path, target: str | list[str] | None = None) -> list[RunRecord]:
    return imported(tmp_path, *paths, target=target).records()


def imported(tmp_path: Path, *paths: Path, target: str | list[str] | None = None) -> ResultStore:
    return import_files(paths, tmp_path / "result", target)


def outcomes(store: ResultStore) -> dict[str, str]:
    about = store.environment["imported"]["outcomes"]
    return {Path(outcome["file"]).name: outcome["outcome"] for outcome in about}


def reads(record: RunRecord) -> int:
    return record.totals["read"].operations


def prefixed(prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in ("fio: starting", *TEXT.splitlines()))


ONE_RUN = {
    "plain": TEXT,
    "byte order mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16 of PowerShell": TEXT.encode("utf-16"),
    "UTF-16 without mark": TEXT.encode("utf-16-be"),
    "Windows line ends": TEXT.replace("\n", "\r\n"),
    "Latin-1": TEXT.replace('"job"', '"gemäß"').encode("latin-1"),
    "indented": "\n".join("    " + line for line in TEXT.splitlines()),
    "one line": json.dumps(fio()),
    "gzip": gzip.compress(TEXT.encode()),
    "bzip2": bz2.compress(TEXT.encode()),
    "xz": lzma.compress(TEXT.encode()),
    "zstd": zstd.packed(TEXT.encode()),
    "docker compose": prefixed("bench-1  | "),
    "docker compose with times": prefixed("bench-1  | 2026-01-02T03:04:05.678901234Z "),
    "kubectl --prefix": prefixed("[pod/bench-x7/fio] "),
    "kubectl --timestamps": prefixed("2026-01-02T03:04:05.678901234Z "),
    "journal": prefixed("Jan  2 03:04:05 host fio[123]: "),
    "mpirun --tag-output": prefixed("[1,0]<stdout>:"),
    "lines around": f"$ fio job.fio\n{TEXT}\nbench: done\n",
    "colours": f"\x1b[1mstart\x1b[0m\n{TEXT}\n",
    "wrapped": json.dumps({"host": "a", "result": fio()}),
    "wrapped by name": json.dumps({"first": fio()}),
    "text inside JSON": json.dumps({"rc": 0, "stdout": TEXT}),
    "lines inside JSON": json.dumps({"rc": 0, "stdout_lines": TEXT.splitlines()}),
    "Ansible": "ok: [host] => " + json.dumps({"out": {"stdout": TEXT}}, indent=4),
    "array": json.dumps([fio()]),
    "message in the JSON": TEXT.replace('  "jobs"', 'fio: pid=12, a warning\n  "jobs"'),
    "message in a line of the JSON": TEXT.replace('"jobs"', '"jofio: a warning\nbs"'),
    "NaN": TEXT.replace('"stddev": 10.0', '"stddev": 10.0, "other": NaN'),
    "nan of C": TEXT.replace('"stddev": 10.0', '"stddev": 10.0, "other": -nan'),
    "backslash": TEXT.replace('"job"', r'"C\:\x"'),
    "cut short before": TEXT[:300] + "\n" + TEXT,
}


@pytest.mark.parametrize("content", ONE_RUN.values(), ids=ONE_RUN)
def test_one_run_in_any_shape(tmp_path: Path, content: str | bytes) -> None:
    path = put(tmp_path / "given", content)
    store = imported(tmp_path, path)
    (record,) = store.records()
    assert (reads(record), record.target) == (READS, "nvme0n1")
    kept = [store.raw(record.run_id, name) for name in record.raw]
    assert path.read_bytes() in kept


def test_what_was_removed_is_noted(tmp_path: Path) -> None:
    content = f"a line before\n{TEXT}\n".replace('  "jobs"', 'fio: a warning\n  "jobs"')
    (record,) = records(tmp_path, put(tmp_path / "fio.log", content))
    notes = "\n".join(record.notes)
    assert "a line before" in notes
    assert "fio: a warning" in notes


def three() -> list[dict[str, Any]]:
    return [fio(start_s=1_700_000_000 + 60 * n, reads=READS + n) for n in range(3)]


SEVERAL = {
    "appended": "\n".join(json.dumps(run, indent=2) for run in three()),
    "appended without line ends": "".join(json.dumps(run) for run in three()),
    "lines of JSON": "\n".join(json.dumps(run) for run in three()),
    "array": json.dumps(three(), indent=2),
    "by name": json.dumps({f"run{n}": run for n, run in enumerate(three())}),
    "array of wrapped": json.dumps([{"result": run} for run in three()]),
    "one of them twice": "\n".join(json.dumps(run) for run in [*three(), three()[0]]),
    "two containers": "".join(
        f"{name} | {line}\n"
        for lines in zip(
            *(
                "\n".join(json.dumps(run, indent=2) for run in part).splitlines()
                for part in (three()[:1], three()[1:2])
            ),
            strict=True,
        )
        for name, line in zip("ab", lines, strict=True)
    )
    + "a | \n"
    + "".join(f"a | {line}\n" for line in json.dumps(three()[2], indent=2).splitlines()),
}


@pytest.mark.parametrize("content", SEVERAL.values(), ids=SEVERAL)
def test_several_runs_in_a_file_are_repeats(tmp_path: Path, content: str) -> None:
    path = put(tmp_path / "all.json", content)
    store = imported(tmp_path, path)
    found = store.records()
    assert sorted(map(reads, found)) == [READS, READS + 1, READS + 2]
    assert sorted(record.repeat for record in found) == [1, 2, 3]
    assert sum("given.json" in record.raw for record in found) == 1
    (first,) = (record for record in found if "given.json" in record.raw)
    assert store.raw(first.run_id, "given.json") == path.read_bytes()


def test_reports_of_a_run_under_way_are_not_runs(tmp_path: Path) -> None:
    """Check fio's --status-interval: each document has the totals since the start of the run."""
    reports = [fio(reads=n * 1000, runtime_ms=n * 1000) for n in (1, 2, 3)]
    again = [fio(reads=n * 1000, runtime_ms=n * 1000, start_s=1_700_000_100) for n in (1, 2)]
    content = "\n".join(json.dumps(report) for report in [*reports, *again])
    found = records(tmp_path, put(tmp_path / "all.json", content))
    assert [reads(record) for record in found] == [3000, 2000]


def test_other_jobs_at_the_same_time_are_runs(tmp_path: Path) -> None:
    content = json.dumps(fio()) + json.dumps(fio(bs="8k"))
    assert len(records(tmp_path, put(tmp_path / "all.json", content))) == 2


def test_a_damaged_result_beside_a_good_one_is_named(tmp_path: Path) -> None:
    broken = fio(start_s=1_700_000_500)
    del broken["jobs"][0]["read"]
    store = imported(tmp_path, put(tmp_path / "all.json", json.dumps([fio(), broken])))
    (outcome,) = store.environment["imported"]["outcomes"]
    assert (outcome["outcome"], outcome["runs"]) == ("imported", 1)
    assert "[1]" in outcome["reason"]
    assert "read" in outcome["reason"]


def tree(place: Path) -> Path:
    """Write a directory with two results, a copy, a damaged one, and files that are no results."""
    put(place / "a.json", fio())
    put(
        place / "b.json.gz", gzip.compress(json.dumps(fio(reads=7, start_s=1_700_000_600)).encode())
    )
    put(place / "copy.json", fio())
    put(place / "copy.utf16.json", TEXT.encode("utf-16"))
    put(place / "old.json", TEXT[:400])
    put(place / "plot.png", b"\x89PNG\r\n\x1a\n\0\0")
    put(place / "notes.md", "# Notes\n")
    put(place / "job_lat.1.log", "1, 2300, 0, 4096, 0\n2, 2200, 0, 4096, 0\n")
    put(place / "dd.txt", "1+0 records in\n1+0 records out\n1048576 bytes copied, 1 s, 1 MB/s\n")
    put(place / ".git" / "a.json", fio(reads=9))
    return place


TREE_OUTCOMES = {
    "a.json": "imported",
    "b.json.gz": "imported",
    "copy.json": "duplicate",
    "copy.utf16.json": "duplicate",
    "old.json": "refused",
    "plot.png": "skipped",
    "notes.md": "skipped",
    "job_lat.1.log": "skipped",
    "dd.txt": "refused",
}


def test_each_file_of_a_tree_has_one_outcome(tmp_path: Path) -> None:
    store = imported(tmp_path, tree(tmp_path / "tree"))
    assert outcomes(store) == TREE_OUTCOMES
    assert [reads(record) for record in store.records()] == [READS, 7]
    (group,) = store.environment["imported"]["targets"]
    assert (group["runs"], group["files"]) == (2, 2)


def tar(path: Path, place: Path, mode: str) -> Path:
    with tarfile.open(path, mode) as archive:
        archive.add(place, "results")
    return path


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz", "x.tar.zst", "x.zip", "x.tar.xz"])
def test_archives_are_trees(tmp_path: Path, name: str) -> None:
    place, path = tree(tmp_path / "tree"), tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for file in place.iterdir():
                if file.is_file():
                    archive.write(file, f"results/{file.name}")
    elif name.endswith(".zst"):
        path.write_bytes(zstd.packed(tar(tmp_path / "x.tar", place, "w").read_bytes()))
    else:
        mode = {"gz": "w:gz", "xz": "w:xz", "tgz": "w:gz"}.get(name.rsplit(".", 1)[1], "w")
        tar(path, place, mode)
    store = imported(tmp_path, path)
    assert outcomes(store) == TREE_OUTCOMES
    shown = [outcome["file"] for outcome in store.environment["imported"]["outcomes"]]
    assert f"{path}/results/a.json" in shown


def test_an_archive_in_an_archive_and_unsafe_names(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a.json", TEXT)
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as outer:
        for name, content in (
            ("runs/inner.zip", inner.getvalue()),
            ("../../escaped.json", json.dumps(fio(reads=5)).encode()),
            ("/absolute.json", json.dumps(fio(reads=6)).encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            outer.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        outer.addfile(link)
    found = records(tmp_path, tmp_path / "x.tar.gz")
    assert sorted(map(reads, found)) == [5, 6, READS]
    assert not (tmp_path.parent / "escaped.json").exists()


def test_an_archive_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.json", b"0" * 10_000)
    monkeypatch.setattr(input_files, "MOST_UNPACKED_BYTES", 9_999)
    with pytest.raises(ResultError, match=r"x\.zip.*9,999 bytes"):
        records(tmp_path, tmp_path / "x.zip")
    damaged = put(tmp_path / "y.tar.gz", gzip.compress(b"x" * 2000)[:-20])
    with pytest.raises(ResultError, match=r"y\.tar\.gz"):
        records(tmp_path, damaged)


def test_a_glob_and_several_files_are_trees(tmp_path: Path) -> None:
    tree(tmp_path / "tree")
    store = imported(tmp_path, tmp_path / "tree" / "*.json")
    assert outcomes(store) == {k: v for k, v in TREE_OUTCOMES.items() if k.endswith(".json")}
    given = [tmp_path / "tree" / name for name in ("a.json", "old.json")]
    several = import_files(given, tmp_path / "several")
    assert outcomes(several) == {"a.json": "imported", "old.json": "refused"}
    with pytest.raises(ResultError, match="matches no file"):
        import_files([tmp_path / "*.csv"], tmp_path / "none")


def test_without_any_result_the_reasons_are_listed(tmp_path: Path) -> None:
    put(tmp_path / "tree" / "cut.json", TEXT[:400])
    put(tmp_path / "tree" / "readme.md", "# Notes\n")
    with pytest.raises(StorlabError) as caught:
        records(tmp_path, tmp_path / "tree")
    assert "cut.json" in str(caught.value)
    assert "readme.md" in str(caught.value)
    assert not (tmp_path / "result").exists()


def test_a_result_directory_of_storlab_is_not_imported_again(tmp_path: Path) -> None:
    import_files([put(tmp_path / "tree" / "a.json", fio())], tmp_path / "tree" / "out")
    store = imported(tmp_path, tmp_path / "tree")
    assert outcomes(store) == {"a.json": "imported", "out": "skipped"}


def by_target(found: list[RunRecord]) -> dict[str, list[int]]:
    """Return the repeats of each target."""
    targets: dict[str, list[int]] = {}
    for record in found:
        targets.setdefault(record.target, []).append(record.repeat)
    return targets


def test_folders_are_targets_unless_they_number_runs(tmp_path: Path) -> None:
    names = ("drive1/run1", "drive1/run2", "drive2/rep-1", "drive2/2026-01-02_03-04-05")
    for number, name in enumerate(names):
        put(tmp_path / "all" / name / "fio.json", fio(start_s=1_700_000_000 + 60 * number))
    found = records(tmp_path, tmp_path / "all")
    assert by_target(found) == {"nvme0n1 (drive1)": [1, 2], "nvme0n1 (drive2)": [1, 2]}
    assert all(any("--target" in note for note in record.notes) for record in found)


def test_targets_are_named_by_globs(tmp_path: Path) -> None:
    for number, name in enumerate(("x/a", "x/b", "y/a")):
        put(tmp_path / "all" / name / "fio.json", fio(start_s=1_700_000_000 + 60 * number))
    found = records(tmp_path, tmp_path / "all", target=["SSD A=all/x", "B=*/y/*.json"])
    assert by_target(found) == {"SSD A": [1, 2], "B": [1]}
    one = import_files([tmp_path / "all"], tmp_path / "one", ["rest", "B=y"])
    assert by_target(one.records()) == {"rest": [1, 2], "B": [1]}
    for wrong, field in ((["A=z/*"], "A=z"), (["A=x", "B=x/a"], "B=x/a"), (["A", "B"], "A and B")):
        with pytest.raises(UsageError, match=field):
            import_files([tmp_path / "all"], tmp_path / "wrong", wrong)


def test_archives_keep_their_folders_apart(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two")):
        place = tmp_path / name / "results"
        put(place / "fio.json", fio(start_s=1_700_000_000 + 60 * number))
        (tmp_path / "all").mkdir(exist_ok=True)
        tar(tmp_path / "all" / f"{name}.tar", place, "w")
    found = records(tmp_path, tmp_path / "all")
    assert by_target(found) == {
        "nvme0n1 (one.tar/results)": [1],
        "nvme0n1 (two.tar/results)": [1],
    }


def test_a_run_that_no_study_can_express_does_not_refuse_the_others(tmp_path: Path) -> None:
    put(tmp_path / "all" / "bad.json", fio(device="/dev/a", bs="8g"))
    put(tmp_path / "all" / "good.json", fio())
    store = imported(tmp_path, tmp_path / "all")
    assert outcomes(store) == {"bad.json": "refused", "good.json": "imported"}


UNREAD = {
    "0, 123, 0, 4096, 0\n1, 130, 0, 4096, 0\n": "log",
    "[global]\nrw=randread\n[job]\nsize=1g\n": "job file",
    "Device            r/s     rkB/s   rrqm/s\nsda  1 2 3\n": "iostat",
    "        Iozone: Performance Test of File I/O\n": "IOzone",
    "1024+0 records in\n1024+0 records out\n": "dd",
    "CrystalDiskMark 8.0.4 x64 (C) 2007-2021\n": "CrystalDiskMark",
    "16:24:30.181  avg_2-5   320.0  40.00  131072  0.00\n": "vdbench",
    '{"start": "2024", "metric": {"train_au_percentage": [99]}}': "DLIO",
    "OPERATION RESULT TYPE        FIRST DONE  LAST DONE\n": "elbencho",
    "mdtest-4.1.0 was launched with 8 total task(s) on 2 node(s)\n": "mdtest",
    "[RESULT]       ior-easy-write        0.9 GiB/s : time 31.6 seconds\n": "IO500",
    "Command Line: diskspd.exe -b4K -d60\n": "DiskSpd",
    "sd=sd1,lun=/dev/sdb\nwd=wd1,sd=sd1,xfersize=4k\nrd=run1,wd=wd1,iorate=max\n": "parameter file",
    "tps = 1234.5 (without initial connection time)\n": "pgbench",
    ':::MLLOG {"key": "epoch_start"}\n': "MLPerf",
    "[OVERALL], RunTime(ms), 1000\n": "YCSB",
}


@pytest.mark.parametrize(("text", "name"), UNREAD.items(), ids=UNREAD.values())
def test_known_formats_are_named(text: str, name: str) -> None:
    known = recognised(text)
    assert known is not None
    assert name in known.what
    assert known.fix


@pytest.mark.parametrize("target", ["", " ", "=x", "ssd="])
def test_a_target_without_name_or_glob_is_refused(tmp_path: Path, target: str) -> None:
    path = put(tmp_path / "x.json", fio())
    with pytest.raises(UsageError) as error:
        imported(tmp_path, path, target=target)
    assert "--target" in error.value.where
    assert list(tmp_path.iterdir()) == [path]


def test_aggregates_of_an_imported_run_are_not_a_repeat(tmp_path: Path) -> None:
    """Check the output of `warp analyze --json` beside the record of the same requests."""
    golden = Path(__file__).parents[2] / "golden" / "warp"
    names = ("get-404-1.6.1.analysis.json", "get-404-1.6.1.csv.zst")
    store = imported(tmp_path, *(golden / name for name in names))
    (record,) = store.records()
    assert record.histograms
    assert outcomes(store) == {names[0]: "duplicate", names[1]: "imported"}
    assert any(names[0] in note and "left out" in note for note in record.notes)


def test_aggregates_of_another_run_are_imported(tmp_path: Path) -> None:
    golden = Path(__file__).parents[2] / "golden" / "warp"
    text = (golden / "get-404-1.6.1.analysis.json").read_text("utf-8")
    (year,) = {part[:4] for part in re.findall(r'"start_time": ?"([^"]+)"', text)}
    later = put(tmp_path / "later.json", text.replace(f'"{year}-', f'"{int(year) + 1}-'))
    store = imported(tmp_path, golden / "get-404-1.6.1.csv.zst", later)
    assert len(store.records()) == 2


def test_results_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    good, bad = fio(), fio(reads=READS + 1)
    bad["jobs"][0]["read"]["lat_ns"]["max"] = 60_000  # less than the mean
    paths = [put(tmp_path / "good.json", good), put(tmp_path / "bad.json", bad)]
    store = imported(tmp_path, *paths)
    (record,) = store.records()
    assert reads(record) == READS
    assert outcomes(store) == {"good.json": "imported", "bad.json": "refused"}
    with pytest.raises(ResultError) as refused:
        import_files(paths[1:], tmp_path / "none")
    assert "bad.json" in refused.value.where
    assert "latency_max_ns" in refused.value.what

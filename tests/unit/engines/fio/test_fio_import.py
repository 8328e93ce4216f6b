"""Import of recorded fio results, and errors that name file and field."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from storlab.base.errors import ResultError, StorlabError
from storlab.cli.main import main
from storlab.engines.fio import importer_options as fio_options
from storlab.exchange.importer import import_files
from storlab.lab.study.file import parse_study
from storlab.results.store import ResultStore

GOLDEN = Path(__file__).parents[3] / "golden" / "fio"


def imported(tmp_path: Path, *names: str, target: str | None = None) -> ResultStore:
    return import_files([GOLDEN / name for name in names], tmp_path / "result", target)


def test_numbers_are_fios(tmp_path: Path) -> None:
    store = imported(tmp_path, "group-3.33.json")
    record = store.records()[0]
    job = json.loads((GOLDEN / "group-3.33.json").read_text())["jobs"][0]
    for kind in ("read", "write"):
        direction = job[kind]
        throughput = record.metric("throughput_mb_s", kind)
        assert throughput == pytest.approx(direction["bw_bytes"] / 1e6, rel=0.05)
        assert record.metric("latency_mean_ns", kind) == pytest.approx(
            direction["lat_ns"]["mean"], rel=0.01
        )
        assert record.totals[kind].operations == direction["lat_ns"]["N"]
        assert record.totals[kind].bytes == direction["io_bytes"]
    assert record.provenance == "measured"
    assert (record.engine.name, record.engine.version) == ("fio", "3.33")
    assert record.params["read_percent"] == 70
    assert record.params["block_size"] == 256 * 1024
    assert (record.params["jobs"], record.params["queue_depth"]) == (2, 8)
    assert record.concurrency is not None
    assert record.concurrency.configured == 16
    assert store.raw(record.run_id, "imported.json") == (GOLDEN / "group-3.33.json").read_bytes()


def test_the_study_that_is_made_up_reads_back(tmp_path: Path) -> None:
    store = imported(tmp_path, "group-3.33.json", "warning-3.33.json", "two-jobs-3.33.json")
    study = parse_study(store.study_text)
    told = [
        {name: value for name, value in point.params.items() if name != "fio_options"}
        for point in store.plan.points.values()
    ]
    assert [w.values()[0] for w in study.workload] == told
    again = ResultStore.open(store.directory)
    again.check()
    assert again.missing() == []
    assert len(again.records()) == 4


def test_same_options_and_target_are_repeats(tmp_path: Path) -> None:
    store = imported(tmp_path, "group-3.33.json", "group-3.42.json", target="the disk")
    assert [r.run_id[-3:] for r in store.records()] == ["-r1", "-r2"]
    assert len(store.plan.points) == 1
    assert {r.target for r in store.records()} == {"the disk"}


def written(place: Path, name: str, /, **options: str) -> Path:
    """Write a recorded result with extra job options."""
    document = json.loads((GOLDEN / "group-3.33.json").read_text())
    for job in document["jobs"]:
        job["job options"] = {**job["job options"], **options}
    path = place / f"{name}.json"
    path.write_text(json.dumps(document))
    return path


def test_a_result_that_is_given_twice_is_no_repeat(tmp_path: Path) -> None:
    name = "group-3.33.json"
    copy = shutil.copy(GOLDEN / name, tmp_path / "copy.json")
    given = GOLDEN / name
    for again, what in (
        (given, "given twice"),
        (copy, rf"copy\.json: has the content of.*{name}"),
    ):
        with pytest.raises(ResultError, match=what):
            import_files([given, again], tmp_path / "result")
    assert not (tmp_path / "result").exists()


def test_one_name_of_several_places_becomes_a_name_for_each_of_them(tmp_path: Path) -> None:
    """Check that equal names for different locations are split, as in README's layout."""
    files = [
        written(tmp_path, place, filename=f"/mnt/{place}/storlab.data", direct="1")
        for place in "ab"
    ]
    records = import_files(files, tmp_path / "result").records()
    assert [r.target for r in records] == ["a/storlab.data", "b/storlab.data"]
    assert [r.repeat for r in records] == [1, 1]
    for record in records:
        (note,) = (note for note in record.notes if "--target" in note)
        assert f'"{record.target}"' in note
        assert '"storlab.data"' in note
    same = import_files(files, tmp_path / "same", "the disk").records()
    assert [(r.target, r.repeat) for r in same] == [("the disk", 1), ("the disk", 2)]
    (alone,) = import_files(files[:1], tmp_path / "alone").records()
    assert alone.target == "storlab.data"
    assert not any("--target" in note for record in (*same, alone) for note in record.notes)


def test_a_place_with_its_page_cache_is_another_target(tmp_path: Path) -> None:
    files = [
        written(tmp_path, f"{name}{direct}", filename=f"/mnt/{name}/x:/mnt/{name}/y", direct=direct)
        for name in "ab"
        for direct in "01"
    ]
    store = import_files([*files[:2], files[3]], tmp_path / "result")
    assert [(t.name, t.locations, t.direct) for t in store.study.target] == [
        ("a/x and 1 more, cached", ["/mnt/a/x", "/mnt/a/y"], False),
        ("a/x and 1 more, direct", ["/mnt/a/x", "/mnt/a/y"], True),
        ("b/x and 1 more", ["/mnt/b/x", "/mnt/b/y"], True),
    ]


def test_jobs_of_their_own_are_runs_of_their_own(tmp_path: Path) -> None:
    store = imported(tmp_path, "two-jobs-3.33.json")
    accesses = [(r.params["access"], r.params["read_percent"]) for r in store.records()]
    assert accesses == [("sequential", 100), ("random", 0)]


def test_plain_json_keeps_what_it_has_and_says_what_it_lacks(tmp_path: Path) -> None:
    record = imported(tmp_path, "plain-3.33.json").records()[0]
    assert any("cannot be merged" in note for note in record.notes)
    assert any("upper bounds" in note for note in record.notes)  # two clones
    assert record.metric("latency_mean_ns", "read") is not None
    assert record.metric("latency_p99_ns", "read") is not None
    assert record.concurrency is not None
    assert record.concurrency.implied == pytest.approx(8, rel=0.35)
    assert record.params["jobs"] == 2


def test_partial_percentiles_of_plain_json_are_kept(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "two-jobs-3.33.json").read_text())
    document["jobs"] = [j for j in document["jobs"] if j["jobname"] == "second"]
    section = document["jobs"][0]["write"]
    del section["lat_ns"]["bins"], section["clat_ns"]["bins"]
    path = tmp_path / "partial.json"
    path.write_text(json.dumps(document))
    record = import_files([path], tmp_path / "result").records()[0]
    given = section["lat_ns"]["percentile"]
    exact = min(given["99.000000"], section["lat_ns"]["max"])  # fio prints the end of a bucket
    assert record.metric("latency_p99_ns", "write") == exact
    assert record.metric("latency_p999_ns", "write") is None


def test_clat_is_named(tmp_path: Path) -> None:
    record = imported(tmp_path, "clat-3.33.json").records()[0]
    assert any("clat" in note for note in record.notes)


def test_notes_before_the_json_and_flushes_survive(tmp_path: Path) -> None:
    record = imported(tmp_path, "warning-3.33.json").records()[0]
    assert any("queue depth will be capped" in note for note in record.notes)
    assert record.params["queue_depth"] == 1  # psync keeps one outstanding, whatever iodepth is
    assert record.params["sync"] == "fsync"
    assert record.totals["sync"].operations > 0


def test_of_several_documents_the_last_one_counts(tmp_path: Path) -> None:
    record = imported(tmp_path, "status-3.42.txt").records()[0]
    assert any("documents" in note for note in record.notes)
    assert record.params["rate_iops"] == 50


def test_a_failed_run_stays_failed(tmp_path: Path) -> None:
    record = imported(tmp_path, "failed-3.33.json").records()[0]
    assert record.status == "failed"
    assert record.failure is not None
    assert record.failure.errno == 5
    assert record.metrics == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "a format that storlab cannot read"),
        ("name,value\na,1\n", "a format that storlab cannot read"),
        ('{"benchmark": "other"}', "a format that storlab cannot read"),
        ('{"fio version": "fio-3.33", "jobs": [{"jobname": "a"}]}', "jobs[0].read"),
        ('{"fio version": "fio-2.2", "jobs": [{"jobname": "a"}]}', "jobs[0].read"),
        ('{"fio version": "fio-3.7", "client_stats": []}', "client_stats"),
        ('{"fio version": "fio-3.33", "jobs": [{"jobname"', "JSON"),
    ],
)
def test_other_files_are_refused_by_name_and_field(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultError) as caught:
        import_files([path], tmp_path / "result")
    assert "other.json" in str(caught.value)
    assert where in str(caught.value)
    assert not (tmp_path / "result").exists()


def test_missing_file_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(StorlabError, match=r"absent\.json") as refused:
        import_files([tmp_path / "absent.json"], tmp_path / "result")
    assert "that exists" in refused.value.fix


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    shutil.copy(GOLDEN / "group-3.42.json", tmp_path / "a.json")
    assert main(["import", str(tmp_path / "a.json"), "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["runs"][0]["engine"]["version"].startswith("3.42")
    assert main(["import", str(tmp_path / "a.json"), "--out", str(out)]) == 8
    assert "already contains the results" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4k", 4096),
        ("4K", 4096),
        ("4kb", 4096),
        ("4ki", 4096),
        ("4kib", 4000),
        ("1m", 1 << 20),
        ("512", 512),
        ("2g", 2 << 30),
        ("x", None),
    ],
)
def test_fio_sizes(text: str, size: int | None) -> None:
    assert fio_options.size_of(text) == size


def test_fio_sizes_with_base_1000() -> None:
    assert fio_options.size_of("4k", 1000) == 4000
    assert fio_options.size_of("4ki", 1000) == 4000
    assert fio_options.size_of("4kib", 1000) == 4096


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("300", 300 * 10**9),
        ("5m", 300 * 10**9),
        ("250ms", 250 * 10**6),
        ("1h", 3600 * 10**9),
        ("2000000us", 2 * 10**9),
        ("soon", None),
    ],
)
def test_fio_times(text: str, ns: int | None) -> None:
    assert fio_options.time_ns(text) == ns


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"rw": "randrw", "rwmixread": "70"}, {"read_percent": 70, "offsets": "permutation"}),
        ({"rw": "randread", "norandommap": "1"}, {"offsets": "uniform", "read_percent": 100}),
        ({"rw": "randread", "random_distribution": "zipf:1.3"}, {"zipf_theta": 1.3}),
        (
            {"rw": "randread", "random_distribution": "zoned:80/20:20/80"},
            {"offsets": "hot_cold", "hot_access_percent": 80, "hot_space_percent": 20},
        ),
        ({"rw": "write", "bssplit": "4k/60:64k/40"}, {"block_size": {"4096B": 60, "65536B": 40}}),
        ({"rw": "randread", "ioengine": "null"}, {"backend": "null"}),
        ({"rw": "randread", "rate_iops": "100", "numjobs": "4"}, {"rate_iops": 400, "jobs": 4}),
        ({"rw": "read", "ioengine": "libaio", "iodepth": "32"}, {"queue_depth": 32}),
        ({"rw": "randread", "rate_iops": "10k"}, {"rate_iops": 10240}),
        ({"rw": "randread", "rate_iops": "10k", "kb_base": "1000"}, {"rate_iops": 10_000}),
        ({"rw": "readwrite", "rate_iops": "1000"}, {"rate_iops": 2000}),
        ({"rw": "randrw", "rate_iops": "1000,500"}, {"rate_iops": 1500}),
        ({"rw": "randread", "rate_iops": "1000,500"}, {"rate_iops": 1000}),
        ({"rw": "randrw", "rate_iops": "1000,"}, {"rate_iops": None}),
        ({"rw": "randread", "random_distribution": "zipf:1.2:0.25"}, {"zipf_theta": 1.2}),
        (
            {"rw": "read", "bsrange": "4k-12k"},
            {"block_size": {"4096B": 1, "8192B": 1, "12288B": 1}},
        ),
        ({"rw": "read", "bssplit": "4k/50:64k/"}, {"block_size": {"4096B": 50, "65536B": 50}}),
        ({"rw": "randwrite", "bs": "4k,8k"}, {"block_size": 8192}),
        ({"rw": "randwrite", "bssplit": "4k/100,8k/100"}, {"block_size": {"8192B": 100}}),
        ({"rw": "randwrite", "fsync": "1k"}, {"sync_every": 1024}),
    ],
)
def test_options_in_our_words(options: dict[str, str], wanted: dict[str, object]) -> None:
    fields, _ = fio_options.fields(options, {"read": 1, "write": 1}, 1)
    assert {name: fields.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("first", "then", "wanted"),
    [
        ({"buffered": "0"}, {}, {"direct": "1"}),
        ({"buffered": "1"}, {}, {"direct": "0"}),
        ({"direct": "1"}, {"buffered": "1"}, {"direct": "0"}),
        ({"buffered": ""}, {"direct": "1"}, {"direct": "1"}),
        ({"rwmixwrite": "30"}, {}, {"rwmixread": "70"}),
        ({"rwmixread": "70"}, {"rwmixwrite": "80"}, {"rwmixread": "20"}),
        ({"rwmixread": "70", "rwmixwrite": "80"}, {}, {"rwmixread": "20"}),
        ({"rwmixwrite": "80"}, {"rwmixread": "70"}, {"rwmixread": "70"}),
    ],
)
def test_the_later_of_two_options_that_say_the_opposite_counts(
    first: dict[str, str], then: dict[str, str], wanted: dict[str, str]
) -> None:
    """Check that the later of two contradicting options wins; job options follow global ones."""
    assert fio_options.merged({"global options": first}, {"job options": then}) == wanted


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"bsrange": "4k-64k"}, []),
        ({"bsrange": "4k-66k"}, ["bsrange"]),
        ({"bsrange": "512-128k"}, ["bsrange"]),  # 256 sizes
        ({"rw": "randrw", "bsrange": "4k-8k,16k-32k"}, ["bsrange"]),
        ({"rate": "40m", "rate_process": "poisson"}, ["rate", "rate_process"]),
        ({"rate_iops": "1000", "rate_process": "poisson"}, []),
        ({"rw": "randrw", "rate_iops": ",1000"}, ["rate_iops"]),
        ({"rate_iops": "fast"}, ["rate_iops"]),
        ({"rate": "0", "rate_min": "1m"}, []),
        ({"thinktime": "100us", "thinktime_blocks": "4"}, ["thinktime", "thinktime_blocks"]),
        ({"rw": "randrw", "bssplit": "4k/50:8k/50,64k/100"}, ["bssplit"]),
        ({"rw": "randrw", "bs": "4k,8k"}, ["bs"]),
        ({"bs": "4k,8k"}, []),  # it only reads
        ({"bssplit": "4k/50:some"}, ["bssplit"]),
        ({"random_distribution": "zipf:1.2:0.25"}, ["random_distribution"]),
        ({"random_distribution": "pareto:0.2"}, ["random_distribution"]),
        ({"random_distribution": "zipf:1.2"}, []),
        ({"random_distribution": "zoned:80/20:20/80"}, []),
        ({"size": "50%"}, ["size"]),
        ({"size": "16m", "iodepth": "4", "numjobs": "2"}, []),
        ({"sync": "1"}, ["sync"]),
        ({"sync": "none", "offset": "0", "nrfiles": "1", "zonemode": "none", "loops": "1"}, []),
        ({"sync": "0", "offset": "10g"}, ["offset"]),
        ({"io_size": "1g"}, []),  # ends a job, like runtime
        ({"nrfiles": "8", "zonemode": "zbd"}, ["nrfiles", "zonemode"]),
        ({"zero_buffers": "", "verify": "crc32c"}, ["verify", "zero_buffers"]),
        ({"zero_buffers": "0"}, []),
        ({"sqthread_poll": "1"}, ["sqthread_poll"]),
        ({"iodepth_batch_complete_min": "16"}, ["iodepth_batch_complete_min"]),
        ({"invalidate": "0", "scramble_buffers": "1"}, ["invalidate"]),
        ({"percentage_random": "0"}, ["percentage_random"]),
        ({"rw": "randread:8"}, ["rw"]),
        ({"rw": "trimwrite"}, ["rw"]),
        ({"ioengine": "libaio", "fsync": "4"}, []),
        ({"ioengine": "posixaio"}, ["ioengine"]),
        ({"ioengine": "io_uring", "hipri": "0"}, []),
        ({"fsync": "4", "fdatasync": "2"}, ["fdatasync", "fsync"]),
        ({"an_option_of_tomorrow": "1"}, ["an_option_of_tomorrow"]),
        ({"name": "x", "group_reporting": "1", "thread": "", "lat_percentiles": "1"}, []),
        ({"write_bw_log": "x", "log_avg_msec": "500", "randseed": "7", "stonewall": ""}, []),
        ({"runtime": "10s", "time_based": "", "ramp_time": "1s", "direct": "1"}, []),
    ],
)
def test_what_shapes_the_load_and_has_no_field_is_told(
    options: dict[str, str], names: list[str]
) -> None:
    options = {"rw": "randread", **options}
    assert fio_options.unexpressed(options) == {name: options[name] for name in names}
    _, notes = fio_options.fields(options, {"read": 1, "write": 1}, 1)
    told = [note for note in notes if note.startswith("fio options")]
    assert len(told) == bool(names)
    for name in names:
        assert f"{name}={options[name]}" in told[0]


def test_jobs_that_differ_in_what_has_no_field_are_no_repeats(tmp_path: Path) -> None:
    options = ({"bsrange": "4k-255k"}, {"rate": "40m"}, {"rate_iops": "10k"}, {})
    files = [written(tmp_path, f"{n}", bs="4k", **more) for n, more in enumerate(options)]
    store = import_files(files, tmp_path / "result")
    records = store.records()
    assert [r.repeat for r in records] == [1, 1, 1, 1]
    assert len({r.point_id for r in records}) == 4
    assert records[1].params["fio_options"] == {"rate": "40m"}
    assert "fio_options" not in records[3].params
    assert parse_study(store.study_text)


def test_another_size_of_the_data_is_another_target(tmp_path: Path) -> None:
    files = [written(tmp_path, size, size=size) for size in ("1g", "100g")]
    targets = import_files(files, tmp_path / "result").study.target
    assert [(t.name, t.size) for t in targets] == [
        ("data.bin, 1GiB", 1 << 30),
        ("data.bin, 100GiB", 100 << 30),
    ]
    spread = written(tmp_path, "two", filename="x:y", size="2g")
    assert import_files([spread], tmp_path / "two").study.target[0].size == 1 << 30


def test_own_job_files_come_back_as_they_were(tmp_path: Path) -> None:
    names = fio_options.locations({"filename": "/dev/a\\:b:/dev/c"})
    assert names == ["/dev/a:b", "/dev/c"]
    assert fio_options.locations({"directory": "/a:/b"}) == ["/a", "/b"]
    files = fio_options.locations({"directory": "/a:/b", "filename": "x:/data/y"})
    assert files == ["/a/x", "/a/data/y"]
    names = fio_options.locations({"filename": "/a\\b:/a\\\\b"})
    assert names == ["/a\\b", "/a\\\\b"]  # fio removes no backslash but one before a colon


def test_an_imported_run_is_judged_like_a_measured_one(tmp_path: Path) -> None:
    record = imported(tmp_path, "group-3.33.json").records()[0]
    assert record.steady is not None
    assert record.steady["quantity"] == "throughput_mb_s"

"""The preprocessing workload: parameters to points, points to jobs, steps and page text."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storlab.analysis.points import WorkloadPoint, sections_of
from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.study import Header, Target
from storlab.stores.home import HOME
from storlab.workloads.preprocess.job import Clicks, PreprocessJob
from storlab.workloads.preprocess.page import PREPROCESS_PAGE
from storlab.workloads.preprocess.rules import ROW_BYTES, input_files, usable_cores
from support.refusals import refusal

PREPROCESS = FAMILIES["preprocess"]
HEADER = Header(name="s", interval="250ms", settle="1s")  # type: ignore[arg-type]
TARGET = Target(name="t", directory="d")
ACCESS = Access(home=Path("/d/storlab-data"))
HEAD = '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "."\n'


def points(lines: str = "", engine: str = "native") -> list[Point]:
    study = parse_study(f'{HEAD}[[workload]]\nkind = "preprocess"\n{lines}')
    spec = study.workload[0]
    return [
        Point(
            target="t",
            workload="w",
            workload_index=0,
            kind="preprocess",
            engine=spec.engine_of(params) or engine,
            params=params,
        )
        for params in spec.values()
    ]


def point(lines: str = "") -> Point:
    (single,) = points(lines)
    return single


def refused(lines: str) -> tuple[str, str]:
    """Return the problem with its field, and the fix."""
    with pytest.raises(StudyError) as caught:
        points(lines)
    (problem, *_) = caught.value.problems
    return f"{problem['where'].split()[-1]}: {problem['what']}", problem["fix"]


def context(target: Target = TARGET, access: Access | None = None) -> JobContext:
    if access is None:
        inside = Path(target.directory or "/")
        access = Access(home=inside / HOME) if inside.is_absolute() else ACCESS
    return JobContext(HEADER, target, access, seed=7, work_dir=Path("w"), run_id="p-r1")


def job(lines: str = "", target: Target = TARGET) -> PreprocessJob:
    made = PREPROCESS.job(point(lines), context(target))
    assert isinstance(made, PreprocessJob)
    return made


def day_files(place: Path, *names: str, size: int = 1) -> Target:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"\n" * size)
    return Target(name="t", directory=str(place))


def test_the_smallest_job_is_the_published_pipeline() -> None:
    made = job()
    assert (made.task, made.kind, made.workers, made.part_bytes) == (
        "run",
        "preprocess",
        1,
        64 << 20,
    )
    assert (made.row_group_rows, made.compression, made.threshold) == (262_144, "snappy", 15)
    assert (made.modulo, made.numerical, made.malformed) == (None, "float16", "refuse")
    assert (made.memory_bytes, made.cold, made.resume) == (4 << 30, True, False)
    assert (made.interval_ns, made.seed, made.ramp_ns) == (NS_PER_S // 4, 7, 0)
    assert made.directory == "/d/storlab-data/p-r1"
    assert len(made.inputs) == 8
    place = made.inputs[0].removesuffix("/day_0")
    assert place.startswith("/d/storlab-data/preprocess-")
    assert made.inputs == [f"{place}/day_{number}" for number in range(8)]
    assert PreprocessJob.model_validate_json(made.model_dump_json()) == made


def test_every_field_of_a_study_reaches_the_job() -> None:
    made = job(
        "\n".join(
            [
                "rows = 1000",
                "files = 3",
                "data_seed = 42",
                "workers = 5",
                'compression = "zstd"',
                "row_group_rows = 1024",
                'part_size = "8KiB"',
                "threshold = 0",
                "modulo = 1000",
                'numerical = "float32"',
                'malformed = "skip"',
                'memory = "256MiB"',
                "cold = false",
                "resume = true",
            ]
        )
    )
    assert (len(made.inputs), made.workers, made.compression) == (3, 5, "zstd")
    assert (made.row_group_rows, made.part_bytes, made.threshold) == (1024, 8192, 0)
    assert (made.modulo, made.numerical, made.malformed) == (1000, "float32", "skip")
    assert (made.memory_bytes, made.cold, made.resume) == (256 << 20, False, True)


def test_sweeps_are_products() -> None:
    swept = points('rows = [1000, 2000]\nworkers = [1, 2, 4]\ncompression = ["none", "zstd"]')
    assert len({p.point_id for p in swept}) == 12


def test_an_implementation_is_an_engine() -> None:
    swept = points('implementation = ["native", "pandas", "polars"]')
    assert [p.engine for p in swept] == ["native", "pandas", "polars"]
    assert point().engine == "native"
    reason, fix = refused('engine = "native"\nimplementation = "pandas"')
    assert reason.startswith("implementation: ")
    assert fix == "remove one of the two"


@pytest.mark.parametrize(
    ("lines", "field", "cure"),
    [
        ("rows = 0", "rows", ""),
        ("workers = 0", "workers", ""),
        ('part_size = "1KiB"', "part_size", ""),
        ('compression = "gzip"', "compression", ""),
        ('implementation = "spark"', "implementation", ""),
        ("modulo = 0", "modulo", ""),
        ("threshold = -1", "threshold", ""),
        ('malformed = "keep"', "malformed", ""),
        ("input = []", "input", ""),
        ("rows = 3\nfiles = 4", "files", "increase rows, or reduce files"),
        ('input = ["day_*"]\nrows = 3', "rows", "remove rows, or remove input"),
        ('input = ["day_*"]\nfiles = 3', "files", "remove files, or remove input"),
        ('input = ["day_*"]\ndata_seed = 3', "data_seed", "remove data_seed, or remove input"),
        (
            'memory = "64MiB"',
            "memory",
            "increase memory, or reduce row_group_rows or workers",
        ),
        ("workers = [1, 64]\nrow_group_rows = 1_000_000", "memory", "row_group_rows or workers"),
    ],
)
def test_what_cannot_be_is_refused_by_field(lines: str, field: str, cure: str) -> None:
    reason, fix = refused(lines)
    assert reason.partition(":")[0].split(".")[-1] == field
    assert cure in fix


def test_the_memory_that_is_missing_is_told() -> None:
    reason, _ = refused('workers = 2\nmemory = "100MiB"')
    assert reason == (
        "memory: 100MiB is too small for a row group of 262,144 rows for each of 2 workers, "
        "which need 159 MB"
    )
    assert point('workers = 2\nmemory = "100MiB"\nrow_group_rows = 131072').params["workers"] == 2
    reason, fix = refused("row_group_rows = 1")
    assert reason.startswith("memory: 4GiB is too small for a row group of 1 rows for the worker")
    assert "with all row groups of a part of 64MiB" in reason
    assert fix.startswith("make row_group_rows or memory larger")


def test_days_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    target = day_files(tmp_path, *(f"day_{n}" for n in (10, 2, 0, 1)), "other", "sub/day_3")
    made = job('input = ["day_*"]', target)
    assert [Path(name).name for name in made.inputs] == ["day_0", "day_1", "day_2", "day_10"]
    assert all(Path(name).is_absolute() for name in made.inputs)
    listed = job('input = ["sub/day_3", "day_1*", "day_10"]', target)
    assert [Path(name).name for name in listed.inputs] == ["day_3", "day_1", "day_10"]
    assert refusal(PREPROCESS.check(point('input = ["**/day_*"]').params, target)) is None


def test_files_are_those_of_the_directory_that_was_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a resume elsewhere still means the files of the study's directory."""
    for place in ("here", "there"):
        day_files(tmp_path / place / "data", "day_0")
    monkeypatch.chdir(tmp_path / "there")
    relative = Target(name="t", directory="data")
    granted = Access(home=tmp_path / "here" / "data" / HOME)
    made = PREPROCESS.job(point('input = ["day_*"]'), context(relative, granted))
    assert isinstance(made, PreprocessJob)
    assert made.inputs == [str(tmp_path / "here" / "data" / "day_0")]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("night_*", 'input: "night_*" matches no file in '),
        ("day_9", 'input: "day_9" matches no file in '),
        ("/etc/hosts", 'input: "/etc/hosts" is not a path inside'),
        ("../day_0", 'input: "../day_0" is not a path inside'),
        ("link", "link is a link to a file outside of "),
        ("sub", "sub is not a regular file"),
        ("pipe", "pipe is not a regular file"),
        ("storlab-data/day_0", "day_0 is in storlab-data"),
        ("day_0.gz", "day_0.gz is compressed"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, pattern: str, message: str) -> None:
    inside = tmp_path / "in"
    target = day_files(inside, "day_0", "sub/day_1", f"{HOME}/day_0", "day_0.gz")
    (tmp_path / "day_0").write_bytes(b"\n")
    (inside / "link").symlink_to(tmp_path / "day_0")
    os.mkfifo(inside / "pipe")
    found = refusal(PREPROCESS.check(point(f'input = ["{pattern}"]').params, target))
    assert found is not None
    assert message in found
    with pytest.raises(ValueError, match=r"matches|not a path|outside|regular|is in|compressed"):
        PREPROCESS.job(point(f'input = ["{pattern}"]'), context(target))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_is_refused_whatever_it_is_called(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    target = day_files(tmp_path, "day_0", "day_1")
    (tmp_path / "day_1").write_bytes(pack(b"0\t1\n" * 100))
    with pytest.raises(ValueError, match=r"day_1 is compressed"):
        job('input = ["day_*"]', target)


def test_a_link_inside_the_directory_is_the_file_it_leads_to(tmp_path: Path) -> None:
    target = day_files(tmp_path, "real/day_0")
    (tmp_path / "day_0").symlink_to(tmp_path / "real" / "day_0")
    assert target.directory is not None
    found = input_files(["day_0", "real/day_*"], Path(target.directory))
    assert found == [tmp_path / "real" / "day_0"]


def test_a_pattern_of_any_depth_leaves_storlabs_own_files_out(tmp_path: Path) -> None:
    day_files(tmp_path, "real/day_0", "storlab-data/preprocess-1/day_0")
    assert input_files(["**/day_*"], tmp_path) == [tmp_path / "real" / "day_0"]


def test_a_run_goes_on_also_where_its_files_are_not_seen(tmp_path: Path) -> None:
    """Check that a run from another directory keeps the existing output."""
    for lines in ('resume = true\ninput = ["*.none"]', "resume = true\nrows = 1000"):
        assert PREPROCESS.estimate(point(lines), HEADER, day_files(tmp_path)).continues
    assert not PREPROCESS.estimate(point('input = ["*.none"]'), HEADER, TARGET).continues


def test_real_files_are_neither_made_nor_counted_as_a_data_set(tmp_path: Path) -> None:
    target = day_files(tmp_path, "day_0", "day_1", size=24_500)
    planned = point('input = ["day_*"]')
    assert (planned.params["rows"], planned.params["files"], planned.params["data_seed"]) == (
        None,
        None,
        None,
    )
    assert PREPROCESS.prepare([planned], context(target)) == []
    estimate = PREPROCESS.estimate(planned, HEADER, target)
    assert (estimate.data_sets, estimate.reads) == ((), False)
    rows = 49_000 // ROW_BYTES
    made = PREPROCESS.estimate(point(f"rows = {rows}\nfiles = 2"), HEADER, target)
    assert estimate.bytes_written == made.bytes_written


def test_the_estimate_grows_with_the_rows_and_shrinks_with_the_workers() -> None:
    base = PREPROCESS.estimate(point("rows = 1_000_000"), HEADER, TARGET)
    assert (base.writes, base.layout_files, base.reads) == (True, 0, True)
    assert base.data_bytes == 1_000_000 * ROW_BYTES
    assert base.duration_ns == 5 * base.data_bytes + NS_PER_S
    # Parquet 170, vocabularies 26 x 12 / 15, binary at most 1 + 26 + 104 bytes per row; each of
    # eight parts and of their row groups has 8 KiB more.
    beside = (8 + 8 + 1_000_000 // 262_144) * 8192
    assert base.bytes_written == 1_000_000 * (170 + 20 + 131) + beside
    every = PREPROCESS.estimate(
        point('rows = 1_000_000\nthreshold = 0\nnumerical = "float32"'), HEADER, TARGET
    )
    assert every.bytes_written == 1_000_000 * (170 + 312 + 157) + beside
    slow = PREPROCESS.estimate(point('rows = 1_000_000\nimplementation = "pandas"'), HEADER, TARGET)
    assert 5 * (slow.duration_ns - 2 * NS_PER_S) == 17 * (base.duration_ns - NS_PER_S)  # start-up
    all_cores = PREPROCESS.estimate(
        point(f'rows = 1_000_000\nworkers = {usable_cores()}\nmemory = "1TiB"'), HEADER, TARGET
    )
    assert all_cores.duration_ns - NS_PER_S == pytest.approx(5 * base.data_bytes / usable_cores())


@pytest.mark.parametrize(("size", "message"), [(0, "input: the raw files are empty"), (5000, "")])
def test_an_empty_raw_file_is_no_matter_of_the_size_of_parts(
    tmp_path: Path, size: int, message: str
) -> None:
    (tmp_path / "day_0").write_bytes(b"")
    (tmp_path / "day_1").write_bytes(b"1" * size)
    target = TARGET.model_copy(update={"directory": str(tmp_path)})
    found = PREPROCESS.estimate(point('input = ["day_*"]'), HEADER, target).cautions
    assert len(found) == bool(message)
    assert all(each.startswith(message) for each in found)


def test_cautions_name_their_field() -> None:
    assert PREPROCESS.estimate(point(), HEADER, TARGET).cautions == ()
    few = PREPROCESS.estimate(point("rows = 1000\nfiles = 1\nworkers = 3"), HEADER, TARGET)
    assert few.cautions[0] == (
        "part_size: 245 KB in parts of 64MiB give 1 of 3 workers something to ingest; make it "
        "smaller"
    )
    tiny = PREPROCESS.estimate(point("rows = 10\nfiles = 1\nworkers = 3"), HEADER, TARGET)
    assert tiny.cautions[0].endswith("give 1 of 3 workers something to ingest; use fewer")
    many = PREPROCESS.estimate(
        point(f'workers = {2 * usable_cores()}\npart_size = "1MiB"\nmemory = "8PiB"'),
        HEADER,
        TARGET,
    )
    workers, memory = many.cautions
    assert workers.startswith(
        f"workers: {2 * usable_cores():,} workers share the {usable_cores():,} cores"
    )
    assert memory.startswith("memory: 8PiB is more than the ")


def test_equal_click_logs_are_one_data_set() -> None:
    def name(lines: str) -> str:
        return PREPROCESS.estimate(point(lines), HEADER, TARGET).data_sets[0].name

    same = ["", "workers = 3", 'compression = "none"', 'implementation = "pandas"', "threshold = 2"]
    assert len({name(lines) for lines in same}) == 1
    others = ["", "rows = 4_000_001", "files = 9", "data_seed = 2"]
    assert len({name(lines) for lines in others}) == len(others)


def test_each_data_set_is_made_once() -> None:
    swept = points("rows = [1_000_000, 4_000_000]\nworkers = [1, 2, 3]")
    steps = PREPROCESS.prepare(swept, context())
    assert [step.text for step in steps] == [
        "making 8 files (245 MB) of click logs",
        "making 8 files (980 MB) of click logs",
    ]
    made = [step.job for step in steps]
    assert all(isinstance(each, PreprocessJob) and each.task == "generate" for each in made)
    clicks = [each.clicks for each in made if isinstance(each, PreprocessJob)]
    assert clicks == [Clicks(rows=n, files=8, seed=1) for n in (1_000_000, 4_000_000)]
    assert steps[0].total_bytes == 1_000_000 * ROW_BYTES
    runs = {str(Path(PREPROCESS.job(p, context()).inputs[0]).parent) for p in swept}  # type: ignore[attr-defined]
    assert runs == {each.directory for each in made if isinstance(each, PreprocessJob)}


def test_what_a_run_wrote_is_removed_also_where_its_raw_files_are_gone() -> None:
    for lines in ("", 'input = ["gone_*"]'):
        (step,) = PREPROCESS.after(point(lines), context())
        assert isinstance(step.job, PreprocessJob)
        assert (step.job.task, step.job.directory) == ("remove", "/d/storlab-data/p-r1")
        assert step.job.inputs == []


def test_a_run_without_a_directory_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="t: preprocessing needs a target with a directory"):
        PREPROCESS.job(point(), context(access=Access()))


def test_words_of_the_page() -> None:
    params = point("workers = 2\nrows = 400_000").params
    assert PREPROCESS_PAGE.parameters.phrase("workers", params) == "2\u00a0workers"
    assert PREPROCESS_PAGE.parameters.phrase("rows", params) == "400,000\u00a0rows"
    assert PREPROCESS_PAGE.parameters.phrase("compression", params) == "snappy Parquet"
    assert PREPROCESS_PAGE.parameters.phrase("modulo", params) == ""
    assert not PREPROCESS_PAGE.parameters.is_relevant("cold", params)
    assert PREPROCESS_PAGE.parameters.is_relevant("cold", {**params, "cold": False})
    real = point('input = ["day_0", "day_1"]').params
    assert PREPROCESS_PAGE.parameters.phrase("rows", real) == "day_0, day_1"
    assert not PREPROCESS_PAGE.parameters.is_relevant("files", real)


def test_workers_are_the_axis_and_rows_the_small_multiples() -> None:
    swept = points('rows = [1000, 2000]\nworkers = [1, 2]\ncompression = ["none", "zstd"]')
    sections = sections_of([WorkloadPoint.of(p) for p in swept])
    assert [s.title for s in sections] == ["uncompressed Parquet", "zstd Parquet"]
    assert (sections[0].axes.x, sections[0].axes.facet) == ("workers", "rows")
    assert [sections[0].facet_text(value) for value in sections[0].facets()] == [
        "1,000\u00a0rows",
        "2,000\u00a0rows",
    ]
    memory = sections_of([WorkloadPoint.of(p) for p in points('memory = ["1GiB", "4GiB"]')])
    assert memory[0].axes.x == "memory"


def test_the_implementations_have_sections_of_their_own() -> None:
    swept = points('workers = [1, 2]\nimplementation = ["native", "polars"]')
    sections = sections_of([WorkloadPoint.of(p) for p in swept])
    assert [s.title for s in sections] == ["native", "polars"]
    assert {s.axes.x for s in sections} == {"workers"}

"""The plan: points, order, cost, overwritten data, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import EngineError, PreflightError, StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, Estimate, JobContext
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.lab.plan.plan import (
    BRIEF_NS,
    RUN_OVERHEAD_NS,
    absent_devices,
    comparisons,
    make_plan,
    prepare_ns_by_target,
)
from storlab.lab.study.file import LoadedStudy, load_study
from storlab.model.job import Member
from storlab.model.point import Plan
from storlab.model.study import Header, Target
from storlab.process.host_memory import host_memory_bytes

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "python/storlab/templates/micron-6600-ion-vs-16-hdd-fio.toml"

TWO = """\
[study]
name = "s"
repeats = 3
ramp = "2s"
runtime = "6s"
settle = "1s"
[[target]]
name = "a"
path = "a.dat"
size = "500MB"
[[target]]
name = "b"
path = "b.dat"
size = "1GB"
"""
WORK = '[[workload]]\nkind = "block"\n'


def loaded(tmp_path: Path, text: str) -> LoadedStudy:
    path = tmp_path / "s.toml"
    path.write_text(text)
    return load_study(path)


def planned(tmp_path: Path, text: str) -> Plan:
    return make_plan(loaded(tmp_path, text))


def refusal(tmp_path: Path, text: str) -> StudyError:
    with pytest.raises(StudyError) as caught:
        planned(tmp_path, text)
    return caught.value


def test_the_published_study_takes_40_hours_per_target() -> None:
    plan = make_plan(load_study(PUBLISHED))
    assert len(plan.points) == 2 * 32
    assert len(plan.runs) == 2 * 32 * 5
    each_ns = 40 * 3600 * NS_PER_S + 160 * RUN_OVERHEAD_NS
    assert plan.estimated_ns_by_target == {"1x SSD": each_ns, "16x HDD": each_ns}
    assert len(plan.destructive) == 17
    assert {p.params["queue_depth"] for p in plan.points.values()} == {64}


def test_the_published_study_maps_every_mix_to_its_use_case() -> None:
    study = load_study(PUBLISHED).study
    for params in study.workload[0].values():
        named = [
            u.name
            for u in study.workload[0].use_case
            if all(params[k] == v for k, v in u.match.items())
        ]
        assert len(named) == 1, params
    assert len(study.workload[0].use_case) == 8


def test_the_demo_has_192_runs_within_six_minutes() -> None:
    plan = make_plan(load_study(ROOT / "studies" / "demo.toml"))
    assert len(plan.runs) == 192
    assert plan.estimated_ns < 5 * 60 * NS_PER_S
    assert plan.destructive == []


def test_targets_stand_next_to_one_another_and_take_turns_to_go_first(tmp_path: Path) -> None:
    plan = planned(tmp_path, TWO + WORK + "jobs = [1, 2, 3]\n")
    order = [
        (r.repeat, plan.points[r.point_id].params["jobs"], plan.points[r.point_id].target)
        for r in plan.runs
    ]
    assert order[:6] == [
        (1, 1, "a"),
        (1, 1, "b"),
        (1, 2, "b"),
        (1, 2, "a"),
        (1, 3, "a"),
        (1, 3, "b"),
    ]
    assert order[6:8] == [(2, 1, "b"), (2, 1, "a")]
    assert [r.order for r in plan.runs] == list(range(18))


def test_small_objects_cost_requests_beside_bytes(tmp_path: Path) -> None:
    def prepare_ns(size: str, objects: int) -> int:
        text = (
            '[study]\nname = "o"\n[[target]]\nname = "s"\ns3 = "http://127.0.0.1:1/bucket"\n'
            f'[[workload]]\nkind = "object"\nobject_size = "{size}"\nobjects = {objects}\n'
        )
        study = loaded(tmp_path, text)
        return prepare_ns_by_target(study, make_plan(study))["s"]

    few, many = prepare_ns("4KiB", 250_000), prepare_ns("4KiB", 250_000_000)
    assert many == 1_000 * few
    assert many > 250_000_000 / 50_000 * NS_PER_S  # no client sends 50,000 small PUTs in a second
    assert prepare_ns("4MiB", 1_000) > prepare_ns("4KiB", 1_000)


def test_a_workload_keeps_to_its_targets_and_its_engine(tmp_path: Path) -> None:
    plan = planned(tmp_path, TWO + WORK + 'name = "w"\ntargets = ["b"]\nengine = "fio"\n')
    assert {(p.target, p.engine, p.workload) for p in plan.points.values()} == {("b", "fio", "w")}
    assert any("a: no workload" in note for note in plan.notes)


def test_time_counts_ramp_window_settle_and_laying_out(tmp_path: Path) -> None:
    study = loaded(tmp_path, TWO + WORK)
    plan = make_plan(study)
    assert plan.estimated_ns_by_target == {
        "a": 3 * (9 * NS_PER_S + RUN_OVERHEAD_NS) + 1 * NS_PER_S,
        "b": 3 * (9 * NS_PER_S + RUN_OVERHEAD_NS) + 2 * NS_PER_S,
    }
    brief_ns = plan.estimated_ns - sum(plan.estimated_ns_by_target.values())
    assert BRIEF_NS < brief_ns < 2 * BRIEF_NS
    assert prepare_ns_by_target(study, plan) == {"a": NS_PER_S, "b": 2 * NS_PER_S}
    assert plan.bytes_written == 1_500_000_000  # the data sets; the runs only read


def test_preconditioning_counts_its_fill_and_its_rounds(tmp_path: Path) -> None:
    extra = 'precondition = { round = "10s", max_rounds = 7 }\n'
    plan = planned(tmp_path, TWO + extra + WORK + 'targets = ["b"]\n')
    assert plan.estimated_ns_by_target["b"] == (27 + 2 + 70) * NS_PER_S + 3 * RUN_OVERHEAD_NS


def test_preconditioning_by_fills_alone_counts_each_fill(tmp_path: Path) -> None:
    extra = 'precondition = { fills = 2, fill_block_size = "128KiB", max_rounds = 0 }\n'
    plan = planned(tmp_path, TWO + extra + WORK + 'targets = ["b"]\n')
    assert plan.estimated_ns_by_target["b"] == (27 + 2 * 2) * NS_PER_S + 3 * RUN_OVERHEAD_NS
    assert plan.bytes_written == 500_000_000 + 2 * 1_000_000_000  # data set of a, fills of b


@pytest.mark.parametrize(
    ("field", "value"), [("max_rounds", "4"), ("fill_block_size", '"3MiB"'), ("fills", "0")]
)
def test_impossible_preconditioning_names_the_field(tmp_path: Path, field: str, value: str) -> None:
    extra = f"precondition = {{ {field} = {value} }}\n"
    assert f"precondition.{field}" in str(refusal(tmp_path, TWO + extra + WORK))


def test_bytes_of_an_open_loop_and_of_a_byte_window_are_counted(tmp_path: Path) -> None:
    base = planned(tmp_path, TWO + WORK).bytes_written
    rate = 'read_percent = 50\nblock_size = "4KiB"\nrate_iops = 100\ntargets = ["a"]\n'
    assert planned(tmp_path, TWO + WORK + rate).bytes_written - base == 3 * 100 * 8 * 2048
    window = 'read_percent = 0\ntotal_bytes = "1GB"\ntargets = ["a"]\n'
    written = planned(tmp_path, TWO + WORK + window).bytes_written - base
    assert written == 3 * (1_000_000_000 + 2 * 500_000_000)  # the ramp writes as well


def test_runs_bounded_by_time_are_noted_not_counted(tmp_path: Path) -> None:
    plan = planned(tmp_path, TWO + WORK + "read_percent = 0\n")
    assert plan.bytes_written == 1_500_000_000
    assert any("6 runs write as much" in note and "54 GB" in note for note in plan.notes)


def test_a_directory_needs_a_file_for_each_job(tmp_path: Path) -> None:
    text = '[study]\nname = "s"\n[[target]]\nname = "d"\ndirectory = "d"\nsize = "1MB"\n'
    plan = planned(tmp_path, text + WORK + "jobs = [1, 5]\n")
    assert plan.data_bytes_by_target == {"d": 5_000_000}


def test_a_directory_needs_a_size_only_for_what_is_laid_out(tmp_path: Path) -> None:
    reason = refusal(
        tmp_path, TWO.replace('path = "b.dat"\nsize = "1GB"', 'directory = "d"') + WORK
    )
    (problem,) = reason.problems
    assert problem["where"].endswith("[[target]] #2 size")
    assert "a directory needs the size of each file" in problem["what"]
    assert problem["fix"] == 'add size = "1GiB"'


def test_the_null_target_has_no_data_and_is_not_written(tmp_path: Path) -> None:
    text = '[study]\nname = "s"\n[[target]]\nname = "n"\npath = "null:"\n'
    plan = planned(tmp_path, text + WORK + "read_percent = 0\n")
    assert plan.bytes_written == 0
    assert plan.destructive == []


@pytest.mark.parametrize("path", ["/dev/disk/by-id/nvme-no-such", "/dev/no-such"])
def test_a_device_that_is_not_here_is_planned_and_named(tmp_path: Path, path: str) -> None:
    text = f'[study]\nname = "s"\n[[target]]\nname = "d"\npath = "{path}"\n' + WORK
    study = loaded(tmp_path, text + "read_percent = 50\n")
    assert make_plan(study).destructive == [path]
    assert absent_devices(study.study) == {"d": [path]}
    assert planned(tmp_path, text).destructive == []  # only reads


def test_a_device_is_found_behind_a_link_and_is_not_opened(tmp_path: Path) -> None:
    devices = [d for d in Path("/sys/block").iterdir() if (Path("/dev") / d.name).is_block_device()]
    sized = [d for d in devices if int((d / "size").read_text()) > 0]
    if not sized:
        pytest.skip("no block device with a size")
    link = tmp_path / "link"
    link.symlink_to(Path("/dev") / sized[0].name)
    text = f'[study]\nname = "s"\n[[target]]\nname = "d"\npath = "{link}"\n' + WORK
    before = set(Path("/proc/self/fd").iterdir())
    plan = planned(tmp_path, text + "read_percent = 99\n")
    assert set(Path("/proc/self/fd").iterdir()) == before
    assert plan.destructive == [str(link)]
    assert plan.data_bytes_by_target["d"] == int((sized[0] / "size").read_text()) * 512
    error = refusal(tmp_path, text.replace("[[workload]]", 'size = "8000PB"\n[[workload]]'))
    assert "less than offset + size" in error.problems[0]["what"]


def test_an_existing_file_may_be_read_without_a_size(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(1 << 20))
    text = f'[study]\nname = "s"\n[[target]]\nname = "f"\npath = "{data}"\n' + WORK
    plan = planned(tmp_path, text)
    assert plan.data_bytes_by_target == {"f": 1 << 20}
    assert plan.bytes_written == 0


@pytest.mark.parametrize(
    ("place", "field", "what"),
    [
        ('path = "no-such"', "path", "needs a size"),
        ('path = "."', "path", "is a directory"),
        ('path = "/dev/null"', "path", "not a block device"),
        ('paths = ["/dev/no-such", "x"]', "paths", "mixes"),
        ('directory = "/etc/passwd"\nsize = "1MiB"', "directory", "not a directory"),
        ('directory = "/dev/null"\nsize = "1MiB"', "directory", "not a directory"),
    ],
)
def test_a_place_that_cannot_be_is_refused(
    tmp_path: Path, place: str, field: str, what: str
) -> None:
    error = refusal(tmp_path, f'[study]\nname = "s"\n[[target]]\nname = "t"\n{place}\n' + WORK)
    assert error.problems[0]["where"].endswith(f"s.toml:5: [[target]] #1 {field}")
    assert what in error.problems[0]["what"]
    assert '/dev/null"' not in error.problems[0]["fix"]  # it cannot hold data either


@pytest.mark.parametrize(
    ("target", "work", "field", "what"),
    [
        ('size = "1MiB"', 'block_size = ["4KiB", "4MiB"]', "block_size", "larger than"),
        ('size = "1MiB"', "block_size = 1000", "block_size", "O_DIRECT"),
        ('size = "1MiB"', "region_start = 100", "region_start", "O_DIRECT"),
        ('size = "1MiB"', 'region_start = "2MiB"', "region_start", "nothing"),
        (
            'size = "1MiB"',
            'region_start = "50%"\nregion_size = "768KiB"',
            "region_size",
            "beyond",
        ),
        ('size = "1MiB"', 'region_start = "90%"\nregion_size = "20%"', "region_size", "beyond"),
    ],
)
def test_a_point_that_does_not_fit_its_target_is_refused_with_both_names(
    tmp_path: Path, target: str, work: str, field: str, what: str
) -> None:
    text = f'[study]\nname = "s"\n[[target]]\nname = "t"\npath = "x"\n{target}\n{WORK}{work}\n'
    error = refusal(tmp_path, text)
    assert len(error.problems) == 1
    assert error.problems[0]["where"].endswith(f"[[workload]] #1 {field}")
    assert 'on target "t"' in error.problems[0]["what"]
    assert what in error.problems[0]["what"]
    assert error.problems[0]["fix"]


@pytest.mark.parametrize(
    ("cluster", "line", "field", "what"),
    [
        ('hosts = ["c1"]\nclients = 3', 11, "clients", "asks for 3 clients, but there are only 1"),
        ('hosts = ["c[3-1]"]', 10, "hosts", "the range 3-1"),
        (
            'hosts = ["c1"]\n[cluster.host.c7]\ndata_nics = ["e0"]',
            11,
            "c7",
            "not listed in [cluster]",
        ),
        ('hostfile = "no-such-file"', 10, "hostfile", "cannot be read"),
    ],
)
def test_hosts_that_are_none_are_named_with_file_and_line(
    tmp_path: Path, cluster: str, line: int, field: str, what: str
) -> None:
    text = '[study]\nname = "s"\n[[target]]\nname = "t"\npath = "/m/x"\nsize = "1MiB"\n'
    error = refusal(tmp_path, f"{text}{WORK}[cluster]\n{cluster}\n")
    (problem,) = error.problems
    assert problem["line"] == line
    assert f"s.toml:{line}: " in str(error)
    assert field in problem["where"]
    assert what in problem["what"]
    assert problem["fix"]


def test_a_chunk_that_o_direct_cannot_use_is_named_at_the_target(tmp_path: Path) -> None:
    stripe = TWO.replace('size = "500MB"', 'size = "1GB"\nlayout = "stripe"\nstripe_chunk = "1KB"')
    error = refusal(tmp_path, stripe + WORK)
    assert error.problems[0]["where"].endswith("s.toml:12: [[target]] #1 stripe_chunk")
    assert planned(tmp_path, stripe.replace("1KB", "8KiB") + WORK).runs


def test_places_are_multiples_of_the_sectors_that_a_device_may_have(tmp_path: Path) -> None:
    """Check that offsets are aligned like the engine's: 4 KiB unless blocks differ."""
    stripe = TWO.replace('size = "500MB"', 'size = "1GB"\nlayout = "stripe"\nstripe_chunk = "6KiB"')
    for text, field, size in (
        (stripe + WORK, "stripe_chunk", "6KiB"),
        (TWO + WORK + "region_start = 512\n", "region_start", "512B"),
    ):
        problem = refusal(tmp_path, text).problems[0]
        assert problem["where"].endswith(field)
        assert f"{size} is not a multiple of 4KiB" in problem["what"]
        assert planned(tmp_path, text + "block_size = 512\n").runs


def test_buffered_targets_take_any_block_size(tmp_path: Path) -> None:
    text = TWO.replace('size = "1GB"', 'size = "1GB"\ndirect = false')
    assert planned(tmp_path, text + WORK + 'block_size = 1000\ntargets = ["b"]\n').runs


def test_two_workloads_that_ask_for_the_same_point_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, TWO + WORK + "jobs = [1, 2]\n" + WORK + "jobs = [2, 3]\n")
    assert "as workload #1" in error.problems[0]["what"]
    assert planned(tmp_path, TWO + WORK + 'name = "x"\n' + WORK + 'name = "y"\n').runs


def test_too_many_runs_are_refused(tmp_path: Path) -> None:
    many = ", ".join(str(n) for n in range(1, 300))
    text = TWO.replace("repeats = 3", "repeats = 9000") + WORK + f"jobs = [{many}]\n"
    assert refusal(tmp_path, text).problems[0]["where"].endswith("[study] repeats")


def test_the_hash_covers_order_sizes_and_devices(tmp_path: Path) -> None:
    base = planned(tmp_path, TWO + WORK)
    assert base.plan_hash == planned(tmp_path, TWO + WORK).plan_hash
    for changed in (
        TWO.replace("repeats = 3", "repeats = 4"),
        TWO.replace("500MB", "501MB"),
        TWO.replace('"a.dat"', '"/dev/no-such"'),
    ):
        assert planned(tmp_path, changed + WORK).plan_hash != base.plan_hash


def test_the_plan_is_read_back_from_its_json(tmp_path: Path) -> None:
    text = TWO + WORK + 'block_size = { "4KiB" = 70, "64KiB" = 30 }\nregion_start = "25%"\n'
    plan = planned(tmp_path, text)
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert again.plan_hash == plan.plan_hash
    assert all(point.point_id == key for key, point in again.points.items())


STORE = '[[target]]\nname = "s"\ns3 = "https://h.example/bucket"\n'
OBJECTS = '[[workload]]\nkind = "object"\nget_percent = 50\nobjects = 10\nobject_size = "1MB"\n'


def test_a_workload_without_targets_runs_where_it_can(tmp_path: Path) -> None:
    plan = planned(tmp_path, TWO + STORE + WORK + OBJECTS)
    by_kind = {
        kind: sorted(p.target for p in plan.points.values() if p.kind == kind)
        for kind in ("block", "object")
    }
    assert by_kind == {"block": ["a", "b"], "object": ["s"]}


def test_a_store_shows_its_data_set_and_where_its_objects_go(tmp_path: Path) -> None:
    sizes = 'object_size = ["1MB", "2MB"]\nconcurrency = [1, 2]\n'
    options = 's3_options = { prefix = "mine/", create_bucket = true }\n'
    objects = OBJECTS.replace('object_size = "1MB"\n', sizes)
    plan = planned(tmp_path, TWO + STORE + options + WORK + objects)
    assert plan.data_bytes_by_target["s"] == 10 * 10**6 + 10 * 2 * 10**6  # each size once
    assert plan.destructive == []
    (note,) = (note for note in plan.notes if note.startswith("s: "))
    assert "bucket bucket," in note
    assert '"mine/storlab-' in note
    assert "is created if" in note


def test_storlabs_own_server_is_called_so(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, TWO + STORE.replace("https://h.example/bucket", "embedded:d") + OBJECTS
    )
    (note,) = (note for note in plan.notes if note.startswith("s: "))
    assert "storlab's own S3 server on d" in note


@pytest.mark.parametrize(
    ("workloads", "field", "words", "fix"),
    [
        (
            WORK + 'targets = ["a", "s"]\n',
            "targets #2",
            '"s" is a target with s3',
            '"a" or "b"',
        ),
        (
            OBJECTS + 'targets = ["b"]\n',
            "targets #1",
            '"b" is a target with path',
            'suitable: "s"',
        ),
    ],
)
def test_a_target_of_the_wrong_kind_is_refused_by_name(
    tmp_path: Path, workloads: str, field: str, words: str, fix: str
) -> None:
    error = refusal(tmp_path, TWO + STORE + workloads)
    text = f"{error.where} {error.what} {error.fix}"
    assert field in text
    assert words in text
    assert fix in text


@pytest.mark.parametrize(
    ("targets", "workload", "words"),
    [(TWO, OBJECTS, "object workloads run on targets with s3"), (None, WORK, "path, paths or")],
)
def test_a_workload_that_fits_no_target_is_refused(
    tmp_path: Path, targets: str | None, workload: str, words: str
) -> None:
    text = targets or TWO.partition("[[target]]")[0] + STORE
    error = refusal(tmp_path, text + workload)
    assert "no target of the study is suitable" in error.what
    assert words in error.what
    assert "add a target" in error.fix


def test_buffers_beyond_memory_are_refused_by_the_plan(tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(TWO + WORK + 'block_size = "64MiB"\nqueue_depth = 1024\njobs = 64\n')
    with pytest.raises(PreflightError, match=r"buffers need 4.4 TB.*queue_depth x jobs") as caught:
        make_plan(load_study(study))
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(("more", "share"), [("", 0.75), ("read_percent = 50\n", 0.375)])
def test_buffers_are_refused_where_the_engine_would(
    tmp_path: Path, more: str, share: float
) -> None:
    """Check the refusal of buffers above half of the memory."""
    depth = int(share * host_memory_bytes()) >> 26
    text = f'{TWO}{WORK}block_size = "64MiB"\n{more}queue_depth = '
    with pytest.raises(PreflightError, match="more than half"):
        planned(tmp_path, f"{text}{depth}\n")
    (point, _) = planned(tmp_path, f"{text}{depth // 2}\n").points.values()
    deeper = point.model_copy(update={"params": {**point.params, "queue_depth": depth}})
    access = Access([Member(path="/x", name="x", kind="file", size=1 << 30)])
    target = Target(name="a", path="x")
    context = JobContext(Header(name="s"), target, access, seed=1, work_dir=tmp_path)
    with pytest.raises(EngineError, match=r"need \d+ MB of the \d+ MB"):
        get_engine("native").start(FAMILIES["block"].job(deeper, context), tmp_path)


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ("jobs = 65535", True),  # 53 GB of histograms
        ("jobs = 1000", False),
        ("jobs = 10000\nread_percent = 50", True),  # 16 GB: of reads and of writes
        ("jobs = 10000\nrate_iops = 1000", True),  # equally many: of due times
        ("jobs = 10000", False),
    ],
)
def test_histograms_of_many_jobs_count_as_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, refused: bool
) -> None:
    monkeypatch.setattr("storlab.lab.plan.plan.host_memory_bytes", lambda: 24 << 30)
    if refused:
        with pytest.raises(PreflightError, match="jobs") as caught:
            planned(tmp_path, f"{TWO}{WORK}{lines}\n")
        assert "histograms" in caught.value.what
    else:
        assert planned(tmp_path, f"{TWO}{WORK}{lines}\n").points


def with_samples(interval: str, runtime: str) -> str:
    lines = f'interval = "{interval}"\nruntime = "{runtime}"'
    return f"{TWO}{WORK}".replace('runtime = "6s"', lines)


def test_samples_of_a_long_run_in_short_intervals_count_as_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlab.lab.plan.plan.host_memory_bytes", lambda: 2 << 30)
    text = with_samples("1ms", "16min")
    with pytest.raises(PreflightError, match="samples") as caught:
        planned(tmp_path, text)
    assert "interval" in caught.value.what and "interval" in caught.value.fix
    assert planned(tmp_path, with_samples("10ms", "16min")).points


@pytest.mark.parametrize(
    ("interval", "runtime", "refused"),
    [
        ("1us", "1h", True),
        ("999us", "1s", True),
        ("1ms", "1001s", True),  # 1,001,000 samples
        ("1s", "278h", True),
        ("1ms", "1s", False),
        ("1s", "277h", False),
    ],
)
def test_an_interval_and_the_number_of_samples_have_bounds(
    tmp_path: Path, interval: str, runtime: str, refused: bool
) -> None:
    text = with_samples(interval, runtime)
    if refused:
        with pytest.raises(StudyError) as caught:
            planned(tmp_path, text)
        assert "interval" in str(caught.value)
    else:
        assert planned(tmp_path, text).points


def test_what_runs_compare_once_is_counted_once_unless_files_change() -> None:
    def runs(size: int, once: str, *, writes: bool = False) -> tuple[Estimate, int]:
        found = Estimate(
            duration_ns=1,
            bytes_written=0,
            writes=writes,
            compared_bytes=size,
            compared_ns=10 * size,
            compared_once=once,
        )
        return found, 5

    reads = [runs(100, "a"), runs(300, "a"), runs(20, "b"), runs(7, "")]
    assert comparisons(reads) == (300 + 20 + 5 * 7, 10 * (300 + 20 + 5 * 7))
    all_of_them = 5 * (100 + 300 + 20 + 7)
    assert comparisons([*reads, runs(0, "", writes=True)]) == (all_of_them, 10 * all_of_them)

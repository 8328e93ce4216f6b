"""The gpudirect workload: parameters to points, points to jobs, outcomes to metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study, parse_study
from storlab.model.job import Member
from storlab.model.point import Point
from storlab.model.result import CpuUse, EngineInfo, LatencySummary, OperationTotals, RunOutcome
from storlab.model.study import Header, Target
from storlab.workloads.gpudirect.job import GpuDirectJob
from storlab.workloads.gpudirect.libraries import cuda_places, cufile_places
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.resource_needs import POOL_BYTES, gpu_buffer_bytes
from storlab.workloads.gpudirect.spec import ASSUMED_BYTES_S
from support.refusals import refusal

GPU = FAMILIES["gpudirect"]
HEADER = Header(name="s", ramp="2s", runtime="10s", settle="1s")  # type: ignore[arg-type]
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FILES = Target(name="t", directory="/d", size=GIB)


def points(lines: str) -> list[Point]:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "/d"\nsize = "1GiB"\n'
        f'[[workload]]\nkind = "gpudirect"\n{lines}'
    )
    spec = study.workload[0]
    return [
        Point(target="t", workload="w", workload_index=0, kind=GPU.kind, engine="native", params=v)
        for v in spec.values()
    ]


def point(lines: str = "") -> Point:
    (single,) = points(lines)
    return single


def job(lines: str = "", target: Target = FILES, files: int = 1) -> GpuDirectJob:
    members = [Member(path=f"/d/{n}", name=f"{n}", kind="file", size=GIB) for n in range(files)]
    context = JobContext(HEADER, target, Access(members), seed=7, work_dir=Path("w"))
    made = GPU.job(point(lines), context)
    assert isinstance(made, GpuDirectJob)
    return made


def test_fields_that_a_path_has_no_use_for_make_no_points() -> None:
    found = points(
        'path = ["direct", "bounce", "bounce-overlapped", "host"]\n'
        'api = ["sync", "batch", "async"]\nregister_buffers = [true, false]\nqueue_depth = [4, 8]'
    )
    each = [(p.params["path"], p.params["api"], p.params["queue_depth"]) for p in found]
    assert each.count(("direct", "sync", 1)) == 2  # registered or not
    assert each.count(("direct", "batch", 8)) == 2
    assert [e for e in each if e[0] != "direct"] == [
        ("bounce", "sync", 1),
        ("bounce-overlapped", "sync", 4),
        ("bounce-overlapped", "sync", 8),
        ("host", "sync", 1),
    ]
    assert len(each) == 2 * (1 + 2 + 2) + 4


def test_sets_of_gpus_are_swept_and_one_set_is_not() -> None:
    def sets(lines: str) -> list[tuple[str, list[int]]]:
        return [(p.params["path"], p.params["gpu"]) for p in points(lines)]

    assert sets("") == [("direct", [0])]
    assert sets("gpu = [0, 1]") == [("direct", [0, 1])]
    swept = sets('gpu = [[0], [1], [0, 1]]\npath = ["direct", "host"]')
    assert swept == [("direct", [0]), ("direct", [1]), ("direct", [0, 1]), ("host", [0])]
    assert job("gpu = [[1]]").gpus == [1]


@pytest.mark.parametrize(
    ("study", "workload", "is_gdsio"),
    [
        ("", "", False),
        ('engine = "gdsio"', "", True),
        ("", 'engine = "gdsio"', True),
        ('engine = "gdsio"', 'engine = "native"', False),
        ('engine = "fio"', 'engine = "gdsio"', True),
        ('engine = "fio"', "", False),
    ],
)
def test_batches_on_a_stream_are_those_of_gdsio_alone(
    study: str, workload: str, is_gdsio: bool, tmp_path: Path
) -> None:
    def plan() -> list[Point]:
        file = tmp_path / "s.toml"
        file.write_text(
            f'[study]\nname = "s"\n{study}\n[[target]]\nname = "t"\ndirectory = "{tmp_path}"\n'
            'size = "1GiB"\n[[workload]]\nkind = "gpudirect"\napi = "batch-stream"\n'
            f"queue_depth = 8\n{workload}\n"
        )
        return list(make_plan(load_study(file)).points.values())

    if is_gdsio:
        (made,) = plan()
        assert (made.engine, made.params["queue_depth"]) == ("gdsio", 8)
    else:
        with pytest.raises(StudyError, match=r"api: .*gdsio"):
            plan()


@pytest.mark.parametrize(
    ("lines", "depth"),
    [
        ("", 1),
        ('path = "bounce-overlapped"', 2),
        ('path = "bounce-overlapped"\nqueue_depth = 3', 3),
        ('api = "batch"', 1),
        ('api = "async"\nqueue_depth = 9', 9),
    ],
)
def test_how_much_a_worker_has_in_flight(lines: str, depth: int) -> None:
    assert point(lines).params["queue_depth"] == depth
    assert job(lines).queue_depth == depth


def test_the_smallest_job() -> None:
    made = job()
    assert (made.path, made.api, made.workers, made.queue_depth) == ("direct", "sync", 1, 1)
    assert (made.longest, made.gpus, made.register_buffers) == (1 << 20, [0], True)
    assert (made.mix.read, made.mix.write, made.offsets.kind) == (100, 0, "uniform")
    assert (made.verify_bytes, made.direct) == (64 << 20, True)
    assert (made.ramp_ns, made.window_ns, made.window_bytes) == (2 * NS_PER_S, 10 * NS_PER_S, None)
    read = json.loads(made.model_dump_json())
    assert read["do"] == "load"
    assert read["register"] is True
    assert "register_buffers" not in read
    assert made.touches() == []


def test_every_field_of_a_study_reaches_the_job() -> None:
    made = job(
        "\n".join(
            [
                'path = "direct"',
                'api = "batch"',
                'access = "sequential"',
                'block_size = "16KiB"',
                "read_percent = 70",
                "workers = 6",
                "workers_per_file = 3",
                "queue_depth = 16",
                "gpu = [1, 0]",
                "register_buffers = false",
                'region_start = "25%"',
                'region_size = "50%"',
                "rate_iops = 1000",
                'arrival = "poisson"',
                "cpus = [3, 1]",
                'total_bytes = "1GiB"',
                "verify = false",
                'drain_timeout = "5s"',
                'cufile_library = "/opt/libcufile.so"',
                'cuda_library = "/opt/libcuda.so"',
            ]
        ),
        files=2,
    )
    assert (made.api, made.offsets.kind, made.longest) == ("batch", "sequential", 16384)
    assert (made.mix.read, made.mix.write) == (70, 30)
    assert (made.workers, made.workers_per_file, made.queue_depth) == (6, 3, 16)
    assert (made.gpus, made.cpus, made.register_buffers) == ([1, 0], [3, 1], False)
    assert [(m.offset, m.size) for m in made.members] == [(GIB // 4, GIB // 2)] * 2
    assert made.arrival.model_dump() == {"kind": "poisson", "rate_iops": 1000}
    assert (made.window_ns, made.window_bytes) == (None, GIB)
    assert (made.verify_bytes, made.drain_timeout_ns) == (0, 5 * NS_PER_S)
    assert made.libraries.cufile == ["/opt/libcufile.so"]
    assert made.libraries.cuda == ["/opt/libcuda.so"]
    assert made.touches() == made.members


def test_sizes_and_places_are_drawn_as_in_block_io() -> None:
    made = job('block_size = { "64KiB" = 3, "1MiB" = 1 }\noffsets = "zipf"\nzipf_theta = 1.3')
    sizes = [(size.bytes, size.weight) for size in made.block_sizes]
    assert sizes == [(64 * KIB, 3), (MIB, 1)]
    assert (made.offsets.kind, made.offsets.theta) == ("zipf", 1.3)
    assert made.verify_bytes == 64 * MIB
    hot = job('offsets = "hot_cold"\nhot_space_percent = 5\nhot_access_percent = 80').offsets
    assert (hot.kind, hot.hot_space_percent, hot.hot_access_percent) == ("hot_cold", 5, 80)
    drawn = points('access = ["random", "sequential"]\noffsets = ["uniform", "permutation"]')
    assert [p.params["offsets"] for p in drawn] == ["uniform", "permutation", "sequential"]
    rated = GPU.estimate(
        point('block_size = { "4KiB" = 1, "12KiB" = 1 }\nrate_iops = 100\nread_percent = 0'),
        HEADER,
        FILES,
    )
    assert rated.bytes_written == 100 * 12 * 8 * KIB  # ramp and window at the mean size


def test_what_is_compared_is_whole_blocks_of_each_file() -> None:
    assert job('block_size = "128MiB"').verify_bytes == 128 << 20
    assert job('block_size = "4KiB"\nverify = "10000B"').verify_bytes == 8192
    assert job('verify = "4GiB"').verify_bytes == GIB


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ('path = "bounce"\napi = "batch"', "applies only to cuFile, but path is bounce"),
        ('path = "host"\nregister_buffers = false', "applies only to cuFile"),
        ('path = "host"\ngpu = [1]', "path = host does not use a GPU"),
        ("queue_depth = 4", "with api = sync"),
        ('api = "batch"\nqueue_depth = 129', "a batch of cuFile has at most 128 entries"),
        ('path = "bounce-overlapped"\nqueue_depth = 5000', "a worker has at most 4,096"),
        ('arrival = "poisson"', "closed loop"),
        ('total_bytes = "4KiB"', "is less than one block"),
        ("gpu = [0, 0]", "a GPU is listed twice"),
        ("gpu = [-1]", "GPU numbers start at 0"),
        ("gpu = [[0], [0, 0]]", "a GPU is listed twice"),
        ("gpu = [[]]", "is empty"),
        ("verify = true", "compare of each file"),
        ("block_size = 0", "0 bytes"),
        ("block_size = {}", "table of block sizes is empty"),
        ("zipf_theta = 2", 'belongs to offsets = "zipf"'),
        ('access = "sequential"\noffsets = "uniform"', "sequential access has no other offsets"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(lines: str, text: str) -> None:
    with pytest.raises(StudyError, match=text):
        points(lines)


@pytest.mark.parametrize(
    ("lines", "target", "text"),
    [
        ('block_size = "5000B"', {}, "not a multiple of 4KiB, as direct transfers need"),
        ('block_size = { "4KiB" = 1, "6KiB" = 1 }', {}, "6KiB is not a multiple of 4KiB"),
        ('path = "host"\nblock_size = "1000B"', {}, "not a multiple of 512B, as O_DIRECT needs"),
        ("", {"direct": False}, "need files that are opened with O_DIRECT"),
        ('region_start = "2GiB"', {}, "leaves nothing of the 1GiB"),
        ('region_size = "2GiB"', {}, "ends beyond the data set"),
        (
            'access = "sequential"\nworkers = 2048\nworkers_per_file = 2048\nblock_size = "1MiB"',
            {},
            "2,048 workers share a file",
        ),
    ],
)
def test_what_does_not_fit_a_target(lines: str, target: dict[str, Any], text: str) -> None:
    fitting = FILES.model_copy(update=target)
    assert text in (refusal(GPU.check(point(lines).params, fitting)) or "")


def test_nothing_is_striped_and_a_null_target_has_no_data() -> None:
    striped = Target(name="t", paths=["/a", "/b"], size=GIB, layout="stripe", stripe_chunk=65536)
    assert "layout: stripe" in (refusal(GPU.check(point().params, striped)) or "")
    nothing = Target(name="t", path="null:")
    assert "has no data for a GPU" in (refusal(GPU.check(point().params, nothing)) or "")
    assert refusal(GPU.check(point("workers = 4").params, FILES)) is None


def test_what_a_run_costs() -> None:
    many = GPU.estimate(point("workers = 5\nworkers_per_file = 2\nverify = false"), HEADER, FILES)
    made = (many.layout_files, many.writes, many.bytes_written, many.buffer_bytes)
    assert made == (3, False, 0, 0)
    assert many.duration_ns == 13 * NS_PER_S
    written = GPU.estimate(point("read_percent = 50"), HEADER, FILES)
    assert (written.writes, written.bytes_written, written.write_share) == (True, None, 0.5)


@pytest.mark.parametrize(
    ("lines", "target", "compared"),
    [
        ("workers = 5\nworkers_per_file = 2", FILES, 3 * 2 * 64 * MIB),
        ('verify = "1KiB"\nblock_size = "4KiB"', FILES, 2 * 4096),
        ('verify = "4GiB"', FILES, 2 * GIB),
        ('verify = "4GiB"\nregion_size = "50%"', FILES, GIB),
        ("workers = 8", Target(name="t", paths=["/a", "/b"], size=GIB), 2 * 2 * 64 * MIB),
        ("read_percent = 0", FILES, 0),
        ("verify = false", FILES, 0),
    ],
)
def test_what_is_compared_before_a_run_is_in_its_cost(
    lines: str, target: Target, compared: int
) -> None:
    """Check that the cost includes two reads of each file for the comparison."""
    found = GPU.estimate(point(lines), HEADER, target)
    assert found.compared_bytes == compared
    assert found.duration_ns == 13 * NS_PER_S
    assert found.compared_ns == compared * NS_PER_S // ASSUMED_BYTES_S


def test_files_are_compared_once_for_each_way_that_they_are_read() -> None:
    def key(lines: str, target: Target = FILES, **changes: Any) -> str:
        changed = point(lines).model_copy(update=changes)
        return GPU.estimate(changed, HEADER, target).compared_once

    assert key("workers = 2") == key("workers = 9\nrate_iops = 5") != ""
    other = ('path = "bounce"', 'api = "batch"', 'block_size = "4KiB"', "gpu = [1]")
    assert len({key(lines) for lines in ("", *other)}) == 5
    assert key("read_percent = 50") == ""  # it changes the compared data
    assert key("", clients=2) == ""  # clients keep nothing
    assert key("", Target(name="t", path="/dev/null", size=GIB)) != ""


def test_other_engines_compare_nothing() -> None:
    other = point().model_copy(update={"engine": "gdsio"})
    assert GPU.estimate(other, HEADER, FILES).compared_bytes == 0


@pytest.mark.parametrize(
    ("lines", "target", "count"),
    [
        ("workers = 6\nworkers_per_file = 3", FILES, 2 * 6 + 2),
        ("workers = 6\nverify = false", Target(name="t", path="/a", size=GIB), 2 * 6),
        ('workers = 6\npath = "host"', Target(name="t", path="/a", size=GIB), 6 + 1),
        ('workers = 6\npath = "bounce-overlapped"\nverify = false', FILES, 3 * 6),
    ],
)
def test_each_worker_opens_its_file_for_itself(lines: str, target: Target, count: int) -> None:
    assert GPU.estimate(point(lines), HEADER, target).open_files == count


@pytest.mark.parametrize(
    ("lines", "host", "gpu"),
    [
        ("workers = 3", 0, 3 * MIB),
        ('block_size = "4KiB"\nworkers = 3', 0, 3 * 64 * KIB),
        ('path = "bounce"\nblock_size = "1536B"\nworkers = 3', 3 * 1536, 3 * 64 * KIB),
        ('path = "bounce-overlapped"\nblock_size = "4KiB"\nworkers = 4', 8 * MIB, 4 * 64 * KIB),
        ('path = "bounce-overlapped"\nblock_size = "4MiB"\nworkers = 4', 32 * MIB, 32 * MIB),
        ("read_percent = 0\ngpu = [0, 1]\nworkers = 9", 0, POOL_BYTES + MIB),
        ("read_percent = 50\ngpu = [0, 1]\nworkers = 3", 0, 2 * MIB + POOL_BYTES + MIB),
        ('path = "host"\nread_percent = 50', MIB + POOL_BYTES + MIB, 0),
        ('api = "async"\nqueue_depth = 4\nblock_size = "4KiB"', 0, 4 * 64 * KIB),
        (
            'api = "async"\nqueue_depth = 4\nblock_size = "4KiB"\nread_percent = 0',
            0,
            4 * 64 * KIB + POOL_BYTES + 4 * KIB,
        ),
    ],
)
def test_memory_is_counted_as_the_engine_takes_it(lines: str, host: int, gpu: int) -> None:
    made = point(lines)
    assert GPU.estimate(made, HEADER, FILES).buffer_bytes == host
    assert gpu_buffer_bytes(GpuDirectParams.of(made.params)) == gpu


def test_libraries_are_tried_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
    places = cufile_places(None)
    assert places[-2:] == ["libcufile.so.0", "/opt/cuda/lib64/libcufile.so.0"]
    assert cufile_places("/mine.so") == ["/mine.so"]
    assert cuda_places(None) == ["libcuda.so.1"]


def outcome(route: dict[str, Any] | None, **more: Any) -> RunOutcome:
    percentiles = dict.fromkeys(("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns"), 1)
    latency = LatencySummary(count=1000, mean_ns=10_000_000.0, max_ns=1, **percentiles)
    details = {} if route is None else {"route": {"bytes": 1000 << 20, "by": "cufile", **route}}
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1"),
        window_start_ns=0,
        window_end_ns=10 * NS_PER_S,
        samples=[],
        totals={"read": OperationTotals(operations=1000, bytes=1000 << 20, latency=latency)},
        cpu=CpuUse(user_ns=NS_PER_S, system_ns=NS_PER_S, cores=2, worker_ns=0),
        details={**details, **more},
    )


def metric(lines: str, run: RunOutcome, name: str) -> float | None:
    found = [m.value for m in GPU.metrics(point(lines), run) if m.name == name]
    return found[0] if found else None


def flags(lines: str, run: RunOutcome) -> dict[str, str]:
    return {flag.kind: flag.message for flag in GPU.flags(point(lines), FILES, run)}


@pytest.mark.parametrize("contradiction", ["stand_ins", "path_obstacles"])
def test_counters_that_the_machine_contradicts_prove_no_path(contradiction: str) -> None:
    """Check that counters are not trusted if the machine contradicts them."""
    found = {contradiction: ["vda is not an NVMe drive"]}
    direct = flags("", outcome({"p2p_bytes": 1000 << 20}, **found))
    assert "path-unproven" in direct
    assert "path-unproven" not in flags("", outcome({"p2p_bytes": 1000 << 20}))
    posix = flags("", outcome({"posix_bytes": 1000 << 20}, **found))
    assert ("not-direct" in posix, "path-unproven" in posix) == (True, False)
    mixed = flags("", outcome({"p2p_bytes": 500 << 20, "posix_bytes": 500 << 20}, **found))
    assert {"not-direct", "path-unproven"} <= set(mixed)


def test_shares_of_the_path_and_what_it_costs() -> None:
    route = {"p2p_bytes": 750 << 20, "posix_bytes": 250 << 20}
    registration = {"buffers": 1, "bytes": 1, "ns": NS_PER_S, "handles": 1, "handles_ns": NS_PER_S}
    compared = {"files": 1, "bytes": 3_000_000, "ns": 1, "wrong": 0}
    run = outcome(route, registration=registration, first_pass=compared)
    assert metric("", run, "direct_percent") == 75
    assert metric("", run, "p2p_percent") == 75
    assert metric("", run, "nvfs_percent") == 0
    assert metric("", run, "posix_percent") == 25
    assert metric("", run, "registration_s") == 2
    assert metric("", run, "first_pass_mb") == 3
    assert metric("", run, "cpu_s_per_gb") == pytest.approx(2 / 1.048576)
    assert metric('path = "bounce"', run, "direct_percent") is None
    assert metric('path = "bounce"', run, "registration_s") is None


def test_a_run_that_was_not_direct_is_flagged() -> None:
    half = flags("", outcome({"p2p_bytes": 500 << 20, "posix_bytes": 500 << 20}))
    assert "50 % of the bytes went through host memory" in half["not-direct"]
    assert "compatibility mode" not in half["not-direct"]
    allowed = {"libraries": {"cufile": {"compat_allowed": True}}}
    whole = flags("", outcome({"posix_bytes": 1000 << 20}, **allowed))
    assert "cuFile ran in compatibility mode: all bytes" in whole["not-direct"]
    assert "allow_compat_mode" in whole["not-direct"]
    assert "not-direct" not in flags("", outcome({"nvfs_bytes": 995 << 20, "posix_bytes": 5 << 20}))
    assert "not-direct" not in flags('path = "bounce"', outcome({"posix_bytes": 1000 << 20}))


def test_a_path_that_nothing_counted_is_not_proven() -> None:
    assert "no counter shows" in flags("", outcome(None))["path-unproven"]
    assert "no counter shows" in flags("", outcome({"by": "none"}))["path-unproven"]
    some = flags("", outcome({"p2p_bytes": 900 << 20}))
    assert "have only 944 MB" in some["path-unproven"]
    assert "not-direct" not in some
    both = flags("", outcome({"p2p_bytes": 500 << 20, "posix_bytes": 400 << 20}))
    assert {"not-direct", "path-unproven"} <= set(both)


WHOLE = 1000 << 20


@pytest.mark.parametrize(
    ("lines", "route", "more", "state", "kinds"),
    [
        ("", {"p2p_bytes": WHOLE}, {}, "proven", set()),
        ("", {"nvfs_bytes": WHOLE, "by": "nvidia-fs"}, {}, "proven", set()),
        ("", {"nvfs_bytes": 995 << 20, "posix_bytes": 5 << 20}, {}, "proven", set()),
        ("", {"by": "none"}, {}, "unproven", {"path-unproven"}),
        ("", None, {}, "unproven", {"path-unproven"}),  # gdsio has no counters
        ("", {"p2p_bytes": 900 << 20}, {}, "unproven", {"path-unproven"}),
        ("", {"p2p_bytes": WHOLE}, {"stand_ins": ["no driver"]}, "unproven", {"path-unproven"}),
        ("", {"posix_bytes": WHOLE}, {}, "contradicted", {"not-direct"}),
        (
            "",
            {"p2p_bytes": WHOLE},
            {"medium": {"holes": ["half of the file is holes"]}},
            "contradicted",
            {"never-written"},
        ),
        ("", {"p2p_bytes": WHOLE}, {"medium": {"unknown": ["FUSE"]}}, "proven", set()),
        ('path = "host"', None, {"medium": {"unknown": ["FUSE"]}}, "unproven", {"medium-unproven"}),
        ('path = "host"', None, {}, None, set()),  # not checked
        (
            'path = "bounce"',
            None,
            {
                "medium": {},
                "process": {
                    "read_bytes": WHOLE,
                    "inside_read_bytes": WHOLE,
                    "inside_ns": 10 * NS_PER_S,
                    "over_ns": 10 * NS_PER_S,
                },
            },
            "proven",
            set(),
        ),
    ],
)
def test_each_run_is_proven_unproven_or_contradicted(
    lines: str,
    route: dict[str, Any] | None,
    more: dict[str, Any],
    state: str | None,
    kinds: set[str],
) -> None:
    run = outcome(route, **more)
    proof = GPU.proof(point(lines), FILES, run)
    assert (proof and proof.state) == state
    about_proof = {"path-unproven", "not-direct", "never-written", "medium-unproven"}
    assert about_proof & flags(lines, run).keys() == kinds
    if proof is not None:
        assert bool(proof.reasons) == (state != "proven")


def test_a_run_that_moved_nothing_has_no_proof() -> None:
    empty = outcome({"p2p_bytes": WHOLE})
    empty.totals["read"] = OperationTotals(operations=0, bytes=0, latency=None)
    assert GPU.proof(point(), FILES, empty) is None


def test_data_that_nobody_compared_is_flagged() -> None:
    good = {"p2p_bytes": 1000 << 20}
    assert "verify = false" in flags("verify = false", outcome(good))["not-compared"]
    assert "this engine" in flags("", outcome(good))["not-compared"]
    compared = {"files": 1, "bytes": 1, "ns": 1, "wrong": 0}
    assert "not-compared" not in flags("", outcome(good, first_pass=compared))
    assert "not-compared" not in flags('path = "host"', outcome(None))
    wrong = flags("", outcome(good, read_back={**compared, "wrong": 4096}))
    assert "4.1 KB are in blocks" in wrong["verify-failed"]


def test_concurrency_is_that_of_all_workers() -> None:
    both = GPU.concurrency(point('api = "batch"\nqueue_depth = 8\nworkers = 4'), outcome({}))
    assert both.configured == 32
    assert both.implied == pytest.approx(1.0)

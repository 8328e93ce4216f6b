"""A GpuDirectJob as gdsio options: every supported field, and a reason for each other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import StudyError
from storlab.engines.gdsio import command as gdsio_command
from storlab.engines.gdsio.engine import GdsioEngine
from storlab.engines.gdsio.failure import Ended, explain
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study
from storlab.model.job import Arrival
from storlab.workloads.gpudirect.job import GpuDirectJob
from support.block_jobs import make_job as block_job
from support.gpudirect_jobs import MIB, make_job

GOLDEN = Path(__file__).parents[3] / "golden" / "gdsio"
WRITE = {"read": 0, "write": 100}
MIX = {"read": 50, "write": 50}


def words(job: GpuDirectJob) -> str:
    return " ".join(gdsio_command.arguments(job, job.window_ns or 0))


def test_a_file_for_each_thread() -> None:
    job = make_job("/a", "/b", offsets={"kind": "sequential"})
    assert words(job) == "-D gpu0 -d 0 -w 2 -s 8192K -i 64K -x 0 -I 0 -T 1"
    (group,) = gdsio_command.groups(job)
    assert list(group.links()) == [("gpu0/gdsio.0", "/a"), ("gpu0/gdsio.1", "/b")]


def test_threads_on_one_file() -> None:
    job = make_job("/a", workers=16, workers_per_file=16, block_size=4096)
    assert words(job) == "-f file0 -d 0 -w 16 -s 8192K -i 4K -x 0 -I 2 -T 1 -k 1"


def test_files_for_more_workers_than_this_run_has_are_left_alone() -> None:
    """Check that surplus files, laid out for the campaign's largest point, are ignored."""
    alone = make_job("/a", "/b", "/c", workers=1)
    assert gdsio_command.refusal(alone) is None
    assert words(alone).startswith("-f file0 -d 0 -w 1 -s")
    (group,) = gdsio_command.groups(alone)
    assert list(group.links()) == [("file0", "/a")]
    two = make_job("/a", "/b", "/c", workers=2)
    assert gdsio_command.refusal(two) is None
    assert words(two).startswith("-D gpu0 -d 0 -w 2 -s")
    shared = make_job("/a", "/b", workers=4, workers_per_file=4)
    assert words(shared).startswith("-f file0 -d 0 -w 4 -s")
    batch = make_job("/a", "/b", workers=1, api="batch", queue_depth=8)
    assert gdsio_command.refusal(batch) is None


@pytest.mark.parametrize(("per_file", "wanted"), [(1, "abab"), (2, "aabb")])
def test_random_workers_may_share_files(per_file: int, wanted: str) -> None:
    job = make_job("/a", "/b", workers=4, workers_per_file=per_file)
    (group,) = gdsio_command.groups(job)
    assert [Path(target).name for _, target in group.links()] == list(wanted)
    assert words(job).startswith("-D gpu0 -d 0 -w 4 -s")


def test_workers_take_gpus_in_turn() -> None:
    own = make_job("/a", "/b", "/c", "/d", "/e", gpus=[0, 3], offsets={"kind": "sequential"})
    assert words(own).startswith("-D gpu0 -d 0 -w 3 -D gpu1 -d 3 -w 2 -s")
    links = [dict(group.links()) for group in gdsio_command.groups(own)]
    assert list(links[0].values()) == ["/a", "/c", "/e"]
    assert links[1] == {"gpu1/gdsio.0": "/b", "gpu1/gdsio.1": "/d"}
    shared = make_job("/a", workers=5, workers_per_file=5, gpus=[0, 3])
    assert words(shared).startswith("-f file0 -d 0 -w 3 -f file1 -d 3 -w 2 -s")
    more = make_job("/a", "/b", gpus=[0, 1, 2])
    assert words(more).startswith("-f gpu0 -d 0 -w 1 -f gpu1 -d 1 -w 1 -s")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"path": "host"}, "-x 1"),
        ({"path": "bounce"}, "-x 2"),
        ({"path": "bounce-overlapped", "queue_depth": 2}, "-x 3"),
        ({"path": "bounce", "direct": False}, "-x 4"),
        ({"api": "async"}, "-x 5"),
        ({"api": "batch", "queue_depth": 32}, "-w 32 -s 8192K -i 64K -x 6"),
        ({"api": "batch-stream", "queue_depth": 32}, "-w 32 -s 8192K -i 64K -x 7"),
        ({"mix": WRITE}, "-I 3 -T 1 -k 1 -R"),
        ({"mix": WRITE, "offsets": {"kind": "sequential"}}, "-I 1 -T 1 -R"),
        ({"register_buffers": False}, "-k 1 -b"),
        ({"window_ns": 2_500_000_000}, "-T 3"),
        ({"seed": 0xFFFF_FFFF_FFFF}, "-k 2147483647"),
    ],
)
def test_fields_in_gdsios_words(changes: dict[str, Any], wanted: str) -> None:
    assert gdsio_command.refusal(make_job("/a", **changes)) is None
    assert wanted in words(make_job("/a", **changes))


def test_all_cpus_of_a_numa_node_are_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node, cpus in (("node0", "0-1,4"), ("node1", "2-3")):
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(f"{cpus}\n")
    monkeypatch.setattr(gdsio_command, "NODES", tmp_path)
    second = make_job("/a", "/b", gpus=[0, 1], cpus=[3, 2])
    assert gdsio_command.refusal(second) is None
    assert words(second).startswith("-f gpu0 -d 0 -w 1 -n 1 -f gpu1 -d 1 -w 1 -n 1 -s")
    assert "-n 0" in words(make_job("/a", cpus=[4, 0, 1]))
    for cpus in ([2], [0, 1], [0, 1, 2, 3, 4]):
        assert "NUMA node" in (gdsio_command.refusal(make_job("/a", cpus=cpus)) or "")


def test_drive_i_is_paired_with_gpu_i() -> None:
    """Check that worker w has file w and GPU w, both modulo their number."""
    for workers in (3, 6, 9):
        job = make_job("/0", "/1", "/2", gpus=[0, 1, 2], workers=workers)
        for group in gdsio_command.groups(job):
            assert {target for _, target in group.links()} == {f"/{group.gpu}"}


def test_a_region_and_whole_blocks_of_it() -> None:
    member = {"path": "/a", "name": "a", "kind": "file", "size": 3 * MIB + 4096, "offset": 2 * MIB}
    assert "-s 3072K -i 1024K -o 2048K" in words(make_job("/a", members=[member], block_size=MIB))


def test_unregistered_buffers_matter_to_cufile_only() -> None:
    assert " -b" not in words(make_job("/a", path="bounce", register_buffers=False))


def test_a_ramp_is_a_gdsio_of_its_own() -> None:
    job = make_job("/a", ramp_ns=2_000_000_000, window_ns=5_000_000_000)
    shell, flag, script = gdsio_command.command(Path("/opt/gds io"), job, ("stdbuf", "-oL"))
    assert (shell, flag) == ("/bin/sh", "-c")
    ramp, measured = script.split("; exec ")
    assert ramp.startswith("'/opt/gds io' -f gpu0" if len(job.members) > 1 else "'/opt/gds io' -f")
    assert "-T 2" in ramp
    assert ramp.endswith(">ramp.txt 2>&1 || { cat ramp.txt >&2; exit 1; }")
    assert measured.startswith("stdbuf -oL '/opt/gds io' -f")
    assert "-T 5" in measured
    assert gdsio_command.command(Path("/gdsio"), make_job("/a"))[0] == "/gdsio"
    assert any("no ramp" in note for note in gdsio_command.caveats(job))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"do": "probe"}, '"probe"'),
        ({"window_ns": None, "window_bytes": MIB}, "after a given time"),
        ({"mix": MIX}, "reads and writes"),
        ({"arrival": Arrival(kind="poisson", rate_iops=10)}, "no open loop"),
        ({"path": "bounce", "api": "batch"}, 'no path "bounce" with api "batch"'),
        ({"cpus": [1 << 20]}, "NUMA node"),
        ({"direct": False}, "page cache"),
        ({"block_size": 512}, "KiB"),
        ({"block_sizes": [{"bytes": 4096}, {"bytes": 8192}]}, "one block_size"),
        ({"offsets": {"kind": "zipf"}}, 'no "zipf" offsets'),
        ({"api": "async", "queue_depth": 4}, "queue_depth = 1"),
        ({"api": "batch", "queue_depth": 4, "workers": 2, "workers_per_file": 2}, "workers = 1"),
        ({"api": "batch", "queue_depth": 129}, "at most 128"),
        ({"block_size": 16 * MIB}, "smaller than one I/O"),
    ],
)
def test_what_gdsio_cannot_do_is_refused_with_the_reason(
    changes: dict[str, Any], word: str
) -> None:
    reason = GdsioEngine().refuse(make_job("/a", **changes))
    assert reason is not None
    assert word in reason


def test_files_that_gdsio_cannot_take_are_refused() -> None:
    def refused(*members: dict[str, Any], **changes: Any) -> str:
        plain = {"name": "a", "kind": "file", "size": MIB}
        full = [{"path": f"/{number}", **plain, **m} for number, m in enumerate(members)]
        job = make_job(*("/a" for _ in members), members=full, **changes)
        return gdsio_command.refusal(job) or ""

    assert "null target" in refused({"kind": "null"})
    assert "same region" in refused({}, {"size": 2 * MIB})
    assert "begins at 512" in refused({"offset": 512})
    sequential = {"kind": "sequential"}
    shared = [{"path": path} for path in ("/a", "/b")]
    assert "4 sequential workers share 2 files" in refused(
        *shared, workers=4, workers_per_file=2, offsets=sequential
    )
    assert refused(*shared, workers=4, workers_per_file=2) == ""
    assert refused({}, {}) == ""


def test_jobs_of_other_families_are_refused() -> None:
    assert GdsioEngine().refuse(block_job("/a")) == "gdsio runs GPUDirect jobs only"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "no percentiles"),
        ({}, "prints GPUD"),
        ({"verify_bytes": MIB}, "nothing was verified"),
        ({"window_ns": 1_500_000_000}, "2 s instead of 1.5 s"),
        ({"mix": WRITE}, "again and again"),
        ({"path": "bounce-overlapped"}, "overlap"),
        ({"api": "batch"}, "latency of a batch"),
    ],
)
def test_what_differs_is_told(changes: dict[str, Any], word: str) -> None:
    assert any(word in note for note in gdsio_command.caveats(make_job("/a", **changes)))


def test_what_does_not_concern_a_path_is_not_told_of_it() -> None:
    (only,) = gdsio_command.caveats(make_job("/a", path="bounce"))
    assert "no percentiles" in only


def test_gdsios_errors_in_its_words_with_what_to_do() -> None:
    def failure(text: str, code: int = 1) -> tuple[str, str]:
        found = explain(Ended(code, "it has printed no line", text, ""), {"gdsio.0": "data"})
        assert found is not None
        assert found.fix
        return found.message, str(found.path or found.errno_name)

    not_supported = failure((GOLDEN / "not-supported.txt").read_text())
    assert "GPUDirect Storage not supported on current file" in not_supported[0]
    assert not_supported[1] == "data"  # as displayed
    stopped = failure((GOLDEN / "io-failed.txt").read_text(), 0)
    assert stopped == ("gdsio: an I/O failed: Input/output error", "EIO")
    assert "exit code 3: last words" in failure("first\nlast words\n", 3)[0]
    assert "by signal 11" in failure("", -11)[0]
    assert "it has printed no line" in failure("", 0)[0]
    assert explain(Ended(0, None, "IoType: ...", ""), {}) is None


STUDY = """
[study]
name = "s"
engine = "gdsio"
[[target]]
name = "t"
{target}
[[workload]]
kind = "gpudirect"
{workload}
"""


@pytest.mark.parametrize(
    ("workload", "field"),
    [
        ("read_percent = 70", "read_percent"),
        ('total_bytes = "1GiB"', "total_bytes"),
        ("rate_iops = 1000", "rate_iops"),
        ('offsets = "zipf"', "offsets"),
        ('block_size = { "4KiB" = 1, "8KiB" = 1 }', "block_size"),
        ('path = "host"\nblock_size = 512', "block_size"),
        ('api = "async"\nqueue_depth = 4', "queue_depth"),
        ('api = "batch"\nqueue_depth = 8\nworkers = 2\nworkers_per_file = 2', "workers"),
        ('api = ["sync", "batch-stream"]\nworkers = [1, 2]', "workers"),
        (f"cpus = [{1 << 12}]", "cpus"),
        ('access = "sequential"\nworkers = 4\nworkers_per_file = 2', "workers_per_file"),
    ],
)
def test_plan_refuses_what_gdsio_cannot_do(workload: str, field: str, tmp_path: Path) -> None:
    target = f'directory = "{tmp_path}"\nsize = "1GiB"'
    file = tmp_path / "s.toml"
    file.write_text(STUDY.format(target=target, workload=workload))
    with pytest.raises(StudyError) as refused:
        make_plan(load_study(file))
    assert f"[[workload]] #1 {field}: " in str(refused.value)
    assert "fix: " in str(refused.value)
    (tmp_path / "native.toml").write_text(
        file.read_text().replace('engine = "gdsio"', "").replace('"batch-stream"', '"batch"')
    )
    if field != "cpus":
        make_plan(load_study(tmp_path / "native.toml"))


@pytest.mark.parametrize(
    "workload",
    [
        "workers = [1, 64]",
        'path = ["direct", "bounce", "bounce-overlapped", "host"]',
        'api = ["sync", "async", "batch", "batch-stream"]',
        'access = ["random", "sequential"]\nread_percent = [0, 100]\nworkers = 2',
    ],
)
def test_plan_accepts_what_gdsio_can_do(workload: str, tmp_path: Path) -> None:
    target = f'directory = "{tmp_path}"\nsize = "1GiB"'
    (tmp_path / "s.toml").write_text(STUDY.format(target=target, workload=workload))
    assert make_plan(load_study(tmp_path / "s.toml")).points


def test_plan_names_a_field_of_the_target(tmp_path: Path) -> None:
    target = f'directory = "{tmp_path}"\nsize = "1GiB"\ndirect = false'
    (tmp_path / "s.toml").write_text(STUDY.format(target=target, workload='path = "host"'))
    with pytest.raises(StudyError, match=r"\[\[target\]\] #1 direct: "):
        make_plan(load_study(tmp_path / "s.toml"))

"""fio's jobs as studies: fields, targets and remarks; the jobs are written after fio's HOWTO."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode, UsageError
from storlab.cli.main import main
from storlab.contracts.translation import Translation
from storlab.engines.fio.translation import translate
from storlab.lab.study.translated import study_text

MIB = 1 << 20


def translated(tmp_path: Path, text: str) -> Translation:
    path = tmp_path / "a.fio"
    path.write_text(text)
    return translate([str(path)])


def study(tmp_path: Path, text: str) -> dict[str, Any]:
    return tomllib.loads(study_text(translated(tmp_path, text), "a.fio"))


def workload(tmp_path: Path, *options: str) -> dict[str, Any]:
    lines = "\n".join(options)
    text = f"[x]\nfilename=/data/f\nsize=1g\nruntime=10\ntime_based\n{lines}\n"
    (only,) = study(tmp_path, text)["workload"]
    return dict(only)


def remarked(translation: Translation) -> set[str]:
    """Return the names of options with a remark."""
    texts = (o for r in translation.remarks for o in r.option.split(", "))
    return {text.partition("=")[0] for text in texts}


def test_sections_become_workloads_of_one_target(tmp_path: Path) -> None:
    text = """\
[global]
filename=/mnt/data/file
size=4g
direct=1
ioengine=io_uring
runtime=30
time_based
ramp_time=5s
[random read]
rw=randread
bs=4k
iodepth=32
numjobs=4
norandommap
[log]
stonewall
rw=write
bs=128k
ioengine=psync
fdatasync=1
"""
    found = study(tmp_path, text)
    assert (found["study"]["ramp"], found["study"]["runtime"]) == ("5s", "30s")
    assert found["target"] == [{"name": "file", "path": "/mnt/data/file", "size": "4GiB"}]
    assert found["workload"] == [
        {
            "kind": "block",
            "name": "random read",
            "targets": ["file"],
            "access": "random",
            "read_percent": 100,
            "queue_depth": 32,
            "jobs": 4,
            "block_size": "4KiB",
            "offsets": "uniform",
            "backend": "uring",
        },
        {
            "kind": "block",
            "name": "log",
            "targets": ["file"],
            "access": "sequential",
            "read_percent": 0,
            "queue_depth": 1,
            "jobs": 1,
            "block_size": "128KiB",
            "backend": "posix",
            "sync": "fdatasync",
            "sync_every": 1,
        },
    ]
    assert not translated(tmp_path, text).remarks


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (["rw=randrw", "rwmixwrite=30"], {"read_percent": 70}),
        (["rw=readwrite"], {"access": "sequential", "read_percent": 50}),
        (["rw=randtrim"], {"trim_percent": 100, "read_percent": 0}),
        (["rw=randwrite", "bssplit=4k/60:64k/40"], {"block_size": {"4KiB": 60, "64KiB": 40}}),
        (["rw=randread", "bsrange=4k-8k"], {"block_size": {"4KiB": 1, "8KiB": 1}}),
        (["rw=randread", "random_distribution=zipf:1.2"], {"offsets": "zipf", "zipf_theta": 1.2}),
        (
            ["rw=randread", "random_distribution=zoned:80/20:20/80"],
            {"offsets": "hot_cold", "hot_access_percent": 80, "hot_space_percent": 20},
        ),
        (["rw=randread"], {"offsets": "permutation"}),
        (["rw=randread", "rate_iops=100", "numjobs=3"], {"rate_iops": 300}),
        (["rw=randread", "bs=4k", "rate=4m"], {"rate_iops": 1024, "arrival": "constant"}),
        (
            ["rw=randrw", "bs=4k", "rate_iops=70,30", "rwmixread=70", "rate_process=poisson"],
            {"rate_iops": 100, "arrival": "poisson"},
        ),
        (["rw=write", "sync=1"], {"sync": "fsync", "sync_every": 1}),
        (["rw=write", "sync=dsync"], {"sync": "fdatasync", "sync_every": 1}),
        (["rw=write", "fsync=32", "end_fsync=1"], {"sync": "fsync", "sync_every": 32}),
        (["rw=write", "zero_buffers"], {"compress_percent": 100}),
        (["rw=randwrite", "verify=crc32c"], {"verify": True}),
        (["rw=read", "offset=256m"], {"region_start": "256MiB"}),
        (["rw=read", "offset=25%"], {"region_start": "25%"}),
        (["rw=read", "cpus_allowed=1"], {"cpus": [1]}),
        (["rw=read", "iodepth_batch_submit=8", "ioengine=libaio", "iodepth=8"], {"batch": 8}),
        (["rw=read", "iodepth=8"], {"queue_depth": 1}),  # fio's default engine is psync
    ],
)
def test_options_become_fields(tmp_path: Path, options: list[str], fields: dict[str, Any]) -> None:
    found = workload(tmp_path, *options)
    assert {name: found.get(name) for name in fields} == fields


@pytest.mark.parametrize(
    ("options", "total"),
    [
        (["size=64m"], 64 * MIB),
        (["size=64m", "numjobs=3"], 3 * 64 * MIB),
        (["size=64m", "io_size=1g"], 1024 * MIB),
        (["size=64m", "loops=5"], 5 * 64 * MIB),
        (["size=64m", "number_ios=100", "bs=8k"], 100 * 8192),
    ],
)
def test_a_job_without_runtime_ends_after_its_bytes(
    tmp_path: Path, options: list[str], total: int
) -> None:
    text = "\n".join(["[x]", "filename=/data/f", "rw=randwrite", "norandommap", *options])
    translation = translated(tmp_path, text)
    (table,) = translation.workloads
    assert translation.runtime_ns is None
    assert table.fields["total_bytes"] == f"{total // 1024}KiB" or (
        table.fields["total_bytes"] == f"{total // MIB}MiB"
        or table.fields["total_bytes"] == f"{total // 2**30}GiB"
    )


@pytest.mark.parametrize(
    "option",
    [
        "thinktime=100us",
        "iodepth_low=4",
        "percentage_random=50",
        "zonemode=strided",
        "latency_target=1ms",
        "nrfiles=8",
        "rate_iops_min=10",
        "startdelay=5",
        "group_reporting",
        "randseed=7",
        "fallocate=none",
        "verify_backlog=8",
        "cpus_allowed=0-3",
        "an_option_of_tomorrow=1",
        "rw=randread:8",
        "rw=randtrimwrite",
        "random_distribution=pareto:0.2",
        "bs=4k,8k",
        "ioengine=libaio",
    ],
)
def test_what_has_no_field_is_listed_with_its_line(tmp_path: Path, option: str) -> None:
    text = f"[x]\nfilename=/data/f\nsize=1g\nruntime=10\ntime_based\nrw=randrw\n{option}\n"
    (remark,) = translated(tmp_path, text).remarks
    assert remark.where == f"{tmp_path / 'a.fio'}:7"
    assert remark.option == option
    assert remark.meaning


def test_no_option_is_dropped_in_silence(tmp_path: Path) -> None:
    """Give a job many options; each becomes a field or has a remark."""
    names = ("thinktime", "loops", "invalidate", "pre_read", "nice", "write_bw_log", "log_avg_msec")
    lines = "\n".join(f"{name}=3" for name in names)
    text = f"[x]\nfilename=/data/f\nsize=1g\nruntime=10\ntime_based\nrw=read\n{lines}\n"
    assert remarked(translated(tmp_path, text)) == set(names)


def test_jobs_side_by_side_on_several_devices_become_one_workload(tmp_path: Path) -> None:
    text = "[global]\nrw=randread\nnorandommap\ndirect=1\nruntime=9\ntime_based\nioengine=psync\n"
    text += "[a]\nfilename=/dev/vda\n[b]\nfilename=/dev/vdb\n"
    found = study(tmp_path, text)
    assert [t["paths"] for t in found["target"]] == [["/dev/vda", "/dev/vdb"]]
    (only,) = found["workload"]
    assert (only["name"], only["jobs"]) == ("a, b", 2)


def test_jobs_with_parts_of_one_device_become_one_workload(tmp_path: Path) -> None:
    text = "[global]\nrw=read\nfilename=/dev/vda\nsize=1g\nruntime=9\ntime_based\n"
    text += "[b]\noffset=2g\n[a]\noffset=1g\n[c]\noffset=3g\n"
    (only,) = study(tmp_path, text)["workload"]
    assert (only["jobs"], only["region_start"], only["region_size"]) == (3, "1GiB", "3GiB")
    increments = "[x]\nrw=read\nfilename=/dev/vda\nsize=1g\nnumjobs=3\noffset_increment=1g\n"
    (only,) = study(tmp_path, increments + "offset=1g\nruntime=9\ntime_based\n")["workload"]
    assert (only["jobs"], only["region_start"], only["region_size"]) == (3, "1GiB", "3GiB")


def test_a_job_has_the_name_that_its_section_gives_it(tmp_path: Path) -> None:
    text = "[global]\nname=all\nfilename=/f\nsize=1g\n[a]\nname=reads\n[b]\nrw=write\n"
    assert [w["name"] for w in study(tmp_path, text)["workload"]] == ["reads", "b"]


SIDE_BY_SIDE = """\
[global]
filename=/data/f
size=1g
runtime=9
time_based
ioengine=io_uring
[readers: 4k]
rw=randread
numjobs=2
offset=1g
[writer]
rw=write
bs=64k
rate_iops=100
"""


def test_different_jobs_side_by_side_are_groups(tmp_path: Path) -> None:
    (only,) = study(tmp_path, SIDE_BY_SIDE)["workload"]
    assert (only["name"], only["backend"]) == ("readers: 4k beside writer", "uring")
    readers, writer = only["group"]
    assert (readers["name"], readers["jobs"], readers["read_percent"]) == ("readers- 4k", 2, 100)
    assert (readers["region_start"], writer["region_size"]) == ("1GiB", "1GiB")
    assert (writer["name"], writer["block_size"], writer["rate_iops"]) == ("writer", "64KiB", 100)
    both = study(tmp_path, SIDE_BY_SIDE.replace("[writer]", "[writer]\nstonewall"))["workload"]
    assert [w["name"] for w in both] == ["readers: 4k", "writer"]


def test_equal_jobs_in_reporting_groups_of_their_own_are_groups(tmp_path: Path) -> None:
    text = "[global]\nfilename=/data/f\nsize=1g\nruntime=9\ntime_based\nrw=randread\n"
    text += "group_reporting\n[a]\n[b]\nnew_group\n[c]\n"
    (only,) = study(tmp_path, text)["workload"]
    assert [(group["name"], group["jobs"]) for group in only["group"]] == [("a", 1), ("b- c", 2)]


@pytest.mark.parametrize("change", ["filename=/data/other", "verify=crc32c"])
def test_jobs_side_by_side_that_cannot_be_groups_are_named(tmp_path: Path, change: str) -> None:
    together = translated(tmp_path, f"{SIDE_BY_SIDE}{change}\n")
    assert len(together.workloads) == 2
    assert {"[readers: 4k]", "[writer]"} <= remarked(together)


def test_each_file_of_several_is_a_part_of_the_size(tmp_path: Path) -> None:
    text = "[x]\nfilename=/data/a:/data/b\nsize=2g\nrw=read\nruntime=9\ntime_based\n"
    (target,) = study(tmp_path, text)["target"]
    assert (target["paths"], target["size"]) == (["/data/a", "/data/b"], "1GiB")
    assert target["direct"] is False  # fio's default


def test_a_directory_has_a_file_per_job_unless_they_share_names(tmp_path: Path) -> None:
    text = "[x]\ndirectory=/mnt\nsize=1g\nrw=read\nruntime=9\ntime_based\n"
    (target,) = study(tmp_path, text)["target"]
    assert (target["directory"], target["size"]) == ("/mnt", "1GiB")
    (target,) = study(tmp_path, text + "filename_format=$jobname.dat\n")["target"]
    assert target["path"] == "/mnt/x.dat"
    (target,) = study(tmp_path, text + "filename=b.dat\n")["target"]
    assert target["path"] == "/mnt/b.dat"


@pytest.mark.parametrize("place", ["", "filename=${MISSING_DISK}\nsize=1g\n", "filename=f\n"])
def test_a_missing_path_or_size_is_to_be_filled_in(tmp_path: Path, place: str) -> None:
    translation = translated(tmp_path, f"[x]\n{place}rw=read\nruntime=9\ntime_based\n")
    (target,) = translation.targets
    assert any("FILL IN" in comment for comment in target.comments.values())
    assert translation.remarks


def test_the_longest_runtime_and_ramp_count(tmp_path: Path) -> None:
    text = "[global]\nfilename=/data/f\nsize=1g\nrw=read\ntime_based\n"
    text += "[a]\nruntime=10\nramp_time=1\n[b]\nstonewall\nruntime=2m\n"
    translation = translated(tmp_path, text)
    assert (translation.ramp_ns, translation.runtime_ns) == (1_000_000_000, 120_000_000_000)
    assert [r.where.rpartition(":")[2] for r in translation.remarks] == ["7"]


@pytest.mark.parametrize("engine", ["rbd", "http", "net", "cpuio", "io_uring_cmd", "libcufile"])
def test_jobs_without_files_or_block_devices_are_refused(tmp_path: Path, engine: str) -> None:
    with pytest.raises(UsageError) as error:
        translated(tmp_path, f"[x]\nioengine={engine}\n")
    assert f"a.fio:2: ioengine={engine}" in error.value.what
    others = translated(tmp_path, f"[x]\nioengine={engine}\n[y]\nrw=read\nsize=1g\nfilename=/f\n")
    assert len(others.workloads) == 1
    assert others.remarks[0].option == f"ioengine={engine}"


@pytest.mark.parametrize(
    "option", ["bs=many", "rw=sideways", "runtime=soon", "numjobs=${MISSING_NUMBER}", "size"]
)
def test_a_malformed_option_is_named_with_its_line(tmp_path: Path, option: str) -> None:
    with pytest.raises(UsageError) as error:
        translated(tmp_path, f"[x]\nfilename=/f\n{option}\n")
    assert error.value.where == f"{tmp_path / 'a.fio'}:3"
    assert error.value.fix


def test_the_verb_writes_a_study_that_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.fio").write_text("[x]\nfilename=f.dat\nsize=8m\nrw=randrw\nthinktime=5\n")
    line = "fio --name=y --filename=f.dat --size=8m --rw=read --runtime=1 --time_based"
    assert main(["init", "--from-fio", "a.fio", "--from-fio", line, "--json"]) == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "translated-study"
    assert [w["name"] for w in shown["workloads"]] == ["x", "y"]
    assert [r["where"] for r in shown["remarks"]] == ["a.fio:5"]
    assert main(["plan", "study.toml"]) == ExitCode.OK
    assert main(["init", "--from-fio", "a.fio"]) == ExitCode.USAGE  # the file exists

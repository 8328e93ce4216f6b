"""One run of the real fio, printed as JSON, as text and as terse output: three equal readings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.fio import terse_output, text_output

pytestmark = pytest.mark.fio
US = 1_000
MS = 1_000_000
WORKLOADS = {
    "reads in ns": "--ioengine=null --size=64M --bs=4k --rw=randread --iodepth=4",
    "mix of two jobs": "--ioengine=null --size=32M --bs=4k --rw=randrw --numjobs=2 --iodepth=4",
    "mix of a group": (
        "--ioengine=null --size=32M --bs=4k --rw=randrw --numjobs=3 --group_reporting"
    ),
    "writes with fsync": "--ioengine=psync --size=2M --bs=4k --rw=write --fsync=4",
    "a limited rate": ("--ioengine=psync --size=1M --bs=4k --rw=randread --rate_iops=300"),
    "reads in flight": "--ioengine=libaio --size=8M --bs=64k --rw=randread --iodepth=8",
    "large writes": "--ioengine=psync --size=32M --bs=4M --rw=write --end_fsync=1",
    "trims": "--ioengine=null --size=64M --bs=8k --rw=randtrim",
    "two groups": (
        "--ioengine=null --size=32M --bs=8k --rw=read --name=second --stonewall --ioengine=null "
        "--size=32M --bs=128k,16k --rw=randrw"
    ),
}


def printed(options: str, version: int, place: Path) -> tuple[Any, list[Any], list[Any]]:
    """Run fio once; return the jobs of its JSON, of its text and of its terse output."""
    command = ["fio", "--output-format=normal,json,terse", f"--terse-version={version}"]
    command += ["--name=job", f"--directory={place}", *options.split()]
    if "ioengine=null" in options:
        command.remove(f"--directory={place}")
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    start = text.index("\n{") + 1
    document, end = json.JSONDecoder().raw_decode(text, start)
    rest = text[:start] + text[end:]
    terse = "\n".join(line for line in rest.splitlines() if line.startswith(f"{version};"))
    return (
        document["jobs"],
        [job for one in text_output.read(rest) for job in one["jobs"]],
        [job for one in terse_output.read(terse) for job in one["jobs"]],
    )


def unit_of(value: float, smallest: float) -> int:
    """Return the coarsest unit in which fio's text can have a latency."""
    return MS if smallest > 2 * MS else US if value > 2 * US else 1


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("name", WORKLOADS)
def test_three_outputs_of_one_run_agree(name: str, version: int, tmp_path: Path) -> None:
    exact, text, terse = printed(WORKLOADS[name], version, tmp_path)
    assert len(exact) == len(text) == len(terse)
    for job, from_text, from_terse in zip(exact, text, terse, strict=True):
        for kind in ("read", "write", "trim"):
            result = job[kind]
            assert from_text[kind]["total_ios"] == result["total_ios"]
            if not result["total_ios"] or not (kind != "trim" or version > 3):
                continue
            for other in (from_text[kind], from_terse[kind]):
                assert other["total_ios"] == result["total_ios"]
                assert other["io_bytes"] == result["io_bytes"]
                assert other["runtime"] == result["runtime"]
                for table in ("clat_ns", "lat_ns"):
                    same_latencies(result[table], other[table])
        if job["sync"]["total_ios"]:
            assert from_text["sync"]["total_ios"] == job["sync"]["total_ios"]
            same_latencies(job["sync"]["lat_ns"], from_text["sync"]["lat_ns"])
        assert from_text["usr_cpu"] == pytest.approx(job["usr_cpu"], abs=0.01)
        assert from_text["error"] == from_terse["error"] == job["error"]
        options = from_text["job options"]
        assert options["iodepth"] == job["job options"].get("iodepth", "1")


def same_latencies(exact: dict[str, Any], other: dict[str, Any]) -> None:
    """Check latencies of JSON against those of another output, to within its rounding."""
    unit = unit_of(exact["max"], exact["min"])
    assert other["mean"] == pytest.approx(exact["mean"], abs=0.0051 * unit)
    for name in ("min", "max"):
        assert abs(other[name] - exact[name]) < max(unit, US)
    by_percent = {float(percent): value for percent, value in exact.get("percentile", {}).items()}
    for percent, value in other.get("percentile", {}).items():
        if float(percent) in by_percent:
            assert abs(value - by_percent[float(percent)]) < max(unit, US)

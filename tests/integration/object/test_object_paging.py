"""A pool of many objects is listed, filled and deleted page by page."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from simulators.list_server import ListServer
from storlab.model.job import WeightedSize
from storlab.model.s3 import S3Store
from storlab.workloads.object.job import ObjectJob, ObjectSizes, Pool

# The limit of memory is below that of a list of all keys, which takes more than 70 bytes per key.
OBJECTS, MOST_BYTES = (
    (1_000_000, 64 << 20) if os.environ.get("STORLAB_TEST_THOROUGH") else (300_000, 16 << 20)
)
PAGES = OBJECTS // 1000
SIZE = 4096
PREFIX = "storlab-0123456789ab/pool-01234567/"
# In a process of its own, to measure its memory.
PROGRAM = """
import json, resource, sys
from storlab._native import Run
run = Run("object", sys.stdin.read(), {"access_key": "AK", "secret_key": "SK"})
run.wait()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"outcome": json.loads(run.outcome()[0]), "peak": peak}))
"""


def carry_out(server: ListServer, task: str) -> tuple[dict[str, object], int]:
    """Return the outcome and the peak memory of the process in bytes."""
    sizes = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=SIZE)])
    job = ObjectJob.model_validate(
        {
            "task": task,
            "store": S3Store(endpoints=[server.endpoint], bucket="bench"),
            "pool": Pool(prefix=PREFIX, objects=len(server.there), sizes=sizes)
            if task == "fill"
            else None,
            "write_prefix": PREFIX if task == "clean" else "storlab-0123456789ab/run-1/",
            "concurrency": 4,
        }
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=job.model_dump_json(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["outcome"]["status"] == "finished", report["outcome"]["failure"]
    return report["outcome"], report["peak"]


@pytest.fixture(scope="module")
def usual_bytes() -> int:
    """Return the memory of a process for a pool of a thousand."""
    with ListServer(PREFIX, 1000, SIZE) as server:
        return carry_out(server, "fill")[1]


def test_many_objects_that_are_there_are_not_written_again(usual_bytes: int) -> None:
    missing = (0, 999, 1000, OBJECTS // 2, OBJECTS - 1)  # including the edges of pages
    with ListServer(PREFIX, OBJECTS, SIZE) as server:
        for number in missing:
            server.there[number] = 0
        outcome, peak = carry_out(server, "fill")
        assert server.requests["pages"] == PAGES
        assert server.requests["puts"] == len(missing)
        assert all(server.there)
    assert outcome["totals"]["put"]["operations"] == len(missing)  # type: ignore[index]
    assert peak - usual_bytes < MOST_BYTES


def test_many_objects_are_deleted_in_batches(usual_bytes: int) -> None:
    with ListServer(PREFIX, OBJECTS, SIZE) as server:
        outcome, peak = carry_out(server, "clean")
        assert not any(server.there)
        assert server.requests["deletes"] >= PAGES
        assert server.requests["pages"] > PAGES  # the last one confirms that nothing is left
    assert outcome["details"]["deleted_keys"] == OBJECTS  # type: ignore[index]
    assert peak - usual_bytes < MOST_BYTES

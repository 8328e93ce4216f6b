"""KvikIO, an independent implementation, writes data that storlab reads and vice versa.

Needs a GPU, ``kvikio-cu12`` or ``kvikio-cu13`` and CuPy.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from storlab.engines.native.engine import NativeEngine
from storlab.model.result import RunOutcome
from support.gpudirect_jobs import MIB, make_job

SIZE = 8 * MIB


@pytest.fixture
def kvikio() -> ModuleType:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no NVIDIA GPU")
    pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda12x")
    found: ModuleType = pytest.importorskip(
        "kvikio", reason="KvikIO is not installed: pip install kvikio-cu12"
    )
    return found


def run(path: Path, tmp_path: Path, **changes: Any) -> RunOutcome:
    libraries = {"cuda": ["libcuda.so.1"], "cufile": ["libcufile.so.0"]}
    job = make_job(path, size=SIZE, libraries=libraries, verify_bytes=SIZE, **changes)
    outcome = NativeEngine().start(job, tmp_path).wait(120)
    assert outcome is not None
    assert outcome.failure is None, outcome.failure
    return outcome


@pytest.mark.parametrize("path", ["direct", "bounce", "bounce-overlapped"])
def test_what_kvikio_wrote_arrives_in_gpu_memory(
    kvikio: ModuleType, tmp_path: Path, path: str
) -> None:
    import cupy

    data = tmp_path / "data.bin"
    with kvikio.CuFile(data, "w") as file:
        assert file.write(cupy.random.randint(0, 256, SIZE, dtype=cupy.uint8)) == SIZE
    outcome = run(data, tmp_path, path=path)
    assert outcome.details["first_pass"]["bytes"] == SIZE
    assert outcome.details["first_pass"]["wrong"] == 0


def test_kvikio_reads_what_was_written_from_gpu_memory(kvikio: ModuleType, tmp_path: Path) -> None:
    import cupy

    data = tmp_path / "data.bin"
    data.write_bytes(bytes(SIZE))
    changes: dict[str, Any] = {"mix": {"read": 0, "write": 100}}
    outcome = run(data, tmp_path, offsets={"kind": "sequential"}, **changes)
    assert outcome.details["read_back"]["wrong"] == 0
    arrived = cupy.empty(SIZE, dtype=cupy.uint8)
    with kvikio.CuFile(data, "r") as file:
        assert file.read(arrived) == SIZE
    stored = np.fromfile(data, dtype=np.uint8)
    assert stored.any()
    assert np.array_equal(cupy.asnumpy(arrived), stored)

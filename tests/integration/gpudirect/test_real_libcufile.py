"""storlab's declarations of libcufile match NVIDIA's wheels, version by version."""

from __future__ import annotations

import ctypes as c
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import missing, need_program
from storlab.base.clock import sleep_s
from storlab.workloads.gpudirect.machine import probe
from support.cufile_client import (
    NEW_LAYOUT,
    STATISTICS_SYMBOLS,
    SYMBOLS,
    Descriptor,
    Event,
    NewStatistics,
    OldStatistics,
    Parameters,
    PerGpu,
    Properties,
    Status,
    load_cufile,
)

SINCE_STATISTICS = 1150
WHEELS = ("nvidia-cufile", "nvidia-cufile-cu12")
OPEN_S = 5
ERRORS = Path(__file__).parents[3] / "crates/families/gpudirect/src/errors/cufile.rs"
# The header needs two names from CUDA, which is not in the wheel.
CUDA_HEADER = "typedef int CUresult; typedef struct CUstream_st *CUstream;"
PROGRAM = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cufile.h>
int main(void) {
  printf("{");
#define SIZE(type) printf("\\"%s\\": %zu, ", #type, sizeof(type))
#define PLACE(type, field) printf("\\"%s.%s\\": %zu, ", #type, #field, offsetof(type, field))
  SIZE(CUfileError_t); SIZE(CUfileDescr_t); SIZE(CUfileDrvProps_t);
  PLACE(CUfileDrvProps_t, nvfs.dcontrolflags); PLACE(CUfileDrvProps_t, fflags);
  PLACE(CUfileDrvProps_t, max_batch_io_size);
  SIZE(CUfileIOParams_t); PLACE(CUfileIOParams_t, u.batch.file_offset);
  PLACE(CUfileIOParams_t, fh); PLACE(CUfileIOParams_t, opcode); PLACE(CUfileIOParams_t, cookie);
  SIZE(CUfileIOEvents_t); PLACE(CUfileIOEvents_t, status); PLACE(CUfileIOEvents_t, ret);
#ifdef STATISTICS
  SIZE(CUfileStatsLevel1_t); PLACE(CUfileStatsLevel1_t, read_bytes);
  PLACE(CUfileStatsLevel1_t, batch_read_bytes);
  SIZE(CUfileStatsLevel2_t); SIZE(CUfileStatsLevel3_t);
  PLACE(CUfileStatsLevel3_t, num_gpus); PLACE(CUfileStatsLevel3_t, per_gpu_stats);
  SIZE(CUfilePerGpuStats_t); PLACE(CUfilePerGpuStats_t, n_p2p_reads);
  PLACE(CUfilePerGpuStats_t, n_posix_reads); PLACE(CUfilePerGpuStats_t, writes_bytes);
  PLACE(CUfilePerGpuStats_t, n_p2p_writes); PLACE(CUfilePerGpuStats_t, n_posix_writes);
  PLACE(CUfilePerGpuStats_t, reg_bytes);
#endif
  printf("\\"compat\\": %d, \\"p2p\\": %d, \\"batch\\": %d}",
    CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, CUFILE_PARAM_USE_PCIP2PDMA,
    CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
}
"""


def _installed(name: str) -> Path | None:
    try:
        wheel = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [file for file in wheel.files or () if file.name == "libcufile.so.0"]
    return Path(str(wheel.locate_file(found[0]))) if found else None


def _version(library: Path) -> int:
    number = c.c_int()
    assert load_cufile(library).cuFileGetVersion(c.byref(number)).code == 0
    return number.value


@pytest.fixture(params=WHEELS)
def wheel(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """Provide a wheel's name and library path. One of the wheels is in the lock file."""
    found = _installed(request.param)
    if found is not None:
        return request.param, found
    if request.param == WHEELS[0]:
        missing("the wheel nvidia-cufile is not installed: pip install storlab[gpu]")
    pytest.skip("the other wheel is installed")


def test_every_function_that_we_call_is_there(wheel: tuple[str, Path]) -> None:
    library = c.CDLL(str(wheel[1]))
    assert [name for name in SYMBOLS if not hasattr(library, name)] == []
    there = [hasattr(library, name) for name in STATISTICS_SYMBOLS]
    assert all(there) == any(there) == (_version(wheel[1]) >= SINCE_STATISTICS)


def test_it_tells_the_version_of_its_wheel(wheel: tuple[str, Path]) -> None:
    major, minor = importlib.metadata.version(wheel[0]).split(".")[:2]
    assert _version(wheel[1]) == 1000 * int(major) + 10 * int(minor)


def test_sizes_and_places_are_those_of_its_header(wheel: tuple[str, Path], tmp_path: Path) -> None:
    version = _version(wheel[1])
    (tmp_path / "cuda.h").write_text(CUDA_HEADER)
    (tmp_path / "facts.c").write_text(PROGRAM)
    include = wheel[1].parents[1] / "include"
    flags = ["-DSTATISTICS"] if version >= SINCE_STATISTICS else []
    command = [need_program("cc"), *flags, "-w", f"-I{include}", f"-I{tmp_path}"]
    subprocess.run([*command, "-o", tmp_path / "facts", tmp_path / "facts.c"], check=True)
    told = subprocess.run([tmp_path / "facts"], capture_output=True, check=True)
    assert json.loads(told.stdout) == _declared(version)


def test_each_code_of_its_header_has_a_name_and_advice(wheel: tuple[str, Path]) -> None:
    header = (wheel[1].parents[1] / "include" / "cufile.h").read_text()
    declared = re.findall(r"CUFILEOP_BASE_ERR\s*\+\s*(\d+),\s*CU_FILE_(\w+)", header)
    named = re.findall(r"^    5(\d{3}) (\w+): ", ERRORS.read_text(), re.M)
    assert {int(code): name for code, name in declared} == {int(code): name for code, name in named}


def _declared(version: int) -> dict[str, int]:
    where = Parameters.where.offset
    basics = {
        "CUfileError_t": c.sizeof(Status),
        "CUfileDescr_t": c.sizeof(Descriptor),
        "CUfileDrvProps_t": c.sizeof(Properties),
        "CUfileDrvProps_t.nvfs.dcontrolflags": Properties.control.offset,
        "CUfileDrvProps_t.fflags": Properties.features.offset,
        "CUfileDrvProps_t.max_batch_io_size": Properties.max_batch.offset,
        "CUfileIOParams_t": c.sizeof(Parameters),
        "CUfileIOParams_t.u.batch.file_offset": where + 8,
        "CUfileIOParams_t.fh": Parameters.handle.offset,
        "CUfileIOParams_t.opcode": Parameters.opcode.offset,
        "CUfileIOParams_t.cookie": Parameters.cookie.offset,
        "CUfileIOEvents_t": c.sizeof(Event),
        "CUfileIOEvents_t.status": Event.status.offset,
        "CUfileIOEvents_t.ret": Event.result.offset,
        "compat": 1,
        "p2p": 7,
        "batch": 9,
    }
    if version < SINCE_STATISTICS:
        return basics
    whole = NewStatistics if version >= NEW_LAYOUT else OldStatistics
    return basics | {
        "CUfileStatsLevel1_t": whole.sizes.offset,
        "CUfileStatsLevel1_t.read_bytes": 12 * 8,
        "CUfileStatsLevel1_t.batch_read_bytes": 52 * 8,
        "CUfileStatsLevel2_t": whole.gpus.offset,
        "CUfileStatsLevel3_t": c.sizeof(whole),
        "CUfileStatsLevel3_t.num_gpus": whole.gpus.offset,
        "CUfileStatsLevel3_t.per_gpu_stats": whole.per_gpu.offset,
        "CUfilePerGpuStats_t": c.sizeof(PerGpu),
        "CUfilePerGpuStats_t.n_p2p_reads": PerGpu.p2p_reads.offset,
        "CUfilePerGpuStats_t.n_posix_reads": PerGpu.posix_reads.offset,
        "CUfilePerGpuStats_t.writes_bytes": PerGpu.written_bytes.offset,
        "CUfilePerGpuStats_t.n_p2p_writes": PerGpu.p2p_writes.offset,
        "CUfilePerGpuStats_t.n_posix_writes": PerGpu.posix_writes.offset,
        "CUfilePerGpuStats_t.reg_bytes": PerGpu.registered_bytes.offset,
    }


READ = """
import ctypes, os, sys
from pathlib import Path
from storlab.workloads.gpudirect.machine import probe
from support.cufile_client import Descriptor, load_cufile
library = load_cufile(Path(sys.argv[1]))
told = open(sys.argv[3], "w")  # the library itself prints
status = library.cuFileDriverOpen()
print(status.code, file=told, flush=True)
if status.code == 0:
    handle, descriptor = ctypes.c_void_p(), Descriptor(type=1)
    descriptor.handle.fd = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECT)
    status = library.cuFileHandleRegister(ctypes.byref(handle), ctypes.byref(descriptor))
    print(status.code, file=told, flush=True)
    into = ctypes.create_string_buffer(1 << 16)
    print(library.cuFileRead(handle, into, 1 << 16, 0, 0), into.raw.hex(), file=told, flush=True)
os._exit(0)
"""


def test_where_it_opens_it_reads_into_host_memory(wheel: tuple[str, Path], tmp_path: Path) -> None:
    """Check reads by the real library, or its error if there is no driver."""
    data = tmp_path / "data"
    data.write_bytes(os.urandom(1 << 16))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    told = tmp_path / "told"
    command = [sys.executable, "-c", READ, str(wheel[1]), str(data), str(told)]
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as opening:
        while not told.exists() and opening.poll() is None:  # Python may take longer than that
            sleep_s(0.05)
        try:
            assert opening.wait(OPEN_S) == 0
        except subprocess.TimeoutExpired:
            opening.kill()
            assert told.read_text() == ""
            return
    lines = told.read_text().split("\n")
    if lines[0] != "0":
        assert 5001 <= int(lines[0]) <= 5050
    else:
        assert lines[1:3] == ["0", f"{1 << 16} {data.read_bytes().hex()}"]


def test_doctor_has_an_answer_whatever_it_does(
    wheel: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that doctor answers even if the library spins, as without /proc/modules."""
    monkeypatch.setattr(probe, "_OPEN_LIMIT_S", OPEN_S)
    monkeypatch.setenv("STORLAB_TEST", "an answer of its own")
    told = probe.probe(probe.Libraries(cuda=("libcuda.so.1",), cufile=(str(wheel[1]),)))
    assert told.trouble is None
    version = _version(wheel[1])
    assert told.cufile is not None
    assert told.cufile.version == f"{version // 1000}.{version % 1000 // 10}"
    if told.cufile_trouble is not None:
        assert told.cufile_trouble.fix

"""The simulators of libcuda and libcufile inject faults, and otherwise act like the originals."""

from __future__ import annotations

import ctypes as c
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.cufile_client import (
    NEW_LAYOUT,
    READ_BYTES,
    STATISTICS_SYMBOLS,
    SYMBOLS,
    Descriptor,
    Event,
    Gpu,
    NewStatistics,
    OldStatistics,
    Parameters,
    Properties,
    Where,
    load_cufile,
)
from support.gpu_simulators import Word, faults, simulators

KIB = 1024
SIZE = 64 * KIB
FILE_SIZE = 4 * SIZE
COMPLETE, FAILED = 0x10, 0x40


@dataclass
class Session:
    """An open driver, a registered file, and GPU memory of one I/O's size."""

    gpu: Gpu
    cufile: c.CDLL
    path: Path
    content: bytes
    fd: int
    handle: c.c_void_p
    buffer: int

    def read(self, offset: int, size: int = SIZE) -> int:
        return int(self.cufile.cuFileRead(self.handle, self.buffer, size, offset, 0))

    def statistics(self) -> OldStatistics | NewStatistics:
        version = c.c_int()
        self.cufile.cuFileGetVersion(c.byref(version))
        told: OldStatistics | NewStatistics
        told = NewStatistics() if version.value >= NEW_LAYOUT else OldStatistics()
        assert self.cufile.cuFileGetStatsL3(c.byref(told)).code == 0
        return told


@contextmanager
def opened(
    directory: Path,
    cufile_order: dict[str, Word] | None = None,
    cuda_order: dict[str, Word] | None = None,
) -> Iterator[Session]:
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in faults(cufile_order, cuda_order).items():
            patch.setenv(name, value)
        gpu = Gpu(simulators().cuda)
        stack.callback(gpu.close)
        cufile = load_cufile(simulators().cufile)
        assert cufile.cuFileDriverOpen().code == 0
        stack.callback(cufile.cuFileDriverClose)
        assert cufile.cuFileSetStatsLevel(3).code == 0
        assert cufile.cuFileStatsStart().code == 0
        assert cufile.cuFileStatsReset().code == 0
        path = directory / "data"
        content = random.Random(5).randbytes(FILE_SIZE)
        path.write_bytes(content)
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        stack.callback(os.close, fd)
        handle = c.c_void_p()
        descriptor = Descriptor(type=1)
        descriptor.handle.fd = fd
        assert cufile.cuFileHandleRegister(c.byref(handle), c.byref(descriptor)).code == 0
        stack.callback(cufile.cuFileHandleDeregister, handle)
        code, buffer = gpu.allocate(SIZE)
        assert code == 0
        assert cufile.cuFileBufRegister(buffer, SIZE, 0).code == 0
        stack.callback(cufile.cuFileBufDeregister, buffer)
        yield Session(gpu, cufile, path, content, fd, handle, buffer)


def test_every_function_that_clients_use_is_there() -> None:
    old = c.CDLL(str(simulators().cufile_without_statistics))
    new = c.CDLL(str(simulators().cufile))
    assert all(hasattr(new, name) for name in (*SYMBOLS, *STATISTICS_SYMBOLS))
    assert all(hasattr(old, name) for name in SYMBOLS)
    assert not any(hasattr(old, name) for name in STATISTICS_SYMBOLS)


def test_data_come_from_the_file_and_go_to_it(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        assert session.read(SIZE) == SIZE
        assert session.gpu.read(session.buffer, SIZE) == session.content[SIZE : 2 * SIZE]
        new = random.Random(6).randbytes(SIZE)
        assert session.gpu.write(session.buffer, new) == 0
        written = session.cufile.cuFileWrite(session.handle, session.buffer, SIZE, 0, 0)
        assert written == SIZE
        assert session.path.read_bytes()[:SIZE] == new
        told = session.statistics()
        assert told.totals[READ_BYTES] == told.totals[READ_BYTES + 1] == SIZE
        gpu = told.per_gpu[0]
        assert (gpu.p2p_reads, gpu.p2p_writes, gpu.posix_reads) == (1, 1, 0)


def test_device_memory_cannot_be_touched_from_outside() -> None:
    program = (
        "import ctypes, sys; from pathlib import Path; from support.cufile_client import Gpu\n"
        "print(ctypes.string_at(Gpu(Path(sys.argv[1])).allocate(4096)[1], 8))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", program, str(simulators().cuda)]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("version", [1150, 1180, 1190, 1200])
def test_statistics_have_the_layout_of_the_version(tmp_path: Path, version: int) -> None:
    with opened(tmp_path, {"version": version, "route": "nvfs"}, {"gpus": 2}) as session:
        session.read(0)
        told = session.statistics()
        assert isinstance(told, NewStatistics) == (version >= NEW_LAYOUT)
        assert told.gpus == 2
        assert bytes(told.per_gpu[1].uuid) == b"storlab-sim-gpu1"
        assert (told.per_gpu[0].nvfs_reads, told.per_gpu[0].p2p_reads) == (1, 0)
        assert told.per_gpu[0].read_bytes == SIZE


@pytest.mark.parametrize(
    ("order", "posix"), [({"posix": 30}, 30), ({"compat": 1}, 100), ({"posix_below": "8K"}, 100)]
)
def test_ios_go_by_posix_on_order(tmp_path: Path, order: dict[str, Word], posix: int) -> None:
    with opened(tmp_path, order) as session:
        for _ in range(100):
            assert session.read(0, 4 * KIB) == 4 * KIB
        gpu = session.statistics().per_gpu[0]
        assert (gpu.reads, gpu.posix_reads, gpu.p2p_reads) == (100, posix, 100 - posix)


def test_a_buffered_or_unaligned_io_goes_by_posix(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        assert session.read(100, 1000) == 1000
        assert session.gpu.read(session.buffer, 1000) == session.content[100:1100]
        gpu = session.statistics().per_gpu[0]
        assert (gpu.posix_reads, gpu.unaligned_reads) == (1, 1)


def test_wrong_data_are_told_as_right(tmp_path: Path) -> None:
    with opened(tmp_path, {"wrong": SIZE + 77}) as session:
        assert session.read(SIZE) == SIZE
        read = session.gpu.read(session.buffer, SIZE)
        wrong = [i for i in range(SIZE) if read[i] != session.content[SIZE + i]]
        assert wrong == [77]


def test_an_io_fails_at_an_offset(tmp_path: Path) -> None:
    with opened(tmp_path, {"eio": SIZE, "short": 3 * SIZE + KIB}) as session:
        assert session.read(0) == SIZE
        assert session.read(SIZE) == -1
        assert session.read(3 * SIZE) == KIB


@pytest.mark.parametrize(
    ("ordered", "told"), [("DriverOpen:5001", (5001, 0)), ("DriverOpen:999", (5011, 999))]
)
def test_a_call_fails_on_order(
    monkeypatch: pytest.MonkeyPatch, ordered: str, told: tuple[int, int]
) -> None:
    for name, value in faults({"error": ordered}).items():
        monkeypatch.setenv(name, value)
    status = load_cufile(simulators().cufile).cuFileDriverOpen()
    assert (status.code, status.cuda) == told


def test_misuse_is_named_as_by_the_library(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        cufile = session.cufile
        assert cufile.cuFileBufRegister(session.buffer, SIZE, 0).code == 5023
        assert cufile.cuFileBufDeregister(session.buffer + 4096).code == 5024
        assert session.read(0, 2 * SIZE) == -5017
        _, other = session.gpu.allocate(SIZE)
        assert cufile.cuFileRead(session.handle, other, 2 * SIZE, 0, 0) == -5014
        descriptor = Descriptor(type=1)
        descriptor.handle.fd = session.fd
        handle = c.c_void_p()
        assert cufile.cuFileHandleRegister(c.byref(handle), c.byref(descriptor)).code == 5028
        cufile.cuFileHandleDeregister(session.handle)
        assert session.read(0) == -5027


def test_a_batch_tells_each_entry(tmp_path: Path) -> None:
    with opened(tmp_path, {"eio": 2 * SIZE}) as session:
        batch = c.c_void_p()
        step = SIZE // 4
        cufile = session.cufile
        assert cufile.cuFileBatchIOSetUp(c.byref(batch), 129).code == 5022
        assert cufile.cuFileBatchIOSetUp(c.byref(batch), 4).code == 0
        entries = (Parameters * 4)(
            *(
                Parameters(
                    1,
                    Where(session.buffer, i * SIZE, i * step, step),
                    session.handle,
                    0,
                    c.c_void_p(i + 1),
                )
                for i in range(4)
            )
        )
        assert cufile.cuFileBatchIOSubmit(batch, 4, entries, 0).code == 0
        assert cufile.cuFileBatchIOSubmit(batch, 1, entries, 0).code == 5037
        events, number = (Event * 4)(), c.c_uint(4)
        status = cufile.cuFileBatchIOGetStatus(batch, 4, c.byref(number), events, None)
        assert (status.code, number.value) == (0, 4)
        results = {event.cookie: (event.status, event.result) for event in events}
        assert results == dict.fromkeys((1, 2, 4), (COMPLETE, step)) | {3: (FAILED, -5)}
        start = session.content[SIZE : SIZE + step]
        assert session.gpu.read(session.buffer + step, step) == start
        cufile.cuFileBatchIODestroy(batch)


def test_an_async_read_is_done_in_the_order_of_its_stream(tmp_path: Path) -> None:
    with opened(tmp_path, {"latency_us": 1000}) as session:
        api, stream, event = session.gpu.api, c.c_void_p(), c.c_void_p()
        assert api.cuStreamCreate(c.byref(stream), 0) == 0
        assert api.cuEventCreate(c.byref(event), 0) == 0
        into = c.create_string_buffer(SIZE)
        size, offset, start = c.c_size_t(SIZE), c.c_int64(2 * SIZE), c.c_int64(0)
        done = c.c_ssize_t(0)
        values = [c.byref(each) for each in (size, offset, start, done)]
        status = session.cufile.cuFileReadAsync(
            session.handle, c.c_void_p(session.buffer), *values, stream
        )
        assert status.code == 0
        pointer = c.c_uint64(session.buffer)
        assert api.cuMemcpyDtoHAsync_v2(into, pointer, c.c_size_t(SIZE), stream) == 0
        assert api.cuEventRecord(event, stream) == 0
        assert api.cuEventSynchronize(event) == api.cuEventQuery(event) == 0
        assert done.value == SIZE
        assert into.raw == session.content[2 * SIZE : 3 * SIZE]
        assert api.cuStreamDestroy_v2(stream) == api.cuEventDestroy_v2(event) == 0


def test_memory_of_a_gpu_has_an_end(tmp_path: Path) -> None:
    with opened(tmp_path, cuda_order={"memory": "1M", "used": "512K"}) as session:
        left, total = c.c_size_t(), c.c_size_t()
        assert session.gpu.api.cuMemGetInfo_v2(c.byref(left), c.byref(total)) == 0
        assert (left.value, total.value) == (512 * KIB - SIZE, 1024 * KIB)
        assert session.gpu.allocate(left.value + 1)[0] == 2
        code, pointer = session.gpu.allocate(left.value)
        assert code == 0
        assert session.gpu.api.cuMemFree_v2(c.c_uint64(pointer)) == 0


def test_a_lost_gpu_stays_lost_until_its_context_is_reset(tmp_path: Path) -> None:
    with opened(tmp_path, cuda_order={"lost_after": 1}) as session:
        assert session.gpu.write(session.buffer, b"x") == 719
        assert session.gpu.allocate(SIZE)[0] == 719
        assert session.gpu.api.cuDevicePrimaryCtxReset_v2(0) == 0
        assert session.gpu.allocate(SIZE)[0] == 0


def test_a_lost_gpu_takes_no_data_of_files(tmp_path: Path) -> None:
    with opened(tmp_path, cuda_order={"lost_after": 2}) as session:
        assert [session.read(0) for _ in range(3)] == [SIZE, -5011, -5011]


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in faults(cuda={"no_device": 1}).items():
        monkeypatch.setenv(name, value)
    assert Gpu(simulators().cuda).init_code == 100
    status = load_cufile(simulators().cufile).cuFileDriverOpen()
    assert (status.code, status.cuda) == (5011, 100)


def test_properties(tmp_path: Path) -> None:
    with opened(tmp_path, {"allow_compat": 0, "max_batch": 64}) as session:
        told = Properties()
        assert session.cufile.cuFileDriverGetProperties(c.byref(told)).code == 0
        assert (told.max_batch, told.control, told.features >> 4) == (64, 0, 1)

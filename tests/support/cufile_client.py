"""cuFile and the CUDA driver API through ctypes, for tests of simulators and real libraries."""

from __future__ import annotations

import ctypes as c
from pathlib import Path

GPUS = 16  # number of GPUs with statistics in libcufile
PAIR = 2  # words of a counter: done, failed
READ_BYTES, BATCH_READ_BYTES = 12, 52  # word offsets in the first level
NEW_LAYOUT = 1190  # first version that counts vectored I/O


class Status(c.Structure):
    _fields_ = (("code", c.c_int), ("cuda", c.c_int))


class _File(c.Union):
    _fields_ = (("fd", c.c_int), ("pointer", c.c_void_p))


class Descriptor(c.Structure):
    _fields_ = (("type", c.c_int), ("handle", _File), ("operations", c.c_void_p))


class Properties(c.Structure):
    _fields_ = (
        ("major", c.c_uint),
        ("minor", c.c_uint),
        ("poll_threshold_kb", c.c_size_t),
        ("max_direct_kb", c.c_size_t),
        ("file_systems", c.c_uint),
        ("control", c.c_uint),
        ("features", c.c_uint),
        ("cache_kb", c.c_uint),
        ("cache_per_buffer_kb", c.c_uint),
        ("pinned_kb", c.c_uint),
        ("max_batch", c.c_uint),
        ("batch_timeout_ms", c.c_uint),
    )


class Where(c.Structure):
    _fields_ = (
        ("base", c.c_void_p),
        ("file_offset", c.c_int64),
        ("buffer_offset", c.c_int64),
        ("size", c.c_size_t),
    )


class Parameters(c.Structure):
    _fields_ = (
        ("mode", c.c_int),
        ("where", Where),
        ("handle", c.c_void_p),
        ("opcode", c.c_int),
        ("cookie", c.c_void_p),
    )


class Event(c.Structure):
    _fields_ = (("cookie", c.c_void_p), ("status", c.c_int), ("result", c.c_ssize_t))


class PerGpu(c.Structure):
    _fields_ = (
        ("uuid", c.c_ubyte * 16),
        ("read_bytes", c.c_uint64),
        ("read_rates", c.c_uint64 * 3),
        ("reads", c.c_uint64),
        ("p2p_reads", c.c_uint64),
        ("nvfs_reads", c.c_uint64),
        ("posix_reads", c.c_uint64),
        ("unaligned_reads", c.c_uint64),
        ("routed_reads", c.c_uint64),
        ("regions", c.c_uint64 * 2),
        ("read_errors", c.c_uint64),
        ("written_bytes", c.c_uint64),
        ("write_rates", c.c_uint64 * 3),
        ("writes", c.c_uint64),
        ("p2p_writes", c.c_uint64),
        ("nvfs_writes", c.c_uint64),
        ("posix_writes", c.c_uint64),
        ("unaligned_writes", c.c_uint64),
        ("routed_writes", c.c_uint64),
        ("write_errors", c.c_uint64),
        ("registrations", c.c_uint64),
        ("registered", c.c_uint64),
        ("registration_errors", c.c_uint64),
        ("deregistrations", c.c_uint64),
        ("registered_bytes", c.c_uint64),
    )


class OldStatistics(c.Structure):
    """Statistics of all three levels, versions 1.15 to 1.18."""

    _fields_ = (
        ("totals", c.c_uint64 * 64),
        ("sizes", c.c_uint64 * 64),
        ("gpus", c.c_uint32),
        ("per_gpu", PerGpu * GPUS),
    )


class NewStatistics(c.Structure):
    """Statistics from version 1.19."""

    _fields_ = (
        ("totals", c.c_uint64 * 78),
        ("sizes", c.c_uint64 * 64),
        ("gpus", c.c_uint32),
        ("per_gpu", PerGpu * GPUS),
    )


SYMBOLS = (
    "cuFileBatchIOCancel",
    "cuFileBatchIODestroy",
    "cuFileBatchIOGetStatus",
    "cuFileBatchIOSetUp",
    "cuFileBatchIOSubmit",
    "cuFileBufDeregister",
    "cuFileBufRegister",
    "cuFileDriverClose",
    "cuFileDriverClose_v2",
    "cuFileDriverGetProperties",
    "cuFileDriverOpen",
    "cuFileGetParameterBool",
    "cuFileGetParameterSizeT",
    "cuFileGetParameterString",
    "cuFileGetVersion",
    "cuFileHandleDeregister",
    "cuFileHandleRegister",
    "cuFileRead",
    "cuFileReadAsync",
    "cuFileStreamDeregister",
    "cuFileStreamRegister",
    "cuFileUseCount",
    "cuFileWrite",
    "cuFileWriteAsync",
)
STATISTICS_SYMBOLS = (
    "cuFileGetStatsL1",
    "cuFileGetStatsL2",
    "cuFileGetStatsL3",
    "cuFileGetStatsLevel",
    "cuFileSetStatsLevel",
    "cuFileStatsReset",
    "cuFileStatsStart",
    "cuFileStatsStop",
)
_STATUS = [name for name in SYMBOLS if name not in {"cuFileRead", "cuFileWrite", "cuFileUseCount"}]
_TRANSFER = (c.c_void_p, c.c_void_p, c.c_size_t, c.c_int64, c.c_int64)


def load_cufile(path: Path) -> c.CDLL:
    """Load libcufile or its simulator and declare return types."""
    library = c.CDLL(str(path))
    for name in (*_STATUS, *STATISTICS_SYMBOLS):
        if hasattr(library, name):
            getattr(library, name).restype = Status
    for name in ("cuFileRead", "cuFileWrite"):
        getattr(library, name).restype = c.c_ssize_t
        getattr(library, name).argtypes = _TRANSFER
    library.cuFileHandleDeregister.argtypes = (c.c_void_p,)
    library.cuFileBufRegister.argtypes = (c.c_void_p, c.c_size_t, c.c_int)
    library.cuFileBufDeregister.argtypes = (c.c_void_p,)
    return library


class Gpu:
    """A device of the driver API whose primary context is current in this thread."""

    def __init__(self, path: Path, number: int = 0) -> None:
        self.api = c.CDLL(str(path), mode=c.RTLD_GLOBAL)
        self.number = number
        self.init_code = int(self.api.cuInit(0))
        if self.init_code == 0:
            context = c.c_void_p()
            assert self.api.cuDevicePrimaryCtxRetain(c.byref(context), number) == 0
            assert self.api.cuCtxSetCurrent(context) == 0

    def allocate(self, size: int) -> tuple[int, int]:
        """Return error code and address."""
        pointer = c.c_uint64()
        code = self.api.cuMemAlloc_v2(c.byref(pointer), c.c_size_t(size))
        return int(code), pointer.value

    def read(self, pointer: int, size: int) -> bytes:
        """Return the content of device memory."""
        into = c.create_string_buffer(size)
        code = self.api.cuMemcpyDtoH_v2(into, c.c_uint64(pointer), c.c_size_t(size))
        assert code == 0, code
        return into.raw

    def write(self, pointer: int, content: bytes) -> int:
        return int(self.api.cuMemcpyHtoD_v2(c.c_uint64(pointer), content, c.c_size_t(len(content))))

    def close(self) -> None:
        self.api.cuDevicePrimaryCtxReset_v2(self.number)
        self.api.cuDevicePrimaryCtxRelease_v2(self.number)

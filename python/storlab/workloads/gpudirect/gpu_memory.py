"""Check whether the buffers of a point fit in the memory of this machine's GPUs."""

from __future__ import annotations

from pathlib import Path

from storlab.base.errors import Problem
from storlab.base.units import format_bytes_si
from storlab.workloads.gpudirect.libraries import cuda_places
from storlab.workloads.gpudirect.machine.kernel import nvidia_driver
from storlab.workloads.gpudirect.machine.probe import Libraries, probe
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.resource_needs import gpu_buffer_bytes


def memory_problem(params: GpuDirectParams) -> Problem | None:
    """Return a problem if buffers exceed the total memory of a GPU; None if they fit.

    It is also None if the memory is unknown. Free memory is checked by ``storlab doctor`` only, as
    another process may free its memory before the run.
    """
    need = gpu_buffer_bytes(params)
    if not need or (params.cuda_library is None and nvidia_driver(Path("/")) is None):
        return None
    # Probe without cuFile, because opening its driver is slow.
    probed = probe(Libraries(cuda=tuple(cuda_places(params.cuda_library)), cufile=()))
    for gpu in probed.gpus:
        if gpu.number in params.gpu and need > gpu.memory_bytes:
            return Problem(
                ("workers",),
                "their buffers (workers x queue_depth x block_size) need "
                f"{format_bytes_si(need)} of GPU {gpu.number}, which has "
                f"{format_bytes_si(gpu.memory_bytes)}",
                "lower workers, queue_depth or block_size, or add GPUs to gpu",
            )
    return None

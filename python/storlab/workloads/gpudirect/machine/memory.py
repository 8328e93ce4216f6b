"""Check whether the GPU memory that runs need is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storlab.base.units import format_bytes_si, format_size
from storlab.contracts.check import Check
from storlab.stores.pci import PciDevice
from storlab.workloads.gpudirect.machine.check_rows import error, ok, warning
from storlab.workloads.gpudirect.machine.probe import Probe
from storlab.workloads.gpudirect.resource_needs import bytes_on

HOST = "host"  # the only path without a GPU


@dataclass(frozen=True, slots=True)
class Demand:
    """GPU memory, GPUs and libraries that a point needs."""

    label: str  # name of its workload
    path: str
    gpus: tuple[int, ...]  # used in turn: worker w uses gpus[w % len]
    workers: int
    block_size: int  # longest transfer in bytes
    worker_bytes: int  # buffers of one worker in its GPU
    pool_bytes: int = 0  # per GPU: pool of the data to write
    least_block: int = 0  # shortest transfer in bytes

    @property
    def needs_gpu(self) -> bool:
        """Whether the point uses a GPU."""
        return self.path != HOST

    @property
    def needs_cufile(self) -> bool:
        """Whether the point uses libcufile."""
        return self.path == "direct"

    def bytes_on(self, gpu: int) -> int:
        """Return how many bytes of buffers the point needs on one GPU."""
        if not self.needs_gpu:
            return 0
        return bytes_on(gpu, self.gpus, self.workers, self.worker_bytes, self.pool_bytes)


def used_gpus(demands: Sequence[Demand]) -> list[int]:
    """Return the numbers of all GPUs that points use."""
    return sorted({gpu for demand in demands if demand.needs_gpu for gpu in demand.gpus})


def memory_rows(demands: Sequence[Demand], probe: Probe) -> Iterator[Check]:
    """Check for each GPU whether the largest demand of any point fits in its free memory."""
    known = {gpu.number: gpu for gpu in probe.gpus}
    for number in used_gpus(demands):
        gpu = known.get(number)
        if gpu is None:
            there = ", ".join(str(gpu) for gpu in known) or "none"
            what = f"GPU {number} does not exist; GPUs of the CUDA driver: {there}"
            yield error("GPU", what, "correct gpu in the workload, or CUDA_VISIBLE_DEVICES")
            continue
        most = max(demands, key=lambda demand: demand.bytes_on(number))
        need = most.bytes_on(number)
        what = (
            f"{most.label}: buffers of {format_size(most.block_size)} on GPU {number} take "
            f"{format_bytes_si(need)}; {format_bytes_si(gpu.free_bytes)} of "
            f"{format_bytes_si(gpu.memory_bytes)} are free"
        )
        if need > gpu.free_bytes:
            fix = (
                "use fewer workers, smaller queue_depth or block_size, or end other programs on it"
            )
            yield error("GPU memory", what, fix)
        else:
            yield ok("GPU memory", what)


def aperture_rows(demands: Sequence[Demand], number: int, card: PciDevice) -> Iterator[Check]:
    """Yield a warning if buffers of the direct path exceed the GPU memory mapped by BAR1."""
    need = max((demand.bytes_on(number) for demand in demands if demand.needs_cufile), default=0)
    most = card.bar1_bytes
    if most is not None and need > most:
        yield warning(
            "GPU aperture",
            f"buffers take {format_bytes_si(need)} of GPU {number}, but BAR1 maps only "
            f"{format_bytes_si(most)}: not all can be registered",
            "use fewer workers or smaller blocks, or enable a larger BAR1 (resizable BAR)",
        )

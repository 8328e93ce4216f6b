"""What engines tell of a run of training."""

from __future__ import annotations

from storlab.contracts.details import Details, Told


class AcceleratorTimes(Told):
    """One accelerator in one epoch: clock readings, and sums over its steps, in ns."""

    accelerator: int  # from 0
    steps: int
    start_ns: int
    end_ns: int
    first_end_ns: int  # of the first step
    compute_ns: int
    first_compute_ns: int
    wait_ns: int
    barrier_ns: int
    scheduled_ns: int | None = None  # had every thread been woken in time; None: not known
    first_scheduled_ns: int | None = None
    late_ns: int | None = None


class EpochTimes(Told):
    """One epoch of all accelerators."""

    start_ns: int
    end_ns: int
    bytes: int
    samples: int
    accelerators: tuple[AcceleratorTimes, ...]
    device_read_bytes: int | None = None


class TrainingDetails(Details):
    """Of a whole run."""

    epochs: tuple[EpochTimes, ...] = ()  # those that it finished, in order
    accelerator_precedence: str | None = None  # of their threads over readers
    host_memory_bytes: int | None = 0  # of the machine that read; 0: this one, None: not known

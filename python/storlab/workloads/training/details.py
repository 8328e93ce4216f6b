"""Details of a training run, as reported by its engine."""

from __future__ import annotations

from storlab.contracts.details import Details, DetailsTable


class AcceleratorTimes(DetailsTable):
    """Times of one accelerator in one epoch, and sums over its steps, in ns."""

    accelerator: int  # counted from 0
    steps: int
    start_ns: int
    end_ns: int
    first_end_ns: int  # end of the first step
    compute_ns: int
    first_compute_ns: int
    wait_ns: int
    barrier_ns: int
    scheduled_ns: int | None = None  # duration without late wake-ups of threads; None: unknown
    first_scheduled_ns: int | None = None
    late_ns: int | None = None


class EpochTimes(DetailsTable):
    """Times and counts of one epoch, over all accelerators; clocks in ns."""

    start_ns: int
    end_ns: int
    bytes: int
    samples: int
    accelerators: tuple[AcceleratorTimes, ...]
    device_read_bytes: int | None = None


class TrainingDetails(Details):
    """Details of a training run."""

    epochs: tuple[EpochTimes, ...] = ()  # finished epochs, in order
    # Scheduling precedence of accelerator threads over readers.
    accelerator_precedence: str | None = None
    host_memory_bytes: int | None = 0  # of the machine that read; 0: this machine, None: unknown

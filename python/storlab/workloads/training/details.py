"""Records for the details of a training run that an engine reports besides its totals."""

from __future__ import annotations

from storlab.contracts.details import Details, DetailsTable


class AcceleratorTimes(DetailsTable):
    """Times of one accelerator in one epoch in ns; waits and computing are sums over steps."""

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
    """Times in ns and counts of one epoch, over all accelerators."""

    start_ns: int
    end_ns: int
    bytes: int
    samples: int
    accelerators: tuple[AcceleratorTimes, ...]
    device_read_bytes: int | None = None


class TrainingDetails(Details):
    """Report about a training run: epochs, and how its threads were scheduled."""

    epochs: tuple[EpochTimes, ...] = ()  # finished epochs, in order
    # How threads of accelerators precede those of readers: ``nice -15``, or ``normal`` for not.
    accelerator_precedence: str | None = None
    host_memory_bytes: int | None = 0  # of the machine that read; 0: this machine, None: unknown

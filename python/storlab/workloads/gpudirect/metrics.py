"""Metrics, concurrency, flags and proof of a GPUDirect run (see docs/method/gpudirect.md)."""

from __future__ import annotations

from collections.abc import Iterable

from storlab.base.units import MB, NS_PER_S, format_bytes_si, significant
from storlab.model.result import Concurrency, Flag, Metric, Operation, Proof, RunOutcome
from storlab.model.study import Target
from storlab.workloads.common import metrics as common
from storlab.workloads.common.proof import UNPROVEN as MEDIUM_UNPROVEN
from storlab.workloads.common.proof import Evidence, judged, medium_evidence, medium_flags
from storlab.workloads.gpudirect.details import GpuDirectDetails
from storlab.workloads.gpudirect.flags import NOT_DIRECT, SWITCH_ON_COUNTING, UNCOMPARED, UNPROVEN
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.rules import depth_of

DATA: tuple[Operation, ...] = ("read", "write")
LEAST_DIRECT_PERCENT = 99.0
"""Smallest percentage of direct bytes for a run to count as one of the direct path."""


def run_concurrency(params: GpuDirectParams, outcome: RunOutcome) -> Concurrency:
    """Return the number of transfers in flight, as configured and by Little's law."""
    return Concurrency(
        configured=float(depth_of(params) * params.workers),
        implied=common.implied_outstanding(outcome, DATA),
    )


def run_metrics(params: GpuDirectParams, outcome: RunOutcome) -> list[Metric]:
    """Compute all metrics of a run; empty if its measure window is empty."""
    if common.window_ns(outcome) <= 0:
        return []
    shares = (params.read_percent, 100.0 - params.read_percent)
    asked = [op for op, share in zip(DATA, shares, strict=True) if share]
    return [
        *common.rate_metrics(outcome, DATA, DATA, "iops", asked),
        *common.time_metrics(outcome, DATA, "latency"),
        *common.time_metrics(outcome, DATA, "intended"),
        *common.cpu_metrics(outcome, DATA, "cpu_us_per_io"),
        *common.cpu_per_gb(outcome.cpu, common.bytes_moved(outcome, DATA)),
        *common.concurrency_metric(run_concurrency(params, outcome).implied),
        *_route_metrics(params, GpuDirectDetails.of(outcome)),
        *_around_metrics(params, GpuDirectDetails.of(outcome)),
    ]


def _route_metrics(params: GpuDirectParams, details: GpuDirectDetails) -> Iterable[Metric]:
    """Yield the percentages of bytes by route, for runs with path = direct and a counter."""
    if params.path == "direct" and details.route.counted:
        for name, share in details.route.percents().items():
            yield Metric(name=f"{name}_percent", value=share, unit="%")


def _around_metrics(params: GpuDirectParams, details: GpuDirectDetails) -> Iterable[Metric]:
    """Yield the time for registration, and the bytes compared before and after the window."""
    registration = details.registration
    if params.path == "direct" and registration is not None:
        taken_s = (registration.ns + registration.handles_ns) / NS_PER_S
        yield Metric(name="registration_s", value=taken_s, unit="s")
    for name, compared in (
        ("first_pass_mb", details.first_pass),
        ("read_back_mb", details.read_back),
    ):
        if compared is not None and compared.bytes:
            yield Metric(name=name, value=compared.bytes / MB, unit="MB")


def run_flags(params: GpuDirectParams, target: Target, outcome: RunOutcome) -> list[Flag]:
    """Return the flags of a run: warnings that a brief shows beside its numbers."""
    details = GpuDirectDetails.of(outcome)
    most = depth_of(params) * params.workers
    flags = [
        *_path_flags(params, outcome, details),
        common.concurrency_flag(run_concurrency(params, outcome), "transfers", params.rate_iops),
        common.client_flag(outcome),
        *common.machine_flags(outcome, params.workers),
        *_medium_flags(params, target, outcome),
        _compared_flag(params, outcome, details),
        _wrong_flag(details),
        common.rate_flag(params.rate_iops, outcome, DATA, params.arrival, most),
        common.unfinished_flag(outcome, DATA),
        common.note_flag(outcome),
    ]
    return [flag for flag in flags if flag is not None]


def run_proof(params: GpuDirectParams, target: Target, outcome: RunOutcome) -> Proof | None:
    """Judge whether the medium served a run; for path = direct, also whether it was direct.

    Returns:
        None if the run moved no bytes, or if nothing is known about medium and path.
    """
    details = GpuDirectDetails.of(outcome)
    is_direct = params.path == "direct"
    if not common.bytes_moved(outcome, DATA) or not (is_direct or details.medium):
        return None
    medium = medium_evidence(target, outcome, by_process=not is_direct)
    known = [one for one in medium if not (is_direct and one.flag == MEDIUM_UNPROVEN)]
    return judged([*_path_evidence(params, outcome, details), *known])


def _medium_flags(params: GpuDirectParams, target: Target, outcome: RunOutcome) -> Iterable[Flag]:
    """Return flags that the medium may not have served a run.

    For path = direct, the kernel's I/O counters of the process are not used, as they may not
    include requests that a GPU's driver sends to drives. cuFile's counters are used instead.
    """
    is_direct = params.path == "direct"
    flags = medium_flags(target, outcome, by_process=not is_direct)
    return [flag for flag in flags if not (is_direct and flag.kind == MEDIUM_UNPROVEN)]


def _path_flags(
    params: GpuDirectParams, outcome: RunOutcome, details: GpuDirectDetails
) -> Iterable[Flag]:
    for one in _path_evidence(params, outcome, details):
        yield Flag(kind=one.flag, message=one.reason)


def _path_evidence(
    params: GpuDirectParams, outcome: RunOutcome, details: GpuDirectDetails
) -> Iterable[Evidence]:
    """Yield all evidence that transfers of a run with path = direct may not have been direct."""
    if params.path != "direct" or not common.bytes_moved(outcome, DATA):
        return
    route = details.route
    if not route.counted:
        text = (
            "no counter shows which path the bytes took: this version of cuFile has none (1.15 "
            "or newer do), and nvidia-fs is not loaded, does not count (to switch it on: "
            f"{SWITCH_ON_COUNTING}), or counts in MiB, too coarse for this load"
        )
        yield Evidence(UNPROVEN, "unproven", text)
        return
    shares = route.percents()
    missing = max(0, route.bytes - route.accounted_bytes)
    if 100 - shares["posix"] < LEAST_DIRECT_PERCENT:
        yield Evidence(NOT_DIRECT, "contradicted", _not_direct(details, shares["posix"]))
    against = [*details.stand_ins, *details.path_obstacles]
    if against and route.p2p_bytes + route.nvfs_bytes:
        text = (
            f"{route.counter} counted {shares['direct']:.3g} % of the bytes as direct, but facts "
            f"about this machine contradict that: {'; '.join(against)}"
        )
        yield Evidence(UNPROVEN, "unproven", text)
    elif 100 * missing > (100 - LEAST_DIRECT_PERCENT) * route.bytes:
        text = (
            f"{format_bytes_si(route.bytes)} were moved, but the counters of {route.counter} have "
            f"only {format_bytes_si(route.accounted_bytes)}"
        )
        yield Evidence(UNPROVEN, "unproven", text)


def _not_direct(details: GpuDirectDetails, posix: float) -> str:
    cufile = details.libraries.cufile
    whole = posix >= LEAST_DIRECT_PERCENT
    mode = "cuFile ran in compatibility mode: " if whole else ""
    share = "all bytes" if whole else f"{significant(posix, 3)} % of the bytes"
    allowed = cufile.compat_allowed if cufile is not None else None
    advice = "; to prevent that, set allow_compat_mode = false in cufile.json" if allowed else ""
    return (
        f"{mode}{share} went through host memory (POSIX), by the counters of "
        f"{details.route.counter}{advice}; storlab doctor shows what the direct path lacks"
    )


def _compared_flag(
    params: GpuDirectParams, outcome: RunOutcome, details: GpuDirectDetails
) -> Flag | None:
    """Return a flag if data in GPU memory was not compared with storage; else None."""
    compared = details.first_pass or details.read_back
    if params.path == "host" or compared is not None or not common.bytes_moved(outcome, DATA):
        return None
    why = "verify = false" if params.verify == 0 else "this engine cannot compare"
    return Flag(kind=UNCOMPARED, message=f"{why}: data in GPU memory was not compared with storage")


def _wrong_flag(details: GpuDirectDetails) -> Flag | None:
    wrong = sum(part.wrong for part in (details.first_pass, details.read_back) if part is not None)
    if not wrong:
        return None
    what = f"{format_bytes_si(wrong)} are in blocks that differ from those in storage"
    return Flag(kind="verify-failed", message=what)

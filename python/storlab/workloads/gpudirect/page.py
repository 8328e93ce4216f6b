"""How reports present GPUDirect workloads: axes, sections, titles and phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.units import exact_number, format_size
from storlab.contracts.page import (
    Load,
    Metrics,
    Operations,
    Page,
    Parameters,
    Publications,
    Text,
    margins,
)
from storlab.workloads.common.costs import IOPS
from storlab.workloads.common.io_fields import QUEUE_DEPTH_COLUMNS, mix_phrase
from storlab.workloads.gpudirect.definitions import GPUDIRECT_DEFINITIONS
from storlab.workloads.gpudirect.flags import GPUDIRECT_FLAGS
from storlab.workloads.gpudirect.metrics import DATA
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.quantities import (
    GPUDIRECT_FINDINGS,
    GPUDIRECT_HEADLINE,
    GPUDIRECT_QUANTITIES,
    GPUDIRECT_QUESTIONS,
)
from storlab.workloads.gpudirect.rules import BATCH_APIS

NBSP = "\u00a0"
MIX = "read_percent"
APIS = ("sync", "batch", "batch-stream", "async")
PATHS = ("direct", "bounce-overlapped", "bounce", "host")
"""Order of paths in reports: the direct one, then the others from the strongest to the weakest."""
UNSAID_AT: dict[str, Any] = {"workers_per_file": 1, "region_start": 0, "register_buffers": True}


def phrase(name: str, params: Mapping[str, Any]) -> str | None:
    """Return a parameter as a phrase, such as ``4 workers`` or ``batches of 16``.

    None means that reports print its name and value. "" means that the phrase for another
    parameter includes it, or that it has no effect with the point's data path.
    """
    value = params[name]
    if name in ("path", "access"):
        return str(value)
    if name == MIX:
        return mix_phrase(float(value))
    if name in ("api", "register_buffers", "queue_depth"):
        return _of_path(name, params)
    if name == "workers":
        return f"{value}{NBSP}worker" if value == 1 else f"{value:,}{NBSP}workers"
    if name == "workers_per_file":
        return "" if value == 1 else f"{value} workers per file"
    if name == "gpu":
        return "" if params.get("path") == "host" else gpus_text(value)
    if name == "rate_iops":
        return "" if value is None else f"{exact_number(value)} transfers/s"
    if name == "verify":
        return "nothing compared" if value == 0 else f"first {format_size(value)} compared"
    return None


def _of_path(name: str, params: Mapping[str, Any]) -> str:
    """Return a phrase for a parameter that only some paths use; empty for other paths."""
    value, path = params[name], params.get("path")
    if name == "queue_depth":
        batch = path == "direct" and params.get("api") in BATCH_APIS
        deep = batch or params.get("api") == "async" or path == "bounce-overlapped"
        words = f"batches of {value}" if batch else f"{value} in flight each"
        return words if deep else ""
    if path != "direct":
        return ""
    if name == "api":
        return str(value)
    return "registered buffers" if value else "unregistered buffers"


def gpus_text(numbers: list[int]) -> str:
    """Format numbers of GPUs as ``GPU 0`` or ``GPUs 0, 1``."""
    noun = "GPU" if len(numbers) == 1 else "GPUs"
    return f"{noun}{NBSP}{', '.join(str(number) for number in numbers)}"


def is_relevant(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether a parameter affects a point, so that reports print it."""
    if params.get(name) is None or phrase(name, params) == "":
        return False
    return not (name in UNSAID_AT and params[name] == UNSAID_AT[name])


GPUDIRECT_PAGE = Page(
    operations=Operations(main=DATA, moved=DATA, rate=IOPS, percentiles=("p50", "p99")),
    parameters=Parameters(
        axes=("workers", "rate_iops", "queue_depth"),
        model=GpuDirectParams,
        facet="block_size",
        mix=MIX,
        order={"path": PATHS, "api": APIS, "register_buffers": (True, False)},
        titles={
            "path": "path",
            "api": "API of cuFile",
            MIX: "mix (read/write)",
            "block_size": "transfer size",
            "queue_depth": "transfers in flight of a worker",
            "workers": "workers",
            "workers_per_file": "workers per file",
            "gpu": "GPU",
            "register_buffers": "GPU buffers registered",
            "rate_iops": "rate (1/s)",
            "verify": "compared of each file",
            "cufile_library": "libcufile",
            "cuda_library": "libcuda",
        },
        phrase=phrase,
        is_relevant=is_relevant,
        axis_titles={"workers": "workers (threads)"},
        mix_words="read/write",
    ),
    load=Load(
        workers="workers",
        outstanding={"queue_depth": QUEUE_DEPTH_COLUMNS},
        open_loop="rate_iops",
        byte_limit="total_bytes",
    ),
    metrics=Metrics(
        quantities=GPUDIRECT_QUANTITIES,
        headline=GPUDIRECT_HEADLINE,
        questions=GPUDIRECT_QUESTIONS,
        findings=GPUDIRECT_FINDINGS,
        run_line=("throughput_mb_s.all", "cpu_s_per_gb.all"),
        margins=margins(rates={"iops": 0.05}, reported=("cpu_us_per_io", "direct_percent")),
    ),
    text=Text(
        work="{access} transfers",
        stated=("path", "api", "gpu"),
        last_point="the largest number of workers",
        definitions=GPUDIRECT_DEFINITIONS,
    ),
    published=Publications(
        names=("gds", "gpudirect"),
        is_comparable=lambda params: params.get("path") == "direct",
        access="access",
    ),
    additions="storlab.workloads.gpudirect.findings:Findings",
    flags=GPUDIRECT_FLAGS,
)

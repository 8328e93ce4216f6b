"""How reports present preprocessing: axes, sections, titles and phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.contracts.page import (
    Implementations,
    Load,
    Metrics,
    Operations,
    Page,
    Parameters,
    Publications,
    Text,
    rate,
)
from storlab.workloads.preprocess.definitions import PREPROCESS_DEFINITIONS
from storlab.workloads.preprocess.flags import PREPROCESS_FLAGS
from storlab.workloads.preprocess.job import STAGES
from storlab.workloads.preprocess.params import PreprocessParams
from storlab.workloads.preprocess.quantities import (
    PREPROCESS_FINDINGS,
    PREPROCESS_HEADLINE,
    PREPROCESS_QUANTITIES,
    PREPROCESS_QUESTIONS,
)

NBSP = "\u00a0"
RAW: tuple[str, ...] = ("ingest",)
"""Stage that reads raw data; efficiency counts each of its bytes once."""
UNSAID_AT: dict[str, Any] = {
    "cold": True,
    "resume": False,
    "data_seed": 1,
    "modulo": None,
    "input": None,
    "malformed": "refuse",
}
_MALFORMED = {"refuse": "malformed lines refused", "skip": "malformed lines skipped"}


def phrase(name: str, params: Mapping[str, Any]) -> str | None:
    """Return a parameter as a phrase, such as ``4 workers`` or ``400,000 rows``.

    None means that reports print its name and value. "" means that the phrase for another
    parameter includes it.
    """
    value = params[name]
    if name == "rows" and value is None:
        return _inputs(params)
    if value is None or name in ("input", "scale"):
        return _cluster(value) if name == "scale" and value else ""
    if name in ("rows", "files"):
        noun = name.removesuffix("s") if value == 1 else name
        return f"{value:,}{NBSP}{noun}"
    if name == "workers":
        return f"{value}{NBSP}worker" if value == 1 else f"{value}{NBSP}workers"
    if name == "implementation":
        return str(value)
    if name == "compression":
        return "uncompressed Parquet" if value == "none" else f"{value} Parquet"
    if name == "malformed":
        return _MALFORMED.get(str(value))
    if name == "cold":
        return "page cache dropped before each stage" if value else "page cache as it is"
    return None


def _cluster(scale: Mapping[str, Any]) -> str:
    scheduler = scale["scheduler"]
    return f"cluster of {scheduler}" if scheduler else "cluster of processes"


def _inputs(params: Mapping[str, Any]) -> str:
    return ", ".join(params.get("input") or ())


def is_relevant(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether a parameter affects a point, so that reports print it."""
    if params.get(name) is None:
        return False
    return not (name in UNSAID_AT and params[name] == UNSAID_AT[name])


PREPROCESS_PAGE = Page(
    operations=Operations(
        main=STAGES, moved=RAW, rate=rate("parts_s", "parts/s"), over_time=STAGES
    ),
    parameters=Parameters(
        axes=("workers", "memory", "threshold"),
        model=PreprocessParams,
        facet="rows",
        titles={
            "rows": "number of rows",
            "files": "raw files",
            "input": "raw files",
            "workers": "workers",
            "implementation": "implementation",
            "compression": "compression of the Parquet files",
            "row_group_rows": "rows of a row group",
            "part_size": "raw bytes of a part",
            "threshold": "rows a category needs for an id of its own",
            "modulo": "modulo of category values",
            "numerical": "type of numerical features",
            "malformed": "malformed lines",
            "memory": "memory limit",
            "cold": "page cache dropped before each stage",
            "resume": "goes on where an earlier run ended",
            "data_seed": "seed of the data set",
            "scale": "cluster",
        },
        phrase=phrase,
        is_relevant=is_relevant,
    ),
    load=Load(workers="workers", buffered=True, whole_window=True),
    metrics=Metrics(
        quantities=PREPROCESS_QUANTITIES,
        headline=PREPROCESS_HEADLINE,
        questions=PREPROCESS_QUESTIONS,
        findings=PREPROCESS_FINDINGS,
        per_watt={"rows_s": "rows_per_joule"},
    ),
    text=Text(
        work="DLRM preprocessing",
        stated=("rows", "workers"),
        last_point="the largest number of workers",
        definitions=PREPROCESS_DEFINITIONS,
    ),
    published=Publications(names=("dlrm", "preprocess")),
    implementations=Implementations(
        "implementation",
        heads={
            "completion_time_s.all": "completion time",
            "rows_s_per_core.all": "rows per CPU second",
            "cpu_s_per_gb.all": "CPU per GB",
            "peak_memory_mb.all": "peak memory",
            "energy_wh.all": "energy",
        },
        ratios={"completion_time_s.all": "time", "cpu_s_per_gb.all": "CPU"},
        note="Peak memory of native is what is resident above what its process held before the "
        "run; that of the others is of all their processes, with what the libraries hold for "
        "themselves.",
    ),
    audit="storlab.workloads.preprocess.audit:outputs_differ",
    additions="storlab.workloads.preprocess.findings:Findings",
    flags=PREPROCESS_FLAGS,
)

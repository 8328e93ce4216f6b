"""Importer of gdsio's result lines, from its output or from a log with several of them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError
from storlab.base.units import format_latency
from storlab.contracts.exchange import UNKNOWN_START, FileImporter, ImportedRun
from storlab.engines.gdsio.result import GdsioFormatError, Result, read_results
from storlab.model.result import EngineInfo, OperationTotals, RunOutcome

_LINE = re.compile(r"XferType:\s*\w+\s+Threads:\s*\d")
_COMMAND = re.compile(r"\bgdsio[ \t]+(-.*)")
# Data path and API by the name that gdsio prints for its transfer types -x 0 to 7.
_PATHS: dict[str, tuple[str, str]] = {
    "GPUD": ("direct", "sync"),
    "CPUONLY": ("host", "sync"),
    "CPU_GPU": ("bounce", "sync"),
    "CPU_ASYNC_GPU": ("bounce-overlapped", "sync"),
    "CPU_CACHED_GPU": ("bounce", "sync"),
    "GPUD_ASYNC": ("direct", "async"),
    "GPU_BATCH": ("direct", "batch"),
    "GPU_BATCH_STREAM": ("direct", "batch-stream"),
}
_CACHED = "CPU_CACHED_GPU"


class GdsioImport(FileImporter):
    """Importer of gdsio's output; each result line is a run."""

    name = "gdsio"
    hint = "the output of `gdsio ...`, version 1.0 or newer"

    def matches(self, text: str) -> bool:
        """Return whether a text has a result line of gdsio."""
        return _LINE.search(text) is not None

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse gdsio's result lines into runs.

        The command line of gdsio is used if it precedes a result in the text: only it has the
        target's path and the GPU.

        Raises:
            ResultError: A result line is incomplete or has an unknown transfer type.
        """
        try:
            results = read_results(text)
        except GdsioFormatError as error:
            fix = "give the unchanged output of gdsio 1.0 or newer"
            raise ResultError(file, str(error), fix) from error
        commands = [(match.start(), match[1]) for match in _COMMAND.finditer(text)]
        runs = []
        previous = 0
        for result in results:
            own = [c for at, c in commands if previous <= at < result.position]
            previous = result.position
            runs.append(_run(result, _options(own[-1]) if own else {}, file))
        return runs


def _options(command: str) -> dict[str, list[str]]:
    """Return the values of each option of a command line of gdsio, such as ``-f``."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    options: dict[str, list[str]] = {}
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-"):
            options.setdefault(word, []).append("" if value.startswith("-") else value)
    return options


def _run(result: Result, options: dict[str, list[str]], file: str) -> ImportedRun:
    if result.xfer_type not in _PATHS:
        raise ResultError(
            f"{file}: XferType",
            f"{result.xfer_type} is not a transfer type that storlab supports",
            f"use one of {', '.join(_PATHS)}",
        )
    places = [*options.get("-f", []), *options.get("-D", [])]
    fields, notes = _fields(result, options)
    # gdsio does not define the latency of a batch: the lines of some versions are per entry.
    has_latency = result.depth is None and result.latency_mean_ns > 0
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(
            name="gdsio",
            version="unknown",
            features=[f"XferType={result.xfer_type}"],
            clock="gdsio",
        ),
        window_start_ns=0,
        window_end_ns=result.length_ns,
        samples=[],
        totals={
            result.operation: OperationTotals(
                operations=result.operations,
                bytes=result.bytes,
                latency_mean_ns=result.latency_mean_ns if has_latency else None,
            )
        },
        cpu=None,
        notes=[*notes, *_notes(result, has_latency)],
    )
    return ImportedRun(
        kind="gpudirect",
        fields=fields,
        label=None,
        target=Path(places[0]).name or places[0] if places else "imported",
        locations=places,
        direct=result.xfer_type != _CACHED,
        engine="gdsio",
        outcome=outcome,
        metrics=[],
        started_at=UNKNOWN_START,
        ramp_ns=0,
        runtime_ns=result.length_ns,
        params={"gdsio_io_size": f"{result.block_bytes} to {result.largest_bytes}"}
        if result.largest_bytes != result.block_bytes
        else {},
    )


def _fields(result: Result, options: dict[str, list[str]]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a ``gpudirect`` workload, and notes on assumed values."""
    path, api = _PATHS[result.xfer_type]
    notes = []
    gpus = [int(text) for text in options.get("-d", []) if text.isdigit()]
    if not gpus and path != "host":
        notes.append("gdsio prints no GPU, and the file has no command line: GPU 0 is assumed")
    if result.largest_bytes != result.block_bytes:
        notes.append("gdsio drew I/O sizes from a range; block_size is the smallest")
    fields: dict[str, Any] = {
        "path": path,
        "access": "random" if result.io_type.startswith("RAND") else "sequential",
        "block_size": result.block_bytes,
        "read_percent": 100.0 if result.operation == "read" else 0.0,
        "workers": result.threads,
        "verify": False,
    }
    if path == "direct":
        fields["api"] = api
    if path != "host":
        fields["gpu"] = list(dict.fromkeys(gpus)) or [0]
    if result.depth is not None:
        fields["queue_depth"] = result.depth
    return fields, notes


def _notes(result: Result, has_latency: bool) -> list[str]:
    notes = [
        "gdsio prints no start time, no ramp, no percentiles and no CPU time",
        "gdsio does not count which bytes took the direct path: if the driver falls back to "
        "host memory, XferType stays the same",
    ]
    disagreement = result.disagreement()
    if disagreement is not None:
        notes.append(disagreement)
    if not has_latency:
        notes.append(
            f"gdsio's latency ({format_latency(result.latency_mean_ns)}) is left out: for batches "
            "it is per batch or per entry, depending on the version"
            if result.depth is not None
            else "gdsio printed a latency of 0, so it was not measured"
        )
    return notes

"""Importer of the output of ``sysbench fileio``: each run in it becomes a block I/O run."""

from __future__ import annotations

import re
from typing import Any

from storlab.base.errors import ResultError
from storlab.base.units import binary_size, format_latency
from storlab.contracts.exchange import UNKNOWN_START, FileImporter, ImportedRun
from storlab.engines.sysbench.result import Result, SysbenchFormatError, read_results
from storlab.model.result import EngineInfo, Metric, OperationTotals, RunOutcome

_RESULT = re.compile(
    r"^\s*(?:Operations performed:\s*\d+\s+reads?,|reads/s:|read:\s*IOPS=[\d.]+\s+[\d.]+ MiB/s)",
    re.MULTILINE | re.IGNORECASE,
)
_SYSBENCH = re.compile(r"sysbench|Extra file open flags|^\s*fsyncs/s:", re.MULTILINE)
_DIRECT_FLAGS = 0x4000 | 0x10000  # O_DIRECT of x86 and of ARM
_DEFAULT_BACKLOG = 128


class SysbenchImport(FileImporter):
    """Importer of the text that ``sysbench fileio`` prints."""

    name = "sysbench"
    hint = "the output of `sysbench fileio ... run`"

    def matches(self, text: str) -> bool:
        """Return whether a text has a result of ``sysbench fileio``."""
        return _RESULT.search(text) is not None and _SYSBENCH.search(text) is not None

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse all runs of ``sysbench fileio`` in a text.

        Raises:
            ResultError: No run has a result, or options or results are incomplete.
        """
        try:
            results, without = read_results(text)
            runs = [_run(result) for result in results]
        except SysbenchFormatError as error:
            fix = "give the complete output of `sysbench fileio ... run`, with its options"
            raise ResultError(f"{file}: {error.field}", error.what, fix) from error
        if without:
            runs[0].outcome.notes.append(f"the file has {without} more runs without a result")
        return runs


def _run(result: Result) -> ImportedRun:
    fields, params, notes = _load(result)
    totals = {
        kind: OperationTotals(
            operations=number, bytes=0 if kind == "sync" else number * result.block_bytes
        )
        for kind, number in result.operations.items()
        if number
    }
    metrics, latency_notes = _latency(result)
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="sysbench", version=result.version, features=[], clock="wall"),
        window_start_ns=0,
        window_end_ns=result.length_ns,
        samples=[],
        totals=totals,
        cpu=None,
        notes=[
            "sysbench prints no path, no start time (the run is dated 1970), no ramp and no CPU "
            "time",
            *notes,
            *latency_notes,
        ],
    )
    if not result.exact:
        outcome.notes.append("operations are sysbench's rates times its total time")
    size = _size(result)
    return ImportedRun(
        kind="block",
        fields=fields,
        label=None,
        target="imported",
        locations=[],
        direct=_is_direct(result),
        engine="sysbench",
        outcome=outcome,
        metrics=metrics,
        started_at=UNKNOWN_START,
        ramp_ns=0,
        runtime_ns=result.length_ns,
        facts={"size": size} if size else {},
        params={"sysbench_options": params} if params else {},
    )


def _load(result: Result) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the fields of the workload, options without a field, and notes."""
    text = result.text
    notes: list[str] = []
    mode = _find(r"Doing (.+) test", text) or ""
    threads = _find(r"Number of threads:\s*(\d+)", text)
    if not mode or not threads:
        missing = "Number of threads" if mode else "Doing ... test"
        raise SysbenchFormatError(missing, "is missing: the options before the results")
    read, write = (result.operations[kind] for kind in ("read", "write"))
    ratio = _find(r"Read/Write ratio for combined random IO test:\s*([\d.]+)", text)
    if "r/w" in mode and ratio:
        percent = 100 * float(ratio) / (1 + float(ratio))
    else:
        percent = 100 * read / max(1, read + write)
    io_mode = _find(r"Using (.+) I/O mode", text) or "synchronous"
    fields: dict[str, Any] = {
        "access": "sequential" if mode.startswith("sequential") else "random",
        "block_size": result.block_bytes,
        "read_percent": round(percent, 4),
        "queue_depth": 1,
        "jobs": int(threads),
    }
    params: dict[str, str] = {}
    if io_mode.startswith("async"):
        backlog = _find(r"--file-async-backlog[= ](\d+)", result.before)
        fields["queue_depth"] = int(backlog or _DEFAULT_BACKLOG)
        if backlog is None:
            notes.append(f"the file lacks --file-async-backlog: {_DEFAULT_BACKLOG} is assumed")
    elif io_mode != "synchronous":
        params["io_mode"] = io_mode
    flags = _flags(result)
    if flags not in ("", "0", "(none)"):
        params["extra_flags"] = flags
    if "creation" in mode:
        params["mode"] = mode
    if files := _find(r"^\s*(\d+) files,", text):
        params["files"] = files
    if rate := _find(r"^\s*Target transaction rate:\s*(\S+)", text):
        params["rate"] = rate
        notes.append(f"--rate limited sysbench to {rate}, so the target may reach more")
    if write:
        _add_flushes(text, fields, params, notes)
    return fields, params, notes


def _add_flushes(
    text: str, fields: dict[str, Any], params: dict[str, str], notes: list[str]
) -> None:
    if re.search(r"Calling fsync\(\) after each write", text):
        fields |= {"sync": "fsync", "sync_every": 1}
    elif each := _find(r"Periodic FSYNC enabled, calling fsync\(\) each (\d+)", text):
        params["fsync_each"] = each
        notes.append(f"every {each} requests, sysbench flushed all of its files, one after another")
    if re.search(r"Calling fsync\(\) at the end of test, Enabled", text):
        fields["final_sync"] = True
        notes.append("the window includes the flushes at the end")


def _latency(result: Result) -> tuple[list[Metric], list[str]]:
    """Return mean and maximum latency, and notes; no latency if events are of several kinds."""
    latency = result.latency
    if latency is None:
        return [], ["the file has no latencies"]
    p95 = f", p95 {format_latency(latency.p95_ns)}" if latency.p95_ns is not None else ""
    kinds = [kind for kind, number in result.operations.items() if number]
    if len(kinds) != 1:
        return [], [
            f"latencies are left out: sysbench's (mean {format_latency(latency.mean_ns)}, maximum "
            f"{format_latency(latency.max_ns)}{p95}) are of all events together: {', '.join(kinds)}"
        ]
    notes = ["sysbench has no percentile that storlab compares" + (p95 and f": it has{p95[1:]}")]
    values = {"mean": latency.mean_ns, "max": latency.max_ns}
    return [
        Metric(name=f"latency_{name}_ns", value=value, unit="ns", operation=kinds[0])
        for name, value in values.items()
    ], notes


def _is_direct(result: Result) -> bool | None:
    flags = _flags(result)
    if flags.isdigit():
        return bool(int(flags) & _DIRECT_FLAGS)
    return "direct" in flags if flags else None


def _flags(result: Result) -> str:
    return _find(r"Extra file open flags:\s*(.*)", result.text) or ""


def _size(result: Result) -> int | None:
    total = _find(r"^\s*(\S+) total file size", result.text)
    return binary_size(total) if total else None


def _find(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return None if found is None else found[1].strip()

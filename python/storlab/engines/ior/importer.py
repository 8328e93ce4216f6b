"""Importer of IOR's results: each repetition of a write or read becomes a block I/O run."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError
from storlab.contracts.exchange import UNKNOWN_START, FileImporter, ImportedRun, assumed_utc
from storlab.engines.ior.result import IorFormatError, Row, Test, read_json, read_text
from storlab.model.result import EngineInfo, OperationTotals, RunOutcome

_BEGUN = re.compile(r"^\s*IOR-\d[\w.+-]*:", re.MULTILINE)
_DIRECT = re.compile(r"(?:^|\s)(?:-B|--posix\.odirect|-O\s*=?useO_DIRECT=1)(?:\s|$)")
_PATHS = ("test filename", "testfilename", "path")
# Options that shape the load and have no field in a study.
_SHAPE = ("api", "access", "type", "segments", "blocksize", "ordering inter file", "task offset")


class IorImport(FileImporter):
    """Importer of the output of IOR, as text or JSON."""

    name = "IOR"
    hint = "the output of `ior ...`, also with -O summaryFormat=JSON"

    def matches(self, text: str) -> bool:
        """Return whether a text looks like output of IOR."""
        return _BEGUN.search(text) is not None or _is_json(text)

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Parse IOR's output into runs.

        Raises:
            ResultError: The output has no result, or a result is incomplete.
        """
        try:
            tests = read_json(json.loads(text)) if _is_json(text) else read_text(text)
            return [_run(test, row) for test in tests for row in test.rows]
        except (IorFormatError, json.JSONDecodeError) as error:
            where = getattr(error, "field", "JSON")
            what = getattr(error, "what", f"is damaged: {error}")
            fix = "give the complete output of IOR 3.0 or newer"
            raise ResultError(f"{file}: {where}", what, fix) from error

    def suffix(self, text: str) -> str:
        """Return the suffix of the copy of the file in the result directory."""
        return ".json" if _is_json(text) else ".txt"


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and '"tests"' in text and '"Results"' in text


def _run(test: Test, row: Row) -> ImportedRun:
    moved, exact = test.bytes_of(row)
    block = round(row.transfer_kib * 1024)
    nodes = test.whole("nodes") or 1
    tasks = test.whole("tasks") or nodes
    path = next((test.fields[name] for name in _PATHS if name in test.fields), None)
    command = test.fields.get("command line", "")
    started_at, clock_notes = _started_at(test)
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="ior", version=test.version, features=[], clock="wall"),
        window_start_ns=0,
        window_end_ns=test.length_ns(row),
        samples=[],
        totals={row.access: OperationTotals(operations=max(1, moved // block), bytes=moved)},
        cpu=None,
        notes=[
            "the window lasts from the first open to the last close, as IOR's rate does; IOR "
            "records no latency of single transfers",
            *clock_notes,
        ],
    )
    if not exact:
        outcome.notes.append("IOR printed no exact bytes: they are its rounded rate times its time")
    if test.others:
        outcome.notes.append(f"not imported: {', '.join(sorted(set(test.others)))}")
    fields: dict[str, Any] = {
        "access": "random"
        if "random" in test.fields.get("ordering in a file", "")
        else "sequential",
        "block_size": block,
        "read_percent": 100.0 if row.access == "read" else 0.0,
        "queue_depth": 1,
        "jobs": max(1, tasks // nodes),
    }
    if row.access == "write" and "-e" in command.split():
        fields["final_sync"] = True
    shape = {name: test.fields[name] for name in _SHAPE if test.fields.get(name)}
    posix = test.fields.get("api", "POSIX").upper().startswith("POSIX")
    direct = _DIRECT.search(f" {command} ") is not None
    return ImportedRun(
        kind="block",
        fields=fields,
        label=None,
        target=Path(path).parent.name or path if path else "imported",
        locations=[path] if path else [],
        # Only with POSIX is it certain that files are cached unless -B is given.
        direct=direct if direct or (posix and command) else None,
        engine="ior",
        outcome=outcome,
        metrics=[],
        started_at=started_at,
        ramp_ns=0,
        runtime_ns=test.length_ns(row),
        clients=nodes if nodes > 1 else None,
        params={"ior_options": shape} if shape else {},
    )


def _started_at(test: Test) -> tuple[str, list[str]]:
    for name in ("starttime", "began"):
        text = test.fields.get(name, "")
        try:
            moment = datetime.strptime(" ".join(text.split()), "%a %b %d %H:%M:%S %Y")
        except ValueError:
            continue
        return assumed_utc(moment)
    return UNKNOWN_START, ["the file has no start time"]

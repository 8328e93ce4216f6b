"""Importer of lookup logs: ``lookups of 512 bytes on one: 2000 in 4 s``."""

from __future__ import annotations

import re

from storlab.base.errors import ResultError
from storlab.base.units import NS_PER_S
from storlab.contracts.exchange import ImportedRun
from storlab.model.result import EngineInfo, OperationTotals, RunOutcome

LINE = re.compile(r"lookups of (\d+) bytes on (\w+): (\d+) in (\d+) s\n")


class LookupImport:
    """Implementation of ``storlab.contracts.exchange.FileImporter``."""

    name = "lookup"
    hint = "its log"

    def matches(self, text: str) -> bool:
        return text.startswith("lookups of ")

    def read(self, text: str, file: str) -> list[ImportedRun]:
        found = LINE.fullmatch(text)
        if found is None:
            raise ResultError(file, "is no line of lookups")
        size, target, count, seconds = found.groups()
        read = OperationTotals(operations=int(count), bytes=int(count) * int(size))
        outcome = RunOutcome(
            status="finished",
            engine=EngineInfo(name="lookup-python", version="unknown", clock="wall"),
            window_start_ns=0,
            window_end_ns=int(seconds) * NS_PER_S,
            samples=[],
            totals={"read": read},
            cpu=None,
        )
        return [
            ImportedRun(
                kind="lookup",
                fields={"record_size": f"{size}B"},
                label=None,
                target=target,
                locations=[],
                direct=False,
                engine="lookup-python",
                outcome=outcome,
                metrics=[],
                started_at="2026-01-01T00:00:00.000+00:00",
                ramp_ns=0,
                runtime_ns=int(seconds) * NS_PER_S,
            )
        ]

    def suffix(self, text: str) -> str:
        del text
        return ".log"

    def cleaned(self, text: str) -> str:
        return text

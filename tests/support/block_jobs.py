"""Block jobs on plain files for tests of the native engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from storlab.workloads.block.job import BlockJob

MIB = 1 << 20


def make_job(*paths: Path | str, size: int = 8 * MIB, **changes: Any) -> BlockJob:
    members = [{"path": str(p), "name": str(p), "kind": "file", "size": size} for p in paths]
    fields: dict[str, Any] = {
        "members": members,
        "direct": False,
        "jobs": 1,
        "queue_depth": 4,
        "mix": {"read": 100, "write": 0},
        "block_sizes": [{"bytes": 4096}],
        "offsets": {"kind": "uniform"},
        "window_ns": 200_000_000,
        "interval_ns": 50_000_000,
    }
    return BlockJob.model_validate({**fields, **changes})

"""Observation of a lab and its ranks from outside."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

RANK = "storlab.lab.site.rank"


def loading(task: Path) -> bool:
    """Return whether all clients of a task are in the measure window."""
    with suppress(OSError, ValueError):
        clients = json.loads((task / "live.json").read_bytes())["clients"].values()
        return bool(clients) and all(client.get("phase") == "measure" for client in clients)
    return False


def ranks_of(lab: int) -> list[int]:
    """Return the process ids of the ranks that a lab started, rank 0 first."""
    ranks = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            # mpiexec and its helpers have these words after their own
            if words[1:3] == [b"-m", RANK.encode()] and _descends(int(process.name), lab):
                ranks.append(int(process.name))
    return sorted(ranks)


def _descends(pid: int, ancestor: int) -> bool:
    """Return whether a process descends from ``ancestor``; other users' clients are ignored."""
    while pid > 1 and pid != ancestor:
        text = Path(f"/proc/{pid}/stat").read_text()
        pid = int(text.rpartition(")")[2].split()[1])
    return pid == ancestor

"""A lab and its ranks, seen from outside."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

RANK = "storlab.lab.site.rank"


def loading(task: Path) -> bool:
    """Whether all clients of a task make load."""
    with suppress(OSError, ValueError):
        clients = json.loads((task / "live.json").read_bytes())["clients"].values()
        return bool(clients) and all(client.get("phase") == "measure" for client in clients)
    return False


def ranks_of(lab: int) -> list[int]:
    """Processes of the ranks that a lab has started; rank 0 is the first."""
    ranks = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            # mpiexec and its helpers have these words, too, behind their own
            if words[1:3] == [b"-m", RANK.encode()] and _descends(int(process.name), lab):
                ranks.append(int(process.name))
    return sorted(ranks)


def _descends(pid: int, ancestor: int) -> bool:
    """Others may have clients on this machine: theirs are left alone."""
    while pid > 1 and pid != ancestor:
        text = Path(f"/proc/{pid}/stat").read_text()
        pid = int(text.rpartition(")")[2].split()[1])
    return pid == ancestor

"""Server of calls in the guest: it reads one request per line from a virtio port.

It imports storlab once and forks for each call, because an emulated processor takes seconds to
start Python.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import sys
import traceback
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# What commands import when they run.
PRELOADED = (
    "gzip",
    "multiprocessing.connection",
    "pyarrow.csv",
    "pydantic.functional_serializers",
    "rich._emoji_codes",
    "rich.console",
    "typer._adapters",
    "storlab.analysis.run_names",
    "storlab.base.zstd",
    "storlab.cli.consoles",
    "storlab.cli.run",
    "storlab.engines.fio.engine",
    "storlab.results.store",
    "storlab.engines.native.engine",
    "storlab.lab.preflight.questions",
    "storlab.lab.run.progress",
    "storlab.meters.hwmon",
    "storlab.meters.rapl",
    "storlab.workloads.block.family",
)


class WithoutPandas(MetaPathFinder):
    """Hide pandas, which pyarrow imports if it is installed: half of the time of all imports."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse pandas and leave all other modules to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main() -> None:
    """Serve calls until the host closes its end of the port."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sys.meta_path.insert(0, WithoutPandas())
    for name in PRELOADED:
        importlib.import_module(name)
    # Asking other engines for their versions starts Python and fio, which takes 5 s per campaign.
    environment = importlib.import_module("storlab.results.environment")
    environment.ENGINES = ("native",)  # type: ignore[attr-defined]
    os.environ["STORLAB_FIO"] = "/bin/false"
    inside = importlib.import_module("vm.inside")
    # Entry points and the model of a block study are read once and kept.
    registry = importlib.import_module("storlab.contracts.registry")
    for points in (registry.ENGINES, registry.METERS):
        list(points)
    text = importlib.import_module("vm.studies").study(("a", "b", "c"), runtime="1s", workload="")
    importlib.import_module("storlab.lab.study.file").parse_study(text)
    (path,) = Path("/dev").glob("vport*")
    port = os.open(path, os.O_RDWR)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes of calls
    answer(port, {"call": 0, "result": None})
    for line in os.fdopen(os.dup(port), "rb"):
        if os.fork() == 0:
            serve(port, inside, json.loads(line))
            os._exit(0)


def serve(port: int, functions: ModuleType, request: dict[str, Any]) -> None:
    """Answer one request with what the function returns or raises."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    reply: dict[str, Any] = {"call": request["call"]}
    try:
        reply["result"] = getattr(functions, request["function"])(*request["arguments"])
    except BaseException:  # noqa: BLE001  (the host raises it)
        reply["error"] = traceback.format_exc()
    answer(port, reply)


def answer(port: int, reply: dict[str, Any]) -> None:
    """Write one line to the host, whole, although several calls may end at once."""
    line = json.dumps(reply).encode() + b"\n"
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        while line:
            line = line[os.write(port, line) :]


if __name__ == "__main__":
    main()

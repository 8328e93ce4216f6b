"""Child program of a PyTorch run: a coordinator and one process per accelerator or rank.

It runs in a Python that has PyTorch but may lack storlab. So it imports only modules of storlab
that need no other packages, without executing ``storlab/__init__.py`` (see ``BOOT`` in
``engine.py``).

Results go to ``result.json`` after every epoch or checkpoint. Every operation goes to
``events-<rank>.bin``, in rows of kind, end (ns), latency (ns) and bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns
from storlab.engines.torch import loader, writer
from storlab.engines.torch.ranks import Order
from storlab.process.child_result import ChildError, failure_of, store_result


def main(order_file: str) -> int:
    """Execute the job in a JSON file with PyTorch and return the exit status.

    Status 1 means that the run failed; ``result.json`` holds the reason.
    """
    path = Path(order_file)
    order: Order = json.loads(path.read_text())
    result: Order = {"details": {}, "spans": [], "notes": []}
    run = loader.run if order["kind"] == "training" else writer.run
    failure: dict[str, Any] | None = None
    try:
        run(order, path.parent, result)
    except ChildError as error:
        failure = error.failure
    except OSError as error:
        failure = failure_of(error)
    result.setdefault("start_ns", monotonic_ns())
    result.setdefault("end_ns", monotonic_ns())
    result["failure"] = failure
    store_result(path.parent, result)
    return 0 if failure is None else 1

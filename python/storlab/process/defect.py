"""The outcome of a run whose engine broke in storlab's own part: failed, never missing.

Whoever waits for a run waits for its outcome; a watching thread that dies without one would let
them wait for ever.
"""

from __future__ import annotations

import struct
import subprocess
import traceback
import zlib

from storlab.base.clock import monotonic_ns
from storlab.base.errors import StorlabError
from storlab.model.result import EngineInfo, Failure, RunOutcome

DEFECTS = (
    StorlabError,
    OSError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    MemoryError,
    EOFError,
    subprocess.SubprocessError,
    struct.error,
    zlib.error,
)
"""What goes wrong where files of another program are read."""


def defect_outcome(info: EngineInfo, error: BaseException | None) -> RunOutcome:
    """A failed outcome with an empty window; ``raw/defect.txt`` says where it broke."""
    now_ns = monotonic_ns()
    trace = "".join(traceback.format_exception(error)) if error else "no exception\n"
    what = f"{type(error).__name__}: {error}" if error else "it ended without an outcome"
    return RunOutcome(
        status="failed",
        engine=info,
        window_start_ns=now_ns,
        window_end_ns=now_ns,
        samples=[],
        totals={},
        cpu=None,
        failure=Failure(
            message=f"the result of {info.name} cannot be told: {what}",
            fix="see raw/defect.txt; make room where the disk is full, else report it",
            errno=error.errno if isinstance(error, OSError) else None,
        ),
        raw={"defect.txt": trace.encode(errors="replace")},
    )

"""Outcome of a run that was ended by an exception in storlab's own code.

Callers wait for an outcome, so the thread that supervises a run must produce one in any case.
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
"""Exceptions that can occur when storlab reads the output of other programs."""


def defect_outcome(info: EngineInfo, error: BaseException | None) -> RunOutcome:
    """Return the outcome of a failed run, without results, and with the exception's traceback.

    The traceback goes to ``raw/defect.txt``.
    """
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
            message=f"the result of {info.name} could not be read: {what}",
            fix="read raw/defect.txt; free space if a disk is full, otherwise report this defect",
            errno=error.errno if isinstance(error, OSError) else None,
        ),
        raw={"defect.txt": trace.encode(errors="replace")},
    )

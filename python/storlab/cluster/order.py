"""Pass the description of a task (the order) to rank 0 through mpiexec's standard input."""

from __future__ import annotations

import os
import struct

from storlab.base.errors import EngineError
from storlab.cluster.link import Link

_FRAME = struct.Struct("<8sIQ")  # magic, number of ranks, length of the order in bytes
_MAGIC = b"storlab1"


def framed(order: bytes, size: int) -> bytes:
    """Return an order with a header that contains its length and the number of ranks.

    Args:
        order: Description of the task.
        size: Number of ranks, including rank 0.
    """
    return _FRAME.pack(_MAGIC, size, len(order)) + order


def read_order(link: Link, fd: int = 0) -> bytes:
    """Read the description of the task at rank 0 from standard input, as ``framed`` wrote it.

    Raises:
        EngineError: The order is missing or incomplete, or is for another number of ranks.
    """
    with os.fdopen(os.dup(fd), "rb") as source:
        head = source.read(_FRAME.size)
        if len(head) < _FRAME.size or not head.startswith(_MAGIC):
            raise _no_order("passed no order to rank 0 on standard input")
        _, size, length = _FRAME.unpack(head)
        order = source.read(length)
    if len(order) < length:
        raise _no_order(f"passed only {len(order):,} of {length:,} bytes of the order to rank 0")
    link.check_size(size)
    return order


def _no_order(what: str) -> EngineError:
    return EngineError("mpiexec", what, "start ranks by `storlab run`, not by hand")

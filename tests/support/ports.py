"""Ports for test servers that need a port number before they start."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

LOWEST, HIGHEST = 10_000, 65_536
# The kernel uses its ephemeral range for any connection, possibly between check and bind.
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return an unused TCP and UDP port of 127.0.0.1 outside of the ephemeral range."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports."""
    free = list(islice(_free(), count))
    assert len(free) == count, f"only {len(free)} ports are free"
    return free


def _free() -> Iterator[int]:
    first, last = map(int, EPHEMERAL.read_text().split())
    # If the ephemeral range covers all ports, use any of them.
    candidates = [*range(LOWEST, first), *range(last + 1, HIGHEST)] or range(LOWEST, HIGHEST)
    for port in random.SystemRandom().sample(candidates, len(candidates)):
        with suppress(OSError):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("127.0.0.1", port))
            yield port

"""Ports for servers that tests start and that must be told theirs beforehand."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

LOWEST, HIGHEST = 10_000, 65_536
# The kernel hands out the rest: to a connection of anybody, between our look and the server's bind.
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of 127.0.0.1 without listener, TCP or UDP, that no connection is given."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """``count`` of them, no two alike."""
    free = list(islice(_free(), count))
    assert len(free) == count, f"only {len(free)} ports are free"
    return free


def _free() -> Iterator[int]:
    first, last = map(int, EPHEMERAL.read_text().split())
    # Where the kernel's share is all there is, chance must do.
    candidates = [*range(LOWEST, first), *range(last + 1, HIGHEST)] or range(LOWEST, HIGHEST)
    for port in random.SystemRandom().sample(candidates, len(candidates)):
        with suppress(OSError):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("127.0.0.1", port))
            yield port

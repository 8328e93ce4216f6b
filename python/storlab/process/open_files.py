"""How many files and sockets a process may have open: what it is given at first is little."""

from __future__ import annotations

import resource

_MOST = 1 << 20  # some programs walk through all that they may have


def allow_open_files() -> None:
    """Raise the soft limit to the hard one, for this process and all that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most_open_files()
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_open_files() -> int:
    """That a run may have open at once."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)

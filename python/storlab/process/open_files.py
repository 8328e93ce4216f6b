"""Limit of open files and sockets of this process; its default is too low for many runs."""

from __future__ import annotations

import resource

_MOST = 1 << 20  # some programs iterate over all possible descriptors


def allow_open_files() -> None:
    """Raise the soft limit of open files to the hard limit, for this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most_open_files()
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_open_files() -> int:
    """Return how many files a run may open at once."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)

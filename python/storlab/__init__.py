"""storlab: which storage serves a workload better, by how much, and how sure are we?"""

from __future__ import annotations

__version__: str
"""Version of the installed package."""


def __getattr__(name: str) -> str:
    """``__version__``, looked up when it is asked for: importlib.metadata is slow to import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("storlab")
    except PackageNotFoundError:  # run from a source tree that was never installed
        found = "0+unknown"
    globals()[name] = found
    return found

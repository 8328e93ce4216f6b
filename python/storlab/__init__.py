"""storlab: which storage serves a workload better, by how much, and how sure are we?"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__version__: str
"""Version of the installed package."""


class _BeforeNative:
    """Asked by ``import``: a build for another processor ends in words, not in a signal."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: object = None) -> None:
        """Raises PreflightError where the native library cannot run here; finds nothing itself."""
        del target
        if name == f"{__name__}._native":
            from storlab.base.processor import check_build

            check_build(path or [])


sys.meta_path.insert(0, _BeforeNative)


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

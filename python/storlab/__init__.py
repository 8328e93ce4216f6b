"""storlab: which storage serves a workload better, by how much, and how sure are we?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storlab.api import load, run

__all__ = ["__version__", "load", "run"]

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


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command starts fast."""
    if name == "__version__":
        member: Any = _version()
    elif name in __all__:
        from storlab import api

        member = getattr(api, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = member
    return member


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("storlab")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"

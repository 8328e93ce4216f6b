"""Bundle Vega, Vega-Lite and Vega-Embed in one script, which draws figures in a browser."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from storlab.base.files import replace_file


def vega_bundle() -> str:
    """Return a script that defines ``window.vegaEmbed``.

    Bundling takes more than a second of CPU time and gives the same script for every brief, so the
    result (about 1 MB) is cached in the user's cache directory (XDG Base Directory Specification).
    """
    try:
        kept = _cache() / f"vega-of-vl-convert-{version('vl-convert-python')}.js"
        return kept.read_text("utf-8")
    except FileNotFoundError:
        script = _made()
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(kept, script.encode())
        return script
    except (OSError, RuntimeError):  # the cache is not readable, or the user has no home
        return _made()


def _made() -> str:
    import vl_convert

    return vl_convert.javascript_bundle(None)  # type: ignore[arg-type]  # None: all of it


def _cache() -> Path:
    """Return storlab's cache directory.

    Raises:
        RuntimeError: The user has no home directory.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "storlab"

"""The script that draws figures in a browser: Vega, Vega-Lite and Vega-Embed in one."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from storlab.base.files import replace_file


def vega_bundle() -> str:
    """A script that defines ``window.vegaEmbed``.

    Bundling takes more than a second of CPU and comes out the same for every brief, so the script
    stays in the user's cache (XDG Base Directory Specification), a megabyte of it.
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
    except (OSError, RuntimeError):  # not readable; no home at all
        return _made()


def _made() -> str:
    import vl_convert

    return vl_convert.javascript_bundle(None)  # type: ignore[arg-type]  # None: all of it


def _cache() -> Path:
    """Raises RuntimeError for a user without a home."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "storlab"

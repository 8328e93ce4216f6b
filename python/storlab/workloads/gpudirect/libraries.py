"""Where the libraries of cuFile and the CUDA driver may be, in the order in which to try them."""

from __future__ import annotations

import os
from importlib.metadata import distributions
from pathlib import Path

CUFILE = "libcufile.so.0"
CUDA = "libcuda.so.1"
WHEEL = "nvidia-cufile"


def cufile_places(explicit: str | None) -> list[str]:
    """What the study names, and then nothing else; or the wheel, the loader's, CUDA_HOME's."""
    if explicit is not None:
        return [explicit]
    places = [*_of_wheels(), CUFILE]
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        places.append(str(Path(home) / "lib64" / CUFILE))
    return list(dict.fromkeys(places))


def cuda_places(explicit: str | None) -> list[str]:
    """What the study names, and then nothing else; or what the loader finds."""
    return [CUDA] if explicit is None else [explicit]


def _of_wheels() -> list[str]:
    """Of the Python wheels for one version of CUDA or another; empty where none is installed."""
    paths: list[str] = []
    for distribution in distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if not name.startswith(WHEEL):
            continue
        files = (file for file in distribution.files or () if file.name == CUFILE)
        paths += [str(Path(str(distribution.locate_file(file))).resolve()) for file in files]
    return paths

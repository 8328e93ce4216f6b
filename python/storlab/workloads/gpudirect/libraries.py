"""Search paths of the cuFile library and the CUDA driver library."""

from __future__ import annotations

import os
from importlib.metadata import distributions
from pathlib import Path

CUFILE = "libcufile.so.0"
CUDA = "libcuda.so.1"
WHEEL = "nvidia-cufile"


def cufile_places(explicit: str | None) -> list[str]:
    """Return the places to search for libcufile, in order.

    An ``explicit`` path is the only place. Without one, the places are installed Python wheels, the
    loader's search path and CUDA_HOME.
    """
    if explicit is not None:
        return [explicit]
    places = [*_of_wheels(), CUFILE]
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        places.append(str(Path(home) / "lib64" / CUFILE))
    return list(dict.fromkeys(places))


def cuda_places(explicit: str | None) -> list[str]:
    """Return the place to search for libcuda: the explicit path or the loader's search path."""
    return [CUDA] if explicit is None else [explicit]


def _of_wheels() -> list[str]:
    """Return the paths of libcufile in installed Python wheels, for any version of CUDA."""
    paths: list[str] = []
    for distribution in distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if not name.startswith(WHEEL):
            continue
        files = (file for file in distribution.files or () if file.name == CUFILE)
        paths += [str(Path(str(distribution.locate_file(file))).resolve()) for file in files]
    return paths

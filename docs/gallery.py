"""Collect the pictures of README.md and docs/gallery.md (``make gallery`` after ``make demo``).

One figure per workload family from the newest demo. GPUs are the tests' simulators: that picture
only shows the figure's layout, and its title says so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
FIGURES = {
    "block": r"throughput-.*-70-30-.*|throughput-.*",
    "object": r"stacked-by-mix-.*",
    "training": r"utilisation-by-accelerators-.*",
    "checkpoint": r"checkpoint-time-.*",
    "preprocess": r"stages-.*",
    "gpudirect": r"latency-distribution-gpudirect-direct-.*",
}
"""Pattern of the figure's name by family; alternatives are tried in order."""
MOST_BYTES = 100_000
SIMULATED = """\
[study]
name = "storage to a simulated GPU"
repeats = 3
ramp = "50ms"
runtime = "400ms"
interval = "50ms"

[[target]]
name = "simulated GPU, real disk"
directory = "."
size = "4MiB"

[[workload]]
kind = "gpudirect"
path = ["direct", "bounce", "bounce-overlapped", "host"]
block_size = "64KiB"
workers = [1, 2, 4]
cuda_library = "{cuda}"
cufile_library = "{cufile}"
"""


def main() -> None:
    """Write all pictures, or exit with what is missing."""
    for family in FIGURES:
        if family == "gpudirect":
            with tempfile.TemporaryDirectory() as place:
                keep(family, simulated(Path(place)))
        else:
            keep(family, newest(family))


def newest(family: str) -> Path:
    """Return the result directory of the last demo of a family."""
    suffix = "" if family == "block" else f"-{family}"
    found = sorted(
        p for p in (ROOT / ".demo").glob("*z*") if re.fullmatch(rf"\w+z{suffix}", p.name)
    )
    if not found:
        sys.exit(f"there is no demo of {family}: run make demo first")
    return found[-1]


def simulated(place: Path) -> Path:
    """Run a short study with the tests' GPU simulators and return its results."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.gpu_simulators import build

    found = build(place)
    study = place / "study.toml"
    study.write_text(SIMULATED.format(cuda=found.cuda, cufile=found.cufile))
    out = place / "results"
    command = [sys.executable, "-m", "storlab", "run", study, "--out", out, "--quiet"]
    subprocess.run(command, cwd=place, check=True, env={**os.environ, "NO_COLOR": "1"})
    return out


def keep(family: str, results: Path) -> None:
    """Copy the picture of a family."""
    names = sorted(path.name for path in (results / "figures").glob("*.light.svg"))
    patterns = FIGURES[family].split("|")
    fits = (n for p in patterns for n in names if re.fullmatch(p + r"\.light\.svg", n))
    chosen = next(fits, None)
    if chosen is None:
        sys.exit(f"{results}: none of its figures is the picture of {family}: {', '.join(names)}")
    source = results / "figures" / chosen
    if source.stat().st_size > MOST_BYTES:
        sys.exit(f"{source}: has {source.stat().st_size:,} bytes, the most is {MOST_BYTES:,}")
    shutil.copyfile(source, IMAGES / f"{family}.svg")
    print(f"{family}: {chosen.removesuffix('.light.svg')}")


if __name__ == "__main__":
    main()

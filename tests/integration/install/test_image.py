"""The container recipe, built from the wheel in dist/, runs a study from a mounted folder.

Needs podman and the base image on this machine, because nothing is downloaded. STORLAB_BASE_IMAGE
names another base image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RECIPE = ROOT / "packaging" / "container" / "Containerfile"
IMAGE = "localhost/storlab-under-test"
BARE = ("--read-only", "--tmpfs", "/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")

STUDY = """
[study]
name = "in a container"
repeats = 2
ramp = 0
runtime = "5s"

[[target]]
name = "folder"
path = "/data/one.dat"
size = "4MiB"
direct = false

[[workload]]
kind = "block"
total_bytes = "1MiB"
"""


def podman(*words: str) -> subprocess.CompletedProcess[str]:
    asked = ["podman", *words]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if "STORLAB_WHEEL" not in os.environ or shutil.which("podman") is None:
        pytest.skip("needs the release wheel (make wheel) and podman")
    (named,) = re.findall(r"(?m)^ARG BASE=(.*)$", RECIPE.read_text())
    base = os.environ.get("STORLAB_BASE_IMAGE", named)
    if podman("image", "exists", base).returncode:
        pytest.skip(f"the base image {base} is not here: podman pull {base}")
    words = ("--build-arg", f"BASE={base}", "--file", str(RECIPE), "--tag", IMAGE, str(ROOT))
    made = podman("build", "--pull=never", *words)
    assert made.returncode == 0, made.stderr
    yield IMAGE
    podman("image", "rm", "--force", IMAGE)


def test_a_study_runs_with_a_read_only_root_and_no_capability(image: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    tmp_path.chmod(0o777)  # the image's user does not exist on this machine
    run = ("run", "--rm", *BARE, "--volume", f"{tmp_path}:/data", image)
    told = podman(*run, "--version")
    assert told.stdout.startswith("storlab "), told.stderr
    done = podman(*run, "run", "study.toml", "--out", "results")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs finished" in done.stdout
    assert (tmp_path / "results" / "brief.pdf").read_bytes().startswith(b"%PDF-")

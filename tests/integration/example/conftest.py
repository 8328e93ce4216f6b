"""Registration of the template family, which is in no released package."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab import _native

TEMPLATE = Path(__file__).parents[3] / "templates" / "family"
MODULE = f"""\
import storlab.workloads

storlab.workloads.__path__.append({str(TEMPLATE)!r})
from storlab.workloads.example.family import ExampleWorkload
"""


@pytest.fixture(autouse=True)
def registered(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the template by an entry point in the programs that a test starts.

    This process may have listed the columns of all families already.
    """
    if "example" not in _native.family_names():
        pytest.skip("the native engine is an optimised build, without the template: make develop")
    site = tmp_path_factory.mktemp("site")
    about = site / "template-1.0.dist-info"
    about.mkdir()
    (site / "template_family.py").write_text(MODULE)
    point = "example = template_family:ExampleWorkload"
    (about / "entry_points.txt").write_text(f"[storlab.families]\n{point}\n")
    monkeypatch.setenv("PYTHONPATH", str(site))

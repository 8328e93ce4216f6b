"""Registration of the template family, which is in no released package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import storlab.workloads
from storlab import _native
from storlab.contracts.registry import FAMILIES

TEMPLATE = Path(__file__).parents[3] / "templates" / "family"


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """Register the template in this process, as an entry point would."""
    if "example" not in _native.family_names():
        pytest.skip("the native engine is an optimised build, without the template: make develop")
    storlab.workloads.__path__.append(str(TEMPLATE))
    FAMILIES.loaded["example"] = import_module("storlab.workloads.example.family").ExampleWorkload()
    yield
    del FAMILIES.loaded["example"]
    storlab.workloads.__path__.remove(str(TEMPLATE))

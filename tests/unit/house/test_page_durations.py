"""Every family's page lists all of its duration parameters."""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest

from storlab.contracts.registry import FAMILIES
from storlab.model.params import InStudy, Params
from storlab.model.types import Duration


def _marks(hint: Any) -> list[Any]:
    """Return all parts of an annotation at any depth."""
    inner = [each for part in get_args(hint) for each in _marks(part)]
    return [hint, *getattr(hint, "__metadata__", ()), *inner]


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_the_page_tells_every_duration_as_one_and_not_in_nanoseconds(kind: str) -> None:
    module = import_module(f"storlab.workloads.{kind}.params")
    models = [m for m in vars(module).values() if isinstance(m, type) and issubclass(m, Params)]
    durations = {
        name
        for model in models
        for name, hint in get_type_hints(model, include_extras=True).items()
        if InStudy(Duration) in _marks(hint)
    }
    assert durations <= set(FAMILIES[kind].page.durations)

"""Families, engines, meters and importers, found through entry points: ours like those of others.

A package adds one under ``[project.entry-points."storlab.families"]`` (``storlab.engines``,
``storlab.meters``, ``storlab.importers``) of its ``pyproject.toml``; nothing of storlab changes.
Higher floors have ``storlab.exporters`` and ``storlab.commands``. See CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from storlab.base.errors import EngineError, StudyError
from storlab.contracts.engine import Engine
from storlab.contracts.exchange import DirectoryImporter, FileImporter
from storlab.contracts.family import Workload
from storlab.contracts.meter import MeterModule
from storlab.contracts.parts import Registry
from storlab.model.study import StudyBase, study_model

FAMILIES: Registry[Workload] = Registry("storlab.families")
ENGINES: Registry[Engine] = Registry("storlab.engines")
METERS: Registry[MeterModule] = Registry("storlab.meters")
IMPORTERS: Registry[FileImporter | DirectoryImporter] = Registry("storlab.importers")


def study_class(kinds: Collection[str] | None = None) -> type[StudyBase]:
    """The model of a study file with the families of those kinds, or with every registered one."""
    return _study_class(tuple(kind for kind in FAMILIES if kinds is None or kind in kinds))


@cache
def _study_class(kinds: tuple[str, ...]) -> type[StudyBase]:
    families = [FAMILIES[kind] for kind in kinds]
    asked = dict.fromkeys(q.name for family in families for q in family.page.questions)
    return study_model([family.spec for family in families], list(asked))


def get_engine(name: str) -> Engine:
    """The engine of that name.

    Raises EngineError for a name that is not registered, and for one that cannot be imported.
    """
    try:
        return ENGINES[name]
    except KeyError:
        raise EngineError(
            "engine", f'"{name}" is not an engine', f"use one of {', '.join(ENGINES)}"
        ) from None
    except (ImportError, SyntaxError, AttributeError) as error:
        raise EngineError(
            f"engine {name}", f"cannot be loaded: {error}", "install storlab anew, whole"
        ) from error


def get_meter(kind: str) -> MeterModule:
    """The module of that kind. Raises StudyError for a kind that is not registered."""
    if kind not in METERS:
        raise StudyError("meters", f'"{kind}" is not a meter', f"use one of {', '.join(METERS)}")
    return METERS[kind]

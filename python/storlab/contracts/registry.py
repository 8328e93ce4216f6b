"""Registries of families, engines, meters, importers and translators, found through entry points.

Without changes to storlab, a package adds plug-ins in its ``pyproject.toml``, under
``[project.entry-points."storlab.families"]`` (``storlab.engines``, ``storlab.meters``,
``storlab.importers``, ``storlab.translators``). Higher layers also use ``storlab.exporters`` and
``storlab.commands``. See CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from storlab.base.errors import EngineError, StudyError
from storlab.contracts.engine import Engine
from storlab.contracts.exchange import DirectoryImporter, FileImporter
from storlab.contracts.family import Workload
from storlab.contracts.meter import MeterModule
from storlab.contracts.registries import Registry
from storlab.contracts.translation import Translator
from storlab.model.study import StudyBase, study_model

FAMILIES: Registry[Workload] = Registry("storlab.families")
ENGINES: Registry[Engine] = Registry("storlab.engines")
METERS: Registry[MeterModule] = Registry("storlab.meters")
IMPORTERS: Registry[FileImporter | DirectoryImporter] = Registry("storlab.importers")
TRANSLATORS: Registry[Translator] = Registry("storlab.translators")


@cache
def file_importers() -> list[FileImporter]:
    """Return the registered importers of files."""
    return [importer for importer in IMPORTERS.values() if isinstance(importer, FileImporter)]


@cache
def directory_importers() -> list[DirectoryImporter]:
    """Return the registered importers of directories."""
    return [importer for importer in IMPORTERS.values() if isinstance(importer, DirectoryImporter)]


def study_class(kinds: Collection[str] | None = None) -> type[StudyBase]:
    """Return the study model with the families of the given kinds, or with all registered ones."""
    return _study_class(tuple(kind for kind in FAMILIES if kinds is None or kind in kinds))


@cache
def _study_class(kinds: tuple[str, ...]) -> type[StudyBase]:
    families = [FAMILIES[kind] for kind in kinds]
    asked = dict.fromkeys(q.name for family in families for q in family.page.metrics.questions)
    return study_model([family.spec for family in families], list(asked))


def get_engine(name: str) -> Engine:
    """Return the engine with a name.

    Raises:
        EngineError: The name is not registered, or the engine cannot be imported.
    """
    try:
        return ENGINES[name]
    except KeyError:
        raise EngineError(
            "engine", f'"{name}" is not an engine', f"use one of {', '.join(ENGINES)}"
        ) from None
    except (ImportError, SyntaxError, AttributeError) as error:
        raise EngineError(
            f"engine {name}", f"cannot be loaded: {error}", "reinstall storlab"
        ) from error


def get_meter(kind: str) -> MeterModule:
    """Return the module of a meter kind; raise StudyError if it is not registered."""
    if kind not in METERS:
        raise StudyError("meters", f'"{kind}" is not a meter', f"use one of {', '.join(METERS)}")
    return METERS[kind]

"""Engines: what executes a run. One file each; registered here and nowhere else."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol

from storlab.base.errors import EngineError
from storlab.model.job import Job
from storlab.model.result import EngineInfo, RunOutcome, Snapshot


class RunHandle(Protocol):
    """A run in progress. Every method may be called from any thread."""

    def snapshot(self) -> Snapshot:
        """What is happening now."""
        ...

    def cancel(self) -> None:
        """End the run soon; ``wait`` then returns an outcome with status ``cancelled``."""
        ...

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """The outcome, or None when the time-out passed first."""
        ...


class Engine(Protocol):
    """Executes jobs."""

    name: str
    kinds: tuple[str, ...]  # workload kinds it can run

    def describe(self) -> EngineInfo:
        """Name and version. Raises EngineError, with the cure, when it is missing or too old."""
        ...

    def refuse(self, job: Job) -> str | None:
        """Why this engine cannot run this job as it stands, or None."""
        ...

    def start(self, job: Job, work_dir: Path) -> RunHandle:
        """Start one run of a kind in ``kinds``. ``work_dir`` is empty and belongs to this run.

        ``job.secrets()`` holds what the run needs and nobody may store.
        """
        ...


_ENGINES: dict[str, str] = {
    "native": "storlab.engines.native:NativeEngine",
    "fio": "storlab.engines.fio:FioEngine",
    "warp": "storlab.engines.warp:WarpEngine",
    "dlio": "storlab.engines.dlio:DlioEngine",
    "torch": "storlab.engines.torch:TorchEngine",
    "torch_dcp": "storlab.engines.torch_dcp:TorchDcpEngine",
    "pandas": "storlab.engines.pandas:PandasEngine",
    "polars": "storlab.engines.polars:PolarsEngine",
}


def engine_names() -> list[str]:
    """The registered engines."""
    return list(_ENGINES)


def get_engine(name: str) -> Engine:
    """The engine of that name.

    Raises EngineError for a name that is not registered, and for one that cannot be imported.
    """
    try:
        module, _, attribute = _ENGINES[name].partition(":")
    except KeyError:
        raise EngineError(
            "engine", f'"{name}" is not an engine', f"use one of {', '.join(_ENGINES)}"
        ) from None
    try:
        engine: Engine = getattr(import_module(module), attribute)()
    except (ImportError, SyntaxError, AttributeError) as error:
        raise EngineError(
            f"engine {name}", f"cannot be loaded: {error}", "install storlab anew, whole"
        ) from error
    return engine

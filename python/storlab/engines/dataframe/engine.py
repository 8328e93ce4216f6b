"""Base class of the engines that preprocess with a data frame library, such as pandas.

The work is done by a child process with the same Python. The libraries come with
``storlab[preprocess]``.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from storlab.base.errors import EngineError
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.engines.dataframe.run import DataframeRun
from storlab.model.job import Job
from storlab.model.result import EngineInfo
from storlab.process.child import GRACE_NS, Launch
from storlab.workloads.preprocess.job import EngineCosts, PreprocessJob

_SLOWEST_BYTES_S = 1_000_000  # slowest plausible speed: a run that takes longer counts as hung


class DataframeEngine:
    """Base class of engines that run preprocess jobs; each subclass uses one library."""

    name: str
    title: str  # name of the library in messages
    packages: tuple[str, ...]  # the version of the first is the engine's version
    costs: EngineCosts
    kinds: tuple[str, ...] = ("preprocess",)
    install: str = "`pip install 'storlab[preprocess]'`"
    module: str = "storlab.engines.dataframe.child"  # child program
    run: type[DataframeRun] = DataframeRun

    def describe(self) -> EngineInfo:
        """Return the versions of the packages in use.

        Raises:
            EngineError: A package is missing; the fix says how to install it.
        """
        versions = {}
        for package in self.packages:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                raise EngineError(package, "is not installed", self.install) from None
        version = versions.pop(self.packages[0])
        features = [f"{package} {number}" for package, number in versions.items()]
        features.append(f"Python {platform.python_version()}")
        return EngineInfo(name=self.name, version=version, features=features, clock="monotonic")

    def refuse(self, job: Job) -> str | None:
        """Return why the engine cannot run this job, or None if it can."""
        if not isinstance(job, PreprocessJob):
            return f"{self.name} runs {' and '.join(self.kinds)} jobs only"
        if job.task != "run":
            return f'its task is "{job.task}", which only the native engine does'
        return None

    def start(self, job: Job, work_dir: Path) -> DataframeRun:
        """Start a run in ``work_dir``.

        Raises:
            EngineError: The library is missing, or the engine cannot run this job.
        """
        info = self.describe()
        reason = self.refuse(job)
        if reason is not None or not isinstance(job, PreprocessJob):
            raise EngineError("engine", f"{self.name} cannot run this job: {reason}")
        work_dir = work_dir.absolute()
        order = work_dir / "order.json"
        fields: dict[str, Any] = {"engine": self.name, "job": job.model_dump(mode="json")}
        order.write_text(json.dumps(fields, indent=2) + "\n")
        Path(job.directory).mkdir(parents=True, exist_ok=True)
        launch = Launch(
            name=self.title,
            command=[sys.executable, "-m", self.module, str(order)],
            environment={"PYTHONUNBUFFERED": "1", **self.environment(job)},
            work_dir=work_dir,
            place=Path(job.directory),
            limit_ns=_limit_ns(job),
        )
        return self.run(job, launch, info, [*self.notes(job), *self.memory_notes(job)])

    def environment(self, job: PreprocessJob) -> dict[str, str]:
        """Return environment variables that limit the library's threads."""
        raise TypeError(f"{type(self).__name__} does not implement environment() for {job.kind}")

    def notes(self, job: PreprocessJob) -> list[str]:
        """Return notes on how this library does the work."""
        raise TypeError(f"{type(self).__name__} does not implement notes() for {job.kind}")

    def memory_notes(self, job: PreprocessJob) -> list[str]:
        """Return notes on how memory is limited and measured."""
        limit = format_bytes_si(job.memory_bytes)
        return [
            f"{self.title}: memory of its processes is sampled four times a second as PSS (shared "
            "pages are divided among processes); short peaks may be missed",
            f"{self.title}: the parts processed at once, and the values counted or looked up in "
            f"one pass, are chosen so that they and the libraries fit into {limit}; a worker holds "
            "at least one part",
            f"{self.title}: imports and the start of workers are not measured",
        ]


def _limit_ns(job: PreprocessJob) -> int:
    """Return the time limit of a run, in ns, by the size of its inputs.

    Missing inputs are skipped here; the child process reports them.
    """
    size = sum(path.stat().st_size for path in map(Path, job.inputs) if path.exists())
    return size * NS_PER_S // _SLOWEST_BYTES_S + GRACE_NS

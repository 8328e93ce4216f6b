"""Polars: one process, whose threads it divides the work of a query among."""

from __future__ import annotations

from storlab.engines.dataframe.costs import POLARS
from storlab.engines.dataframe.engine import DataframeEngine
from storlab.workloads.preprocess.job import PreprocessJob


class PolarsEngine(DataframeEngine):
    """Runs preprocess jobs with ``dataframe_polars.PolarsLibrary``."""

    name = "polars"
    title = "Polars"
    packages = ("polars", "numpy")
    costs = POLARS

    def environment(self, job: PreprocessJob) -> dict[str, str]:
        """As many threads as workers."""
        return {"POLARS_MAX_THREADS": str(job.workers)}

    def notes(self, job: PreprocessJob) -> list[str]:
        """Who does what."""
        cores = "core" if job.workers == 1 else "cores"
        return [
            f"Polars: one process on {job.workers} {cores} at most, with as many threads of its "
            "own and as many that hand it parts and columns; NumPy rounds numbers and writes "
            "binaries"
        ]

"""Polars engine: preprocesses with Polars in one process with many threads."""

from __future__ import annotations

from storlab.engines.dataframe.costs import POLARS
from storlab.engines.dataframe.engine import DataframeEngine
from storlab.workloads.preprocess.job import PreprocessJob


class PolarsEngine(DataframeEngine):
    """Engine that runs preprocess jobs with Polars."""

    name = "polars"
    title = "Polars"
    packages = ("polars", "numpy")
    costs = POLARS

    def environment(self, job: PreprocessJob) -> dict[str, str]:
        """Return environment variables that give Polars as many threads as the job has workers."""
        return {"POLARS_MAX_THREADS": str(job.workers)}

    def notes(self, job: PreprocessJob) -> list[str]:
        """Return notes on which library does which part of the work."""
        cores = "core" if job.workers == 1 else "cores"
        return [
            f"Polars: one process on at most {job.workers} {cores}, with as many threads of Polars "
            "and as many worker threads that call Polars; NumPy rounds numbers and writes the "
            "binary files"
        ]

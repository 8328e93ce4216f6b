"""Dask engine: runs preprocessing in worker processes on this host or on a Dask cluster."""

from __future__ import annotations

from storlab.base.units import format_bytes_si
from storlab.engines.dask.costs import DASK
from storlab.engines.dask.run import DaskRun
from storlab.engines.dataframe.engine import DataframeEngine
from storlab.engines.dataframe.run import DataframeRun
from storlab.workloads.preprocess.job import PreprocessJob, ScaledJob


class DaskEngine(DataframeEngine):
    """Engine that runs preprocess jobs on a Dask cluster, with pandas in its workers."""

    name = "dask"
    title = "Dask"
    packages = ("distributed", "dask", "pandas", "pyarrow", "numpy", "cryptography")
    costs = DASK
    install = "`pip install 'storlab[scale]'`"
    module = "storlab.engines.dask.child"
    run: type[DataframeRun] = DaskRun

    def environment(self, job: PreprocessJob) -> dict[str, str]:  # noqa: ARG002  (constant)
        """Return environment variables that limit each worker to one thread."""
        return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def notes(self, job: PreprocessJob) -> list[str]:
        """Return notes on which library does which part of the work."""
        processes = "process" if job.workers == 1 else "processes"
        crew = f"{job.workers} worker {processes} of a cluster on this machine"
        if isinstance(job, ScaledJob) and job.scheduler is not None:
            crew = f"{job.workers} units at once on the cluster of {job.scheduler}"
        return [
            f"Dask: {crew}; PyArrow parses text and reads and writes Parquet, pandas counts and "
            "looks up values, NumPy does the other work; the counts of each column are merged "
            "as a tree of tasks that exchange files",
            "Dask: a unit ends when its result arrives at the coordinator; its latency is measured "
            "by its worker",
        ]

    def memory_notes(self, job: PreprocessJob) -> list[str]:
        """Return notes on how memory is limited and measured."""
        limit = format_bytes_si((job.memory_bytes - DASK.base_bytes) // job.workers)
        return [
            f"Dask: the memory limit of a worker process is {limit}; Dask ends a worker that "
            "exceeds it. Units are sized to fit, but a worker holds at least one part of the input",
            "Dask: each worker measures its own CPU time and memory; what a lost worker used after "
            "its last report is missing. Peak memory is the sum of the workers' peaks",
            "Dask: imports and the start of workers are not measured",
        ]

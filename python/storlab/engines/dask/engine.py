"""Dask engine: a coordinator process and one process per worker, on this host or a cluster."""

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
            f"Dask: {crew}; PyArrow parses text and keeps Parquet, pandas counts and looks up, "
            "NumPy does the rest; vocabularies are merged as trees, through files of the run",
            "Dask: a unit ends when its result arrives; its latency is what its worker measured",
        ]

    def memory_notes(self, job: PreprocessJob) -> list[str]:
        """Return notes on how memory is limited and measured."""
        limit = format_bytes_si((job.memory_bytes - DASK.base_bytes) // job.workers)
        return [
            f"Dask: a worker's process may take {limit}, and Dask ends one that takes more; units "
            "are cut to fit, and a worker holds at least one part",
            "Dask: CPU and memory are measured by the workers, of a lost worker until its "
            "last report; the peak is the sum of the peaks of all workers",
            "Dask: imports and the start of workers lie before the first stage",
        ]

"""pandas engine: preprocesses with pandas, PyArrow and NumPy in one process per worker."""

from __future__ import annotations

from storlab.engines.dataframe.costs import PANDAS
from storlab.engines.dataframe.engine import DataframeEngine
from storlab.workloads.preprocess.job import PreprocessJob


class PandasEngine(DataframeEngine):
    """Engine that runs preprocess jobs with pandas, PyArrow and NumPy."""

    name = "pandas"
    title = "pandas"
    packages = ("pandas", "pyarrow", "numpy")
    costs = PANDAS

    def environment(self, job: PreprocessJob) -> dict[str, str]:  # noqa: ARG002  (constant)
        """Return environment variables that limit each worker to one thread."""
        return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def notes(self, job: PreprocessJob) -> list[str]:
        """Return notes on which library does which part of the work."""
        processes = "process" if job.workers == 1 else "processes"
        return [
            f"pandas: {job.workers} worker {processes}; PyArrow parses text and reads and writes "
            "Parquet, pandas counts and looks up values, NumPy does the other work; one worker "
            "counts all values of a column"
        ]

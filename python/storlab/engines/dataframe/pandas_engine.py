"""pandas engine: pandas, PyArrow and NumPy in one process per worker, as in the published study."""

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
            f"pandas: {job.workers} worker {processes}; PyArrow parses text and keeps Parquet, "
            "pandas counts and looks up, NumPy does the rest; a column is counted by one worker"
        ]

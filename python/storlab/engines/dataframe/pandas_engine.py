"""pandas with PyArrow and NumPy: one process for each worker, as in the published study."""

from __future__ import annotations

from storlab.engines.dataframe.costs import PANDAS
from storlab.engines.dataframe.engine import DataframeEngine
from storlab.workloads.preprocess.job import PreprocessJob


class PandasEngine(DataframeEngine):
    """Runs preprocess jobs with ``dataframe_pandas.PandasLibrary``."""

    name = "pandas"
    title = "pandas"
    packages = ("pandas", "pyarrow", "numpy")
    costs = PANDAS

    def environment(self, job: PreprocessJob) -> dict[str, str]:  # noqa: ARG002  (always one)
        """A worker has one thread."""
        return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def notes(self, job: PreprocessJob) -> list[str]:
        """Who does what."""
        processes = "process" if job.workers == 1 else "processes"
        return [
            f"pandas: {job.workers} worker {processes}; PyArrow parses text and keeps Parquet, "
            "pandas counts and looks up, NumPy does the rest; a column is counted by one worker"
        ]

"""Python API for notebooks and programs: ``storlab.load(...)`` and ``storlab.run(...)``.

Both return :class:`storlab.api.results.Results`, which contains the analysis of the brief as Arrow
tables, typed records and figures.
"""

from storlab.api.campaign import run
from storlab.api.results import Drawing, Results, load

__all__ = ["Drawing", "Results", "load", "run"]

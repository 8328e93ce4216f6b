"""storlab in a notebook or a program: ``storlab.load(...)`` and ``storlab.run(...)``.

What both give are :class:`storlab.api.results.Results`: the same functions that the brief uses, as
Arrow tables, typed records and figures.
"""

from storlab.api.campaign import run
from storlab.api.results import Drawing, Results, load

__all__ = ["Drawing", "Results", "load", "run"]

"""What a campaign asks of the place where its load is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from storlab.contracts.engine import Engine
from storlab.model.point import PlannedRun, Point
from storlab.model.result import RunOutcome
from storlab.model.study import Target


class Site(Protocol):
    """This machine, or the clients of a cluster. Holds what the guard has granted there."""

    def prepare(self, target: Target, points: Sequence[Point]) -> bool:
        """Make what these points of one target need. False: it has found no steady state.

        Raises PrepareError, Interrupted on a stop request.
        """
        ...

    def run(
        self,
        run: PlannedRun,
        point: Point,
        engine: Engine,
        work_dir: Path,
        raw: dict[str, bytes],
    ) -> RunOutcome:
        """Carry out one run. ``work_dir`` is empty and its own; ``raw`` takes what is to be kept.

        Raises StorlabError, OSError or ValueError for a run that never began, Interrupted on a stop
        request.
        """
        ...

    def after(self, run: PlannedRun, point: Point, *, interrupted: bool = False) -> bool:
        """Put right what the run has left behind; False where there was nothing to do.

        ``interrupted``: it was a run of an earlier session, and nobody knows what it has left.

        Raises PrepareError, or Interrupted.
        """
        ...

    def clean_up(self) -> list[str]:
        """Remove the data that the study does not keep. Returns the names of what went."""
        ...

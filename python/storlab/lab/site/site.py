"""Interface of the place where a campaign generates its load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from storlab.contracts.engine import Engine
from storlab.model.point import PlannedRun, Point
from storlab.model.result import RunOutcome
from storlab.model.study import Target


class Site(Protocol):
    """This machine or the clients of a cluster, with the targets that the guard granted there."""

    def prepare(self, target: Target, points: Sequence[Point]) -> bool:
        """Prepare what the points of one target need.

        Returns:
            False if preconditioning found no steady state.

        Raises:
            PrepareError: A step failed.
            Interrupted: A stop was requested.
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
        """Execute one run.

        Args:
            run: Planned run.
            point: Point of the run.
            engine: Engine that executes it.
            work_dir: Empty directory for this run only.
            raw: Receives the files to store, by name.

        Raises:
            StorlabError: The run could not start; also OSError and ValueError.
            Interrupted: A stop was requested.
        """
        ...

    def after(self, run: PlannedRun, point: Point, *, interrupted: bool = False) -> bool:
        """Restore the target after a run.

        Args:
            run: Planned run.
            point: Point of the run.
            interrupted: Whether it was a run of an earlier session, so that its leftovers are
                unknown.

        Returns:
            Whether there was anything to do.

        Raises:
            PrepareError: A step failed.
            Interrupted: A stop was requested.
        """
        ...

    def clean_up(self) -> list[str]:
        """Remove the data that the study does not keep, and return their names."""
        ...

"""Client's site: like the local site, with this client's share of divided work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from storlab.contracts.family import JobContext, Share
from storlab.contracts.reporter import Reporter
from storlab.contracts.services import dividing_family
from storlab.lab.plan.jobs import run_context
from storlab.lab.prepare.precondition import Start
from storlab.lab.site.client_view import ClientGuard
from storlab.lab.site.local import LocalSite
from storlab.model.point import PlannedRun, Point
from storlab.model.study import StudyBase, Target
from storlab.process.execution import StopRequest


class ClientSite(LocalSite):
    """Site of one client, which gets its ``share`` of work that the family divides.

    ``whole`` is the study with the seed and directories that all clients have in common.
    """

    def __init__(
        self,
        study: StudyBase,
        whole: StudyBase,
        share: Share,
        guard: ClientGuard,
        directory: Path,
        stop: StopRequest,
        reporter: Reporter,
        start: Start,
        rereads: Callable[[Target], bool],
        alive: Callable[[], None],
    ) -> None:
        super().__init__(
            study, guard, directory, stop, reporter, start=start, rereads=rereads, alive=alive
        )
        self._whole = whole
        self._share = share
        self._places = guard

    def data_context(self, target: Target, kind: str) -> JobContext:
        """Return the context for data; that of all clients if the family's clients share data."""
        context = super().data_context(target, kind)
        offer = dividing_family(kind)
        if offer is None or not offer.shares_data:
            return context
        header = self._whole.study
        return replace(
            context,
            header=header,
            target=self._whole.target_named(target.name),
            access=self._places.shared[target.name],
            seed=header.seed,
            share=self._share,
        )

    def context(self, run: PlannedRun, point: Point, work_dir: Path) -> JobContext:
        """Return the context of a run, with this client's share if the work is divided."""
        offer = dividing_family(point.kind)
        if offer is None:
            return super().context(run, point, work_dir)
        if not offer.shares_data:
            return replace(super().context(run, point, work_dir), share=self._share)
        access = self._places.shared[point.target]
        return run_context(self._whole, point, run, access, work_dir, self._share)

    def clean_up(self) -> list[str]:
        """Remove this client's data and, on the first client, the shared data."""
        removed = super().clean_up()
        for name, hold in self._places.shared_homes.items():
            if not self.study.target_named(name).keep_data:
                removed += self._clean(name, hold.clean)
        return removed

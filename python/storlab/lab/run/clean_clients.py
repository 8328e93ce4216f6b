"""``storlab clean`` of a campaign on clients, even if some clients no longer answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storlab.base.errors import PreflightError
from storlab.cluster.task import ClientPlace
from storlab.contracts.family import Access
from storlab.contracts.reporter import Reporter
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.run.clean_stores import clean_stores
from storlab.lab.run.clean_summary import Cleaned
from storlab.lab.run.session import guard_again
from storlab.lab.site.client_probe import Answers, ask_each, renumbered
from storlab.lab.site.clients import Clients, ClientsSite
from storlab.model.cluster import Cluster
from storlab.process.execution import Interrupted, StopRequest
from storlab.results.store import ResultStore


def clean_clients(
    store: ResultStore,
    cluster: Cluster,
    base: Path,
    recorded: dict[str, Any],
    stop: StopRequest,
    reporter: Reporter,
) -> Cleaned:
    """Let each client remove its own data.

    For a client that does not answer, another client removes data in shared directories. Data that
    only the missing client can reach, and stores that fail, are reported as problems.

    Args:
        store: Results of the campaign.
        cluster: Cluster of the study.
        base: Directory that relative paths start from.
        recorded: Record of the campaign's guard.
        stop: Stop request to watch.
        reporter: Receiver of progress.

    Raises:
        Interrupted: A stop was requested.
    """
    # Not entered, because nothing is measured: clients hold files, stores are held one by one.
    guard = guard_again(store, base, recorded)
    guard.access = {target.name: Access() for target in store.study.target}
    clients = Clients.of(cluster, base)
    site = ClientsSite(clients, store, guard, stop, reporter)
    cleaned = Cleaned()
    _Cleaning(store, clients, site, stop, reporter, cleaned).clean_places()
    clean_stores(store.study, recorded, base, stop, reporter, cleaned)
    return cleaned


@dataclass(frozen=True, slots=True)
class _Cleaning:
    store: ResultStore
    clients: Clients
    site: ClientsSite
    stop: StopRequest
    reporter: Reporter
    cleaned: Cleaned

    def clean_places(self) -> None:
        """Remove the files and folders that clients created."""
        targets = self.site.targets_on_clients()
        everybody = self.clients.places(self.clients.most)
        if not targets:
            return
        try:
            self.cleaned.removed += self.site.clean_on(everybody, targets, self.stop)
        except PrepareError as error:
            self._clean_without(everybody, targets, error)

    def _clean_without(
        self, everybody: list[ClientPlace], targets: set[str], first: PrepareError
    ) -> None:
        """Clean up with the clients that answer, also for the others in shared directories."""
        answers = None
        if len(everybody) > 1 and not self.clients.cluster.is_local:
            self.reporter.note(f"{first.what}: each client is asked by itself")
            answers = self._ask(everybody)
        if answers is None or not answers.silent or not answers.facts:
            self.cleaned.problems.append(self._problem(first.what, first.fix))
            return
        there = renumbered([place for place in everybody if place.name in answers.facts])
        gone = [place for place in everybody if place.name in answers.silent]
        shared = {name for name in targets if self._is_shared(name)}
        batches = list(_standing_in(gone, there)) if shared else []
        removed = self.cleaned.removed
        if batches:
            self.reporter.note(f"{answers.told}; others clean up in the directories that all share")
        try:
            removed += self.site.clean_on(there, targets, self.stop, ends=not batches)
            for number, batch in enumerate(batches, 1):
                ends = number == len(batches)
                removed += self.site.clean_on(batch, shared, self.stop, ends=ends)
        except PrepareError as error:
            self.cleaned.problems.append(self._problem(error.what, error.fix))
        named = ", ".join(place.name for place in gone)
        own = sorted(targets - shared)
        if own:
            what = f"not cleaned up on {named}, which no other host can reach ({answers.told})"
            self.cleaned.problems.append(PreflightError(", ".join(own), what, self._again()))

    def _ask(self, everybody: list[ClientPlace]) -> Answers:
        work = self.store.directory / "work"
        try:
            return ask_each(self.clients, everybody, work / "ask", {"shared": []}, self._go_on)
        finally:
            with suppress(OSError):  # other processes may still use it
                work.rmdir()

    def _is_shared(self, name: str) -> bool:
        return self.store.study.target_named(name).directory is not None

    def _go_on(self) -> None:
        if self.stop.requested:
            raise Interrupted

    def _problem(self, what: str, fix: str) -> PreflightError:
        fixes = "; ".join(filter(None, (fix, self._again())))
        return PreflightError("clients", f"not cleaned up: {what}", fixes)

    def _again(self) -> str:
        return f"`storlab clean {self.store.directory}` goes on with it"


def _standing_in(
    gone: Sequence[ClientPlace], there: Sequence[ClientPlace]
) -> Iterator[list[ClientPlace]]:
    """Yield lists of answering hosts under the names of missing ones, each host once per list."""
    for begin in range(0, len(gone), len(there)):
        yield [
            host.model_copy(update={"name": absent.name})
            for absent, host in zip(gone[begin : begin + len(there)], there, strict=False)
        ]

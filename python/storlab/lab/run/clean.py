"""``storlab clean``: removes the data that a finished campaign left on its targets.

On a cluster, each client removes its own data. If a client no longer answers, another one removes
its data in shared directories.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from storlab.base.errors import GuardError, PreflightError, ResultError, StorlabError
from storlab.base.files import shell_word
from storlab.cluster.task import ClientPlace
from storlab.contracts.family import Access
from storlab.contracts.reporter import Reporter
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.run.session import guard_again
from storlab.lab.site.clean import clean_store
from storlab.lab.site.clients import Answers, Clients, ask_each, renumbered
from storlab.lab.site.clients_site import ClientsSite
from storlab.model.cluster import Cluster
from storlab.model.study import StudyBase, Target
from storlab.process.execution import Interrupted, StopRequest
from storlab.results.store import ResultStore
from storlab.stores.home import DataDirectoryLock
from storlab.stores.s3.target import S3Hold
from storlab.stores.sidecar import SUFFIX, DataFileHold


def clean_campaign(
    store: ResultStore, stop: StopRequest, reporter: Callable[[], Reporter]
) -> Cleaned:
    """Remove the data files and objects of a campaign, even with ``keep_data``, but not results.

    If cleaning one target fails, the other targets are still cleaned.

    Raises:
        ResultError: The directory has no campaign, or the campaign is running.
        Interrupted: A stop was requested.
    """
    recorded = store.environment.get("guard")
    if recorded is None:
        raise ResultError(
            str(store.directory),
            "was not created by `storlab run`, so there is no data to remove",
            "give the directory that `storlab run` printed",
        )
    base = Path(recorded["working_directory"])
    cleaned = Cleaned()
    with store.campaign_lock(), reporter() as told:
        if store.study.cluster is not None:
            return clean_clients(store, store.study.cluster, base, recorded, stop, told)
        for target in store.study.target:
            cleaned.attempt(partial(_clean_files, target, base, recorded.get("campaign", "")))
            if target.directory is not None and "campaign" in recorded:
                home = DataDirectoryLock(base / target.directory, recorded["campaign"])
                cleaned.attempt(partial(_clean_home, home, stop))
        clean_stores(store.study, recorded, base, stop, told, cleaned)
    return cleaned


def _clean_home(home: DataDirectoryLock, stop: StopRequest) -> list[str]:
    if not home.path.is_dir():
        return []
    with home:
        return home.clean(stop)


def _clean_files(target: Target, base: Path, campaign: str) -> list[str]:
    """Remove the data files of a target that this campaign created, and nothing else."""
    removed = []
    for path in _data_files(target, base):
        real = Path(os.path.realpath(path))
        if real.exists() and not real.is_file():
            continue
        try:
            with DataFileHold(real, campaign, make=False) as hold:
                if hold.remove():
                    removed.append(str(path))
        except FileNotFoundError:
            continue  # without a sidecar it is not storlab's file
        except OSError as error:
            raise GuardError(
                str(path),
                f"cannot be removed: {error.strerror}",
                "check the permissions of its directory",
            ) from error
    return removed


def _data_files(target: Target, base: Path) -> list[Path]:
    if target.is_null or target.s3 is not None:
        return []
    if target.directory is None:
        return [base / location for location in target.locations]
    # List the sidecars, since only they show how many files with these names the guard created.
    directory = base / target.directory
    sidecars = sorted(directory.glob(f"storlab.*.dat{SUFFIX}"))
    return [path.with_name(path.name.removesuffix(SUFFIX)) for path in sidecars]


@dataclass(slots=True)
class Cleaned:
    """Result of a clean-up: names of what was removed, and errors for what could not be."""

    removed: list[str] = field(default_factory=list)
    problems: list[StorlabError] = field(default_factory=list)

    def attempt(self, clean: Callable[[], list[str]]) -> None:
        """Call a clean-up function; record the names of what it removed, or its StorlabError.

        Other exceptions, such as Interrupted, are raised.
        """
        try:
            self.removed += clean()
        except StorlabError as error:
            self.problems.append(error)


def clean_clients(
    store: ResultStore,
    cluster: Cluster,
    base: Path,
    recorded: dict[str, Any],
    stop: StopRequest,
    reporter: Reporter,
) -> Cleaned:
    """Make each client of a cluster remove its own data, then clean the S3 stores.

    For a client that does not answer, another client removes its data in shared directories. Data
    that only the missing client can reach, and stores that fail, are reported as problems.

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
    # The guard is not entered: clients lock their own files, and stores are locked one by one.
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
        """Make all clients remove the files and folders that they created."""
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
        """Clean up with those clients that answer, after an attempt with all clients failed.

        In shared directories, they also remove the data of the missing clients.
        """
        answers = None
        if len(everybody) > 1 and not self.clients.cluster.is_local:
            self.reporter.note(f"{first.what}: each client is now asked separately")
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
            self.reporter.note(f"{answers.told}; other clients remove its data if it is shared")
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
            what = f"not cleaned up: only {named} can access the data ({answers.told})"
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
        return f"to continue, run `storlab clean {shell_word(self.store.directory)}`"


def _standing_in(
    gone: Sequence[ClientPlace], there: Sequence[ClientPlace]
) -> Iterator[list[ClientPlace]]:
    """Yield batches of clients that stand in for missing clients.

    In a batch, hosts that answer get the names of missing clients; each host occurs once.
    """
    for begin in range(0, len(gone), len(there)):
        yield [
            host.model_copy(update={"name": absent.name})
            for absent, host in zip(gone[begin : begin + len(there)], there, strict=False)
        ]


def clean_stores(
    study: StudyBase,
    recorded: Mapping[str, Any],
    base: Path,
    stop: StopRequest,
    reporter: Reporter,
    cleaned: Cleaned,
) -> None:
    """Remove the campaign's objects from buckets; add failures to the problems of ``cleaned``.

    Args:
        study: Study of the campaign.
        recorded: Record of the campaign's guard.
        base: Directory that relative paths start from.
        stop: Stop request to watch.
        reporter: Receiver of progress.
        cleaned: Result to which names and problems are added.

    Raises:
        Interrupted: A stop was requested.
    """
    # In reverse order, because the first of several targets in a bucket created the bucket.
    for target in reversed(study.target):
        before = recorded.get("s3", {}).get(target.name)
        if before is not None:
            cleaned.attempt(partial(_clean_objects, target, before, base, stop, reporter))


def _clean_objects(
    target: Target, before: Mapping[str, Any], base: Path, stop: StopRequest, reporter: Reporter
) -> list[str]:
    with S3Hold(target, before["campaign"], base, before, cleaning=True) as hold:
        return clean_store(hold, stop, reporter)

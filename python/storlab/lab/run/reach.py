"""Checks of whether a run's target can be reached, from this machine or from the clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from storlab.base.errors import PreflightError
from storlab.lab.guard.guard import Guard
from storlab.lab.site.clients import Clients, ask_each
from storlab.model.study import StudyBase, Target
from storlab.stores.data_file import is_kernel_place
from storlab.stores.filesystems import file_system_of
from storlab.stores.reachability import Absence, device_absence, path_absence, within_limit
from storlab.stores.s3.control import S3Control
from storlab.stores.s3.errors import StoreUnreachableError
from storlab.stores.s3.target import S3Hold

STORE_S = 5.0  # time limit of one request to a store


class Reach(Protocol):
    """Interface of checks of whether all parts of a target answer."""

    def absences(self, target: Target, clients: int | None) -> list[Absence]:
        """Return all parts of a target that do not answer; empty if the target is reachable.

        Args:
            target: Target to check.
            clients: Number of clients of the run; None if this machine generates the load.
        """
        ...


class LocalReach:
    """Checks of whether targets can be reached from this machine. Implements ``Reach``.

    The guard must have been entered, and all targets must answer when this object is created.
    """

    def __init__(self, study: StudyBase, guard: Guard) -> None:
        self._guard = guard
        self._mounts = {
            path: file_system_of(path)
            for target in study.target
            if target.name in guard.access
            for path in self._paths(target)
        }

    def absences(self, target: Target, clients: int | None = None) -> list[Absence]:
        """Return all parts of a target (paths, devices, endpoints) that do not answer."""
        del clients
        probes: list[tuple[str, Callable[[], Absence | None]]] = [
            (str(path), partial(path_absence, path, self._mounts[path]))
            for path in self._paths(target)
        ]
        probes += [
            (hold.name, partial(device_absence, hold.name, hold.device, hold.fd, hold.size_bytes))
            for hold in self._guard.holds
            if hold.target == target.name
        ]
        found = [within_limit(where, probe) for where, probe in probes]
        absences = list(dict.fromkeys(absence for absence in found if absence is not None))
        hold = self._guard.stores.get(target.name)
        return absences if hold is None else [*absences, *store_absences(hold)]

    def _paths(self, target: Target) -> list[Path]:
        access = self._guard.access[target.name]
        paths = [Path(member.path) for member in access.members if member.kind == "file"]
        if target.directory is not None:
            paths.append(self._guard.base / target.directory)
        if target.is_embedded:
            paths.append(Path(self._guard.stores[target.name].record()["embedded"]))
        return paths


def store_absences(hold: S3Hold) -> Iterator[Absence]:
    """Yield the endpoints of an S3 store that do not answer, or where only a proxy answers."""
    store = hold.access.store
    for endpoint in store.endpoints:
        try:
            S3Control(store.model_copy(update={"endpoints": [endpoint]}), STORE_S).bucket_exists()
        except StoreUnreachableError as error:
            yield Absence(endpoint, error.what, returns=hold.server is None)
        except PreflightError:
            pass  # it answers; a refusal is a failure of the run itself


class ClientsReach:
    """Checks of whether targets can be reached from the clients of a cluster.

    Each client is asked separately. Implements ``Reach``.
    """

    def __init__(
        self,
        clients: Clients,
        guard: Guard,
        question: Callable[[Target], dict[str, Any]],
        work: Path,
        go_on: Callable[[], None],
    ) -> None:
        """Store what the checks need, without asking clients.

        Args:
            clients: Clients of the cluster.
            guard: Guard, already entered.
            question: Function that returns the arguments of a ``check`` task for a target.
            work: Working directory.
            go_on: Function that raises to end a check early.
        """
        self._clients = clients
        self._guard = guard
        self._question = question
        self._work = work
        self._go_on = go_on

    def absences(self, target: Target, clients: int | None) -> list[Absence]:
        """Return the clients that do not answer, and what the others cannot reach of a target."""
        hold = self._guard.stores.get(target.name)
        found = [] if hold is None else list(store_absences(hold))
        if found:
            return found
        count = 1 if self._clients.cluster.is_local else clients or self._clients.most
        chosen = self._clients.places(count)
        question = self._question(target)
        answers = ask_each(self._clients, chosen, self._work / "reach", question, self._go_on)
        found = [Absence(name, why) for name, why in answers.silent.items()]
        for name, facts in answers.facts.items():
            found += [replace(a, where=f"{name}: {a.where}") for a in client_absences(facts)]
        return found


def client_absences(facts: dict[str, Any]) -> Iterator[Absence]:
    """Yield what a client cannot reach, according to its answer to a ``check`` task."""
    for directory, mounted in facts["mounts"].items():
        if mounted is None and facts["mount"] is not None:
            why = f"nothing is mounted there, nor between it and {directory}"
            yield Absence(facts["mount"], why)
    for directory, why in facts["unreachable"].items():
        yield Absence(directory, why)
    for path, device in facts["devices"].items():
        if not device and is_kernel_place(Path(path)):
            yield Absence(path, "is not a block device")
    for endpoints in facts["stores"].values():
        for endpoint, answer in endpoints.items():
            if answer["unreachable"]:
                yield Absence(endpoint, answer["problem"])

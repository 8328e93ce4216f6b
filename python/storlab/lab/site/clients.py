"""Tasks on the clients of a cluster; each task is executed by a separate mpiexec process."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns
from storlab.base.errors import ResultError
from storlab.base.units import NS_PER_S, format_duration
from storlab.cluster.mpiexec import Launcher, Ranks, find_launcher
from storlab.cluster.places import client_counts, client_hosts, places
from storlab.cluster.session import Gathered, Session, program
from storlab.cluster.task import ClientPlace, Order, Task, input_file
from storlab.contracts.reporter import Reporter
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.verification import Written, handed_on, merged
from storlab.model.cluster import Cluster
from storlab.model.result import VerifyReport
from storlab.process.execution import POLL_S, Interrupted, StopRequest
from storlab.stores.directory_lease import WAITS

RANK = "storlab.lab.site.rank"
ASK_STORES_NS = 6 * NS_PER_S
ANSWER_NS = 60 * NS_PER_S  # from mpiexec until a client has sent all its facts
_AT_ONCE = 8
_NAMED = 5  # clients that are named with a reason
_LOOK_S = 0.02
SILENT_FIX = (
    "check that it is up, can be reached without a password (`ssh HOST true`) and has the same "
    "storlab, or remove it from [cluster]"
)


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients of a study's cluster, and the MPI launcher that starts tasks on them."""

    cluster: Cluster
    hosts: list[str]
    launcher: Launcher

    @classmethod
    def of(cls, cluster: Cluster, base: Path) -> Clients:
        """Find the hosts and the MPI launcher of a cluster.

        Raises:
            StudyError: The list of hosts cannot be read.
            EngineError: No launcher was found.
        """
        kind = cluster.launcher
        return cls(cluster, client_hosts(cluster, base), find_launcher(cluster.mpiexec, kind))

    @property
    def most(self) -> int:
        """Largest number of clients that the study uses."""
        return max(client_counts(self.cluster, self.hosts))

    def places(self, count: int) -> list[ClientPlace]:
        """Return the first ``count`` clients."""
        return places(self.cluster, self.hosts, count)

    def begin(
        self,
        task: Task,
        chosen: Sequence[ClientPlace],
        directory: Path,
        arguments: dict[str, Any],
        inputs: Mapping[int, bytes] | None = None,
    ) -> Session:
        """Start a task on given clients, and return its session.

        Args:
            task: Name of the task.
            chosen: Clients with ranks 1, 2, ...
            directory: Directory to create for the task; an existing one is replaced.
            arguments: Arguments of the task, the same for all clients.
            inputs: Additional content for single clients, by rank.

        Raises:
            ResultError: The directory cannot be written.
        """
        try:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            for rank, content in (inputs or {}).items():
                input_file(directory, rank).write_bytes(content)
        except OSError as error:
            what = f"the files for the clients cannot be written: {error.strerror}"
            fix = "check free space and permissions there"
            raise ResultError(str(directory), what, fix) from error
        cluster = self.cluster
        order = Order(
            task=task,
            work_dir=str(directory),
            clients=list(chosen),
            lost_after_ns=cluster.lost_after,
            arm_within_ns=cluster.arm_within,
            nonce=os.urandom(6).hex(),
            arguments=arguments,
            facts_within_ns=ASK_STORES_NS if task == "check" and arguments.get("granted") else 0,
        )
        ranks = Ranks(
            hosts=self.hosts if cluster.is_local else [place.host for place in chosen],
            clients=len(chosen),
            mpi_args=cluster.mpi_args,
            agent=cluster.launch_agent,
            interface=cluster.interface,
        )
        words = [*program(cluster.python, RANK), task]
        return Session(self.launcher, ranks, words, order, directory)


@dataclass(frozen=True, slots=True)
class ClientTaskCall:
    """Call of a task without load, such as ``prepare`` or ``clean``, on given clients."""

    task: Task
    where: str  # name of the target, for messages
    chosen: list[ClientPlace]
    arguments: dict[str, Any]
    inputs: Mapping[int, bytes] = field(default_factory=dict)

    def carry_out(
        self, clients: Clients, directory: Path, stop: StopRequest, reporter: Reporter | None
    ) -> list[ClientReport]:
        """Execute the task on all its clients and return their reports.

        Args:
            clients: Clients of the cluster.
            directory: Working directory, which is removed at the end.
            stop: Stop request to watch.
            reporter: Receiver of progress, or None.

        Returns:
            Reports in the order of the clients.

        Raises:
            PrepareError: A client failed; the error names it.
            Interrupted: A stop was requested.
        """
        session = clients.begin(self.task, self.chosen, directory, self.arguments, self.inputs)
        try:
            gathered = _await(session, stop, reporter)
        finally:
            session.end()
            shutil.rmtree(directory, ignore_errors=True)
        if stop.requested:
            raise Interrupted
        if gathered.failure is not None:
            raise PrepareError(self.where, gathered.failure)
        reports = [ClientReport.unpack(gathered.outcomes[place.rank]) for place in self.chosen]
        for place, report in zip(self.chosen, reports, strict=True):
            if (failure := report.failure_on(place.name)) is not None:
                raise PrepareError(self.where, failure)
            for note in report.notes:
                if reporter is not None:
                    reporter.note(f"{place.name}: {note}")
        return reports


def _await(session: Session, stop: StopRequest, reporter: Reporter | None) -> Gathered:
    shown = ""
    while (gathered := session.wait(POLL_S)) is None:
        if stop.requested:
            session.stop()
        live = session.live()["clients"].values()
        waits = next((c["text"] for c in live if c.get("text", "").startswith(WAITS)), "")
        if waits != shown and reporter is not None:
            shown = waits
            reporter.note(waits)
        done, total = (sum(c.get(key) or 0.0 for c in live) for key in ("done", "total"))
        if total and reporter is not None:
            reporter.step_progress(done / len(live), None)
    return gathered


def read_again(
    clients: Clients,
    written: Sequence[Written],
    target: str,
    arguments: dict[str, Any],
    directory: Path,
    stop: StopRequest,
    reporter: Reporter | None = None,
) -> VerifyReport:
    """Verify written blocks: each client rereads what the client before it wrote.

    Raises the errors of ``ClientTaskCall.carry_out``.
    """
    chosen = clients.places(clients.most)
    last = max(place.rank for place in chosen if place.name in {w.writer for w in written})
    chosen = clients.places(last)
    call = ClientTaskCall("verify", target, chosen, arguments, handed_on(written, chosen))
    whole: VerifyReport | None = None
    for report in call.carry_out(clients, directory, stop, reporter):
        if report.reread is not None:
            whole = merged(whole, report.reread.report)
    return whole or VerifyReport(checked_blocks=0)


@dataclass(slots=True)
class Answers:
    """Answers of clients to a ``check`` task: facts, or why there is no answer, by client name."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """Sentence that names the clients that do not answer, with reasons for the first five."""
        known = list(self.silent.items())
        parts = [f"{name} does not answer: {why}" for name, why in known[:_NAMED]]
        if others := [name for name, _ in known[_NAMED:]]:
            parts.append(f"{', '.join(others)} {'do' if others[1:] else 'does'} not answer")
        return "; ".join(parts)


def ask_each(
    clients: Clients,
    chosen: Sequence[ClientPlace],
    directory: Path,
    arguments: dict[str, Any],
    go_on: Callable[[], None] = lambda: None,
) -> Answers:
    """Run a ``check`` task on each client separately, so that silent clients are found.

    A client has the time ``ANSWER_NS`` to answer.

    Args:
        clients: Clients of the cluster.
        chosen: Clients to ask.
        directory: Working directory, which is removed at the end.
        arguments: Arguments of the task.
        go_on: Function that is called regularly; an exception from it ends all tasks.
    """
    answers = Answers()
    waiting = list(chosen)
    asked: dict[str, tuple[Session, int]] = {}
    try:
        while waiting or asked:
            while waiting and len(asked) < _AT_ONCE:
                place = waiting.pop(0)
                alone = renumbered([place])
                session = clients.begin("check", alone, directory / place.name, arguments)
                asked[place.name] = session, monotonic_ns() + ANSWER_NS
            for name, (session, deadline_ns) in list(asked.items()):
                go_on()
                gathered = session.wait(_LOOK_S)
                if gathered is not None:
                    _take(answers, name, gathered)
                elif monotonic_ns() > deadline_ns:
                    answers.silent[name] = f"it did not respond for {format_duration(ANSWER_NS)}"
                    session.end()
                else:
                    continue
                del asked[name]
    finally:
        for session, _ in asked.values():
            session.end()
        shutil.rmtree(directory, ignore_errors=True)
    return answers


def _take(answers: Answers, name: str, gathered: Gathered) -> None:
    if gathered.failure is not None:
        answers.silent[name] = gathered.failure.message.removeprefix(f"{name}: ")
    else:
        answers.facts[name] = json.loads(gathered.outcomes[1])


def renumbered(chosen: Sequence[ClientPlace]) -> list[ClientPlace]:
    """Return the clients with new ranks 1, 2, ..., for a task on only these clients."""
    return [place.model_copy(update={"rank": rank}) for rank, place in enumerate(chosen, 1)]

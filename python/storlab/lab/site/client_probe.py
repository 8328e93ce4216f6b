"""Check of which clients answer: each is asked separately, so one failure does not hide others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S, format_duration
from storlab.cluster.session import Gathered, Session
from storlab.cluster.task import ClientPlace
from storlab.lab.site.clients import Clients

ANSWER_NS = 60 * NS_PER_S  # from mpiexec until a client has sent all its facts
_AT_ONCE = 8
_NAMED = 5  # clients that are named with a reason
_LOOK_S = 0.02
FIX = (
    "see whether it is up, reached without a password, and has the same storlab (`ssh HOST true`), "
    "or leave it out of [cluster]"
)


@dataclass(slots=True)
class Answers:
    """Answers of clients: facts by name, or the reason why there is no answer."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """Describe the clients that do not answer, with the reasons of the first five."""
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
    """Run a ``check`` task on each client separately, with a time limit of ``ANSWER_NS``.

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
                session = clients.begin_on("check", alone, directory / place.name, arguments)
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
    """Return the clients with ranks from 1 on, for a task of their own."""
    return [place.model_copy(update={"rank": rank}) for rank, place in enumerate(chosen, 1)]

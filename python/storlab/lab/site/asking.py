"""Which clients answer: each is asked by itself, so that one that does not hides no other."""

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

ANSWER_NS = 60 * NS_PER_S  # from mpiexec to all that a client says of itself
_AT_ONCE = 8
_NAMED = 5  # with what is known of why
_LOOK_S = 0.02
FIX = (
    "see whether it is up, reached without a password, and has the same storlab (`ssh HOST true`), "
    "or leave it out of [cluster]"
)


@dataclass(slots=True)
class Answers:
    """By client: what it is, or why nothing is known of it."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """Who does not answer, in words; of many the reasons of the first."""
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
    """Start a check on each of these clients alone, and give it ANSWER_NS to answer.

    ``directory`` is removed at the end. ``go_on`` is called all the while; what it raises ends all.
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
                    answers.silent[name] = f"it said nothing for {format_duration(ANSWER_NS)}"
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
    """The same clients with ranks from 1 on, for a task of their own."""
    return [place.model_copy(update={"rank": rank}) for rank, place in enumerate(chosen, 1)]

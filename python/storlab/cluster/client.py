"""Connection of a client to rank 0: reports progress, receives start and stop messages."""

from __future__ import annotations

import json
import os
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.units import NS_PER_S
from storlab.cluster import messages
from storlab.cluster.controller import start_of
from storlab.cluster.link import CONTROLLER, NAP_S, ClientsSilent, Link
from storlab.cluster.task import ClientPlace, Order
from storlab.process.execution import Interrupted, StopRequest

SNAPSHOT_NS = NS_PER_S


class ClientEnd:
    """Client's connection to rank 0 during one task.

    ``stop`` is requested if rank 0 sends a stop message, or sends nothing for too long.
    """

    def __init__(self, link: Link, stop: StopRequest) -> None:
        self._link = link
        self.stop = stop
        self.started = False
        self._said_ns = 0
        link.warm_up(monotonic_ns() + 60 * NS_PER_S)
        text = link.broadcast(messages.ORDER, None, monotonic_ns() + 60 * NS_PER_S)
        self.order = Order.model_validate_json(text)
        self.received_ns = monotonic_ns()

    @property
    def place(self) -> ClientPlace:
        """Return this client's entry in the task's list of clients."""
        return next(c for c in self.order.clients if c.rank == self._link.rank)

    def deadline(self) -> int:
        """Return the time in ns after which rank 0 counts as lost if it sends no message."""
        return monotonic_ns() + 2 * self.order.lost_after_ns

    def give_facts(self, facts: dict[str, Any]) -> None:
        """Send rank 0 this client's facts and its process id, to identify it in mpiexec's output.

        Args:
            facts: Software versions, CPU, memory and network of this machine, as JSON values.
        """
        content = json.dumps({**facts, "pid": os.getpid()}).encode()
        self._link.gather(messages.FACTS, content, self.deadline())

    def take_input(self) -> bytes:
        """Receive the input that rank 0 sends to this client only; it may be empty."""
        return self._link.broadcast(messages.INPUTS, None, self.deadline())

    def barrier(self) -> None:
        """Wait until all clients have called this method."""
        self._link.barrier(self.deadline() + self.order.facts_within_ns)

    def give_seen(self, seen: list[str]) -> None:
        """Answer two clock measurements, then report whose test files this client sees.

        Args:
            seen: Names of clients whose test file exists in every shared directory.
        """
        self._link.answer_offsets(self.deadline() + self.order.clocks_ns)
        self._link.answer_offsets(self.deadline() + self.order.clocks_ns)
        self._link.gather(messages.SHARED, json.dumps(seen).encode(), self.deadline())

    def listen(self) -> None:
        """Receive pending messages of rank 0; request a stop if one says so or rank 0 is lost."""
        while (message := self._link.try_receive(messages.BEAT, CONTROLLER)) is not None:
            if message[1] == messages.STOP_LOAD:
                self.stop.ask()
        if self._controller_is_lost():
            self.stop.ask()

    def tell(self, snapshot: dict[str, Any], *, now: bool = False) -> None:
        """Send rank 0 a progress snapshot without blocking.

        Args:
            snapshot: Progress as JSON values.
            now: Send at once; otherwise at most one snapshot per second is sent.
        """
        self.listen()
        time_ns = monotonic_ns()
        due = now or time_ns - self._said_ns >= SNAPSHOT_NS
        if due and self._link.pending(CONTROLLER) == 0:
            self._said_ns = time_ns
            self._link.send(CONTROLLER, messages.SNAPSHOT, json.dumps(snapshot).encode())

    def ask(self, tag: int, content: bytes) -> None:
        """Send rank 0 a message that it will answer, without blocking; see ``answer``."""
        self._link.send(CONTROLLER, tag, content)

    def answer(self, tag: int) -> bytes | None:
        """Return the answer of rank 0, or None if it has not arrived."""
        message = self._link.try_receive(tag, CONTROLLER)
        return None if message is None else message[1]

    def wait_for_start(self) -> int:
        """Report readiness to rank 0 and wait for the start time of the load.

        Returns:
            The start time in ns of this machine's CLOCK_MONOTONIC.

        Raises:
            Interrupted: A stop was requested first.
        """
        self._link.send(CONTROLLER, messages.ARMED, b"")
        self._await(messages.CLOCK)
        self._link.answer_offsets(self.deadline() + self.order.clocks_ns)
        start_ns = start_of(self._await(messages.START))
        self.started = True
        return start_ns

    def _await(self, tag: int) -> bytes:
        while True:
            message = self._link.try_receive(tag, CONTROLLER)
            if message is not None:
                return message[1]
            self.tell({"phase": "armed"})
            if self.stop.requested:
                raise Interrupted
            sleep_s(NAP_S)

    def end(self, outcome: bytes) -> None:
        """Send rank 0 the outcome of the task, and finalise MPI together with the other ranks.

        Raises:
            ClientsSilent: Rank 0 does not answer.
        """
        self._link.send(CONTROLLER, messages.OUTCOME, outcome)
        self._link.flush(self.deadline())
        self.leave()

    def leave(self) -> None:
        """Wait until rank 0 ends the task, then finalise MPI.

        Raises:
            ClientsSilent: Rank 0 does not answer.
        """
        while self._link.try_receive(messages.END, CONTROLLER) is None:
            if self._link.try_receive(messages.CLOCK, CONTROLLER) is not None:
                self._link.answer_offsets(self.deadline() + self.order.clocks_ns)
            self.listen()
            if self._controller_is_lost():
                raise ClientsSilent([CONTROLLER], "the message that ends the task")
            sleep_s(NAP_S)
        self._link.finish(self.deadline())

    def _controller_is_lost(self) -> bool:
        heard_ns = self._link.received_ns.get(CONTROLLER, self.received_ns)
        return monotonic_ns() - heard_ns > 2 * self.order.lost_after_ns

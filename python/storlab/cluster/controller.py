"""Rank 0 of a cluster task: synchronises clients and writes their messages to files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.files import replace_file
from storlab.base.units import NS_PER_S
from storlab.cluster import messages
from storlab.cluster.link import ClientsSilent, Link
from storlab.cluster.meetings import Meetings
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import (
    CLOCKS,
    LIVE,
    LOST,
    PIDS,
    STOP,
    Order,
    input_file,
    outcome_file,
)

BEAT_NS = NS_PER_S // 2
SHOW_NS = NS_PER_S // 4
AWAY_NS = NS_PER_S // 4
LEAD_NS = 50_000_000  # time from the last ping to the common start
# Start messages are sent one after the other, so each client adds to the time before the start.
LEAD_PER_CLIENT_NS = 2_000_000
_TIME = struct.Struct("<q")


class Controller:
    """Rank 0 of one task: starts all clients, stores their outcomes, detects lost clients."""

    def __init__(self, link: Link, order: Order) -> None:
        self._link = link
        self._order = order
        self._directory = Path(order.work_dir)
        self._names = {client.rank: client.name for client in order.clients}
        link.names.update(self._names)
        self._phase = "connect"
        self._live: dict[int, dict[str, Any]] = {}
        self._armed: set[int] = set()
        self._ended: set[int] = set()
        self._started = False
        self._stopping = False
        self._beat_ns = self._shown_ns = self._looked_ns = 0
        self._clocks: list[dict[int, ClockOffset]] = []
        self._facts: dict[int, bytes] = {}
        self._meetings = Meetings(link, set(self._names))

    def run(self) -> bool:
        """Execute the task on all clients.

        Returns:
            False if a client stopped responding. The file LOST names it; the caller must end all
            ranks.
        """
        try:
            facts = self._gather_facts()
            if self._order.task == "check":
                self._save_outcomes(facts)
            else:
                if self._order.takes_inputs:
                    self._link.send_each(messages.INPUTS, self._inputs(), self._deadline())
                self._follow()
            self._send_all(messages.END)
            self._link.finish(self._deadline())
        except ClientsSilent as error:
            # Leave out the facts of lost clients; with them, the check would look complete.
            if self._order.task == "check":
                kept = {rank: text for rank, text in self._facts.items() if rank not in error.ranks}
                self._save_outcomes(kept)
            silent = {self._names.get(rank, f"rank {rank}"): error.what for rank in error.ranks}
            after_ns = self._order.lost_after_ns
            lost = {"phase": self._phase, "clients": silent, "after_ns": after_ns}
            self._write(LOST, lost)
            return False
        return True

    def _measure_offsets(self) -> dict[int, ClockOffset]:
        return self._link.measure_offsets(self._deadline() + self._order.clocks_ns)

    def _deadline(self) -> int:
        return monotonic_ns() + self._order.lost_after_ns

    def _gather_facts(self) -> dict[int, bytes]:
        """Send the task description to all clients, and return each client's facts as JSON.

        MPI connects ranks at their first message, so ``warm_up`` makes the connections first.
        """
        self._show()
        self._link.warm_up(self._deadline())
        text = self._order.model_dump_json().encode()
        self._phase = "facts"
        self._link.broadcast(messages.ORDER, text, self._deadline())
        extra_ns = self._order.facts_within_ns
        facts = self._link.gather(messages.FACTS, None, self._deadline() + extra_ns)
        self._facts = facts
        pids = {self._names[rank]: json.loads(text)["pid"] for rank, text in facts.items()}
        self._write(PIDS, pids)
        if self._order.task != "check":
            return facts
        self._phase = "check"
        self._link.barrier(self._deadline())  # now each client has created its test files
        for _ in range(2):
            self._clocks.append(self._measure_offsets())
        self._save_clocks()
        seen = self._link.gather(messages.SHARED, None, self._deadline())
        return {
            rank: json.dumps({**json.loads(text), "sees": json.loads(seen[rank])}).encode()
            for rank, text in facts.items()
        }

    def _inputs(self) -> dict[int, bytes]:
        files = {rank: input_file(self._directory, rank) for rank in self._names}
        return {rank: file.read_bytes() if file.exists() else b"" for rank, file in files.items()}

    def _follow(self) -> None:
        """Exchange messages with the clients until each has sent its outcome."""
        self._phase = "arm" if self._order.loads else "work"
        now = monotonic_ns()
        self._link.received_ns.update(dict.fromkeys(self._names, now))
        self._looked_ns = now
        while len(self._ended) < len(self._names):
            self._take_messages()
            self._beat()
            if not self._started and self._armed == set(self._names):
                self._start()
            if self._started:
                self._meetings.look(self._clocks[0], self._ended)
                self._stopping |= self._meetings.broken
            self._check_silence()
            self._show()
            sleep_s(self._meetings.nap_s)
        if self._started:
            self._phase = "clocks"
            self._send_all(messages.CLOCK)
            self._clocks.append(self._measure_offsets())
            self._save_clocks()

    def _take_messages(self) -> None:
        while (message := self._link.try_receive(messages.SNAPSHOT)) is not None:
            self._live[message[0]] = json.loads(message[1])
        while (message := self._link.try_receive(messages.ARMED)) is not None:
            self._armed.add(message[0])
        while (message := self._link.try_receive(messages.OUTCOME)) is not None:
            rank, content = message
            self._save_outcomes({rank: content})
            self._ended.add(rank)
            # A load needs all clients: if one ends before the start, all must stop.
            self._stopping |= self._order.loads and not self._started

    def _start(self) -> None:
        """Measure the clients' clock offsets, and send each the start time on its own clock."""
        self._send_all(messages.CLOCK)
        offsets = self._measure_offsets()
        self._clocks.append(offsets)
        lead_ns = LEAD_NS + LEAD_PER_CLIENT_NS * len(self._names)
        start_ns = monotonic_ns() + lead_ns
        for rank, offset in offsets.items():
            self._link.send(rank, messages.START, _TIME.pack(offset.client_ns(start_ns)))
        self._link.flush(self._deadline())
        self._started = True
        self._phase = "load"
        self._save_clocks()

    def _beat(self) -> None:
        now = monotonic_ns()
        stopping = self._stopping or (self._directory / STOP).exists()
        if now - self._beat_ns < BEAT_NS and stopping == self._stopping:
            return
        self._beat_ns, self._stopping = now, stopping
        for rank in self._names:
            # A client with four unsent messages does not receive: more would only fill memory.
            if self._link.pending(rank) < 4:
                content = messages.STOP_LOAD if stopping else b""
                self._link.send(rank, messages.BEAT, content)

    def _send_all(self, tag: int) -> None:
        for rank in self._names:
            self._link.send(rank, tag, b"")

    def _check_silence(self) -> None:
        now = monotonic_ns()
        received_ns = self._link.received_ns
        if now - self._looked_ns > AWAY_NS:
            # This process was not scheduled for a while. That time is not the clients' silence:
            # their messages may have arrived without having been received.
            for rank in self._names:
                received_ns[rank] = received_ns.get(rank, 0) + now - self._looked_ns
        self._looked_ns = now
        silent = [
            rank
            for rank in set(self._names) - self._ended
            if now - received_ns.get(rank, 0) > self._order.lost_after_ns
        ]
        if silent:
            raise ClientsSilent(silent, f"phase: {self._phase}", names=self._names)

    def _show(self) -> None:
        now = monotonic_ns()
        if now - self._shown_ns < SHOW_NS:
            return
        self._shown_ns = now
        received_ns = self._link.received_ns
        clients = {
            name: {
                **self._live.get(rank, {}),
                "silent_ns": now - received_ns.get(rank, now),
                "ended": rank in self._ended,
            }
            for rank, name in self._names.items()
        }
        self._write(LIVE, {"phase": self._phase, "armed": len(self._armed), "clients": clients})

    def _save_outcomes(self, outcomes: dict[int, bytes]) -> None:
        for rank, content in outcomes.items():
            replace_file(outcome_file(self._directory, rank), content, durable=False)

    def _save_clocks(self) -> None:
        measured = [
            {
                self._names[rank]: [offset.offset_ns, offset.round_trip_ns]
                for rank, offset in offsets.items()
            }
            for offsets in self._clocks
        ]
        self._write(CLOCKS, measured)

    def _write(self, name: str, content: object) -> None:
        replace_file(self._directory / name, json.dumps(content).encode(), durable=False)


def start_of(message: bytes) -> int:
    """Return the start time in ns that a START message contains."""
    return int(_TIME.unpack(message)[0])

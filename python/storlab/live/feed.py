"""What the page shows, and those who watch it: each has a queue of its own, and nobody waits."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from queue import Empty, Full, Queue
from typing import Any

from storlab.contracts.reporter import Gauge

MOST_MOMENTS = 1_800  # half an hour of them
MOST_RUNS = 200
MOST_NOTES = 30
QUEUE_LENGTH = 32  # events that a watcher may be behind
TOO_SLOW = "this watcher was too slow, and was let go; what it missed comes when it asks again"


MOMENT = (
    "at_ms",
    "bytes_s",
    "operations_s",
    "p99_ns",
    "heat",
    "device_read_s",
    "device_written_s",
    "cpu_percent",
    "power_w",
    "celsius",
    "phase",
    "run",
    "flush_p99_ns",
)
"""What a moment holds, in order: a list is a third of an object. None: not known then.

``heat`` is the latency of the interval: the lowest bin that has any (of ``Snapshot``), and from it
on a digit for each bin, 0 for none of the operations to 9 for all of them.
"""


@dataclass(slots=True)
class State:
    """All that a page needs to draw itself, in plain values. Bounded, however long it goes on."""

    study: str
    version: str
    stage: str = "begins"  # begins, prepares, runs, concludes, is over
    planned: int = 0
    done: int = 0  # runs that are stored, those of former sessions too
    earlier: int = 0  # of them: before this session
    failed: int = 0
    left_s: float = 0.0
    step: dict[str, Any] | None = None  # text, done, total
    run: dict[str, Any] | None = None  # id, number, target, workload, name, unit, expected_s, at_ms
    phase: str = ""
    dips: list[list[int]] = field(default_factory=list)  # from, to, in ms as at_ms; as in the brief
    held: dict[int, dict[str, list[list[int]]]] = field(default_factory=dict)
    """By number of a run and kind of flag when it held, in ms as at_ms. A run or a kind that is not
    in it held all along, or nobody knows when."""
    moments: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=MOST_MOMENTS))
    runs: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_RUNS))
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_NOTES))
    gauges: list[Gauge] = field(default_factory=list)
    over: dict[str, Any] | None = None  # text, sentences, brief

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        names = self.__slots__
        kept = {name: getattr(self, name) for name in names if name != "gauges"}
        plain = {k: list(v) if isinstance(v, deque) else v for k, v in kept.items()}
        return {**plain, "fields": MOMENT}


class Watcher:
    """One who watches: takes events from a bounded queue, until there are none to come."""

    def __init__(self, loads_brief: bool = False) -> None:
        self.loads_brief = loads_brief
        self.dropped = False
        self._events: Queue[bytes | None] = Queue(QUEUE_LENGTH)

    def offer(self, event: bytes | None) -> bool:
        """Give an event, or None as the last; False where too many wait: then all are let go."""
        try:
            self._events.put_nowait(event)
        except Full:
            self.dropped = True
            self._clear()
            self._events.put_nowait(_event("dropped", {"why": TOO_SLOW}))
            self._events.put_nowait(None)
            return False
        return True

    def take(self, timeout_s: float | None = None) -> bytes | None:
        """The next event; None at the end. Raises queue.Empty after ``timeout_s``."""
        return self._events.get(timeout=timeout_s)

    def _clear(self) -> None:
        while True:
            try:
                self._events.get_nowait()
            except Empty:
                return


class Feed:
    """The state, and its watchers. Safe for threads; no call waits for a watcher."""

    def __init__(self, study: str, version: str) -> None:
        self._state = State(study, version)
        self._watchers: set[Watcher] = set()
        self._lock = threading.Lock()
        self._closed = False

    def watch(self, *, loads_brief: bool = False) -> Watcher:
        """A new watcher, whose first event is the whole state."""
        watcher = Watcher(loads_brief)
        with self._lock:
            watcher.offer(_event("state", self._state.plain()))
            if self._closed:
                watcher.offer(None)
            else:
                self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """It watches no longer."""
        with self._lock:
            self._watchers.discard(watcher)

    @property
    def watchers(self) -> list[Watcher]:
        """Who watches."""
        with self._lock:
            return list(self._watchers)

    def moment(self, values: list[Any], gauges: list[Gauge], **news: Any) -> None:
        """One more moment of the course over time, and what else has changed."""
        with self._lock:
            self._state.moments.append(values)
            self._state.gauges = gauges
            self._set(news)
            self._tell("moment", {"moment": values, **news})

    def news(self, **news: Any) -> None:
        """Fields of the state that have changed."""
        with self._lock:
            self._set(news)
            self._tell("news", news)

    def run_ended(self, row: dict[str, Any], **news: Any) -> None:
        """One more row of the table of runs."""
        with self._lock:
            self._state.runs.append(row)
            self._set(news)
            self._tell("run", {"row": row, **news})

    def note(self, text: str) -> None:
        """Something that the user should know."""
        with self._lock:
            self._state.notes.append(text)
            self._tell("note", {"text": text})

    def earlier(self, rows: list[dict[str, Any]]) -> None:
        """Runs of former sessions, before anybody watches."""
        with self._lock:
            self._state.runs.extend(rows)

    def view(self) -> State:
        """The state as it stands, with its last moment only, and without rows and notes."""
        with self._lock:
            last = list(self._state.moments)[-1:]
            return replace(self._state, moments=deque(last), runs=deque(), notes=deque())

    def close(self) -> None:
        """No event comes after this."""
        with self._lock:
            self._closed = True
            for watcher in self._watchers:
                watcher.offer(None)
            self._watchers.clear()

    def _set(self, news: Mapping[str, Any]) -> None:
        for name, value in news.items():
            setattr(self._state, name, value)

    def _tell(self, kind: str, value: Mapping[str, Any]) -> None:
        if not self._watchers:
            return
        event = _event(kind, value)
        self._watchers = {watcher for watcher in self._watchers if watcher.offer(event)}


def _event(kind: str, value: Mapping[str, Any]) -> bytes:
    """Of server-sent events. JSON has no line breaks, so that no name can end an event."""
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()

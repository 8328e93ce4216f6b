"""State of a running campaign and its subscribers, each with a queue of its own.

No call blocks on a slow subscriber.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from queue import Empty, Full, Queue
from typing import Any

from storlab.contracts.reporter import Gauge

MOST_MOMENTS = 1_800  # half an hour at one per second
MOST_RUNS = 200
MOST_NOTES = 30
QUEUE_LENGTH = 32  # events queued per watcher before it is dropped
TOO_SLOW = (
    "this browser was too slow and was disconnected; it receives what it missed when it reconnects"
)


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
"""Fields of a moment, in order; a list takes a third of the size of an object.

A value is None if unknown. ``heat`` is the latency of the interval: the index of the lowest
non-empty bin (of ``Snapshot``), then a digit per bin from there, 0 for none of the operations up to
9 for all.
"""


@dataclass(slots=True)
class State:
    """Everything a page needs to draw itself, as plain values of bounded size."""

    study: str
    version: str
    stage: str = "begins"  # begins, prepares, runs, concludes, is over
    planned: int = 0
    done: int = 0  # stored runs, including earlier sessions'
    earlier: int = 0  # those of earlier sessions
    failed: int = 0
    left_s: float = 0.0
    step: dict[str, Any] | None = None  # text, done, total
    run: dict[str, Any] | None = None  # id, number, target, workload, name, unit, expected_s, at_ms
    phase: str = ""
    # Start and end in ms like at_ms; found as in the brief.
    dips: list[list[int]] = field(default_factory=list)
    held: dict[int, dict[str, list[list[int]]]] = field(default_factory=dict)
    """Times at which flags applied, by run number and flag kind, in ms like at_ms.

    If a run or kind is missing, the flag applied throughout or its times are unknown.
    """
    moments: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=MOST_MOMENTS))
    runs: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_RUNS))
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_NOTES))
    gauges: list[Gauge] = field(default_factory=list)
    over: dict[str, Any] | None = None  # text, sentences, brief

    def plain(self) -> dict[str, Any]:
        """Return the state as plain values for JSON."""
        names = self.__slots__
        kept = {name: getattr(self, name) for name in names if name != "gauges"}
        plain = {k: list(v) if isinstance(v, deque) else v for k, v in kept.items()}
        return {**plain, "fields": MOMENT}


class Watcher:
    """Subscriber of a feed: takes events from a bounded queue until the last one."""

    def __init__(self, loads_brief: bool = False) -> None:
        self.loads_brief = loads_brief
        self.dropped = False
        self._events: Queue[bytes | None] = Queue(QUEUE_LENGTH)

    def offer(self, event: bytes | None) -> bool:
        """Queue an event, or None as the last one.

        If the queue is full, it is cleared and closed with a "dropped" event, and False is
        returned.
        """
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
        """Return the next event, or None at the end.

        Raises:
            queue.Empty: No event came within ``timeout_s``.
        """
        return self._events.get(timeout=timeout_s)

    def _clear(self) -> None:
        while True:
            try:
                self._events.get_nowait()
            except Empty:
                return


class Feed:
    """State of a campaign and its watchers. Thread-safe; no call waits for a watcher."""

    def __init__(self, study: str, version: str) -> None:
        self._state = State(study, version)
        self._watchers: set[Watcher] = set()
        self._lock = threading.Lock()
        self._closed = False

    def watch(self, *, loads_brief: bool = False) -> Watcher:
        """Return a new watcher, whose first event is the whole state."""
        watcher = Watcher(loads_brief)
        with self._lock:
            watcher.offer(_event("state", self._state.plain()))
            if self._closed:
                watcher.offer(None)
            else:
                self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Unsubscribe a watcher from the feed."""
        with self._lock:
            self._watchers.discard(watcher)

    @property
    def watchers(self) -> list[Watcher]:
        """Watchers that are currently subscribed."""
        with self._lock:
            return list(self._watchers)

    def moment(self, values: list[Any], gauges: list[Gauge], **news: Any) -> None:
        """Publish one more moment of the time series and other changed fields."""
        with self._lock:
            self._state.moments.append(values)
            self._state.gauges = gauges
            self._set(news)
            self._tell("moment", {"moment": values, **news})

    def news(self, **news: Any) -> None:
        """Publish changed fields of the state to all watchers."""
        with self._lock:
            self._set(news)
            self._tell("news", news)

    def run_ended(self, row: dict[str, Any], **news: Any) -> None:
        """Publish a finished run as a new row of the table of runs."""
        with self._lock:
            self._state.runs.append(row)
            self._set(news)
            self._tell("run", {"row": row, **news})

    def note(self, text: str) -> None:
        """Publish a note to all watchers."""
        with self._lock:
            self._state.notes.append(text)
            self._tell("note", {"text": text})

    def earlier(self, rows: list[dict[str, Any]]) -> None:
        """Add rows of earlier sessions, before there are watchers."""
        with self._lock:
            self._state.runs.extend(rows)

    def view(self) -> State:
        """Return the current state with its last moment only, without rows and notes."""
        with self._lock:
            last = list(self._state.moments)[-1:]
            return replace(self._state, moments=deque(last), runs=deque(), notes=deque())

    def close(self) -> None:
        """Close the feed: no watcher receives events after this."""
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
    """Encode a server-sent event; JSON has no line breaks, so no name can end the event."""
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()

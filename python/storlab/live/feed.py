"""Keep the state of a running campaign, and send its changes to the browsers that show it.

Each browser has a queue of its own, so a slow one never blocks the campaign.
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
"""Names of the values of a moment (one second of a run), which is sent as a list to save space.

A value is None if unknown. ``heat`` is the distribution of latency in the interval: the index of
the lowest non-empty bin of ``Snapshot``, and a text with one digit per bin from there on. 0 stands
for no operation in the bin, 9 for all.
"""


@dataclass(slots=True)
class State:
    """State of a campaign as the live page shows it, in plain values of bounded size."""

    study: str
    version: str
    stage: str = "begins"  # begins, prepares, runs, concludes, is over
    planned: int = 0
    done: int = 0  # stored runs, including earlier sessions'
    earlier: int = 0  # stored runs of earlier sessions
    failed: int = 0
    left_s: float = 0.0
    step: dict[str, Any] | None = None  # text, done, total
    run: dict[str, Any] | None = None  # id, number, target, workload, name, unit, expected_s, at_ms
    phase: str = ""
    # Start and end of dips in throughput, in ms like at_ms; found as in the brief.
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
        """Return the state, except gauges, as a dictionary that can be serialised to JSON."""
        names = self.__slots__
        kept = {name: getattr(self, name) for name in names if name != "gauges"}
        plain = {k: list(v) if isinstance(v, deque) else v for k, v in kept.items()}
        return {**plain, "fields": MOMENT}


class Watcher:
    """Subscriber of a feed, such as a browser, with a bounded queue of events."""

    def __init__(self, loads_brief: bool = False) -> None:
        self.loads_brief = loads_brief
        self.dropped = False
        self._events: Queue[bytes | None] = Queue(QUEUE_LENGTH)

    def offer(self, event: bytes | None) -> bool:
        """Add an event to the queue, or None to end the subscription.

        Returns:
            False if the queue was full; it is then cleared, and a "dropped" event ends it.
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
        """Wait for the next event and return it; None means that there are no more.

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
    """State of a campaign, and the subscribers to which its changes are sent.

    All methods are thread-safe, and none waits for a subscriber.
    """

    def __init__(self, study: str, version: str) -> None:
        self._state = State(study, version)
        self._watchers: set[Watcher] = set()
        self._lock = threading.Lock()
        self._closed = False

    def watch(self, *, loads_brief: bool = False) -> Watcher:
        """Return a new subscriber, whose first event is the whole state.

        Args:
            loads_brief: Whether the subscriber is a page that will load the brief at the end.
        """
        watcher = Watcher(loads_brief)
        with self._lock:
            watcher.offer(_event("state", self._state.plain()))
            if self._closed:
                watcher.offer(None)
            else:
                self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Remove a subscriber from the feed."""
        with self._lock:
            self._watchers.discard(watcher)

    @property
    def watchers(self) -> list[Watcher]:
        """Present subscribers of the feed."""
        with self._lock:
            return list(self._watchers)

    def moment(self, values: list[Any], gauges: list[Gauge], **news: Any) -> None:
        """Publish the next values of the time series, together with other changed fields.

        Args:
            values: Values in the order of MOMENT.
            gauges: Present values of counters, temperatures and power.
            **news: Changed fields of the state.
        """
        with self._lock:
            self._state.moments.append(values)
            self._state.gauges = gauges
            self._set(news)
            self._tell("moment", {"moment": values, **news})

    def news(self, **news: Any) -> None:
        """Publish changed fields of the state to all subscribers."""
        with self._lock:
            self._set(news)
            self._tell("news", news)

    def run_ended(self, row: dict[str, Any], **news: Any) -> None:
        """Publish an ended run as a new row of the page's table of runs."""
        with self._lock:
            self._state.runs.append(row)
            self._set(news)
            self._tell("run", {"row": row, **news})

    def note(self, text: str) -> None:
        """Publish a note, such as a warning, to all subscribers."""
        with self._lock:
            self._state.notes.append(text)
            self._tell("note", {"text": text})

    def earlier(self, rows: list[dict[str, Any]]) -> None:
        """Add runs of earlier sessions to the table of runs; call it before the first ``watch``."""
        with self._lock:
            self._state.runs.extend(rows)

    def view(self) -> State:
        """Return a copy of the state with only the newest values, without runs and notes."""
        with self._lock:
            last = list(self._state.moments)[-1:]
            return replace(self._state, moments=deque(last), runs=deque(), notes=deque())

    def close(self) -> None:
        """End all subscriptions; no events are sent any more."""
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
    """Encode a server-sent event; JSON escapes line breaks, so user input cannot end the event."""
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()

"""Tags of the messages between rank 0 and the clients, in the order in which they are sent."""

from __future__ import annotations

ORDER = 1  # rank 0 to all: cluster.task.Order as JSON
FACTS = 2  # each client: what it is, as JSON
SHARED = 3  # each client: which nonces it sees
BEAT = 4  # rank 0, twice a second: STOP_LOAD, or empty
SNAPSHOT = 5  # each client, about once a second: JSON
ARMED = 6  # each client: its workers wait
CLOCK = 7  # rank 0 to all, before the start and after the end: pings come next
START = 8  # rank 0: when to begin, on the clock of the client that gets it
INPUTS = 13  # rank 0 to each: what its task is about, of tasks that take inputs; next to FACTS
OUTCOME = 9  # each client: what came of its task
END = 10  # rank 0 to all: everything has been gathered
MEET = 11  # each client: number of a meeting, and when it will be ready
MET = 12  # rank 0 to all: when all are ready
STOP_LOAD = b"stop"

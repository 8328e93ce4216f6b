"""Tags of the messages between rank 0 and clients, in the order of sending."""

from __future__ import annotations

ORDER = 1  # rank 0 to all: cluster.task.Order as JSON
FACTS = 2  # each client: its facts, as JSON
SHARED = 3  # each client: the nonces that it sees
BEAT = 4  # rank 0, twice per second: STOP_LOAD, or empty
SNAPSHOT = 5  # each client, about once per second: JSON
ARMED = 6  # each client: ready to start
CLOCK = 7  # rank 0 to all, before the start and after the end: pings follow
START = 8  # rank 0: start time, on the clock of the receiving client
INPUTS = 13  # rank 0 to each, after FACTS: input of tasks that take inputs
OUTCOME = 9  # each client: outcome of its task
END = 10  # rank 0 to all: everything was collected
MEET = 11  # each client: number of a synchronisation point, and when it will be ready
MET = 12  # rank 0 to all: when all are ready
STOP_LOAD = b"stop"

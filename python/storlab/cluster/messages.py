"""MPI tags of the messages between rank 0 and clients, in the order of sending."""

from __future__ import annotations

ORDER = 1  # rank 0 to all clients: the task (cluster.task.Order) as JSON
FACTS = 2  # each client to rank 0: its software and hardware as JSON
SHARED = 3  # each client to rank 0: names of the clients whose test files it sees
BEAT = 4  # rank 0 to all clients, twice per second: STOP_LOAD, or empty as a heartbeat
SNAPSHOT = 5  # each client to rank 0, about once per second: progress as JSON
ARMED = 6  # each client to rank 0: ready to start the load
CLOCK = 7  # rank 0 to all clients, before and after the load: a clock measurement follows
START = 8  # rank 0 to each client: start time of the load, on the client's clock
INPUTS = 13  # rank 0 to each client, after FACTS: the client's own input, if the task has inputs
OUTCOME = 9  # each client to rank 0: outcome of its task
END = 10  # rank 0 to all clients: the task is over
MEET = 11  # each client to rank 0: number of a synchronisation point, and when it will be ready
MET = 12  # rank 0 to all clients: when all clients will be ready
STOP_LOAD = b"stop"

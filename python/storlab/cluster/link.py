"""Send and receive messages between rank 0 and clients; every wait has a deadline.

MPI's blocking calls keep a core busy, and never return if the other rank is stopped. So all calls
here are nonblocking and polled with sleeps in between. ``ClientsSilent`` names the ranks that did
not answer in time.

A link must only be used by the thread that created it.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import EngineError, RunError, UsageError
from storlab.cluster.offsets import ClockOffset, agreement, estimate

if TYPE_CHECKING:
    from mpi4py import MPI

NAP_S = 0.002
CONTROLLER = 0
SIZE_VARIABLE = "STORLAB_MPI_SIZE"  # set by the launcher for each rank
VENDOR_VARIABLE = "STORLAB_MPI_VENDOR"
FIRST_OWN_TAG = 30_000  # first tag of the link's own messages; MPI guarantees tags to 32,767
MOST_BYTES = 2**31 - 1
CLEAR_NS = 40_000  # target width of the interval in which an offset lies
MOST_ROUNDS = 4
_ENOUGH = -1  # replaces the time in a ping to end the measurement
# A ping is first polled without sleeps, for less than a scheduler's time slice, and then with short
# sleeps, because on a busy machine the scheduler favours processes that sleep over those that spin.
_SPIN_NS = 200_000
_SHORT_NAP_S = 50e-6
_ALERT_NS = 100_000_000
_TIME = struct.Struct("<q")
_WARM_UP, _ACKNOWLEDGE, _ENTER, _LEAVE, _CLOCK, _READY, _PING, _PONG = range(
    FIRST_OWN_TAG, FIRST_OWN_TAG + 8
)
_LIBRARIES = {  # MPI libraries whose ranks a launcher can start; srun can start any
    "mpich": {"MPICH", "MVAPICH", "Intel MPI"},
    "intel": {"MPICH", "MVAPICH", "Intel MPI"},
    "openmpi": {"Open MPI"},
}
_SAME_MPI = "use the mpiexec of that library, or set MPI4PY_LIBMPI to the library of that mpiexec"
_INSTALL = 'pip install "storlab[cluster]", on every client'


class ClientsSilent(RunError):  # noqa: N818  (names a state of clients, like `Interrupted`)
    """Error for ranks that did not answer before the deadline.

    ``ranks`` are those that did not answer; ``received`` has the messages of the others, by rank.
    """

    def __init__(
        self,
        ranks: Iterable[int],
        waited_for: str,
        received: Mapping[int, bytes] | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        self.ranks = tuple(sorted(ranks))
        self.received = dict(received or {})
        named = ", ".join(_name(rank, names or {}) for rank in self.ranks)
        super().__init__(
            named,
            f"did not answer in time ({waited_for})",
            "check that the host is up, reaches the others over the network, and is not overloaded",
        )


def _name(rank: int, names: Mapping[int, str]) -> str:
    known = names.get(rank)
    number = "rank 0" if rank == CONTROLLER else f"client {rank}"
    return f"{known} ({number})" if known else number


@dataclass(slots=True)
class _Incoming:
    """Message that MPI has started to receive and that may be incomplete."""

    buffer: bytearray
    request: MPI.Request
    complete: bool = False

    def done(self) -> bool:
        self.complete = self.complete or self.request.Test()
        return self.complete


def connect(expected_size: int | None = None) -> Link:
    """Initialise MPI (MPI_THREAD_FUNNELED) and return this rank's link to the others.

    Args:
        expected_size: Number of ranks; None for the value that the launcher set in the environment.

    Raises:
        EngineError: mpi4py or an MPI library is missing, or mpiexec and the library belong to
            different MPI implementations, so that ranks cannot find one another.
    """
    world, size = _initialise(), expected_size
    if size is None and os.environ.get(SIZE_VARIABLE, "").isdigit():
        size = int(os.environ[SIZE_VARIABLE])
    link = Link(world)
    if size is not None:
        link.check_size(size)
    return link


def _initialise() -> MPI.Intracomm:
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False  # `finish` does it; at the exit of Python it could hang
        from mpi4py import MPI
    except ImportError as error:
        if error.name == "mpi4py":
            raise EngineError("mpi4py", "is not installed", _INSTALL) from error
        raise EngineError("mpi4py", f"cannot load an MPI library: {error}", _INSTALL) from error
    except RuntimeError as error:
        raise EngineError("mpi4py", f"cannot load an MPI library: {error}", _INSTALL) from error
    launcher = os.environ.get(VENDOR_VARIABLE, "")
    name, version = MPI.get_vendor()
    if name not in _LIBRARIES.get(launcher, {name}):
        number = ".".join(map(str, version))
        raise EngineError(
            "MPI",
            f"mpiexec belongs to {launcher}, but mpi4py loaded the library of {name} {number}",
            _SAME_MPI,
        )
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_FUNNELED)
    return MPI.COMM_WORLD


class Link:
    """Connection of one rank to the others; errors show ``names`` (by rank) if set."""

    def __init__(self, world: MPI.Intracomm) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._world = world
        self.rank: int = world.Get_rank()
        self.size: int = world.Get_size()
        self.names: dict[int, str] = {}
        self.received_ns: dict[int, int] = {}  # time of the last message received from each rank
        self._broadcasts = 0
        self._abandoned: list[object] = []  # buffers to which MPI may still write
        self._outgoing: deque[tuple[int, MPI.Request, bytes]] = deque()
        self._incoming: dict[int, dict[int, deque[_Incoming]]] = {}  # by tag, then by sender

    @property
    def clients(self) -> range:
        """Return the ranks of all clients."""
        return range(1, self.size)

    @property
    def is_controller(self) -> bool:
        """Return whether this is rank 0."""
        return self.rank == CONTROLLER

    def check_size(self, expected: int) -> None:
        """Raise EngineError if the number of connected ranks differs from the expected one."""
        if self.size == expected:
            return
        library = self._mpi.Get_library_version().splitlines()[0].strip("\0 ")
        raise EngineError(
            "MPI",
            f"only {self.size} of {expected} ranks are connected: mpiexec and the library that "
            f"mpi4py loaded ({library}) belong to different MPI implementations",
            _SAME_MPI,
        )

    def send(self, rank: int, tag: int, payload: bytes) -> None:
        """Start to send a message to a rank, and return at once.

        Sending progresses whenever the link is used; ``flush`` waits until it is done.

        Raises:
            UsageError: The message has more than MOST_BYTES.
        """
        if len(payload) > MOST_BYTES:
            raise UsageError(
                f"message to {_name(rank, self.names)}",
                f"has {len(payload):,} bytes",
                f"send it in parts of at most {MOST_BYTES:,} bytes",
            )
        self.advance()
        request = self._world.Isend([payload, self._mpi.BYTE], rank, tag)
        self._outgoing.append((rank, request, payload))

    def advance(self) -> None:
        """Let MPI continue to send pending messages; must be called regularly during a load."""
        if self._outgoing:
            self._outgoing = deque(sent for sent in self._outgoing if not sent[1].Test())

    def pending(self, rank: int | None = None) -> int:
        """Return the number of messages, to one rank or to all, that are not yet sent."""
        self.advance()
        return sum(rank in (None, to) for to, _, _ in self._outgoing)

    def flush(self, deadline_ns: int) -> None:
        """Wait until all messages are sent.

        Raises:
            ClientsSilent: The deadline passed; names the ranks with unsent messages.
        """
        if not _wait(lambda: self.pending() == 0, deadline_ns):
            raise self._silent(
                {to for to, _, _ in self._outgoing}, "it has not received all messages"
            )

    def try_receive(self, tag: int, rank: int | None = None) -> tuple[int, bytes] | None:
        """Return the sender and content of a message if one has arrived, without waiting.

        Args:
            tag: Tag of the message.
            rank: Sender; None for any.
        """
        self.advance()
        self._match(tag)
        queues = self._incoming.get(tag, {})
        for sender in [rank] if rank is not None else list(queues):
            queue = queues.get(sender)
            if queue and queue[0].done():
                del queues[sender]
                message = queue.popleft()
                if queue:
                    queues[sender] = queue  # moved to the end, so that no rank starves
                self.received_ns[sender] = monotonic_ns()
                return sender, bytes(message.buffer)
        return None

    def receive(self, tag: int, deadline_ns: int, rank: int | None = None) -> tuple[int, bytes]:
        """Wait for a message; return its sender and content.

        Args:
            tag: Tag of the message.
            deadline_ns: Time limit on CLOCK_MONOTONIC.
            rank: Sender; None for any.

        Raises:
            ClientsSilent: No message arrived before the deadline.
        """
        messages: list[tuple[int, bytes]] = []

        def look() -> bool:
            message = self.try_receive(tag, rank)
            messages.extend([message] if message else [])
            return message is not None

        if not _wait(look, deadline_ns):
            others = set(range(self.size)) - {self.rank} if rank is None else {rank}
            raise self._silent(others, f"its message with tag {tag}")
        return messages[0]

    def gather(
        self,
        tag: int,
        payload: bytes | None,
        deadline_ns: int,
        ranks: Iterable[int] | None = None,
    ) -> dict[int, bytes]:
        """Send a message from each client to rank 0; every rank calls this method.

        Args:
            tag: Tag of the messages.
            payload: Message of this client; ignored at rank 0.
            deadline_ns: Time limit on CLOCK_MONOTONIC.
            ranks: Clients from which rank 0 receives; None for all.

        Returns:
            At rank 0 the messages by rank; at a client an empty dictionary.

        Raises:
            ClientsSilent: Some clients sent nothing; contains the messages of the others.
        """
        if not self.is_controller:
            self.send(CONTROLLER, tag, payload or b"")
            self.flush(deadline_ns)
            return {}
        return self._collect(tag, ranks, deadline_ns, f"gather {tag}")

    def broadcast(
        self,
        tag: int,
        payload: bytes | None,
        deadline_ns: int,
        ranks: Iterable[int] | None = None,
    ) -> bytes:
        """Send a message from rank 0 to all clients and wait for their acknowledgements.

        Every rank calls this method; clients ignore ``payload``.

        Returns:
            The message that rank 0 sent, at each rank.

        Raises:
            ClientsSilent: At rank 0, a client did not acknowledge; at a client, nothing arrived.
        """
        if not self.is_controller:
            _, numbered = self.receive(tag, deadline_ns, CONTROLLER)
            self.send(CONTROLLER, _ACKNOWLEDGE, numbered[: _TIME.size])
            self.flush(deadline_ns)
            return numbered[_TIME.size :]
        return self.send_each(
            tag, dict.fromkeys(ranks or self.clients, payload or b""), deadline_ns
        )

    def send_each(self, tag: int, payloads: Mapping[int, bytes], deadline_ns: int) -> bytes:
        """Send each client its own message from rank 0; clients call ``broadcast`` to receive it.

        Returns:
            The last message.

        Raises:
            ClientsSilent: A client did not acknowledge before the deadline.
        """
        last = b""
        self._broadcasts += 1
        # The number tells an acknowledgement from a late one of an earlier message.
        number = _TIME.pack(self._broadcasts)
        for rank, last in payloads.items():
            self.send(rank, tag, number + last)
        waited_for = f"broadcast {tag}"
        self._collect(_ACKNOWLEDGE, payloads, deadline_ns, waited_for, number)
        return last

    def barrier(self, deadline_ns: int) -> None:
        """Wait until all ranks have called this method.

        Raises:
            ClientsSilent: The deadline passed; names the ranks that did not call it.
        """
        if self.is_controller:
            self._collect(_ENTER, None, deadline_ns, "barrier")
            for rank in self.clients:
                self.send(rank, _LEAVE, b"")
            self.flush(deadline_ns)
        else:
            self.send(CONTROLLER, _ENTER, b"")
            self.receive(_LEAVE, deadline_ns, CONTROLLER)

    def warm_up(self, deadline_ns: int) -> None:
        """Exchange a message between rank 0 and each client, so that MPI connects them.

        Raises:
            ClientsSilent: A client did not answer before the deadline.
        """
        self.broadcast(_WARM_UP, b"", deadline_ns)

    def measure_offsets(self, deadline_ns: int, rounds: int = 100) -> dict[int, ClockOffset]:
        """Measure each client's CLOCK_MONOTONIC offset from rank 0; clients run ``answer_offsets``.

        Clients are measured one after the other, because parallel pings would compete for cores.
        All clients are contacted first, so that those that do not respond are all found at once.

        Args:
            deadline_ns: Time limit on CLOCK_MONOTONIC.
            rounds: Pings per client. While the offset is known less precisely than CLEAR_NS, more
                are sent, at most MOST_ROUNDS times as many.

        Raises:
            ClientsSilent: A client did not answer before the deadline.
        """
        for rank in self.clients:
            self.send(rank, _CLOCK, b"")
        self._collect(_READY, None, deadline_ns, "measurement of clocks")
        offsets: dict[int, ClockOffset] = {}
        for rank in self.clients:
            offsets[rank] = estimate(self._pings(rank, deadline_ns, rounds))
            self.send(rank, _PING, _TIME.pack(_ENOUGH))
        return offsets

    def answer_offsets(self, deadline_ns: int) -> None:
        """Answer the pings by which rank 0 measures this client's clock (``measure_offsets``).

        Raises:
            ClientsSilent: Rank 0 sent no ping before the deadline.
        """
        self.receive(_CLOCK, deadline_ns, CONTROLLER)
        answer, ping = bytearray(_TIME.size), bytearray(_TIME.size)
        asked = self._world.Irecv([ping, self._mpi.BYTE], CONTROLLER, _PING)
        self.send(CONTROLLER, _READY, b"")
        _wait(asked.Test, deadline_ns)  # with sleeps, because other clients are measured first
        while True:
            self._alert(asked.Test, deadline_ns, CONTROLLER, (asked, ping))
            _TIME.pack_into(answer, 0, monotonic_ns())
            if _TIME.unpack(ping)[0] == _ENOUGH:
                break
            asked = self._world.Irecv([ping, self._mpi.BYTE], CONTROLLER, _PING)
            sent = self._world.Isend([answer, self._mpi.BYTE], CONTROLLER, _PONG)
            self._alert(sent.Test, deadline_ns, CONTROLLER, (asked, ping, sent, answer))
        self.received_ns[CONTROLLER] = monotonic_ns()

    def _pings(self, rank: int, deadline_ns: int, rounds: int) -> list[tuple[int, int, int]]:
        pings = []
        for turn in range(1, MOST_ROUNDS * rounds + 1):
            pings.append(self._ping(rank, deadline_ns))
            if turn % rounds == 0:
                least, most = agreement(pings)
                if most - least <= CLEAR_NS:
                    break
        return pings

    def _ping(self, rank: int, deadline_ns: int) -> tuple[int, int, int]:
        """Ping a client; return the time before, the client's time, and the time after, in ns."""
        pong = bytearray(_TIME.size)
        answered = self._world.Irecv([pong, self._mpi.BYTE], rank, _PONG)
        before = monotonic_ns()
        question = _TIME.pack(before)
        sent = self._world.Isend([question, self._mpi.BYTE], rank, _PING)
        kept = (answered, pong, sent, question)
        self._alert(lambda: sent.Test() and answered.Test(), deadline_ns, rank, kept)
        return before, _TIME.unpack(pong)[0], monotonic_ns()

    def _alert(
        self, done: Callable[[], bool], deadline_ns: int, rank: int, kept: tuple[object, ...]
    ) -> None:
        """Wait with minimal delay for a ping or its answer.

        Args:
            done: Returns whether the message has been transferred.
            deadline_ns: Time limit on CLOCK_MONOTONIC.
            rank: The other rank, named in the error.
            kept: Requests and buffers, kept after a failure because MPI may still write to them.

        Raises:
            ClientsSilent: The deadline passed.
        """
        if not _wait_alert(done, deadline_ns):
            self._abandoned += kept
            raise self._silent({rank}, "measurement of clocks")

    def finish(self, deadline_ns: int) -> None:
        """Wait for all ranks, then finalise MPI.

        Raises:
            ClientsSilent: The deadline passed.
        """
        self.flush(deadline_ns)
        self.barrier(deadline_ns)
        self._mpi.Finalize()

    def abort(self, code: int = 1) -> NoReturn:
        """End all ranks that MPI can reach, including this one."""
        self._world.Abort(code)
        os._exit(code)  # if the library returns

    def _collect(
        self,
        tag: int,
        ranks: Iterable[int] | None,
        deadline_ns: int,
        waited_for: str,
        wanted: bytes | None = None,
    ) -> dict[int, bytes]:
        """Receive one message from each rank; ignore those that differ from ``wanted``, if given.

        Raises:
            ClientsSilent: The deadline passed; contains the messages received so far.
        """
        missing = set(self.clients if ranks is None else ranks)
        answers: dict[int, bytes] = {}

        def look() -> bool:
            self._match(tag)
            for rank in [rank for rank in self._incoming.get(tag, {}) if rank in missing]:
                message = self.try_receive(tag, rank)
                if message is not None and wanted in (None, message[1]):
                    missing.discard(rank)
                    answers[rank] = message[1]
            return not missing

        if not _wait(look, deadline_ns):
            raise self._silent(missing, waited_for, answers)
        return dict(sorted(answers.items()))

    def _match(self, tag: int) -> None:
        """Start to receive all messages of a tag that MPI reports, in order for each sender."""
        while True:
            status = self._mpi.Status()
            message = self._world.Improbe(self._mpi.ANY_SOURCE, tag, status)
            if message is None:
                return
            buffer = bytearray(status.Get_count(self._mpi.BYTE))
            request = message.Irecv([buffer, self._mpi.BYTE])
            queues = self._incoming.setdefault(tag, {})
            queues.setdefault(status.Get_source(), deque()).append(_Incoming(buffer, request))

    def _silent(
        self, ranks: Iterable[int], waited_for: str, received: Mapping[int, bytes] | None = None
    ) -> ClientsSilent:
        return ClientsSilent(ranks, waited_for, received, self.names)


def _wait(done: Callable[[], bool], deadline_ns: int) -> bool:
    """Poll with sleeps until ``done`` returns True; return False if the deadline passes first."""
    while not done():
        if monotonic_ns() >= deadline_ns:
            return False
        sleep_s(NAP_S)
    return True


def _wait_alert(done: Callable[[], bool], deadline_ns: int) -> bool:
    """Like ``_wait``, but poll more often at first, for messages whose latency matters."""
    begin_ns = monotonic_ns()
    while not done():
        now_ns = monotonic_ns()
        if now_ns >= deadline_ns:
            return False
        if now_ns >= begin_ns + _ALERT_NS:
            return _wait(done, deadline_ns)
        if now_ns >= begin_ns + _SPIN_NS:
            sleep_s(_SHORT_NAP_S)
    return True

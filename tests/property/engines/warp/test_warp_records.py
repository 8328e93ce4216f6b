"""Window totals of any warp record equal a direct count."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from storlab._native import Histogram
from storlab.engines.warp import records as warp_records
from storlab.engines.warp.records import Window

NS = 1_000_000_000
HEADER = "idx\tthread\top\tbytes\terror\tstart\tfirst_byte\tend\tduration_ns"
NAMES = {"GET": "get", "PUT": "put", "STAT": "head", "LIST": "list"}


@dataclass(frozen=True)
class Request:
    op: str
    start_ns: int
    duration_ns: int
    size: int
    failed: bool

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns

    def row(self) -> str:
        error = "The specified key does not exist." if self.failed else ""
        first = stamp(self.start_ns + self.duration_ns // 2) if self.op == "GET" else ""
        fields = ["0", "0", self.op, str(self.size), error, stamp(self.start_ns), first]
        return "\t".join([*fields, stamp(self.end_ns), str(self.duration_ns)])


def stamp(at_ns: int) -> str:
    seconds, fraction = divmod(at_ns, NS)
    minutes, second = divmod(seconds, 60)
    text = f"2026-11-20T10:{minutes:02}:{second:02}.{fraction:09}".rstrip("0").rstrip(".")
    return f"{text}Z"


BEGIN = int(warp_records.read_records(
    f"{HEADER}\n{Request('GET', 0, 1, 1, failed=False).row()}".encode()
).start_ns[0])  # fmt: skip

requests = st.builds(
    Request,
    op=st.sampled_from(list(NAMES)),
    start_ns=st.integers(0, 20 * NS),
    duration_ns=st.integers(0, 5 * NS),
    size=st.integers(0, 1 << 40),
    failed=st.booleans(),
)


@given(
    st.lists(requests, min_size=1, max_size=60),
    st.integers(0, 10 * NS),
    st.integers(1, 15 * NS),
    st.integers(NS // 10, 4 * NS),
)
def test_totals_and_samples(
    made: list[Request], start_ns: int, length_ns: int, interval_ns: int
) -> None:
    text = "\n".join([HEADER, *(request.row() for request in made), "# warp mixed"])
    records = warp_records.read_records(text.encode())
    window = Window(BEGIN + start_ns, BEGIN + start_ns + length_ns, interval_ns, -BEGIN)
    totals = warp_records.totals(records, window)
    samples = warp_records.samples(records, window)
    inside = [r for r in made if start_ns <= r.end_ns < start_ns + length_ns]
    assert set(totals) == {NAMES[r.op] for r in inside}
    for operation, total in totals.items():
        ended = [r for r in inside if NAMES[r.op] == operation]
        good = [r for r in ended if not r.failed]
        assert total.operations == len(good)
        assert total.bytes == sum(r.size for r in good)
        assert sum(total.errors.values()) == len(ended) - len(good)
        assert (total.latency is None) == (not good)
        assert (total.ttfb is None) == (operation != "get" or not good)
        own = [s for s in samples if s.operation == operation]
        assert sum(s.operations for s in own) == len(good)
        assert sum(s.bytes for s in own) == total.bytes
        assert sum(s.errors for s in own) == len(ended) - len(good)
        assert sum(Histogram.from_v2(s.latency).count for s in own) == len(good)
        assert own[0].start_ns == start_ns
        assert own[-1].end_ns == start_ns + length_ns
        assert [s.end_ns for s in own[:-1]] == [s.start_ns for s in own[1:]]

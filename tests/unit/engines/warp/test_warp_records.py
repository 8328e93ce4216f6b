"""warp's per-request records in the documented format, and values computed from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab._native import Histogram
from storlab.base import zstd
from storlab.engines.warp import errors as warp_errors
from storlab.engines.warp import records as warp_records
from storlab.engines.warp.command_line import without_credentials
from storlab.engines.warp.records import Records, WarpFormatError, Window

GOLDEN = Path(__file__).parents[3] / "golden" / "warp"
HEADER = (
    "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\t"
    "last_byte\tend\tduration_ns\tcat"
)
MS = 1_000_000
SECOND = 1_000_000_000
EPOCH_S = 1_795_171_400  # 2026-11-20T10:43:20Z


def stamp(at_ms: float) -> str:
    seconds, left = divmod(round(at_ms * MS), SECOND)
    return f"2026-11-20T10:{43 + (20 + seconds) // 60:02}:{(20 + seconds) % 60:02}.{left:09}Z"


def row(
    op: str,
    start_ms: float,
    took_ms: float,
    error: str = "",
    first_ms: float | None = None,
    size: int = 1000,
    thread: int = 0,
    file: str = "p/1.rnd",
    objects: int = 1,
) -> str:
    first = "" if first_ms is None else stamp(start_ms + first_ms)
    last = stamp(start_ms + took_ms / 2) if op == "PUT" else ""
    return (
        f"0\t{thread}\t{op}\tabcd\t{objects}\t{size}\thttp://127.0.0.1:9000\t{file}\t{error}\t"
        f"{stamp(start_ms)}\t{first}\t{last}\t{stamp(start_ms + took_ms)}\t"
        f"{round(took_ms * MS)}\t0"
    )


def read(*rows: str, comment: str = "") -> Records:
    return warp_records.read_records("\n".join([HEADER, *rows, comment]).encode())


def window(start_ms: float, end_ms: float, interval_ms: float = 1000) -> Window:
    begin = EPOCH_S * SECOND
    return Window(begin + round(start_ms * MS), begin + round(end_ms * MS), round(interval_ms * MS))


def test_only_what_ends_inside_the_window_counts() -> None:
    records = read(
        row("GET", 0, 500, first_ms=100),  # the ramp
        row("GET", 800, 300, first_ms=200),  # starts before the window and ends in it
        row("GET", 1500, 400, first_ms=50),
        row("GET", 2800, 300, first_ms=20),  # ends after the window
    )
    totals = warp_records.totals(records, window(1000, 3000))["get"]
    assert (totals.operations, totals.bytes, totals.errors) == (2, 2000, {})
    assert totals.latency is not None
    assert totals.ttfb is not None
    assert totals.latency.mean_ns == 350 * MS
    assert (totals.latency.min_ns, totals.latency.max_ns) == (300 * MS, 400 * MS)
    assert totals.ttfb.mean_ns == 125 * MS


def test_failed_requests_are_in_nothing_but_their_kind() -> None:
    records = read(
        row("GET", 0, 100, first_ms=10),
        row("GET", 100, 800, error="The specified key does not exist."),
        row("GET", 200, 5, error="Please reduce your request rate."),
        row("GET", 300, 5, error='Get "http://h/b/k": dial tcp: connect: connection refused'),
    )
    totals = warp_records.totals(records, window(0, 2000))["get"]
    assert (totals.operations, totals.bytes) == (1, 1000)
    assert totals.latency is not None
    assert totals.latency.max_ns == 100 * MS
    assert totals.errors == {
        "NoSuchKey (404)": 1,
        "SlowDown (503)": 1,
        "connection refused": 1,
    }
    sample = warp_records.samples(records, window(0, 2000))[0]
    assert (sample.operations, sample.errors, sample.bytes) == (1, 3, 1000)


def test_the_first_byte_of_a_put_is_none() -> None:
    records = read(row("PUT", 0, 100, first_ms=10), row("GET", 0, 100, first_ms=10))
    totals = warp_records.totals(records, window(0, 1000))
    assert totals["put"].ttfb is None
    assert totals["get"].ttfb is not None
    put = next(s for s in warp_records.samples(records, window(0, 1000)) if s.operation == "put")
    assert put.ttfb is None


def test_samples_tile_the_window_on_the_runs_clock() -> None:
    records = read(row("GET", 100, 200), row("PUT", 100, 1100), row("GET", 1900, 300))
    at = window(0, 2500)
    shifted = Window(at.start_ns, at.end_ns, at.interval_ns, offset_ns=-at.start_ns)
    samples = warp_records.samples(records, shifted, iter([7, 8, 9]))
    assert [(s.interval, s.operation, s.operations) for s in samples] == [
        (0, "get", 1), (0, "put", 0), (1, "get", 0), (1, "put", 1), (2, "get", 1), (2, "put", 0),
    ]  # fmt: skip
    assert [(s.start_ns, s.end_ns) for s in samples[::2]] == [
        (0, SECOND),
        (SECOND, 2 * SECOND),
        (2 * SECOND, 2 * SECOND + 500 * MS),
    ]
    assert [s.worker_cpu_ns for s in samples] == [7, 0, 8, 0, 9, 0]
    assert Histogram.from_v2(samples[0].latency).count == 1


def test_latency_is_the_monotonic_duration_and_a_set_clock_is_seen() -> None:
    told = row("GET", 0, 100)
    wall = told.replace(stamp(100), stamp(3_000))
    records = read(wall)
    totals = warp_records.totals(records, window(0, 1000))["get"]
    assert totals.latency is not None
    assert totals.latency.max_ns == 100 * MS
    assert records.stepped == 1
    assert read(told).stepped == 0


def test_uploads_of_the_preparation_are_no_load() -> None:
    rows = [row("PUT", 0, 100), row("PUT", 50, 100), row("GET", 3200, 10), row("GET", 3300, 10)]
    load, left_out = warp_records.load_of(read(*rows))
    assert (load.present, left_out) == (["get"], 2)
    mixed, left_out = warp_records.load_of(read(*rows, row("PUT", 3250, 100)))
    assert (len(mixed.name), left_out) == (5, 0)
    puts, left_out = warp_records.load_of(read(*rows[:2]))
    assert (puts.present, left_out) == (["put"], 0)


def test_operations_by_storlabs_names() -> None:
    records = read(
        row("STAT", 0, 1),
        row("DELETE", 0, 1),
        row("DELETE", 0, 1, file="", objects=100),
        row("LIST", 0, 1, objects=1000),
        row("POST", 0, 1),
        row("APPEND", 0, 1),
    )
    assert records.present == ["put", "head", "list", "delete", "multi_delete"]
    assert records.unknown == ("APPEND",)
    assert len(records.name) == 5


def test_older_forms_have_fewer_columns_and_other_time_zones() -> None:
    text = (
        "idx\tthread\top\tn_objects\tbytes\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n"
        "0\t3\tGET\t1\t500\tx/y.rnd\t\t2019-11-13T17:07:06.3173431+01:00\t"
        "2019-11-13T17:07:06.3200000+01:00\t2019-11-13T17:07:06.3943418+01:00\t76998700\n"
    )
    records = warp_records.read_records(text.encode())
    assert records.start_ns.tolist() == [1_573_661_226_317_343_100]
    assert records.duration_ns.tolist() == [76_998_700]
    assert records.ttfb_ns.tolist() == [2_656_900]
    assert (records.workers, records.command) == (1, "")


def test_errors_in_quotes_with_line_breaks() -> None:
    records = read(row("GET", 0, 5, error='"400 Bad Request\n<p>""no""\t</p>"'), row("GET", 10, 5))
    assert records.messages == ("", '400 Bad Request\n<p>"no"\t</p>')
    assert warp_records.errors(records) == {"HTTP 400": 1}


def test_the_comment_is_the_command_line() -> None:
    records = read(row("GET", 0, 5), comment="# warp get --host=h:1 --duration=8s\n")
    assert records.command == "warp get --host=h:1 --duration=8s"
    assert len(records.name) == 1


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "op"),
        ("idx\tthread\top\n", "bytes"),
        (f"{HEADER}\n0\t1\tGET\n", "record"),
        ("\n".join([HEADER, row("GET", 0, 5).replace(stamp(0), "yesterday")]), "record"),
        ("\n".join([HEADER, row("GET", 0, 5).replace(stamp(0), "")]), "start"),
    ],
)
def test_damage_is_named(text: str, field: str) -> None:
    with pytest.raises(WarpFormatError) as caught:
        warp_records.read_records(text.encode())
    assert caught.value.field == field


def test_a_record_without_requests_has_no_totals() -> None:
    records = read()
    assert warp_records.totals(records, window(0, 1000)) == {}
    assert warp_records.samples(records, window(0, 1000)) == []


def test_compression_there_and_back_and_its_damage() -> None:
    packed = zstd.packed(b"requests")
    assert packed.startswith(zstd.MAGIC)
    assert warp_records.unpacked(packed) == b"requests"
    assert warp_records.unpacked(b"plain") == b"plain"
    with pytest.raises(WarpFormatError, match="compression"):
        warp_records.unpacked(packed[:-3] + b"xyz" + packed[:9])


def test_a_session_token_does_not_stay() -> None:
    command = "# warp get --access-key=*REDACTED* --session-token=AbC/12+= --region=r"
    assert without_credentials(command) == (
        "# warp get --access-key=*REDACTED* --session-token=*REDACTED* --region=r"
    )
    hidden = without_credentials(command)
    assert without_credentials(hidden) == hidden


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Access Denied.", "AccessDenied (403)"),
        ("We encountered an internal error, please try again.", "InternalError (500)"),
        ("The specified bucket does not exist", "NoSuchBucket (404)"),
        ("read tcp 10.0.0.1:5->10.0.0.2:9000: read: connection reset by peer", "connection reset"),
        ('Get "https://h/b": x509: certificate signed by unknown authority', "TLS"),
        ("net/http: timeout awaiting response headers", "time-out"),
        ("unexpected download size. want:10, got:4", "short body"),
        ('Put "http://h:1/b/k": EOF', "connection closed"),
        ("503 Service Unavailable", "ServiceUnavailable (503)"),
        ("418 I'm a teapot", "HTTP 418"),
        ("Error response code OddThing.", "OddThing"),
        ('strange "http://10.0.0.1:9000/b/k" happened', "strange happened"),
        ("", "unknown"),
    ],
)
def test_kinds_of_errors(message: str, kind: str) -> None:
    assert warp_errors.kind(message) == kind


def test_a_recorded_mix() -> None:
    data = (GOLDEN / "mixed-1.6.1.csv.zst").read_bytes()
    records = warp_records.read_records(warp_records.unpacked(data))
    load, left_out = warp_records.load_of(records)
    assert left_out == 0
    assert load.present == ["get", "put"]
    assert load.workers == 4
    assert set(load.bytes.tolist()) == {2 << 20}
    reads = load.kind("get")
    assert (load.ttfb_ns[reads] > 0).all()
    assert (load.ttfb_ns[reads] <= load.duration_ns[reads]).all()
    assert (load.ttfb_ns[~reads] == -1).all()
    assert load.command.startswith("warp mixed ")


def test_a_recorded_preparation() -> None:
    data = (GOLDEN / "get-prepared-1.6.1.csv.zst").read_bytes()
    load, left_out = warp_records.load_of(warp_records.read_records(warp_records.unpacked(data)))
    assert (load.present, left_out) == (["get"], 12)

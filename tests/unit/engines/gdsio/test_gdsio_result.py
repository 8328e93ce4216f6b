"""gdsio's published result line, and lines that are not valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.units import NS_PER_S
from storlab.engines.gdsio.result import GdsioFormatError, Result, read_results

GOLDEN = Path(__file__).parents[3] / "golden" / "gdsio"
LINES = [
    text for text in (GOLDEN / "lines.txt").read_text().splitlines() if not text.startswith("#")
]
READ, RANDREAD = LINES[0], LINES[1]


def only(text: str) -> Result:
    (result,) = read_results(text)
    return result


def test_a_line_is_read_into_bytes_and_ns() -> None:
    found = only(READ)
    assert (found.io_type, found.xfer_type, found.operation) == ("READ", "GPUD", "read")
    assert (found.threads, found.depth) == (8, None)
    assert found.operations == 799_606
    assert found.bytes == 818_796_544 * 1024
    assert found.block_bytes == 1 << 20
    assert found.length_ns == 119_679_102_000
    assert found.bytes_s == 6.524658 * (1 << 30)  # GiB, not GB
    assert found.latency_mean_ns == pytest.approx(1_197_370.995)


@pytest.mark.parametrize("line", LINES)
def test_published_lines_agree_with_themselves(line: str) -> None:
    found = only(line)
    assert found.bytes == found.operations * found.block_bytes
    assert found.bytes * NS_PER_S / found.length_ns == pytest.approx(found.bytes_s, rel=1e-3)
    assert found.disagreement() is None


@pytest.mark.parametrize("line", [line for line in LINES if "BATCH" not in line])
def test_threads_have_one_io_in_flight_whatever_the_api(line: str) -> None:
    """Check that gdsio has one I/O in flight per thread, so deeper queues are refused."""
    found = only(line)
    implied = found.operations * found.latency_mean_ns / found.length_ns
    assert implied == pytest.approx(found.threads, rel=0.06)


def test_the_latency_of_a_batch_is_of_all_entries_or_of_one() -> None:
    """Check that gdsio's batch latency is ambiguous, which is why it is left out."""
    each = [only(line) for line in LINES if "BATCH" in line]
    in_flight = [r.operations * r.latency_mean_ns / r.length_ns for r in each]
    assert in_flight[0] == pytest.approx(10, rel=0.06)  # of 10 entries: all
    assert in_flight[1] == pytest.approx(1, rel=0.06)  # of 8 entries: one
    assert [r.depth for r in each] == [10, 8]


def test_a_wrapped_line_is_one_and_several_are_several() -> None:
    assert only(READ.replace("IOSize", "\nIOSize")) == only(READ)
    assert [r.operation for r in read_results(f"{READ}\nVerifying data\n{LINES[2]}\n")] == [
        "read",
        "write",
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no result line"),
        ("warn: error opening log file: Permission denied\n", "no result line"),
        (READ[: len(READ) // 2], "cut short"),
        (f"{READ}\n{RANDREAD[:60]}", "cut short"),
        ((GOLDEN / "old.txt").read_text(), "before 1.0"),
        (READ.replace("799606", "0"), "no operations"),
        (READ.replace("818796544/", "0/"), "no operations"),
        (READ.replace("119.679102", "0.000000"), "no operations"),
        (READ.replace("6.524658", "6.5.2"), "invalid number"),
    ],
)
def test_what_is_no_result_is_named(text: str, word: str) -> None:
    with pytest.raises(GdsioFormatError, match=word):
        read_results(text)


def test_a_rate_that_its_bytes_do_not_give_is_told() -> None:
    told = only(READ.replace("6.524658", "9.9")).disagreement()
    assert told is not None
    assert "10,630 MB/s" in told
    assert "7,006 MB/s" in told

"""Import of the text of ``sysbench fileio``, written after its documented formats."""

from __future__ import annotations

import pytest

from storlab.base.errors import ResultError
from storlab.contracts.exchange import ImportedRun
from storlab.engines.sysbench.importer import SysbenchImport

OLD = """sysbench 0.4.12:  multi-threaded system evaluation benchmark

Running the test with following options:
Number of threads: 4

Extra file open flags: {flags}
128 files, 16Mb each
2Gb total file size
Block size 4Kb
Read/Write ratio for combined random IO test: 3.00
Periodic FSYNC enabled, calling fsync() each 100 requests.
Calling fsync() at the end of test, Enabled.
Using synchronous I/O mode
Doing random {mode} test
Threads started!
Done.

Operations performed:  {counts}
Read 1Mb  Written 0b  Total transferred 1Mb  (1Mb/sec)
  1 Requests/sec executed

Test execution summary:
    total time:                          20.0000s
    total number of events:              8000
    total time taken by event execution: 2.0000
    per-request statistics:
         min:                                  0.01ms
         avg:                                  0.25ms
         max:                                 12.50ms
         approx.  95 percentile:               0.40ms
"""
READS = OLD.format(flags=16384, mode="read", counts="8000 Read, 0 Write, 0 Other = 8000 Total")
MIXED = OLD.format(flags=0, mode="r/w", counts="6000 Read, 2000 Write, 10368 Other = 18368 Total")
NEW = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1

Extra file open flags: (none)
128 files, 8MiB each
1GiB total file size
Block size 16KiB
Calling fsync() after each write operation.
Using asynchronous I/O mode
Doing sequential {mode} test

File operations:
    reads/s:                      {reads}
    writes/s:                     {writes}
    fsyncs/s:                     {syncs}

Throughput:
    read, MiB/s:                  0.00
    written, MiB/s:               0.00

General statistics:
    total time:                          10.0000s
    total number of events:              {events}

Latency (ms):
         min:                                    0.00
         avg:                                    0.50
         max:                                   70.02
         95th percentile:                        1.64
         sum:                                 5000.00
"""


def runs(text: str) -> list[ImportedRun]:
    assert SysbenchImport().matches(text)
    return SysbenchImport().read(text, "sysbench.txt")


def values(run: ImportedRun) -> dict[str, float]:
    return {metric.name: metric.value for metric in run.metrics}


def test_counts_of_old_versions_are_exact_and_their_units_binary() -> None:
    (run,) = runs(READS)
    assert run.outcome.totals["read"].operations == 8000
    assert run.outcome.totals["read"].bytes == 8000 * 4096
    assert run.outcome.window_end_ns == 20_000_000_000
    assert (run.fields["jobs"], run.fields["block_size"], run.direct) == (4, 4096, True)
    assert (run.fields["read_percent"], run.fields["access"]) == (100.0, "random")
    assert "final_sync" not in run.fields  # reads are not flushed
    assert run.facts == {"size": 2 << 30}
    assert run.outcome.engine.version == "0.4.12"


def test_latencies_of_reads_alone_are_kept_with_the_mean_of_the_sum() -> None:
    (run,) = runs(READS)
    assert values(run) == {"latency_mean_ns": 250_000, "latency_max_ns": 12_500_000}
    assert run.metrics[0].operation == "read"


def test_latencies_of_several_kinds_of_events_are_left_out() -> None:
    (run,) = runs(MIXED)
    assert run.metrics == []
    assert any("read, write, sync" in note for note in run.outcome.notes)
    assert run.outcome.totals["sync"].operations == 10_368
    assert run.outcome.totals["sync"].bytes == 0
    assert run.fields["read_percent"] == 75.0
    assert run.fields["final_sync"]
    assert run.params["sysbench_options"]["fsync_each"] == "100"
    assert run.direct is False


def test_rates_of_1_0_become_counts() -> None:
    text = NEW.format(mode="rewrite", reads="0.00", writes="500.05", syncs="500.05", events=10001)
    (run,) = runs(text)
    assert run.outcome.totals["write"].operations == 5000
    assert run.outcome.totals["write"].bytes == 5000 * 16384
    assert run.metrics == []
    assert (run.fields["sync"], run.fields["sync_every"]) == ("fsync", 1)
    assert run.fields["queue_depth"] == 128
    assert (run.direct, run.fields["access"]) == (False, "sequential")


def test_events_are_the_exact_number_of_reads_alone() -> None:
    (run,) = runs(NEW.format(mode="read", reads="1000.01", writes="0", syncs="0", events=10001))
    assert run.outcome.totals["read"].operations == 10_001
    assert values(run)["latency_mean_ns"] == pytest.approx(5e9 / 10_001)


def test_several_runs_in_a_log_and_those_that_did_not_end() -> None:
    cut = MIXED[: MIXED.index("Operations performed")]
    new = NEW.format(mode="read", reads="1", writes="0", syncs="0", events=10)
    first, second = runs(READS + cut + new)
    assert (first.outcome.engine.version, second.outcome.engine.version) == ("0.4.12", "1.0.20")
    assert any("1 more runs" in note for note in first.outcome.notes)


@pytest.mark.parametrize("missing", ["Block size", "total time:", "Doing", "Number of threads"])
def test_an_incomplete_output_is_refused(missing: str) -> None:
    text = "\n".join(line for line in READS.splitlines() if missing not in line)
    with pytest.raises(ResultError):
        runs(text)


def test_runs_with_a_limited_rate_are_a_point_of_their_own() -> None:
    threads = "Number of threads: 4"
    (run,) = runs(READS)
    (limited,) = runs(READS.replace(threads, f"{threads}\nTarget transaction rate: 400/sec"))
    assert limited.params != run.params
    assert any("400/sec" in note for note in limited.outcome.notes)

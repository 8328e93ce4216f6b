"""Shapes of fio's JSON by version and option, written after the definition of fio's output.

Tests check the numbers that storlab derives from each of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ResultError
from storlab.engines.fio import result as fio_result
from storlab.engines.fio.importer import FioImport
from storlab.engines.fio.result import Latency
from storlab.exchange.importer import import_files
from storlab.model.result import RunRecord

PERCENTS = ("50.000000", "90.000000", "99.000000", "99.900000", "99.990000")
OPTIONS = {"rw": "randread", "bs": "4k", "iodepth": "8", "ioengine": "libaio", "direct": "1"}


def latency(mean: float, **more: Any) -> dict[str, Any]:
    """Return a latency object in ns without "N", as printed by fio 3.0 to 3.17."""
    return {"min": int(mean / 4), "max": int(mean * 20), "mean": mean, "stddev": mean / 2, **more}


def percentiles(*values: int) -> dict[str, dict[str, int]]:
    return {"percentile": dict(zip(PERCENTS, values, strict=True))}


def section(ios: int = 80_000, runtime_ms: int = 10_000, **latencies: Any) -> dict[str, Any]:
    return {
        "io_bytes": ios * 4096,
        "io_kbytes": ios * 4,
        "iops": ios * 1000 / runtime_ms,
        "runtime": runtime_ms,
        "total_ios": ios,
        **latencies,
    }


NONE = {"io_bytes": 0, "io_kbytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0}


def job(options: dict[str, str] | None = None, /, **more: Any) -> dict[str, Any]:
    given = {"jobname": "j", "groupid": 0, "error": 0, "read": NONE, "write": NONE, **more}
    return given if options is None else {**given, "job options": options}


def document(*jobs: dict[str, Any], version: str = "fio-3.12", **more: Any) -> dict[str, Any]:
    return {"fio version": version, "timestamp": 1_700_000_000, "jobs": list(jobs), **more}


def imported(place: Path, *documents: dict[str, Any]) -> list[RunRecord]:
    files = []
    for number, one in enumerate(documents):
        files.append(place / f"{number}.json")
        files[-1].write_text(json.dumps(one))
    return import_files(files, place / "result").records()


def test_before_3_18_there_is_no_n_and_total_ios_counts(tmp_path: Path) -> None:
    lat = latency(1_000_000.0)
    clat = latency(990_000.0, **percentiles(900_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000))
    read = section(lat_ns=lat, clat_ns=clat)
    (record,) = imported(tmp_path, document(job(OPTIONS, read=read)))
    assert record.totals["read"].operations == 80_000
    assert record.metric("latency_mean_ns", "read") == 1_000_000
    assert record.metric("latency_p99_ns", "read") == 3_000_000
    assert record.metric("latency_p999_ns", "read") == 4_000_000
    assert record.metric("iops", "read") == 8_000


def test_zeros_of_switched_off_latencies_are_no_latencies(tmp_path: Path) -> None:
    off = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0}
    (record,) = imported(tmp_path, document(job(OPTIONS, read=section(lat_ns=off, clat_ns=off))))
    assert record.metric("latency_mean_ns", "read") is None
    assert record.concurrency is not None
    assert record.concurrency.implied is None


def test_mean_is_of_total_latency_and_clocks_are_named(tmp_path: Path) -> None:
    clat = latency(700_000.0, **percentiles(600_000, 700_000, 800_000, 900_000, 950_000))
    read = section(lat_ns=latency(1_000_000.0), clat_ns=clat)
    (record,) = imported(tmp_path, document(job(OPTIONS, read=read)))
    assert record.metric("latency_mean_ns", "read") == 1_000_000
    assert record.metric("latency_max_ns", "read") == 20_000_000
    assert record.metric("latency_p50_ns", "read") == 600_000
    assert record.details["latency_clocks"] == {"read": {"mean": "lat", "percentiles": "clat"}}
    assert any("clat" in note for note in record.notes)
    assert record.concurrency is not None
    assert record.concurrency.implied == pytest.approx(8)
    assert not any(flag.kind == "concurrency-mismatch" for flag in record.flags)


def test_submission_is_added_if_fio_recorded_no_total_latency(tmp_path: Path) -> None:
    clat = latency(700_000.0, **percentiles(600_000, 700_000, 800_000, 900_000, 950_000))
    read = section(clat_ns=clat, slat_ns=latency(300_000.0))
    (record,) = imported(tmp_path, document(job(OPTIONS, read=read)))
    assert record.metric("latency_mean_ns", "read") == 700_000
    assert record.concurrency is not None
    assert record.concurrency.implied == pytest.approx(8)


def test_percentiles_of_total_latency_are_preferred(tmp_path: Path) -> None:
    lat = latency(1_000_000.0, **percentiles(900_000, 1_000_000, 1_100_000, 1_200_000, 1_300_000))
    read = section(lat_ns=lat, clat_ns=latency(700_000.0))
    (record,) = imported(tmp_path, document(job(OPTIONS, read=read)))
    assert record.metric("latency_p99_ns", "read") == 1_100_000
    assert record.details["latency_clocks"] == {"read": {"mean": "lat", "percentiles": "lat"}}


def test_a_histogram_has_fios_exact_mean_and_maximum(tmp_path: Path) -> None:
    clat = latency(830_123.5, N=100, bins={"659456": 60, "757760": 39, "13975552": 1})
    clat |= {"max": 13_912_345, **percentiles(659_456, 757_760, 757_760, 13_975_552, 13_975_552)}
    read = section(100, 10, lat_ns=latency(800_000.0, N=100), clat_ns=clat)
    (record,) = imported(tmp_path, document(job(OPTIONS, read=read), version="fio-3.33"))
    for operation in ("read", "all"):
        assert record.metric("latency_mean_ns", operation) == 830_123.5
        assert record.metric("latency_max_ns", operation) == 13_912_345
        assert record.metric("latency_p50_ns", operation) == pytest.approx(659_456, rel=0.001)
    assert record.concurrency is not None
    assert record.concurrency.implied == pytest.approx(8)  # 100 x 800 us in 10 ms
    assert record.details["latency_clocks"] == {"read": {"mean": "clat", "percentiles": "clat"}}


def test_reads_and_writes_together_have_exact_mean_and_maximum(tmp_path: Path) -> None:
    options = {**OPTIONS, "rw": "randrw"}
    low = latency(100_000.25, N=100, bins={"99840": 100}, max=100_123)
    high = latency(300_000.75, N=100, bins={"301056": 100}, max=301_234)
    read, write = section(100, 10, lat_ns=low), section(100, 10, lat_ns=high)
    (record,) = imported(tmp_path, document(job(options, read=read, write=write)))
    assert record.metric("latency_mean_ns") == 200_000.5
    assert record.metric("latency_max_ns") == 301_234


def test_percentiles_of_several_jobs_are_bounded(tmp_path: Path) -> None:
    fast = latency(100_000.0, **percentiles(90_000, 95_000, 99_000, 99_900, 99_990))
    slow = latency(300_000.0, **percentiles(290_000, 295_000, 299_000, 299_900, 299_990))
    jobs = [job(OPTIONS, read=section(1000, lat_ns=each)) for each in (fast, slow)]
    (record,) = imported(tmp_path, document(*jobs))
    assert record.params["jobs"] == 2
    assert record.metric("latency_mean_ns", "read") == 200_000
    # 99.99 % of the fast half and 50 % of the slow one are at most 290 us: 75 % of all.
    assert record.metric("latency_p50_ns", "read") == 290_000
    assert record.metric("latency_p99_ns", "read") == 299_000
    assert any("upper bounds" in note for note in record.notes)


def test_bounds_do_not_exceed_the_largest_percentile_of_a_part() -> None:
    def part(count: int, values: dict[float, int]) -> fio_result.Figures:
        found = Latency("lat", count, 50.0, 1, 1000, 1.0, values)
        return fio_result.Figures(
            {"read": fio_result.Direction(count, count, 0, 1, found)}, 0.0, 0.0, 1, 0, None
        )

    parts = [part(99, {50.0: 10, 99.0: 20}), part(1, {50.0: 500, 99.0: 900})]
    found = fio_result.merge(parts).directions["read"].latency
    assert found is not None
    assert found.percentiles == {50.0: 20, 99.0: 900}


def old_section(ios: int, **latencies: Any) -> dict[str, Any]:
    """Return results as printed by fio 2.2.10: KiB and microseconds."""
    return {"io_bytes": ios * 4, "bw": 400, "iops": ios / 10.0, "runtime": 10_000, **latencies}


def in_us(mean: float, **more: Any) -> dict[str, Any]:
    return {"min": 100, "max": 5000, "mean": mean, "stddev": 10.0, **more}


def test_fio_2_prints_microseconds_and_kib(tmp_path: Path) -> None:
    clat = in_us(990.0, percentile={"50.000000": 900, "99.000000": 3000, "0.00": 0})
    read = old_section(80_000, total_ios=80_000, lat=in_us(1000.0), clat=clat)
    jobs = document(job(OPTIONS, read=read), version="fio-2.19")
    (record,) = imported(tmp_path, jobs)
    assert record.totals["read"].bytes == 80_000 * 4096
    assert record.totals["read"].operations == 80_000
    assert record.metric("latency_mean_ns", "read") == 1_000_000
    assert record.metric("latency_p99_ns", "read") == 3_000_000
    assert record.metric("throughput_mb_s", "read") == pytest.approx(32.768)
    assert any("microseconds" in note for note in record.notes)


def test_fio_2_21_prints_bytes(tmp_path: Path) -> None:
    read = section(80_000, lat=in_us(1000.0), clat=in_us(990.0))
    (record,) = imported(tmp_path, document(job(OPTIONS, read=read), version="fio-2.21"))
    assert record.totals["read"].bytes == 80_000 * 4096
    assert record.metric("latency_mean_ns", "read") == 1_000_000


def test_fio_before_2_1_14_has_neither_counts_nor_options(tmp_path: Path) -> None:
    read = old_section(80_000, lat=in_us(1000.0), clat=in_us(990.0))
    depths = {"1": 0.1, "2": 0.1, "4": 0.1, "8": 99.9, "16": 0.0, "32": 0.0, ">=64": 0.0}
    jobs = document(job(read=read, iodepth_level=depths), version="fio-2.1.3")
    del jobs["timestamp"]
    (record,) = imported(tmp_path, jobs)
    assert record.totals["read"].operations == 80_000
    assert record.params["block_size"] == 4096
    assert (record.params["queue_depth"], record.params["jobs"]) == (8, 1)
    assert record.params["fio_options"] == {"rw": "not in the file"}
    assert any("estimates" in note for note in record.notes)
    assert not any(flag.kind == "concurrency-mismatch" for flag in record.flags)


def test_bins_of_fio_2_12_are_keyed_by_index() -> None:
    bins = {"0": 0, "100": 5, "128": 3, "192": 2, "FIO_IO_U_PLAT_BITS": 6, "FIO_IO_U_PLAT_NR": 1216}
    table = old_section(10, total_ios=10, clat=in_us(150.0, bins=bins))
    figures = fio_result.read_job(job(read=table))
    found = figures.directions["read"].latency
    assert found is not None
    # Index 128 holds 128 and 129 us, 192 holds 256 to 259 us; fio takes the middle.
    assert found.bins == {100_000: 5, 129_000: 3, 258_000: 2}


def test_sections_merged_by_group_reporting_are_counted_by_their_run_time(tmp_path: Path) -> None:
    options = {**OPTIONS, "numjobs": "2", "group_reporting": "1"}
    read = section(160_000, lat_ns=latency(1_000_000.0))
    alone, merged = imported(
        tmp_path,
        document(job(options, read=read, job_runtime=20_000)),
        document(job(options, read=read, job_runtime=60_010)),
    )
    assert (alone.params["jobs"], merged.params["jobs"]) == (2, 6)
    notes = [n for n in merged.notes if "last section" in n]
    assert len(notes) == 1
    assert not any("last section" in note for note in alone.notes)


@pytest.mark.parametrize(
    ("rw", "rwmixread", "reads", "percent"),
    [
        ("randread", "50", 5_000, 50),  # a reader, and a section that writes
        ("randwrite", "50", 9_000, 90),
        ("randrw", "70", 3_000, 30),
        ("randrw", "70", 6_900, 70),  # as asked: what the options say
        ("randread", "50", 10_000, 100),
    ],
)
def test_a_share_of_reads_far_from_the_options_tells_merged_sections(
    tmp_path: Path, rw: str, rwmixread: str, reads: int, percent: float
) -> None:
    options = {**OPTIONS, "rw": rw, "rwmixread": rwmixread}
    lat = latency(1_000_000.0)
    both = {
        "read": section(reads, lat_ns=lat) if reads else NONE,
        "write": section(10_000 - reads, lat_ns=lat) if reads < 10_000 else NONE,
    }
    (record,) = imported(tmp_path, document(job(options, job_runtime=10_000, **both)))
    assert record.params["read_percent"] == percent
    is_told = any("last section" in note for note in record.notes)
    assert is_told == (percent not in (70, 100))


def test_a_client_adds_up_its_servers_once(tmp_path: Path) -> None:
    options = {**OPTIONS, "numjobs": "2"}
    server = {"read": section(lat_ns=latency(2_000_000.0))}
    entries = [
        job(options, **server, hostname=host, port=8765) for host in ("a", "a", "b", "b", "c", "c")
    ]
    shared = latency(
        2_000_000.0, **percentiles(1_900_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000)
    )
    whole = job(read=section(480_000, lat_ns=shared), hostname="c", port=8765)
    result = document(version="fio-3.7")
    del result["jobs"]
    result |= {"global options": {"bs": "4k"}}
    result["client_stats"] = [*entries, {**whole, "jobname": "All clients"}]
    (record,) = imported(tmp_path, result)
    assert (record.clients, record.params["jobs"]) == (3, 2)
    assert record.totals["read"].operations == 480_000
    assert record.metric("iops", "read") == 48_000
    assert record.metric("latency_p99_ns", "read") == 3_000_000  # of all clients
    assert record.concurrency is not None
    assert record.concurrency.configured == 8 * 2 * 3
    assert record.details["fio_servers"] == ["a", "b", "c"]


def test_each_server_has_global_options_of_its_own(tmp_path: Path) -> None:
    own = {"rw": "randread", "ioengine": "libaio"}
    entries = [
        {**job(own, read=section(lat_ns=latency(1e6)), hostname=host, port=1), "jobname": host}
        for host in ("a", "b")
    ]
    result = document(version="fio-3.33", client_stats=entries)
    result["global options"] = [{"bs": "4k", "iodepth": "8"}, {"bs": "4k", "iodepth": "16"}]
    del result["jobs"]
    records = imported(tmp_path, result)
    assert [r.params["queue_depth"] for r in records] == [8, 16]


@pytest.mark.parametrize(
    ("options", "number", "name"),
    [
        ({"ioengine": "windowsaio"}, 42, "EILSEQ"),
        ({"filename": "\\\\.\\PhysicalDrive1"}, 42, "EILSEQ"),
        ({"filename": "C\\:\\test.dat"}, 40, "ENOSYS"),
        ({"ioengine": "windowsaio"}, 28, "ENOSPC"),
        ({"ioengine": "libaio"}, 84, "EILSEQ"),
        ({"ioengine": "libaio"}, 5, "EIO"),
        ({"ioengine": "windowsaio"}, 99, None),
    ],
)
def test_error_numbers_are_those_of_the_system(
    tmp_path: Path, options: dict[str, str], number: int, name: str | None
) -> None:
    read = section(lat_ns=latency(1e6))
    failed = job({**OPTIONS, **options}, read=read, error=number)
    (record,) = imported(tmp_path, document(failed))
    assert record.status == "failed"
    assert record.failure is not None
    assert (record.failure.errno, record.failure.errno_name) == (number, name)


def test_fios_own_steady_state_is_kept_and_does_not_split_repeats(tmp_path: Path) -> None:
    test = {
        "ss": "iops_slope",
        "duration": 60,
        "attained": 1,
        "criterion": "0.300000%",
        "slope": 0.2,
        "data": {"bw_mean": 1, "iops": [1, 2]},
    }
    plain = section(lat_ns=latency(1e6))
    with_test = {**OPTIONS, "steadystate": "iops_slope:0.3%", "ss_dur": "60", "startdelay": "5"}
    one, two = imported(
        tmp_path,
        document(job(OPTIONS, read=plain)),
        document(job(with_test, read=plain, steadystate=test)),
    )
    assert (one.point_id, one.repeat, two.repeat) == (two.point_id, 1, 2)
    (kept,) = two.details["fio_steadystate"]
    assert (kept["ss"], kept["attained"], kept["slope"]) == ("iops_slope", 1, 0.2)
    assert "data" not in kept
    assert any("steady-state" in note for note in two.notes)


def test_a_job_of_one_kind_with_unified_reporting_is_read(tmp_path: Path) -> None:
    mixed = section(lat_ns=latency(1e6))
    one = {"jobname": "j", "error": 0, "mixed": mixed, "job options": {**OPTIONS, "rw": "write"}}
    (record,) = imported(tmp_path, document(one))
    assert set(record.totals) == {"write"}
    assert record.metric("latency_mean_ns", "write") == 1e6
    both = {**one, "job options": {**OPTIONS, "rw": "randrw"}}
    with pytest.raises(ResultError, match=r"(?s)mixed.*unified_rw_reporting"):
        FioImport().read(json.dumps(document(both)), "x.json")


def test_fios_text_beside_the_json_is_left_out_but_messages_are_kept(tmp_path: Path) -> None:
    read = section(lat_ns=latency(1e6))
    before = """job: (g=0): rw=read, bs=(R) 4096B-4096B, (W) 4096B-4096B, ioengine=psync, iodepth=8
note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1
fio-3.33
Starting 1 process
fio: terminating on signal 2

job: (groupid=0, jobs=1): err= 0: pid=42: Sun Nov 29 14:00:00 2026
  read: IOPS=13.1k, BW=51.0MiB/s (53.5MB/s)(512MiB/10001msec)
"""
    path = tmp_path / "both.txt"
    after = "\nRun status group 0 (all jobs):\n"
    path.write_text(before + json.dumps(document(job(OPTIONS, read=read)), indent=2) + after)
    (record,) = import_files([path], tmp_path / "result").records()
    assert sum("queue depth will be capped" in note for note in record.notes) == 1
    assert sum("terminating on signal 2" in note for note in record.notes) == 1
    assert not any("IOPS=13" in note or "Starting" in note for note in record.notes)


@pytest.mark.parametrize("stamp", ["soon", -1, 10**19, [1]])
def test_what_is_no_time_stamp_is_none(tmp_path: Path, stamp: object) -> None:
    result = document(job(OPTIONS, read=section(lat_ns=latency(1e6))))
    (record,) = imported(tmp_path, {**result, "timestamp_ms": stamp, "timestamp": None})
    assert record.started_at.startswith("1970")
    assert any("no time stamp" in note for note in record.notes)

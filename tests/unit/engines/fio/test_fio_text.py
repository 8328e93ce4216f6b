"""Reading of fio's text for people and of its terse output, as its documentation describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ResultError
from storlab.engines.fio import terse_output, text_output
from storlab.engines.fio.importer import FioImport
from storlab.engines.fio.printed_number import bounds
from storlab.exchange.importer import import_files

NEW = """\
randrw: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=32
...
fio-3.33
Starting 4 processes

randrw: (groupid=0, jobs=4): err= 0: pid=4711: Sat Jun 24 12:07:54 2017
  read: IOPS=12.3k, BW=48.1MiB/s (50.4MB/s)(2885MiB/60001msec)
    slat (nsec): min=500, max=145500, avg=8318.00, stdev=4781.50
    clat (usec): min=170, max=78367, avg=4019.02, stdev=8293.31
     lat (usec): min=174, max=78375, avg=4027.34, stdev=8291.79
    clat percentiles (usec):
     |  1.00th=[  302],  5.00th=[  326], 10.00th=[  343], 20.00th=[  363],
     | 30.00th=[  392], 40.00th=[  404], 50.00th=[  416], 60.00th=[  445],
     | 70.00th=[  816], 80.00th=[ 6718], 90.00th=[12911], 95.00th=[21627],
     | 99.00th=[43779], 99.50th=[51643], 99.90th=[68682], 99.95th=[72877],
     | 99.99th=[78119]
   bw (  KiB/s): min=  532, max=  686, per=0.10%, avg=622.87, stdev=24.82, samples=  100
   iops        : min=   76, max=   98, avg=88.98, stdev= 3.54, samples=  100
  write: IOPS=5276, BW=20.6MiB/s (21.6MB/s)(1237MiB/60001msec); 0 zone resets
    clat (msec): min=1, max=1234, avg= 9.25, stdev= 2.00
     lat (msec): min=1, max=1235, avg= 9.26, stdev= 2.00
  lat (usec)   : 250=0.04%, 500=64.11%, 750=4.81%, 1000=2.79%
  lat (msec)   : 2=4.16%, 4=1.84%, 10=4.90%, 20=11.33%, >=2000=0.37%
  fsync/fdatasync/sync_file_range:
    sync (usec): min=44, max=1939, avg=403.50, stdev=227.41
    sync percentiles (usec):
     |  1.00th=[   51], 50.00th=[  388], 99.00th=[  799]
  cpu          : usr=0.25%, sys=0.75%, ctx=12072, majf=0, minf=21
  IO depths    : 1=0.1%, 2=0.1%, 4=0.1%, 8=0.1%, 16=0.1%, 32=100.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.1%, 64=0.0%, >=64=0.0%
     issued rwts: total=738573,316609,0,31661 short=0,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=32

Run status group 0 (all jobs):
   READ: bw=48.1MiB/s (50.4MB/s), 48.1MiB/s-48.1MiB/s (50.4MB/s-50.4MB/s), io=2885MiB (3025MB), run=60001-60001msec
  WRITE: bw=20.6MiB/s (21.6MB/s), 20.6MiB/s-20.6MiB/s (21.6MB/s-21.6MB/s), io=1237MiB (1297MB), run=60001-60001msec

Disk stats (read/write):
  sda: ios=16398/16511, sectors=32321/65472, merge=30/162, ticks=6853/819634, in_queue=826487, util=100.00%
"""  # noqa: E501
OLD_2 = """\
mix: (g=0): rw=rw, bs=64K-64K/64K-64K/64K-64K, ioengine=sync, iodepth=1
trims: (g=1): rw=randtrim, bs=1M-1M/1M-1M/1M-1M, ioengine=libaio, iodepth=8
fio-2.1.10
Starting 2 processes

mix: (groupid=0, jobs=1): err= 0: pid=77: Mon Mar  3 08:00:10 2014
  read : io=10240MB, bw=174763KB/s, iops=2730, runt= 60000msec
    clat (usec): min=9, max=3140.4K, avg=182.25, stdev=44.50
     lat (usec): min=9, max=3140.4K, avg=182.50, stdev=44.50
    clat percentiles (usec):
     |  1.00th=[   30], 50.00th=[  150], 90.00th=[  300], 99.00th=[  900],
     | 99.90th=[ 1500], 99.99th=[ 2900]
    bw (KB  /s): min=48602, max=131282, per=100.00%, avg=103776.27, stdev=11383.91
  write: io=5120.5MB, bw=87381KB/s, iops=1365, runt= 60000msec
    clat (msec): min=1, max=28, avg=13.69, stdev= 2.03
     lat (msec): min=2, max=28, avg=13.77, stdev= 2.03
    lat (usec) : 20=0.01%, 50=92.90%
    lat (msec) : >=2000=0.27%
  cpu          : usr=1.75%, sys=3.09%, ctx=42185, majf=0, minf=50
  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued    : total=r=163840/w=81920/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
     latency   : target=0, window=0, percentile=100.00%, depth=1
trims: (groupid=1, jobs=1): err= 5 (file:io_u.c:1494, func=io_u error, error=Input/output error): pid=78: Mon Mar  3 08:00:10 2014
   trim: io=8192.0KB, bw=136533B/s, iops=0, runt= 60000msec
    clat (msec): min=1, max=28, avg=13.69, stdev= 2.03
  cpu          : usr=0.00%, sys=0.00%, ctx=42185, majf=0, minf=50
     issued    : total=r=0/w=0/d=8, short=r=0/w=0/d=0

Run status group 0 (all jobs):
   READ: io=10240MB, aggrb=174762KB/s, minb=174762KB/s, maxb=174762KB/s, mint=60000msec, maxt=60000msec
"""  # noqa: E501
OLDEST = """\
Client1: (g=0): rw=write, odir=1, bs=64K-64K/64K-64K, rate=0, ioengine=sync, iodepth=1
Starting 1 thread
Client1: (groupid=0): err= 0:
  write: io=  2048MiB, bw= 41943KiB/s, runt= 50000msec
    clat (msec): min=    0, max=  631, avg=48.50, dev=86.82
    bw (KiB/s) : min=    0, max= 1196, per=51.00%, avg=664.02, dev=681.68
  cpu          : usr=1.49%, sys=0.25%, ctx=7969

Run status group 0 (all jobs):
  WRITE: io=2048MiB, aggrb=41943, minb=41943, maxb=41943, mint=50000msec, maxt=50000msec
"""
OLD_1 = """\
seq: (g=0): rw=read, bs=128K-128K/128K-128K, ioengine=libaio, iodepth=4
fio 1.59
Starting 1 process

seq: (groupid=0, jobs=1): err= 0: pid=12
  read : io=1024.0MB, bw=104858KB/s, iops=819, runt= 10000msec
    slat (usec): min=1, max=12, avg= 2.02, stdev= 0.33
    clat (usec): min=1000, max=90000, avg=4880.50, stdev=33.00
     lat (usec): min=1002, max=90002, avg=4882.75, stdev=33.00
    clat percentiles (usec) : 1.00th=1500, 50.00th=4800, 90.00th=5000, 99.00th=9000,
                              99.90th=20000, 99.99th=80000
    bw (KB/s) : min=  532, max=  686, per=100.10%, avg=622.87, stdev=24.82
  cpu          : usr=0.25%, sys=0.75%, ctx=12072, majf=0, minf=21
  IO depths    : 1=0.1%, 2=0.1%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued r/w/d: total=8192/0/0, short=0/0/0
     lat (usec): 250=0.04%, 500=64.11%
     lat (msec): 2=4.16%

Run status group 0 (all jobs):
   READ: io=1024.0MB, aggrb=104857KB/s, minb=104857KB/s, maxb=104857KB/s, mint=10000msec, maxt=10000msec
"""  # noqa: E501


def jobs_of(text: str) -> list[dict[str, Any]]:
    return [job for document in text_output.read(text) for job in document["jobs"]]


def test_text_of_version_3() -> None:
    (document,) = text_output.read(NEW)
    (job,) = document["jobs"]
    assert document["fio version"] == "3.33"
    assert document["disk_util"][0]["read_sectors"] == 32321
    assert job["job options"] == {
        "rw": "randrw",
        "bs": "4096",
        "ioengine": "libaio",
        "iodepth": "32",
        "numjobs": "4",
        "group_reporting": "1",
        "rwmixread": "70",
        "fsync": "10",
    }
    read, write, sync = job["read"], job["write"], job["sync"]
    assert (read["total_ios"], read["io_bytes"], read["runtime"]) == (738573, 738573 * 4096, 60001)
    assert read["lat_ns"]["mean"] == 4027340
    assert (read["clat_ns"]["min"], read["clat_ns"]["max"]) == (170_000, 78_367_000)
    assert read["clat_ns"]["percentile"]["99.99"] == 78_119_000
    assert (write["total_ios"], write["clat_ns"]["max"]) == (316609, 1_234_000_000)
    assert (sync["total_ios"], sync["lat_ns"]["mean"]) == (31661, 403_500)
    assert sync["lat_ns"]["percentile"]["50.00"] == 388_000
    assert job["job_runtime"] == 4 * 60001
    assert job["job_start"] == 1498306074000 - 60001


def test_text_of_version_2_has_kb_of_1024_bytes() -> None:
    mix, trims = jobs_of(OLD_2)
    assert mix["read"]["io_bytes"] == 10240 << 20
    assert mix["write"]["io_bytes"] == 81920 << 16  # "5120.5MB" is rounded
    assert mix["read"]["clat_ns"]["max"] == 3_140_400_000
    assert mix["read"]["clat_ns"]["percentile"]["99.90"] == 1_500_000
    assert mix["write"]["lat_ns"]["mean"] == 13_770_000
    assert mix["job options"]["rw"] == "rw"
    assert (trims["error"], trims["trim"]["total_ios"], trims["trim"]["io_bytes"]) == (
        5,
        8,
        8 << 20,
    )
    assert trims["job options"]["iodepth"] == "8"


def test_text_of_version_1_has_neither_date_nor_trims() -> None:
    (job,) = jobs_of(OLD_1)
    assert job["read"]["io_bytes"] == 1 << 30
    assert job["read"]["lat_ns"]["mean"] == 4_882_750
    assert job["read"]["clat_ns"]["percentile"] == {
        "1.00": 1_500_000,
        "50.00": 4_800_000,
        "90.00": 5_000_000,
        "99.00": 9_000_000,
        "99.90": 20_000_000,
        "99.99": 80_000_000,
    }
    assert job["job_start"] is None


def test_text_of_the_first_versions_has_no_counts() -> None:
    (job,) = jobs_of(OLDEST)
    assert (job["write"]["total_ios"], job["write"]["io_bytes"]) == (32768, 2 << 30)
    assert job["write"]["clat_ns"]["mean"] == 48_500_000
    assert job["job options"]["bs"] == "65536"


def test_jobs_of_clients_are_read_and_their_sum_is_not() -> None:
    report = NEW[NEW.index("randrw: (groupid") :]
    header = "".join(f"<host{i}> {line}\n" for i in (1, 2) for line in NEW.splitlines()[:2])
    total = report.replace("randrw: (g", "All clients: (g").replace("pid=4711", "pid=0")
    other = report.replace("pid=4711", "pid=4712")
    reports = [text[: text.index("\nRun status")] for text in (report, other)]
    first = "hostname=vm, be=0, 64-bit, os=Linux, arch=x86-64, fio=fio-3.33, flags=1"
    text = "\n".join([first, header, *reports, NEW[NEW.index("Run status") :], total])
    (document,) = text_output.read(text)
    (plain,) = jobs_of(NEW)
    assert document["fio version"] == "3.33"
    assert [job["job options"] for job in document["jobs"]] == [plain["job options"]] * 2
    assert len(document["notes"]) == 1


def test_text_around_the_results_does_no_harm() -> None:
    lines = [
        "#!/bin/bash",
        "[root@host ~]# fio --name=randrw --rw=randrw job.fio",
        *NEW.splitlines()[:5],
        "Jobs: 4 (f=4): [m(4)][50.0%][r=20.5MiB/s][r=82 IOPS][eta 00m:30s]\r"
        "\x1b[0mJobs: 4 (f=4): [m(4)][100.0%][r=20.5MiB/s][r=82 IOPS][eta 00m:00s]"
        + NEW.splitlines()[5],
        *NEW.splitlines()[6:],
        "[root@host ~]# ls",
        "fio: terminating on signal 2",
    ]
    (document,) = text_output.read("\r\n".join(lines))
    (plain,) = text_output.read(NEW)
    assert document["jobs"] == plain["jobs"]
    assert document["notes"] == ["fio: terminating on signal 2"]


def test_the_number_of_jobs_is_read_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "fio.log"
    path.write_text(NEW[NEW.index("randrw: (groupid") :])
    (record,) = import_files([path], tmp_path / "result").records()
    assert (record.params["jobs"], record.params["queue_depth"]) == (4, 32)
    assert record.params["block_size"] == 4096


def test_text_of_windows_lacks_a_line_feed_after_the_date() -> None:
    assert jobs_of(NEW.replace(" 2017\n", " 2017")) == jobs_of(NEW)
    assert jobs_of(NEW.replace("\n", "\r\n")) == jobs_of(NEW)


def test_each_start_of_fio_is_a_document_and_interim_results_are_not() -> None:
    later = NEW.replace("pid=4711", "pid=5000")
    bare = later[later.index("randrw: (groupid") :]
    assert len(text_output.read(NEW + later)) == 2
    assert len(text_output.read(NEW + bare)) == 2
    interim = NEW.replace("738573", "300000") + NEW[NEW.index("randrw: (groupid") :]
    (document,) = text_output.read(interim)
    assert document["jobs"][0]["read"]["total_ios"] == 738573
    assert len(document["notes"]) == 1


def test_percentiles_of_the_total_latency_stay_apart() -> None:
    total = "    lat percentiles (msec):\n     |  1.00th=[    3], 99.00th=[   44]\n"
    (job,) = jobs_of(NEW.replace("   bw (  KiB", f"{total}   bw (  KiB"))
    assert job["read"]["lat_ns"]["percentile"] == {"1.00": 3_000_000, "99.00": 44_000_000}
    assert job["read"]["clat_ns"]["percentile"]["99.00"] == 43_779_000


def test_unknown_lines_of_a_job_are_noted() -> None:
    changed = NEW.replace("  cpu   ", "  thermals     : max=80\n  cpu   ")
    (job,), (plain,) = jobs_of(changed), jobs_of(NEW)
    assert set(job["notes"]) - set(plain["notes"]) == {
        "this line of fio's text is not imported: thermals     : max=80"
    }


def test_bytes_of_several_sizes_keep_their_rounding() -> None:
    varied = NEW.replace("4096B-4096B", "4096B-8192B")
    (job,) = jobs_of(varied)
    assert job["job options"]["bsrange"] == "4096-8192"
    assert job["read"]["io_bytes"] == pytest.approx(2885 << 20, rel=2e-4)
    assert job["read"]["total_ios"] == 738573
    assert not any("read: bytes" in note for note in job["notes"])
    coarse = varied.replace("(2885MiB/60001msec)", "(2.8GiB/60001msec)").replace("48.1MiB", "48MiB")
    (job,) = jobs_of(coarse.replace("50.4MB", "50MB"))
    assert job["read"]["io_bytes"] == pytest.approx(2885 << 20, rel=0.02)
    assert sum("read: bytes" in note for note in job["notes"]) == 1


def test_completed_operations_are_counted_not_issued_ones() -> None:
    (job,) = jobs_of(NEW.replace("738573", "748573"))
    assert job["read"]["total_ios"] == 748573
    assert job["read"]["clat_ns"]["N"] == pytest.approx(738573, rel=2e-4)
    assert job["read"]["io_bytes"] == 4096 * job["read"]["clat_ns"]["N"]


def test_lines_of_other_programs_inside_a_report_do_no_harm() -> None:
    lines = [line for text in NEW.splitlines() for line in (text, "[global]")]
    assert jobs_of("\n".join(lines)) == jobs_of(NEW)


def test_an_excerpt_without_counts_and_options() -> None:
    lines = NEW.splitlines()
    (job,) = jobs_of("\n".join(lines[5:8] + lines[9:10]))
    assert job["read"]["total_ios"] == pytest.approx(738573, rel=2e-4)
    assert job["job options"] == {}


def test_sections_merged_by_group_reporting() -> None:
    header = NEW.splitlines()[0].replace("rw=randrw", "rw=randread")
    other = header.replace("randrw: ", "writer: ").replace("randread", "randwrite")
    text = "\n".join([header, other, *NEW.splitlines()[2:]])
    (job,) = jobs_of(text)
    assert job["job options"]["rw"] == "randrw"
    assert job["job options"]["numjobs"] == "4"
    assert any("randrw, writer" in note for note in job["notes"])


@pytest.mark.parametrize(
    ("text", "version", "low", "high"),
    [
        ("12.3k", (3, 33), 12250, 12351),
        ("12.0k", (3, 1), 11950, 13000),  # before 3.26, 12.97k was printed as 12.0k
        ("5276", (3, 33), 5276, 5277),
        ("48.1MiB/s", (3, 33), 48.05 * 2**20, 48.151 * 2**20),
        ("50.4MB/s", (3, 33), 50.35e6, 50.451e6),
        ("2885MiB", (3, 33), 2884.5 * 2**20, 2886 * 2**20),
        ("5.512MB", (2, 1), 5e6, 6e6),  # the fraction was no decimal fraction before 2.20
        ("403Mbit/s", (3, 33), 402.5e6 / 8, 404e6 / 8),
    ],
)
def test_bounds_of_rounded_numbers(
    text: str, version: tuple[int, int], low: float, high: float
) -> None:
    found = bounds(text, version)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_an_unknown_word_is_no_number() -> None:
    assert bounds("fast", (3, 33)) is None
    assert bounds("", (3, 33)) is None


def direction(kib: int, iops: int, runtime_ms: int, version: int, p50: int = 700) -> list[str]:
    """Return the values of one kind of I/O in terse output, as the HOWTO lists them."""
    percentiles = [f"{p:f}%={p50 + i}" for i, p in enumerate((50, 90, 99, 99.9, 99.99))]
    empty = not kib
    values = [str(v) for v in (kib, kib * 1000 // max(runtime_ms, 1), iops, runtime_ms)]
    values += ["0", "9", "1.500000", "0.250000"]
    values += ["0", "0", "0.0", "0.0"] if empty else ["3", "5000", "800.250000", "20.5"]
    values += percentiles + ["0%=0"] * 15
    values += ["0", "0", "0.0", "0.0"] if empty else ["4", "5001", "801.750000", "20.5"]
    values += ["0", "0", "0.000000%", "0.000000", "0.000000"]
    return values + (["2", "5", "6", "5.5", "0.1", "2"] if version == 5 else [])


def terse(version: int, *kinds: list[str], name: str = "job", disk: str = "") -> str:
    first = ["2"] if version == 2 else [str(version), "fio-3.33"]
    cpu = ["1.500000%", "2.500000%", "100", "0", "20"]
    depths = ["0.0%"] * 4 + ["100.0%"] + ["0.0%"] * 2
    values = [*first, name, "0", "0", *(v for kind in kinds for v in kind), *cpu, *depths]
    return ";".join([*values, *["0.00%"] * 22, *([disk] if disk else [])])


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_terse_output(version: int) -> None:
    done, none = direction(1 << 20, 19962, 13132, version), direction(0, 0, 0, version)
    kinds = [done, none] if version == 3 else [done, none, none]
    (document,) = terse_output.read(terse(version, *kinds, disk="vda;481;98;1;2;31;203;269;27.1%"))
    (job,) = document["jobs"]
    assert document["fio version"] == ("unknown" if version == 2 else "3.33")
    assert document["disk_util"] == [
        {
            "name": "vda",
            "read_ios": 481,
            "write_ios": 98,
            "read_merges": 1,
            "write_merges": 2,
            "read_ticks": 31,
            "write_ticks": 203,
            "in_queue": 269,
            "util": 27.1,
        }
    ]
    read = job["read"]
    assert (read["total_ios"], read["io_bytes"], read["runtime"]) == (1 << 18, 1 << 30, 13132)
    assert read["clat_ns"]["mean"] == 800_250
    assert read["lat_ns"]["max"] == 5_001_000
    assert list(read["clat_ns"]["percentile"].values()) == [i * 1000 for i in range(700, 705)]
    assert job["iodepth_level"]["16"] == 100
    assert job["write"]["total_ios"] == 0


def test_terse_output_of_several_jobs_hosts_and_starts() -> None:
    done, none = direction(1 << 20, 19962, 13132, 3), direction(0, 0, 0, 3)
    first, second = (f"vda;{ios};98;1;2;31;203;269;27.1%" for ios in (481, 900))
    lines = [
        "host1;" + terse(3, done, none, name="a", disk=first),
        "host1;" + terse(3, none, done, name="randwrite", disk=first) + ";what it does; and why",
        terse(3, done, none, name="a", disk=second),
    ]
    one, other = terse_output.read("noise\n" + "\n".join(lines))
    assert [job["jobname"] for job in one["jobs"]] == ["a", "randwrite"]
    assert [job["read"]["total_ios"] > 0 for job in one["jobs"]] == [True, False]
    assert any("what it does; and why" in note for note in one["jobs"][1]["notes"])
    assert len(other["jobs"]) == 1


def test_imported_terse_output_has_estimated_options(tmp_path: Path) -> None:
    path = tmp_path / "fio.csv"
    path.write_text(terse(3, direction(4 << 20, 19962 * 4, 13132, 3), direction(0, 0, 0, 3)))
    (record,) = import_files([path], tmp_path / "result").records()
    assert record.metric("iops", "read") == pytest.approx((1 << 20) / 13.132)
    assert record.metric("latency_mean_ns", "read") == 801_750
    params = record.params
    assert (params["block_size"], params["queue_depth"], params["jobs"]) == (4096, 16, 4)
    assert params["fio_options"] == {"rw": "not in the file"}
    assert record.cpu is None


def test_percentiles_below_a_microsecond_are_missing_not_zero() -> None:
    (document,) = terse_output.read(
        terse(3, direction(64, 10, 100, 3, p50=0), direction(0, 0, 0, 3))
    )
    assert list(document["jobs"][0]["read"]["clat_ns"]["percentile"].values()) == [
        1000,
        2000,
        3000,
        4000,
    ]


@pytest.mark.parametrize("kinds", [1, 0])
def test_terse_output_that_cannot_be_read_is_refused(kinds: int, tmp_path: Path) -> None:
    path = tmp_path / "fio.terse"
    path.write_text(
        terse(3, *[direction(64, 10, 100, 3)] * kinds)
        if kinds
        else "3;fio-3.33;a;0;0;1;2;3;4;5;6;7"
    )
    with pytest.raises(ResultError, match=r'job "(job|a)"'):
        import_files([path], tmp_path / "result")


def test_damaged_terse_output_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fio.terse"
    done = direction(64, 160, 100, 3)
    path.write_text(terse(3, [*done[:9], "80.x", *done[10:]], direction(0, 0, 0, 3)))
    with pytest.raises(ResultError, match='job "job"'):
        import_files([path], tmp_path / "result")


def test_a_job_without_results_is_refused_with_fios_message(tmp_path: Path) -> None:
    path = tmp_path / "fio.log"
    path.write_text(NEW.splitlines()[0] + "\nfio: pid=0, err=22/file:filesetup.c:1155")
    with pytest.raises(ResultError, match="err=22"):
        import_files([path], tmp_path / "result")


def test_imported_text(tmp_path: Path) -> None:
    path = tmp_path / "fio.log"
    path.write_text(NEW)
    store = import_files([path], tmp_path / "result")
    (record,) = store.records()
    assert record.metric("iops", "read") == pytest.approx(738573 / 60.001)
    assert record.metric("latency_p99_ns", "read") == 43_779_000
    assert (record.params["jobs"], record.params["queue_depth"]) == (4, 32)
    assert (record.params["sync"], record.params["read_percent"]) == ("fsync", 70)
    assert record.started_at.startswith("2017-06-24T12:06:53.999")
    assert store.raw(record.run_id, "imported.txt") == NEW.encode()


@pytest.mark.parametrize("text", ["a report about fio: bw=1MB/s", "2;100;5;7;1;2;3;4;5;6;7", ""])
def test_other_text_is_not_fios(text: str) -> None:
    assert not FioImport().matches(text)

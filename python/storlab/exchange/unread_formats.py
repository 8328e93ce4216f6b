"""Formats that storlab recognises but does not import, with advice for each."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD_CHARACTERS = 8_192  # beginning of a file that is searched for its format


@dataclass(frozen=True, slots=True)
class UnreadFormat:
    """Format of a file that is not imported; ``is_result`` if it has results of a benchmark."""

    what: str  # completes "is ..."
    fix: str
    content: re.Pattern[str]
    is_result: bool = True


def _text(what: str, content: str, fix: str, *, is_result: bool = True) -> UnreadFormat:
    return UnreadFormat(what, fix, re.compile(content, re.MULTILINE), is_result)


_REPEAT = "measure again with storlab or with fio, whose results storlab imports"
_AS_TABLE = "put its figures into a CSV table and check them with `storlab audit`"

UNREAD_FORMATS = (
    _text(
        "a log of latencies, bandwidths or IOPS (write_lat_log, write_bw_log, log_hist_msec)",
        r"\A(?:\d+, *-?\d+, *[0-3], *\d+.*\n){1,3}|\A\d+, [0-3], \d+(?:, \d+){50,}",
        "give the output of the same run, written with --output-format=json+",
        is_result=False,
    ),
    _text(
        "a job file, not a result",
        r"\A(?:[ \t]*(?:[;#].*)?\n)*[ \t]*\[[^\]\n]+\][ \t]*\n(?:.*\n){0,200}?"
        r"[ \t]*(?:rw|readwrite|ioengine|bs|iodepth|filename)[ \t]*=",
        "make a study of it with `storlab init --from-fio FILE`",
        is_result=False,
    ),
    _text("output of iostat", r"^Device:?\s+.*(?:r/s|tps|rkB/s|kB_read)", _AS_TABLE),
    _text("output of sar", r"^Linux \S+ \(\S+\)\s.*_\S+_\s+\(\d+ CPU\)", _AS_TABLE),
    _text("output of vmstat", r"^[ \t]*r\s+b\s+swpd\s+free\s", _AS_TABLE),
    _text(
        "a result of Bonnie++",
        r"^Version\s+[12]\.\d+.*Sequential|^(?:format_version,|1\.9\d,1\.9\d,)",
        _REPEAT,
    ),
    _text(
        "a result of IOzone", r"Iozone: Performance Test of File I/O|Excel output is below", _REPEAT
    ),
    _text(
        "output of dd",
        r"^\d+\+\d+ records in\n\d+\+\d+ records out",
        "measure with fio: dd prints no latencies and has only one request in flight",
    ),
    _text("a result of CrystalDiskMark", r"CrystalDiskMark \d", _REPEAT),
    _text(
        "a result of DiskSpd",
        r"^Command Line: .*diskspd|<Results>\s*<System>[\s\S]*<Profile>|^Total IO\s*\nthread \|",
        _REPEAT,
    ),
    _text("a result of ATTO Disk Benchmark", r"ATTO Disk Benchmark|<benchmark[^>]*atto", _REPEAT),
    _text("output of hdparm", r"Timing (?:buffered disk|cached|O_DIRECT \w+) reads:", _REPEAT),
    _text(
        "output of ioping", r"^--- .* ioping statistics ---|requests completed in .* iops", _REPEAT
    ),
    _text(
        "a parameter file of vdbench, not a result",
        r"^(?:\S+ line: )?[ \t]*f?sd=\w+[ \t]*,[\s\S]*^(?:\S+ line: )?[ \t]*(?:f?wd|rd)=\w+[ \t]*,",
        "give the output directory of vdbench, with flatfile.html or summary.html",
        is_result=False,
    ),
    _text(
        "a report of vdbench on a part of its runs, such as one device",
        r"\bavg_\d+-\d+\s+[\d.]+\s+[\d.]+\s+\d",
        "give flatfile.html or summary.html of the same run, or vdbench's output directory",
    ),
    _text(
        "a result of mdtest",
        r"^mdtest-\S+ was launched|^SUMMARY rate(?: \(in ops/sec\))?:",
        f"{_AS_TABLE}: storlab has no workload of metadata operations",
    ),
    _text(
        "the summary of an IO500 run",
        r"^\[RESULT\]\s+ior[-_]easy[-_]write\s",
        "give the files ior-easy-*.txt and ior-hard-*.txt of the same run, which storlab imports",
    ),
    _text("a result of Filebench", r"IO Summary:\s+\d+ ops", _REPEAT),
    _text(
        "a result of COSBench", r"Op-Type.*Avg-ResTime|<workload [^>]*>[\s\S]*<workstage", _AS_TABLE
    ),
    _text(
        "a result of s3bench or s3-benchmark",
        r"Results Summary for (?:Write|Read) Operation|Wasabi benchmark program"
        r"|^Loop \d+: (?:PUT|GET) time",
        "measure again with warp, whose benchmark data storlab imports",
    ),
    _text(
        "a result of rados bench",
        r"^Maintaining \d+ concurrent (?:writes|reads)|^Total (?:writes|reads) made:",
        _REPEAT,
    ),
    _text(
        "the summary of a DLIO or MLPerf Storage run",
        r'\A\s*\{[\s\S]*"metric":\s*\{\s*"(?:train_au|train_throughput|save_checkpoint|load_)',
        "give the directory of the run, which contains this file",
        is_result=False,
    ),
    _text(
        "a printed table of elbencho",
        r"^OPERATION\s+RESULT TYPE\s+FIRST DONE\s+LAST DONE",
        "give the file that elbencho writes with --csvfile or --jsonfile",
    ),
    _text(
        "a log of MLPerf Training, which measures accelerators, not storage",
        r"^.{0,80}:::MLLOG ",
        "give results of MLPerf Storage",
    ),
    _text(
        "a result of pgbench", r"^tps = [\d.]+ \(", "storlab does not import results of databases"
    ),
    _text(
        "a result of HammerDB",
        r"System achieved \d+ (?:NOPM|QPH)|TEST RESULT : System",
        "storlab does not import results of databases",
    ),
    _text(
        "a result of YCSB",
        r"^\[OVERALL\], (?:RunTime|Throughput)",
        "storlab does not import results of databases",
    ),
    _text(
        "a result of sysbench, but not of its test fileio",
        r"^sysbench \d[\s\S]*(?:transactions:|events per second:|total number of events:)",
        "give a result of `sysbench fileio`",
    ),
    _text("a result of dbench", r"^Throughput [\d.]+ MB/sec\s+\d+ clients", _REPEAT),
    _text(
        "a result of the Phoronix Test Suite",
        r"<PhoronixTestSuite>",
        "give the fio output of the test, if it has one",
    ),
    _text(
        "a result of iperf3, which measures a network",
        r'"intervals"[\s\S]*"streams"[\s\S]*"bits_per_second"',
        "give results of storage",
        is_result=False,
    ),
    _text(
        "output of smartctl or nvme-cli",
        r"^smartctl \d|^Smart Log for NVME device",
        "describe the drive in a study's target",
        is_result=False,
    ),
    _text(
        "an export of storlab",
        r"\A(?:run_id|campaign),",
        "give the result directory to `storlab compare`",
        is_result=False,
    ),
)


def recognised(text: str) -> UnreadFormat | None:
    """Return the format of a text that no importer reads; None if it is not recognised."""
    head = text[:_HEAD_CHARACTERS]
    return next((known for known in UNREAD_FORMATS if known.content.search(head)), None)

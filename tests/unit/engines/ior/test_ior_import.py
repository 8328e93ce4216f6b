"""Import of IOR's text and JSON, written after IOR's documentation of both."""

from __future__ import annotations

import json

import pytest

from storlab.base.errors import ResultError
from storlab.contracts.exchange import ImportedRun
from storlab.engines.ior.importer import IorImport

MIB = 1 << 20
HEADER = """IOR-3.3.0: MPI Coordinated Test of Parallel I/O
Began               : Fri May  3 09:25:48 2024
Command line        : ior -a POSIX -B -e -t 1m -b 16m -s 4 -i 2 -o /mnt/fs/dir/file
Machine             : Linux client1
TestID              : 0
StartTime           : Fri May  3 09:25:48 2024
Path                : /mnt/fs/dir/file

Options:
api                 : POSIX
test filename       : /mnt/fs/dir/file
access              : single-shared-file
segments            : 4
ordering in a file  : random
nodes               : 2
tasks               : 8
xfersize            : 1 MiB
blocksize           : 16 MiB
aggregate filesize  : 512 MiB

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s) \
  total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   -------- \
  --------   ----
""".replace("\\\n", "")
WRITE = "write 256.00 300.00 0.01 16384 1024.00 0.1 1.8 0.1 2.00 0\n"
READ = "read 512.00 600.00 0.01 16384 1024.00 0.1 0.8 0.1 1.00 0\n"
MOVED = "WARNING: Using actual aggregate bytes moved = 1048576000\n"


def runs(text: str) -> list[ImportedRun]:
    assert IorImport().matches(text)
    return IorImport().read(text, "ior.txt")


def test_rows_are_runs_with_exact_bytes_by_the_options() -> None:
    write, again, read = runs(HEADER + WRITE + WRITE.replace("256", "255") + READ + "remove - -\n")
    assert write.outcome.totals["write"].bytes == 8 * 4 * 16 * MIB
    assert write.outcome.totals["write"].operations == 512
    assert write.outcome.window_end_ns == 2_000_000_000
    assert again.outcome.window_end_ns == 2_007_843_137  # by the rate: the time has 3 digits
    assert read.outcome.totals["read"].bytes == 512 * MIB
    assert (write.fields, write.params) == (again.fields, again.params)  # repeats of one point
    assert write.fields["final_sync"]
    assert "final_sync" not in read.fields
    assert (write.fields["jobs"], write.clients, write.direct) == (4, 2, True)
    assert (write.fields["access"], write.fields["block_size"]) == ("random", MIB)
    assert (write.target, write.locations) == ("dir", ["/mnt/fs/dir/file"])
    assert write.started_at == "2024-05-03T09:25:48.000+00:00"


def test_stonewalled_bytes_are_those_that_were_moved() -> None:
    (run,) = runs(HEADER + MOVED + WRITE)
    assert run.outcome.totals["write"].bytes == 1_048_576_000


def test_bytes_that_contradict_the_options_are_rate_times_time() -> None:
    (run,) = runs(HEADER + WRITE.replace("2.00", "1.00"))
    assert run.outcome.totals["write"].bytes == 256 * MIB


def test_columns_of_ior_3_0_have_no_iops() -> None:
    old = HEADER.replace("IOPS       Latency(s)  ", "").replace("IOR-3.3.0", "IOR-3.0.1")
    (run,) = runs(old + "write 256.00 16384 1024.00 0.1 1.8 0.1 2.00 0\n")
    assert run.outcome.totals["write"].bytes == 512 * MIB
    assert run.outcome.engine.version == "3.0.1"


def test_several_processes_in_one_file_keep_their_options() -> None:
    other = HEADER.replace("tasks               : 8", "tasks               : 4")
    first, second = runs(HEADER + READ + "\nFinished : now\n" + other.replace("-B ", "") + WRITE)
    assert (first.fields["jobs"], second.fields["jobs"]) == (4, 2)
    assert (first.direct, second.direct) == (True, False)


def test_other_apis_do_not_show_whether_files_are_cached() -> None:
    (run,) = runs(HEADER.replace("POSIX", "MPIIO").replace("-B ", "") + WRITE)
    assert run.direct is None


def test_json_has_the_same_numbers() -> None:
    options = {"api": "POSIX", "test filename": "/mnt/fs/dir/file", "access": "file-per-process",
               "segments": 4, "nodes": 2, "tasks": 8, "blocksize": "16 MiB"}  # fmt: skip
    row = {"access": "read", "bwMiB": 512.0, "blockKiB": 16384.0, "xferKiB": 1024.0,
           "iops": 600.0, "latency": 0.01, "totalTime": 1.0}  # fmt: skip
    document = {"Version": "4.0.0", "Command line": "ior -a POSIX",
                "tests": [{"TestID": 0, "Options": options, "Results": [[row, row]]}]}  # fmt: skip
    first, second = runs(json.dumps(document))
    assert first.outcome.totals["read"].bytes == 512 * MIB
    assert first.outcome.engine.version == "4.0.0"
    assert (first.fields, first.direct) == (second.fields, False)


@pytest.mark.parametrize(
    ("text", "field"),
    [(HEADER, "Results"), (HEADER + WRITE[:20] + "\n", "write")],
)
def test_incomplete_output_names_the_field(text: str, field: str) -> None:
    with pytest.raises(ResultError) as refused:
        runs(text)
    assert field in str(refused.value)

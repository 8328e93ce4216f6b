"""Import of gdsio's result lines, written after NVIDIA's description of the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import ResultError
from storlab.cli.main import main
from storlab.contracts.exchange import ImportedRun
from storlab.engines.gdsio.importer import GdsioImport

READ = (
    "IoType: READ XferType: GPUD Threads: 4 DataSetSize: 4194304/1048576(KiB) IOSize: 1024(KiB) "
    "Throughput: 2.000000 GiB/sec, Avg_Latency: 1953.125000 usecs ops: 4096 total_time 2.0 secs\n"
)


def runs(text: str) -> list[ImportedRun]:
    assert GdsioImport().matches(text)
    return GdsioImport().read(text, "log.txt")


def test_a_line_has_bytes_operations_and_mean_latency() -> None:
    (run,) = runs(READ)
    total = run.outcome.totals["read"]
    assert (total.operations, total.bytes) == (4096, 4 << 30)
    assert total.latency_mean_ns == 1_953_125
    assert run.outcome.window_end_ns == 2_000_000_000
    assert run.fields["workers"] == 4
    assert (run.fields["path"], run.fields["api"]) == ("direct", "sync")
    assert (run.target, run.locations, run.direct) == ("imported", [], True)


def test_the_command_before_a_result_names_target_and_gpu() -> None:
    other = READ.replace("READ XferType: GPUD", "RANDWRITE XferType: CPU_CACHED_GPU")
    text = f"$ gdsio -D /mnt/a/dir -d 3 -w 4 -x 0 -I 0 -T 2\n{READ}results of -x 4:\n{other}"
    with_command, without = runs(text)
    assert (with_command.target, with_command.locations) == ("dir", ["/mnt/a/dir"])
    assert with_command.fields["gpu"] == [3]
    assert (without.target, without.direct) == ("imported", False)
    assert (without.fields["access"], without.fields["read_percent"]) == ("random", 0.0)


def test_the_latency_of_a_batch_is_left_out() -> None:
    batch = READ.replace("GPUD Threads: 4", "GPU_BATCH Threads: 1 IoDepth: 8")
    (run,) = runs(batch)
    assert run.outcome.totals["read"].latency_mean_ns is None
    assert (run.fields["api"], run.fields["queue_depth"]) == ("batch", 8)


def test_a_latency_of_zero_is_not_measured() -> None:
    (run,) = runs(READ.replace("1953.125000", "0.000000"))
    assert run.outcome.totals["read"].latency_mean_ns is None


def test_a_range_of_sizes_separates_repeats() -> None:
    (ranged,) = runs(READ.replace("1024(KiB)", "512-2048-512(KiB)"))
    assert ranged.fields["block_size"] == 512 << 10
    assert ranged.params != runs(READ)[0].params


def test_host_memory_has_no_gpu() -> None:
    (run,) = runs(READ.replace("GPUD", "CPUONLY"))
    assert "gpu" not in run.fields
    assert "api" not in run.fields


def test_an_unknown_transfer_type_is_refused() -> None:
    with pytest.raises(ResultError) as refused:
        runs(READ.replace("GPUD", "GPU_TAPE"))
    assert "XferType" in refused.value.where


def test_the_throughput_of_an_imported_run_is_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gdsio.txt"
    path.write_text(
        "IoType: READ XferType: GPUD Threads: 8 DataSetSize: 8388608/4096000(KiB) "
        "IOSize: 1024(KiB) Throughput: 4.0 GiB/sec, Avg_Latency: 1900.0 usecs ops: 8192 "
        "total_time 2.0 secs\n"
    )
    assert main(["import", str(path), "--out", str(tmp_path / "result")]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "MB/s" in line)
    assert line.count("MB/s") == 1

"""The gpudirect workload from study file to brief, through the command, simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from integration.object.test_object_brief import tables_of
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.table import comparison_dict
from storlab.base.errors import ExitCode
from storlab.brief import write_brief
from storlab.cli.main import main
from storlab.exchange.exporters.tidy import metrics_table
from storlab.lab.run.progress import run_line
from storlab.live.reporter import run_row
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.gpudirect.details import GpuDirectDetails
from storlab.workloads.gpudirect.findings import Findings
from storlab.workloads.gpudirect.findings.proof import emulated, proven
from storlab.workloads.gpudirect.machine.kernel import has_gpu_driver
from support.gpu_simulators import faults, simulators

STUDY = """\
[study]
name = "storage to a simulated GPU"
repeats = 2
ramp = "50ms"
runtime = "{runtime}"
interval = "50ms"

[[target]]
name = "folder"
directory = "."
size = "4MiB"
[[target.meters]]
kind = "declared"
boundary = "device"
idle_watts = 5
joules_per_byte = 1e-9
source = "made up"

[[workload]]
kind = "gpudirect"
name = "to the GPU"
{libraries}verify = "1MiB"
{more}
"""
ALL = """
path = ["direct", "bounce", "bounce-overlapped", "host"]
block_size = ["4KiB", "64KiB"]
workers = [1, 4]
"""
BOUNCE = 'path = ["bounce", "host"]\n'
ONE = 'block_size = "64KiB"\nworkers = 2\n'


def write_study(place: Path, more: str, *, runtime: str = "600ms", old: bool = False) -> None:
    found = simulators()
    cufile = found.cufile_without_statistics if old else found.cufile
    libraries = f'cuda_library = "{found.cuda}"\n'
    if BOUNCE not in more:  # does not use cuFile
        libraries += f'cufile_library = "{cufile}"\n'
    text = STUDY.format(libraries=libraries, more=more, runtime=runtime)
    (place / "study.toml").write_text(text)


def run(
    place: Path,
    more: str = ONE,
    *,
    cufile: Mapping[str, str | int] | None = None,
    cuda: Mapping[str, str | int] | None = None,
    code: ExitCode = ExitCode.OK,
    old: bool = False,
) -> ResultStore:
    """Run the study in this process with these simulator faults."""
    write_study(place, more, old=old)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name, value in faults(cufile, cuda).items():
            patch.setenv(name, value)
        ended = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert ended == code
    return ResultStore.open(place / "results")


def flags_of(record: RunRecord) -> dict[str, str]:
    return {flag.kind: flag.message for flag in record.flags}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResultStore]:
    """Provide a store of all paths, two sizes, one worker and four, made once."""
    place = tmp_path_factory.mktemp("gpudirect")
    found = run(place, ALL)
    assert sorted(p.name for p in place.iterdir()) == ["results", "study.toml"]
    yield found


def test_every_path_runs_and_moves_bytes(store: ResultStore) -> None:
    records = store.records()
    assert len(records) == 4 * 2 * 2 * 2
    for record in records:
        assert record.status == "finished", record.failure
        assert (record.metric("throughput_mb_s") or 0) > 0
        assert (record.metric("latency_p99_ns", "read") or 0) > 0
        assert (record.metric("efficiency_mb_s_w") or 0) > 0
        window_s = (record.window_end_ns - record.window_start_ns) / 1e9
        moved = record.totals["read"].bytes
        assert record.metric("throughput_mb_s") == pytest.approx(moved / window_s / 1e6)
        assert record.metric("cpu_s_per_gb") is not None
        assert not {"not-direct", "not-compared"} & set(flags_of(record))


def test_values_of_stand_ins_are_emulated_and_their_path_is_unproven(store: ResultStore) -> None:
    """Check that simulators give emulated values, without a special switch."""
    driver = int(not has_gpu_driver(Path("/")))
    for record in store.records():
        told = GpuDirectDetails.of(record)
        path = record.params["path"]
        ways = {m.provenance for m in record.metrics if m.name == "throughput_mb_s"}
        assert ways == {record.provenance}
        assert record.provenance == ("measured" if path == "host" else "emulated")
        assert not [m for m in record.metrics if m.provenance == "measured" and path != "host"]
        assert len(told.stand_ins) == {"direct": 2 + driver, "host": 0}.get(path, 1 + driver)
        assert ("path-unproven" in flags_of(record)) == (path == "direct")
        assert record.proof is not None
        if path == "direct":
            assert record.proof.state == "unproven"


def test_brief_and_data_of_stand_ins_say_emulated(
    store: ResultStore,
) -> None:
    comparison = compare(load_dataset([store]))
    assert Findings().warnings(comparison)[:1] == emulated(comparison)
    assert len(emulated(comparison)) == 1
    assert proven(comparison) == []
    data = comparison_dict(comparison)
    each = {
        (point["params"]["path"], cell["provenance"])
        for point in data["points"]
        for cell in point["targets"].values()
    }
    emulated_paths = {(path, "emulated") for path in ("direct", "bounce", "bounce-overlapped")}
    assert each == {*emulated_paths, ("host", "measured")}
    table = metrics_table(store).to_pylist()
    assert {r["provenance"] for r in table if r["param_path"] == "direct"} <= {
        "emulated",
        "declared",
    }
    record = next(r for r in store.records() if r.params["path"] == "direct")
    assert run_row(record, "", 0)["provenance"] == "emulated"
    assert "emulated" in run_line(record)


def test_the_path_of_each_byte_is_counted(store: ResultStore) -> None:
    for record in store.records():
        told = GpuDirectDetails.of(record)
        assert told.route.asked == record.params["path"]
        assert told.route.bytes >= record.totals["read"].bytes
        if record.params["path"] == "direct":
            assert told.route.by == "cufile"
            assert told.route.p2p_bytes == told.route.bytes
            assert record.metric("direct_percent") == 100
            assert (record.metric("registration_s") or 0) > 0
            assert told.libraries.cufile is not None
        else:
            assert told.route.by == "none"
            assert record.metric("direct_percent") is None
            assert told.libraries.cufile is None
        if record.params["path"] != "host":
            assert told.first_pass is not None
            first = told.first_pass
            assert first.bytes == first.files << 20
            assert first.files + first.earlier == record.params["workers"]
            assert [gpu.number for gpu in told.gpus] == [0]


def test_each_file_is_compared_once_for_each_way(store: ResultStore) -> None:
    compared: Counter[tuple[str, int]] = Counter()
    for record in store.records():
        told = GpuDirectDetails.of(record).first_pass
        assert told is not None
        compared[record.params["path"], record.params["block_size"]] += told.files
    assert set(compared.values()) == {4}
    assert len(compared) == 4 * 2
    assert len(list((store.directory / "verify").glob("folder*.checked"))) == 1


def test_its_brief_puts_the_paths_side_by_side(store: ResultStore) -> None:
    path = write_brief(store, pdf=False)
    best, absolute, ratios, proof = tables_of(path.read_text(encoding="utf-8"), "gpu-paths")
    assert len(absolute.rows) == 2 * 2 * 4
    assert len(ratios.rows) == 2 * 2 * 3
    assert len(proof.rows) == 2 * 2
    assert len(best.rows) == 4 * 2


def test_what_goes_by_host_memory_is_not_direct(tmp_path: Path) -> None:
    records = run(tmp_path, cufile={"posix": 30}).records()
    assert records
    for record in records:
        assert "of the bytes went through host memory" in flags_of(record)["not-direct"]
        assert record.metric("posix_percent") == pytest.approx(30, abs=5)
    html = write_brief(ResultStore.open(tmp_path / "results"), pdf=False).read_text()
    assert "Not GPUDirect on “folder”: " in html


def test_compatibility_mode_is_named(tmp_path: Path) -> None:
    records = run(tmp_path, cufile={"compat": 1}).records()
    assert all("compatibility mode" in flags_of(r)["not-direct"] for r in records)
    assert {r.proof.state for r in records if r.proof is not None} == {"contradicted"}
    html = write_brief(ResultStore.open(tmp_path / "results"), pdf=False).read_text()
    assert "cuFile ran in compatibility mode" in html


def test_an_older_library_proves_nothing(tmp_path: Path) -> None:
    records = run(tmp_path, old=True).records()
    assert all("path-unproven" in flags_of(record) for record in records)


def test_wrong_data_fails_the_run(tmp_path: Path) -> None:
    store = run(tmp_path, cufile={"wrong": 70_000}, code=ExitCode.RUN_FAILED)
    for record in store.records():
        assert record.status == "failed"
        assert record.failure is not None
        assert record.failure.offset == 65536  # of the block
        assert "verify-failed" in flags_of(record)


def test_too_little_memory_of_the_gpu_fails_with_the_fix(tmp_path: Path) -> None:
    store = run(tmp_path, cuda={"oom": 1}, code=ExitCode.RUN_FAILED)
    for record in store.records():
        assert record.failure is not None
        assert "CUDA_ERROR_OUT_OF_MEMORY" in record.failure.message
        assert record.failure.fix


def test_a_lost_gpu_ends_its_run_and_not_the_campaign(tmp_path: Path) -> None:
    more = BOUNCE + ONE
    store = run(tmp_path, more, cuda={"lost_after": 60}, code=ExitCode.RUN_FAILED)
    by_path: dict[str, set[str]] = {}
    for record in store.records():
        by_path.setdefault(record.params["path"], set()).add(record.status)
    assert by_path == {"bounce": {"failed"}, "host": {"finished"}}


def test_every_api_reads_and_writes(tmp_path: Path) -> None:
    more = (
        'api = ["sync", "batch", "async"]\nqueue_depth = 4\nread_percent = 50\n'
        'access = ["random", "sequential"]\nregister_buffers = [true, false]\n' + ONE
    )
    records = run(tmp_path, more).records()
    assert len(records) == 3 * 2 * 2 * 2
    for record in records:
        assert record.status == "finished", record.failure
        assert {"read", "write"} <= set(record.totals)
        told = GpuDirectDetails.of(record)
        assert told.read_back is not None
        assert told.read_back.wrong == 0
        assert record.metric("direct_percent") == 100


def test_workers_take_gpus_in_turn_in_an_open_loop(tmp_path: Path) -> None:
    """Check that workers alternate GPUs, and that registered buffers cost extra time."""
    more = (
        "gpu = [0, 1]\nworkers = 4\nworkers_per_file = 2\nrate_iops = 400\nregister_buffers = "
        '[true, false]\naccess = "sequential"\nblock_size = "16KiB"\n'
    )
    records = run(tmp_path, more, cuda={"gpus": 2}).records()
    assert len(records) == 2 * 2
    for record in records:
        assert record.status == "finished", record.failure
        told = GpuDirectDetails.of(record)
        assert [gpu.number for gpu in told.gpus] == [0, 1]
        assert sorted(gpu.number for gpu in told.route.gpus) == [0, 1]
        assert min(gpu.p2p_ops for gpu in told.route.gpus) > 0
        assert record.totals["read"].intended is not None, "latency from the intended start"
        assert told.registration is not None
        buffers = 4 if record.params["register_buffers"] else 0
        assert (told.registration.buffers, told.registration.handles) == (buffers, 4)


def test_a_sweep_over_gpus_stands_in_its_brief(tmp_path: Path) -> None:
    store = run(tmp_path, f"gpu = [[0], [1], [0, 1]]\n{ONE}", cuda={"gpus": 2})
    used = [
        (record.params["gpu"], [gpu.number for gpu in GpuDirectDetails.of(record).gpus])
        for record in store.records()
    ]
    assert all(wanted == had for wanted, had in used)
    assert sorted(wanted for wanted, _ in used) == [[0], [0], [0, 1], [0, 1], [1], [1]]
    html = write_brief(store, pdf=False).read_text(encoding="utf-8")
    assert all(f"{text}" in html for text in ("GPU\u00a00", "GPU\u00a01", "GPUs\u00a00, 1"))


def test_an_interrupted_campaign_goes_on(tmp_path: Path) -> None:
    write_study(tmp_path, ONE + "", runtime="2s")
    command = [sys.executable, "-m", "storlab", "run", "study.toml", "--out", "results"]
    child = subprocess.Popen(
        [*command, "--no-report", "--quiet"], cwd=tmp_path, env=os.environ | faults()
    )
    runs = tmp_path / "results" / "runs"
    while not (runs.is_dir() and any(runs.iterdir())):
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    child.wait()
    assert len(ResultStore.open(tmp_path / "results").records()) < 2 or child.returncode == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for name, value in faults().items():
            patch.setenv(name, value)
        assert main(["resume", "results", "--no-report", "--quiet"]) == ExitCode.OK
    records = ResultStore.open(tmp_path / "results").records()
    assert [record.status for record in records] == ["finished"] * 2


def test_ctrl_c_ends_a_campaign_whose_library_does_not_come_back(tmp_path: Path) -> None:
    """Check that Ctrl-C ends a campaign whose worker hangs in the library."""
    write_study(tmp_path, ONE + "", runtime="2s")
    command = [sys.executable, "-m", "storlab", "run", "study.toml", "--out", "results"]
    child = subprocess.Popen(
        [*command, "--no-report", "--quiet"],
        cwd=tmp_path,
        env=os.environ | faults({"hang": "HandleRegister"}),
    )
    while not _is_loaded(child.pid):
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    assert child.wait(120) == ExitCode.INTERRUPTED
    assert ResultStore.open(tmp_path / "results").records() == []


def _is_loaded(pid: int) -> bool:
    """Return whether the process itself, not a probe's child, loaded the library."""
    return "libcufile.so.0" in Path(f"/proc/{pid}/maps").read_text()


def test_buffers_that_no_gpu_has_room_for_are_refused_by_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(tmp_path, 'block_size = "1MiB"\nworkers = [1, 4]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for name, value in faults(cuda={"memory": "2M"}).items():
            patch.setenv(name, value)
        assert main(["plan", "study.toml"]) == ExitCode.STUDY
    told = capsys.readouterr().err
    assert "need 4.19 MB of GPU 0, which has 2.1 MB" in told
    assert "lower workers, queue_depth or block_size" in told


def test_clients_of_a_cluster_have_gpus_that_plan_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that the plan ignores the memory of this machine's GPU for clients."""
    write_study(tmp_path, 'block_size = "1MiB"\nworkers = [1, 4]\n')
    study = tmp_path / "study.toml"
    study.write_text(study.read_text() + '\n[cluster]\nhosts = ["c1", "c2"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for name, value in faults(cuda={"memory": "2M"}).items():
            patch.setenv(name, value)
        assert main(["plan", "study.toml"]) == ExitCode.OK
    printed = " ".join(capsys.readouterr().out.split())
    assert "rate, size and files are per client" in printed

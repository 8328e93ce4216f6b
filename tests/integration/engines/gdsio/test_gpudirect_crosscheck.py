"""Crosscheck of GPUDirect against both references, all stand-ins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import need_fio
from storlab.cli.main import main
from support.gpu_simulators import simulators
from support.gpudirect_jobs import gdsio_standin, libcufile_standin

KNOWN = (("throughput_mb_s", "all"), ("iops", "all"), ("latency_mean_ns", "read"))
PERCENTILE = ("latency_p99_ns", "read")


def study(place: Path) -> Path:
    found = simulators()
    path = place / "study.toml"
    path.write_text(
        '[study]\nname = "check"\nruntime = "1s"\n'
        '[[target]]\nname = "files"\ndirectory = "data"\nsize = "8MiB"\n'
        '[[workload]]\nkind = "gpudirect"\nblock_size = "64KiB"\nworkers = [1, 2]\n'
        f'path = ["direct", "bounce"]\nverify = "1MiB"\ncufile_library = "{found.cufile}"\n'
        f'cuda_library = "{found.cuda}"\n'
    )
    return path


@pytest.mark.parametrize(
    ("reference", "percentiles", "note"),
    [
        ("gdsio", False, "only a mean latency"),
        ("fio", True, "went directly to the GPU"),
    ],
)
def test_both_references_are_held_against_native(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reference: str,
    percentiles: bool,
    note: str,
) -> None:
    if reference == "fio":
        need_fio()
    monkeypatch.chdir(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("STORLAB_GDSIO", str(gdsio_standin(tools)))
    if reference == "fio":
        monkeypatch.setenv("STORLAB_FIO", str(libcufile_standin(tools)))
    words = ["crosscheck", str(study(tmp_path)), "--reference", reference, "--repeats", "2"]
    code = main([*words, "--point", "path=direct,workers=2", "--out", "r", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == {"agree": 0, "differ": 10, "inconclusive": 12}[report["verdict"]]
    assert report["failed"] == report["missing"] == 0
    (point,) = report["points"]
    metrics = {tuple(m["quantity"].split(".")): m for m in point["metrics"]}
    for name in KNOWN:
        assert metrics[name]["native"] > 0
        assert metrics[name]["reference"] > 0
    assert (PERCENTILE in metrics) == percentiles
    assert any(note in told for told in point["notes"])
    runs = [json.loads(p.read_text()) for p in Path("r/runs").glob("*/run.json")]
    assert sorted(r["engine"]["name"] for r in runs) == sorted(["native", reference] * 2)
    flags = {r["engine"]["name"]: {flag["kind"] for flag in r["flags"]} for r in runs}
    assert "path-unproven" in flags[reference]
    assert "path-unproven" in flags["native"]  # its libraries are simulators
    assert {r["provenance"] for r in runs if r["engine"]["name"] == "native"} == {"emulated"}
    assert main(["compare", "r", "--json"]) == 0

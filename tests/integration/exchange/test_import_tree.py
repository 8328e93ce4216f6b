"""Import of a tree as people have it: results of the real fio among other files."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from storlab.cli.main import main

pytestmark = pytest.mark.fio


def fio(data: Path, depth: int) -> bytes:
    """Return what fio prints for a short job of reads."""
    command = [
        *("fio", "--name=job", f"--filename={data}", "--size=1m", "--rw=randread", "--bs=4k"),
        *(f"--iodepth={depth}", "--number_ios=64", "--output-format=json"),
    ]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_a_mixed_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree"
    (tree / "run1").mkdir(parents=True)
    (tree / "run2").mkdir()
    data = tmp_path / "data.bin"
    first, again, other = fio(data, 1), fio(data, 1), fio(data, 1)
    (tree / "run1" / "fio.json").write_bytes(first)
    (tree / "run1" / "copy.json").write_bytes(first)
    (tree / "run2" / "fio.json.gz").write_bytes(gzip.compress(again))
    (tree / "run2" / "powershell.json").write_bytes(other.decode().encode("utf-16"))
    (tree / "run2" / "cut.json").write_bytes(other[: len(other) // 2])
    (tree / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")

    assert main(["import", str(tree), "--out", str(tmp_path / "result"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    outcomes = {Path(file["file"]).name: file["outcome"] for file in document["files"]}
    assert outcomes == {
        "copy.json": "imported",  # before fio.json, in the order of names
        "fio.json": "duplicate",
        "fio.json.gz": "imported",
        "powershell.json": "imported",
        "cut.json": "refused",
        "picture.png": "skipped",
    }
    (target,) = document["targets"]
    assert (target["runs"], len(target["folders"])) == (3, 2)
    assert sorted(run["repeat"] for run in document["runs"]) == [1, 2, 3]

    assert main(["import", str(tree), "--out", str(tmp_path / "text")]) == 0
    printed = capsys.readouterr().out
    assert "cut.json" in printed
    assert "run1/copy.json" in printed

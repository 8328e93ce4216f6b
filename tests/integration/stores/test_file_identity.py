"""A user's file with the inode of a deleted data file, because ext4 reuses inodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.stores.sidecar import made_by_storlab, sidecar_path
from support.mounts import loop_device, make_image, mounted

STUDY = """
[study]
name = "identity"
repeats = 1
ramp = 0
runtime = "200ms"
interval = "20ms"
[[target]]
name = "file"
path = "{place}/data"
size = "1MiB"
direct = false
keep_data = true
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = {reads}
"""
PRECIOUS = b"years of work"


def run(place: Path, out: Path, reads: str = "0") -> int:
    study = out.with_suffix(".toml")
    study.write_text(STUDY.format(place=place, reads=reads))
    return main(["run", str(study), "--out", str(out), "--no-report", "--quiet"])


@pytest.mark.root
def test_a_file_with_the_inode_of_a_deleted_one_is_somebodys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, out = make_image(tmp_path / "image", 64 << 20), tmp_path / "out"
    with loop_device(image) as device, mounted(tmp_path / "mount", device) as place:
        data = place / "data"
        assert run(place, out) == ExitCode.OK
        sidecar = json.loads(sidecar_path(data).read_text())
        assert sidecar["state"] == "complete"
        assert made_by_storlab(data)
        data.unlink()
        data.write_bytes(PRECIOUS)
        assert data.stat().st_ino == sidecar["inode"]  # as ext4 does
        assert not made_by_storlab(data)
        assert run(place, tmp_path / "again") == ExitCode.GUARD
        assert "data" in capsys.readouterr().err
        assert main(["clean", str(out)]) == ExitCode.OK
        assert data.read_bytes() == PRECIOUS


def test_a_file_that_storlab_lays_out_again_stays_its_own(tmp_path: Path) -> None:
    """Check that a data file of a new size is laid out again in place."""
    assert run(tmp_path, tmp_path / "out") == ExitCode.OK
    sidecar = json.loads(sidecar_path(tmp_path / "data").read_text())
    text = (tmp_path / "out.toml").read_text().replace("1MiB", "2MiB")
    (tmp_path / "out.toml").write_text(text)
    words = ["run", str(tmp_path / "out.toml"), "--out", str(tmp_path / "again"), "--no-report"]
    assert main([*words, "--quiet"]) == ExitCode.OK
    again = json.loads(sidecar_path(tmp_path / "data").read_text())
    assert (again["size"], again["inode"]) == (2 << 20, sidecar["inode"])
    assert again["token"] == sidecar["token"]

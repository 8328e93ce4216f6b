"""Consent applies to a device, not to a name: loop devices that swap names."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from support.mounts import loop_device, sh
from support.udev import named

pytestmark = pytest.mark.root

SIZE = 8 << 20
STUDY = """
[study]
name = "swapped"
ramp = 0
runtime = "500ms"
interval = "50ms"
[[target]]
name = "disk"
path = "{path}"
direct = false
{more}
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = 0
"""


def blank(path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(SIZE)
    return path


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Provide two blank disks of the same size."""
    with (
        loop_device(blank(tmp_path / "first.img")) as first,
        loop_device(blank(tmp_path / "second.img")) as second,
    ):
        yield first, second


def write_study(place: Path, device: Path, more: str = "") -> Path:
    path = place / "study.toml"
    path.write_text(STUDY.format(path=device, more=more))
    return path


def reviewed(study: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main(["plan", str(study), "--json"]) == 0
    plan: dict[str, object] = json.loads(capsys.readouterr().out)
    return plan


def run(study: Path, out: Path, consent: object) -> int:
    return main(["run", str(study), "--out", str(out), "--plan-hash", str(consent), "--no-report"])


def test_a_disk_swapped_in_its_slot_is_another_plan(
    devices: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = devices
    with named(first, "by-path") as link:
        study = write_study(tmp_path, link)
        before = reviewed(study, capsys)
        assert str(tmp_path / "first.img") in json.dumps(before["plan"])
        link.unlink()
        link.symlink_to(second)
        assert reviewed(study, capsys)["plan_hash"] != before["plan_hash"]
        assert run(study, tmp_path / "out", before["plan_hash"]) == ExitCode.GUARD
        assert "review `storlab plan` again" in capsys.readouterr().err
        assert (tmp_path / "second.img").read_bytes() == bytes(SIZE)
        link.unlink()
        link.symlink_to(first)
        assert run(study, tmp_path / "out", before["plan_hash"]) == ExitCode.OK
    assert (tmp_path / "first.img").read_bytes() != bytes(SIZE)
    assert (tmp_path / "second.img").read_bytes() == bytes(SIZE)


def test_a_disk_swapped_between_plan_and_open_is_refused(
    devices: tuple[Path, Path], tmp_path: Path
) -> None:
    from storlab.base.errors import GuardError
    from storlab.lab.guard.guard import Guard
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.study.file import load_study

    first, second = devices
    with named(first, "by-path") as link:
        loaded = load_study(write_study(tmp_path, link))
        plan = make_plan(loaded)
        link.unlink()
        link.symlink_to(second)
        guard = Guard(loaded.study, plan, plan_hash=plan.plan_hash)
        with pytest.raises(GuardError, match=r"backing_file is .*second.img"), guard:
            pytest.fail("the guard let it pass")


def test_a_plan_shows_what_it_would_overwrite(
    devices: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with named(devices[0], "by-path") as link:
        assert main(["plan", str(write_study(tmp_path, link))]) == 0
    printed = capsys.readouterr().out
    assert f"{link} (8.39 MB, backing_file {tmp_path}/first.img)" in printed


def test_a_read_only_device_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = blank(tmp_path / "disk.img")
    with loop_device(image) as device:
        sh("blockdev", "--setro", device)
        study = write_study(tmp_path, device, f'serial = "{image}"')
        code = main(["run", str(study), "--out", str(tmp_path / "out"), "--no-report"])
        subprocess.run(["blockdev", "--setrw", str(device)], check=False)
    assert code == ExitCode.GUARD
    assert "is read-only" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_node_without_a_device_is_no_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = tmp_path / "nowhere"
    os.mknod(node, 0o600 | 0o060000, os.makedev(241, 77))
    study = write_study(tmp_path, node, 'serial = "X"\nsize = "8MiB"')
    wanted = study.read_text().replace("read_percent = 0", "read_percent = 50\ntrim_percent = 10")
    study.write_text(wanted)
    assert main(["plan", str(study)]) == 0
    assert "not on this machine" in capsys.readouterr().out
    assert main(["doctor", str(study)]) in (ExitCode.PREFLIGHT, ExitCode.GUARD)
    assert "device is not connected" in capsys.readouterr().out
    assert main(["run", str(study), "--out", str(tmp_path / "out")]) == ExitCode.GUARD
    assert "device is not connected" in capsys.readouterr().err

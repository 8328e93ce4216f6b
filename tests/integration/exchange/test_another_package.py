"""A family and an engine from another package, installed without any change to storlab."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "packages" / "lookup"
STUDY = """
[study]
name = "lookups"
repeats = 2
ramp = "0s"
runtime = "500ms"
interval = "50ms"
engine = "lookup-python"

[[target]]
name = "one"
directory = "{place}/one"

[[target]]
name = "two"
directory = "{place}/two"

[[workload]]
kind = "lookup"
record_size = ["512B", "64KiB"]
"""


def wheel(place: Path) -> Path:
    """Return the package as a wheel made without a build tool. See PEP 427."""
    about = "storlab_lookup-1.0.dist-info"
    files = {f"storlab_lookup/{f.name}": f.read_bytes() for f in PACKAGE.glob("*/*.py")}
    files[f"{about}/METADATA"] = b"Metadata-Version: 2.1\nName: storlab-lookup\nVersion: 1.0\n"
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/entry_points.txt"] = (PACKAGE / "entry_points.txt").read_bytes()
    rows = [f"{name},{_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*rows, f"{about}/RECORD,,", ""]).encode()
    path = place / "storlab_lookup-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for PYTHONPATH with the package installed by pip."""
    place = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", str(place / "site"), str(wheel(place))], check=True)
    return place / "site"


def storlab(installed: Path, *arguments: str, ends: int = 0) -> str:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "storlab", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == ends, done.stderr
    return done.stdout + done.stderr


def test_it_plans_runs_reports_and_is_audited(installed: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(place=tmp_path))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    plan = json.loads(storlab(installed, "plan", str(study), "--json"))
    points = plan["plan"]["points"].values()
    assert {point["params"]["record_size"] for point in points} == {512, 65_536}
    out = tmp_path / "out"
    storlab(installed, "run", str(study), "--out", str(out))
    records = [json.loads(path.read_text()) for path in (out / "runs").glob("*/run.json")]
    assert len(records) == 8
    for record in records:
        assert (record["status"], record["kind"]) == ("finished", "lookup")
        metrics = {(m["name"], m["operation"]): m["value"] for m in record["metrics"]}
        assert metrics["lookups_s", "all"] > 0
        assert metrics["latency_p99_ns", "read"] > 0
    found = json.loads(storlab(installed, "compare", str(out), "--json"))
    assert set(found["targets"]) == {"one", "two"}
    storlab(installed, "report", str(out))
    brief = (out / "brief.html").read_text()
    assert "lookups/s" in brief
    assert list((out / "figures").glob("lookup-rate*.svg"))
    assert list((out / "figures").glob("lookups-by-size*.svg"))
    storlab(installed, "audit", str(out))


def test_its_field_is_checked_like_any_other(installed: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    study.write_text(STUDY.format(place=tmp_path).replace("64KiB", "2MiB"))
    assert "record_size" in storlab(installed, "plan", str(study), ends=3)


def test_storlab_alone_does_not_know_it(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    assert "lookup" in storlab(tmp_path, "plan", str(study), ends=3)


def test_its_verb_and_its_importer_are_found(installed: Path, tmp_path: Path) -> None:
    assert "Say how many records" in storlab(installed, "--help")
    assert "2048 records" in storlab(installed, "lookup", "512")
    log = tmp_path / "old.log"
    log.write_text("lookups of 512 bytes on one: 2000 in 4 s\n")
    storlab(installed, "import", str(log), "--out", str(tmp_path / "imported"))
    found = json.loads((next((tmp_path / "imported/runs").glob("*/run.json"))).read_text())
    assert {m["name"]: m["value"] for m in found["metrics"]}["lookups_s"] == 500
    (tmp_path / "bad").write_text("?")
    assert "of lookup: its log" in storlab(installed, "import", str(tmp_path / "bad"), ends=8)

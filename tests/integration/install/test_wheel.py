"""The wheel in a bare environment: no Rust, no compiler, no checkout.

``make test`` packs a wheel with the test build of the extension; ``make wheel`` passes the release
wheel in STORLAB_WHEEL.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import missing
from storlab.cli.main import verbs

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEWEST_GLIBC = (2, 28)
WITHOUT_LOCK = {"torch"}  # tests do not install gigabytes
STUDY = """
[study]
name = "one wheel"
repeats = 2
ramp = 0
runtime = "1s"
interval = "100ms"

[[target]]
name = "one file"
path = "one.dat"
size = "16MiB"
direct = false

[[target]]
name = "another file"
path = "another.dat"
size = "16MiB"
direct = false

[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = [50, 90]
queue_depth = 4
"""


@dataclass(frozen=True)
class Wheel:
    path: Path

    @property
    def is_release(self) -> bool:
        return "STORLAB_WHEEL" in os.environ

    def read(self, pattern: str) -> bytes:
        """Return the single file whose name matches."""
        with zipfile.ZipFile(self.path) as archive:
            (name,) = [n for n in archive.namelist() if re.fullmatch(pattern, n)]
            return archive.read(name)

    def metadata(self) -> Any:
        return Parser().parsestr(self.read(r"storlab-[^/]*\.dist-info/METADATA").decode())


@dataclass(frozen=True)
class Installed:
    home: Path

    @property
    def python(self) -> str:
        return str(self.home / "bin" / "python")

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment that can see no other program and no checkout."""
        bare = {"PATH": str(self.home / "bin"), "HOME": str(cwd), "LANG": "C.UTF-8"}
        program = [str(self.home / "bin" / words[0]), *words[1:]]
        return subprocess.run(
            program, cwd=cwd, env=bare, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def wheel() -> Wheel:
    if named := os.environ.get("STORLAB_WHEEL"):
        return Wheel(ROOT / named)
    built = sorted((ROOT / "target" / "wheels").glob("storlab-*.whl"))
    if not built:
        missing("no wheel is built: make wheel, or make packed for one with the build for tests")
    return Wheel(built[-1])


@pytest.fixture(scope="module")
def installed(wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    pinned = home / "constraints.txt"
    pinned.write_text("\n".join(_locked()) + "\n")
    asked = [home / "bin" / "python", "-m", "pip"]
    install = [*asked, "install", "--quiet", "--no-compile", "--constraint", pinned, wheel.path]
    if subprocess.run(install, check=False).returncode:
        one = [*asked, "download", "--quiet", "--no-deps", "--dest", home / "one", _locked()[0]]
        if subprocess.run(one, check=False).returncode:
            missing("no package registry can be reached, which has what the wheel depends on")
        pytest.fail(f"pip does not install {wheel.path}", pytrace=False)
    return Installed(home)


def _locked() -> list[str]:
    """Return names and versions of requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line.removesuffix("\\").strip() for line in lines if re.match(r"\w", line)]


def _sizes() -> Any:
    spec = spec_from_file_location("sizes", ROOT / "packaging" / "sizes.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_study_runs_with_brief_and_pdf(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    done = installed.run("storlab", "run", "study.toml", "--out", "results", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "8 of 8 runs finished" in done.stdout
    html = (tmp_path / "results" / "brief.html").read_text(encoding="utf-8")
    assert "another file" in html
    assert (tmp_path / "results" / "brief.pdf").read_bytes().startswith(b"%PDF-")
    compared = installed.run("storlab", "compare", "results", cwd=tmp_path)
    assert compared.returncode == 0
    assert "one file" in compared.stdout


def test_the_command_is_whole(installed: Installed, tmp_path: Path) -> None:
    asked = "import storlab; print(storlab.__file__)"
    place = installed.run("python", "-c", asked, cwd=tmp_path).stdout.strip()
    assert Path(place).is_relative_to(installed.home)
    told = installed.run("storlab", "--help", cwd=tmp_path)
    assert told.returncode == 0
    assert not [verb for verb in verbs() if f"  {verb} " not in told.stdout]
    assert installed.run("storlab", "doctor", cwd=tmp_path).returncode == 0
    published = installed.run("storlab", "published", "--json", cwd=tmp_path).stdout
    assert "micron-weka-three-ssd-classes-fio" in published
    assert (installed.home / "share" / "man" / "man1" / "storlab-run.1").is_file()


def test_sizes_keep_to_their_budget(installed: Installed, wheel: Wheel) -> None:
    sizes = _sizes()
    found = sizes.installed(installed.python)
    assert {"storlab", "pyarrow", "typst"} <= set(found)
    assert not sizes.beyond(wheel.path if wheel.is_release else None, found)


def test_sizes_beyond_the_budget_are_told(tmp_path: Path) -> None:
    sizes = _sizes()
    large = tmp_path / "storlab-1.whl"
    with large.open("wb") as file:
        file.truncate(sizes.WHEEL_BUDGET_MB * sizes.MB + 1)
    own = {"storlab": sizes.INSTALL_BUDGET_MB * sizes.MB + 1}
    assert len(sizes.beyond(large, own)) == 2
    assert sizes.beyond(None, own) == []
    assert len(sizes.beyond(None, {"another": own["storlab"]})) == 1


def test_the_wheel_fits_every_python_from_3_11_on(wheel: Wheel) -> None:
    tags = Parser().parsestr(wheel.read(r"storlab-[^/]*\.dist-info/WHEEL").decode())
    assert tags["Tag"] == f"cp311-abi3-{platform_tag(machine(), wheel.is_release)}"


def machine() -> str:
    """Return the processor as named in wheels."""
    return os.uname().machine


def platform_tag(processor: str, is_release: bool) -> str:
    """Return the wheel's platform tag for that processor."""
    return f"{'manylinux_2_28' if is_release else 'linux'}_{processor}"


@pytest.mark.parametrize(
    ("processor", "tag"),
    [("x86_64", "manylinux_2_28_x86_64"), ("aarch64", "manylinux_2_28_aarch64")],
)
def test_a_release_is_for_the_processor_that_it_was_made_on(processor: str, tag: str) -> None:
    assert platform_tag(processor, is_release=True) == tag


def test_the_release_asks_for_no_newer_glibc(wheel: Wheel) -> None:
    if not wheel.is_release:
        pytest.skip("needs the release wheel: make wheel")
    native = wheel.read(r"storlab/_native\.abi3\.so")
    asked = {(int(a), int(b)) for a, b in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", native)}
    assert asked  # the lowest is the processor's first glibc: 2.2.5, 2.17
    assert max(asked) <= NEWEST_GLIBC


def test_extras_are_told_and_can_be_resolved(wheel: Wheel) -> None:
    metadata = wheel.metadata()
    extras = PROJECT["optional-dependencies"]
    assert set(metadata.get_all("Provides-Extra")) == set(extras)
    locked = {canonicalize_name(r.name): r for r in map(Requirement, _locked())}
    for extra, wanted in extras.items():
        for requirement in map(Requirement, wanted):
            name = canonicalize_name(requirement.name)
            assert f'extra == "{extra}"' in str(metadata).replace("'", '"')
            if name not in WITHOUT_LOCK:
                (pinned,) = locked[name].specifier
                assert requirement.specifier.contains(pinned.version), (extra, name)


def test_a_source_archive_has_what_a_build_needs(tmp_path: Path) -> None:
    maturin = Path(sys.executable).parent / "maturin"
    asked = [maturin, "sdist", "--out", tmp_path]
    subprocess.run(asked, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("storlab-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {Path(*Path(name).parts[1:]) for name in opened.getnames()}
        project = opened.extractfile(f"{archive.name.removesuffix('.tar.gz')}/pyproject.toml")
        assert project is not None
        assert tomllib.load(io.BytesIO(project.read()))["project"]["name"] == "storlab"
    tracked = subprocess.run(
        ["git", "ls-files", "python", "crates", "packaging/storlab.data", "Cargo.lock", "LICENSE"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    testing = ("crates/testing",)
    needed = {Path(name) for name in tracked if not name.startswith(testing)}
    assert not {n for n in needed - names if "tests" not in n.parts}
    assert not [name for name in names if name.suffix in (".so", ".pyc")]

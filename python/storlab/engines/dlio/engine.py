"""DLIO engine: runs training jobs with the benchmark that MLPerf Storage uses, as a reference.

Results are computed from each rank's own step times, which are kept in ``raw/``, not from DLIO's
summary. If DLIO or the MPI launcher is not on PATH, ``STORLAB_DLIO`` and ``STORLAB_MPIRUN`` name
them.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.base.units import NS_PER_S
from storlab.engines.dlio import config as dlio_config
from storlab.engines.dlio.config import Program
from storlab.engines.dlio.run import DlioRun
from storlab.model.job import Job
from storlab.model.result import EngineInfo
from storlab.process.child import GRACE_NS, Launch
from storlab.process.program import asked_once, executable, find_program, probe_python
from storlab.workloads.training.job import TrainingJob

_INSTALL = (
    "install DLIO 2.0 or newer with PyTorch and an MPI: `pip install mpi4py torch "
    "git+https://github.com/argonne-lcf/dlio_benchmark` (the release on PyPI does not install); "
    "or set STORLAB_DLIO to the path of an installed one"
)
_MPI = "install an MPI (Debian: openmpi-bin; PyPI: mpich), or set STORLAB_MPIRUN to its mpirun"
# Slowest plausible read speed: if a run is slower than this, it is treated as hung.
_SLOWEST_BYTES_S = 20_000_000
_PROBE = """
import importlib.metadata as m, importlib.util as u, json, os
spec = u.find_spec("dlio_benchmark")
home = list(spec.submodule_search_locations)[0] if spec else ""
readers = os.listdir(os.path.join(home, "reader")) if home else []
config = os.path.join(home, "configs", "config.yaml")
schema = open(config).read() if home and os.path.exists(config) else ""
print(json.dumps({
    "version": m.version("dlio_benchmark") if spec else None,
    "direct": "npz_reader_odirect.py" in readers,
    "model_table": "workload.model.name" in schema,
    "frameworks": [n for n, p in (("pytorch", "torch"), ("tensorflow", "tensorflow"))
                   if u.find_spec(p)],
}))
"""


class DlioEngine:
    """Engine that runs training jobs with the DLIO benchmark."""

    name = "dlio"
    kinds: tuple[str, ...] = ("training",)

    def describe(self) -> EngineInfo:
        """Return DLIO's version. Raises EngineError if DLIO is missing or cannot be executed."""
        version = ask(find_dlio())
        features = ["odirect"] if version.has_direct else []
        return EngineInfo(name="dlio", version=version.version, features=features, clock="wall")

    def refuse(self, job: Job) -> str | None:
        """Return why DLIO, or the version installed here, cannot run this job; None if it can."""
        reason = dlio_config.refusal(job)
        if reason is not None or not isinstance(job, TrainingJob):
            return reason
        try:
            return dlio_config.misfit(job, ask(find_dlio()))
        except EngineError:
            return None  # reported by ``describe``

    def start(self, job: Job, work_dir: Path) -> DlioRun:
        """Start a run in ``work_dir``.

        Raises:
            EngineError: DLIO or MPI is missing, or DLIO cannot run this job.
        """
        program = ask(find_dlio())
        reason = self.refuse(job)
        if reason is not None or not isinstance(job, TrainingJob):
            raise EngineError("engine", f"DLIO cannot run this job: {reason}")
        mpirun = find_mpirun(program.path) if job.accelerators > 1 else None
        work_dir = work_dir.absolute()
        dlio_config.prepare(job, work_dir, model_table=program.has_model_table)
        info = EngineInfo(
            name="dlio",
            version=program.version,
            backend=f"DLIO with {dlio_config.FRAMEWORKS[job.records.format]}",
            features=["odirect"] if job.place.direct else [],
            clock="wall",
        )
        launch = Launch(
            name="DLIO",
            command=dlio_config.command(program.path, mpirun, job, work_dir),
            environment=dlio_config.environment(),
            work_dir=work_dir,
            place=Path(job.place.directory or "."),
            limit_ns=_limit_ns(job),
            # On SIGTERM mpirun ends its ranks; after SIGKILL they would keep running.
            death_signal=signal.SIGKILL if mpirun is None else signal.SIGTERM,
        )
        return DlioRun(job, launch, info)


def _limit_ns(job: TrainingJob) -> int:
    """Return the time limit of a run in ns; without a limit, DLIO may hang in MPI for ever."""
    steps = job.epochs * dlio_config.steps(job)
    step_bytes = job.batch * job.accelerators * job.records.record_bytes
    reading_ns = steps * step_bytes * NS_PER_S // _SLOWEST_BYTES_S
    return reading_ns + steps * job.computation_ns * 3 + GRACE_NS


def find_dlio() -> Path:
    """Return the path of the DLIO program. Raises EngineError if it is missing."""
    return find_program("dlio", _INSTALL, "dlio_benchmark")


def find_mpirun(dlio: Path) -> Path:
    """Return the path of the MPI launcher, preferably one in the directory of DLIO.

    DLIO must run with the MPI that it was installed with.

    Raises:
        EngineError: No launcher was found.
    """
    asked = os.environ.get("STORLAB_MPIRUN")
    beside = str(dlio.absolute().parent)
    places = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
    for name in [asked] if asked else ["mpirun", "mpiexec"]:
        path = executable(name, places)
        if path is not None:
            return path
    where = f"STORLAB_MPIRUN={asked}" if asked else "mpirun"
    what = "is not an executable file" if asked else "is missing; several accelerators need it"
    raise EngineError(where, what, _MPI)


@asked_once
def ask(program: Path) -> Program:
    """Return version and capabilities of a DLIO program.

    Raises:
        EngineError: The program is not DLIO.
    """
    python = python_of(program)
    if python is None:
        raise EngineError(str(program), "is not a Python script: no shebang line", _INSTALL)
    answer = probe_python(python, _PROBE, _INSTALL)
    if answer["version"] is None:
        what = f"is not DLIO: its Python, {python}, has no package dlio_benchmark"
        raise EngineError(str(program), what, _INSTALL)
    return Program(
        program,
        answer["version"],
        answer["direct"],
        tuple(answer["frameworks"]),
        has_model_table=answer["model_table"],
    )


def python_of(program: Path) -> str | None:
    """Return the path of the Python that runs a script installed by pip, or None.

    It is read from the shebang line, or, if the path is too long for that, from a shell command.
    """
    with program.open("rb") as file:
        head = file.read(1024).decode(errors="replace")
    match = re.match(r"#!(?:/bin/sh\s+'''exec' )?(?:\"([^\"]+)\"|(\S*python[0-9.]*))", head)
    return None if match is None else match[1] or match[2]

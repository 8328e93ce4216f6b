"""warp engine: runs jobs with warp, MinIO's established S3 benchmark, as a reference.

The command line, the output and warp's record of all requests are kept in ``raw/``. Results are
computed from that record. If warp is not on PATH, ``STORLAB_WARP`` names it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.engines.warp import command as warp_command
from storlab.engines.warp.run import KILL_AFTER_S, WarpRun
from storlab.model.job import Job
from storlab.model.result import EngineInfo
from storlab.process.child import Launch
from storlab.process.program import ask_program, asked_once, find_program
from storlab.workloads.object.job import GroupedObjectJob, ObjectJob

_INSTALL = (
    "install MinIO's warp 1.1 or newer: `go install github.com/minio/warp@latest`, or a program "
    "from https://github.com/minio/warp/releases; or set STORLAB_WARP to its path"
)
_NEEDED = ("full", "noclear", "list-existing", "disable-multipart", "benchdata")


@dataclass(frozen=True, slots=True)
class _Found:
    """Version of an installed warp, and the command-line flags that its help text lists."""

    version: str
    flags: frozenset[str]


class WarpEngine:
    """Engine that runs object jobs with MinIO's warp."""

    name = "warp"
    kinds: tuple[str, ...] = ("object",)

    def describe(self) -> EngineInfo:
        """Return warp's version.

        Raises EngineError if warp is missing, too old or another program.
        """
        return EngineInfo(name="warp", version=_ask(find_warp()).version, clock="warp")

    def refuse(self, job: Job) -> str | None:
        """Return why warp cannot run this job, or None if it can."""
        if isinstance(job, GroupedObjectJob):
            return "warp has one load at a time, but the workload has groups"
        if not isinstance(job, ObjectJob):
            return "warp runs object jobs only"
        return warp_command.refusal(job)

    def start(self, job: Job, work_dir: Path) -> WarpRun:
        """Start a run in ``work_dir``; pass credentials only in environment variables.

        Raises:
            EngineError: warp is missing or cannot run the job.
        """
        program = find_warp()
        version = _ask(program)
        reason = self.refuse(job)
        if reason is not None or not isinstance(job, ObjectJob):
            raise EngineError("engine", f"warp cannot run this job: {reason}")
        if "session_token" in job.secrets() and "session-token" not in version.flags:
            raise EngineError(
                str(program),
                f"is warp {version.version}, which does not support session tokens",
                f"use keys without a session token, or a newer warp: {_INSTALL}",
            )
        info = EngineInfo(
            name="warp",
            version=version.version,
            backend=f"warp {warp_command.benchmark(job)}",
            features=_features(job),
            clock="warp",
        )
        launch = Launch(
            name="warp",
            command=warp_command.command(program, job, work_dir / "requests"),
            environment=warp_command.environment(job),
            secrets=warp_command.secrets(job),
            work_dir=work_dir,
            kill_after_s=KILL_AFTER_S,
            inherits=warp_command.inherits,
            alone=True,
        )
        return WarpRun(job, launch, info)


def _features(job: ObjectJob) -> list[str]:
    """Return settings that affect the results, to be recorded with the engine."""
    features = [f"payload={job.payload}"] if job.mix.put else []
    return features + (["verify_tls=false"] if not job.store.verify_tls else [])


def find_warp() -> Path:
    """Return the path of the warp program. Raises EngineError if it is missing."""
    return find_program("warp", _INSTALL)


@asked_once
def _ask(program: Path) -> _Found:
    """Return version and flags of a warp program.

    Raises:
        EngineError: The program is too old, or is not warp.
    """
    printed = _output(program, "--version")
    match = re.match(r"\S+ version (\S+)", printed)
    if match is None:
        raise EngineError(str(program), f"printed {printed[:80]!r} instead of a version", _INSTALL)
    version = match.group(1)
    flags = frozenset(re.findall(r"--([a-z0-9][a-z0-9.-]*)", _output(program, "get", "--help")))
    missing = [flag for flag in _NEEDED if flag not in flags]
    if missing:
        what = f"is warp {version}, which has no --{missing[0]}"
        raise EngineError(str(program), what, _INSTALL)
    return _Found(version, flags)


def _output(program: Path, *arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WARP_")}
    command = [str(program), *arguments]
    return ask_program(command, _INSTALL, environment=environment).stdout.strip()

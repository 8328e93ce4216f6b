"""Verify mode on clients: what one of them has written, the next one reads again.

``verify/<target>/<client>/`` holds what ``verify/<target>/`` holds without a cluster: the run, the
job and the state of the last verify-mode run, as that client had them when its run ended.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from storlab.base.errors import ResultError
from storlab.base.files import read_input, replace_file
from storlab.cluster.task import ClientPlace
from storlab.contracts.offers import rereads_members
from storlab.lab.prepare.precondition import target_slug
from storlab.lab.site.verification import held_files
from storlab.model.job import RereadJob
from storlab.model.result import VerifyReport
from storlab.model.study import StudyBase, Target

_FILES = ("run_id", "job.json", "state")


def read_by_others(target: Target) -> bool:
    """Whether what one client writes there can be read by another; preflight has seen it."""
    return target.directory is not None


@dataclass(frozen=True, slots=True)
class Written:
    """What one client has written in a run, as the client that is to read it again gets it."""

    writer: str
    mount: str | None  # of the writer
    run_id: str
    job: bytes
    state: bytes

    def pack(self) -> bytes:
        """For a client. Both ends are the same storlab."""
        return zlib.compress(pickle.dumps(self), 1)

    @classmethod
    def unpack(cls, content: bytes) -> Written:
        """From ``pack``, of a rank that this user started."""
        written = pickle.loads(zlib.decompress(content))  # noqa: S301
        if not isinstance(written, cls):
            raise TypeError(f"rank 0 gave {type(written).__name__}")
        return written


def collect(directory: Path) -> dict[str, bytes]:
    """On a client: the files that verify mode has left in a folder of a run; empty without."""
    homes = sorted(path.parent for path in (directory / "verify").glob("*/job.json"))
    return {name: (home / name).read_bytes() for home in homes[-1:] for name in _FILES}


class States:
    """What is known in the lab of the blocks that clients have written."""

    def __init__(self, directory: Path) -> None:
        self._root = directory / "verify"

    def forget(self, study: StudyBase, target: Target) -> None:
        """Before a run writes there: what targets of the same place held is gone."""
        for other in study.target:
            if other.name == target.name or other.directory == target.directory:
                shutil.rmtree(self._root / target_slug(other.name), ignore_errors=True)

    def store(self, target: Target, client: str, files: Mapping[str, bytes]) -> None:
        """The job goes last: it makes the others count."""
        home = self._root / target_slug(target.name) / client
        home.mkdir(parents=True, exist_ok=True)
        for name in sorted(files, key=lambda name: name == "job.json"):
            replace_file(home / name, files[name])

    def written(self, target: Target, places: Sequence[ClientPlace]) -> list[Written]:
        """Of these clients, in their order; those of whom nothing is known are left out.

        Raises ResultError where a file is missing.
        """
        written_files = []
        for place in places:
            home = self._root / target_slug(target.name) / place.name
            if not (home / "job.json").exists():
                continue
            try:
                run_id, job, state = (read_input(home / name) for name in _FILES)
            except OSError as error:
                raise ResultError(
                    str(home), f"is damaged: {error}", "run the study again"
                ) from error
            written_files.append(
                Written(place.name, place.mount, run_id.decode().strip(), job, state)
            )
        return written_files

    def known(self, target: Target) -> list[str]:
        """Names of the clients of whom something is known."""
        home = self._root / target_slug(target.name)
        return sorted(path.parent.name for path in home.glob("*/job.json"))


def handed_on(written: Sequence[Written], places: Sequence[ClientPlace]) -> dict[int, bytes]:
    """By rank: each client gets what the one before it wrote, the first what the last one did.

    A client alone reads its own.
    """
    ranks = {place.name: place.rank for place in places}
    readers = [*written[1:], *written[:1]]
    return {ranks[reader.writer]: own.pack() for own, reader in zip(written, readers, strict=True)}


def told(written: Sequence[Written]) -> str:
    """Who read what, for the notes of a run."""
    if len(written) == 1:
        return f"verified by {written[0].writer}, which wrote it: there is no other client"
    return "verified across clients: each has read again what the one before it wrote"


@dataclass(slots=True)
class Reread:
    """What reading again on one client found."""

    run_id: str = ""
    writer: str = ""
    report: VerifyReport = field(default_factory=lambda: VerifyReport(checked_blocks=0))


def reread(
    content: bytes, place: ClientPlace, campaign: str, keep_going: Callable[[], bool]
) -> Reread:
    """On a client: read again what another one wrote, where this one sees it.

    Raises ResultError for files that are gone or were written to since, EngineError, OSError.
    """
    from storlab.engines.native.engine import verify_pass

    written = Written.unpack(content)
    try:
        job = rereads_members().stored_job(written.job)
    except ValidationError as error:
        raise ResultError("job.json", f"is damaged: {error}", "run the study again") from error
    job = _seen_here(job, written.mount, place)
    gone = [member.name for member in job.members if not Path(member.path).exists()]
    if gone:
        raise ResultError(
            ", ".join(gone),
            f"is not there, and {written.writer} wrote to it: nothing can be verified",
            "set keep_data = true in the target; storlab doctor says whether clients share it",
        )
    with tempfile.TemporaryDirectory(prefix="storlab-verify-") as folder:
        state = Path(folder) / "state"
        state.write_bytes(written.state)
        with held_files(job, campaign):
            report = verify_pass(job.with_state(state), keep_going)
    return Reread(written.run_id, written.writer, report)


def _seen_here(job: RereadJob, mount: str | None, place: ClientPlace) -> RereadJob:
    members = [
        member.model_copy(update={"path": str(place.path_of(member.path, mount))})
        for member in job.members
    ]
    return job.model_copy(update={"members": members})

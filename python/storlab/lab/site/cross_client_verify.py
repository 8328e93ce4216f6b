"""Verify mode on several clients: each client rereads what another client wrote.

``verify/<target>/<client>/`` has the same files as ``verify/<target>/`` without a cluster: run id,
job and state of the client's last verify-mode run.
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
from storlab.contracts.services import rereads_members
from storlab.lab.prepare.precondition import target_slug
from storlab.lab.site.verification import held_files
from storlab.model.job import RereadJob
from storlab.model.result import VerifyReport
from storlab.model.study import StudyBase, Target

_FILES = ("run_id", "job.json", "state")


def read_by_others(target: Target) -> bool:
    """Return whether other clients can read what one client writes to a target."""
    return target.directory is not None


@dataclass(frozen=True, slots=True)
class Written:
    """Verify data of one client's run: what another client needs to reread the blocks."""

    writer: str
    mount: str | None  # mount point on the client that wrote
    run_id: str
    job: bytes
    state: bytes

    def pack(self) -> bytes:
        """Serialise for a client; both ends must run the same version of storlab."""
        return zlib.compress(pickle.dumps(self), 1)

    @classmethod
    def unpack(cls, content: bytes) -> Written:
        """Restore the result of ``pack``; only for content from a rank that this user started."""
        written = pickle.loads(zlib.decompress(content))  # noqa: S301
        if not isinstance(written, cls):
            raise TypeError(f"rank 0 gave {type(written).__name__}")
        return written


def collect(directory: Path) -> dict[str, bytes]:
    """Return the files that verify mode left in a run's folder on a client, if any."""
    homes = sorted(path.parent for path in (directory / "verify").glob("*/job.json"))
    return {name: (home / name).read_bytes() for home in homes[-1:] for name in _FILES}


class States:
    """Store of the verify states of clients, in the result directory."""

    def __init__(self, directory: Path) -> None:
        self._root = directory / "verify"

    def forget(self, study: StudyBase, target: Target) -> None:
        """Discard the states of targets in the same place, before a run overwrites it."""
        for other in study.target:
            if other.name == target.name or other.directory == target.directory:
                shutil.rmtree(self._root / target_slug(other.name), ignore_errors=True)

    def store(self, target: Target, client: str, files: Mapping[str, bytes]) -> None:
        """Store the files of a client; job.json comes last, as it marks the rest as complete."""
        home = self._root / target_slug(target.name) / client
        home.mkdir(parents=True, exist_ok=True)
        for name in sorted(files, key=lambda name: name == "job.json"):
            replace_file(home / name, files[name])

    def written(self, target: Target, places: Sequence[ClientPlace]) -> list[Written]:
        """Return the verify data of clients in their order; clients without data are left out.

        Raises:
            ResultError: A file is missing.
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
        """Return the names of the clients with verify data of a target."""
        home = self._root / target_slug(target.name)
        return sorted(path.parent.name for path in home.glob("*/job.json"))


def handed_on(written: Sequence[Written], places: Sequence[ClientPlace]) -> dict[int, bytes]:
    """Return the data that each client must reread, by rank.

    Each client gets the data of the previous one, and the first those of the last. A single client
    rereads its own.
    """
    ranks = {place.name: place.rank for place in places}
    readers = [*written[1:], *written[:1]]
    return {ranks[reader.writer]: own.pack() for own, reader in zip(written, readers, strict=True)}


def told(written: Sequence[Written]) -> str:
    """Describe for the notes of a run which client verified whose data."""
    if len(written) == 1:
        return f"verified by {written[0].writer}, which wrote it: there is no other client"
    return "verified across clients: each has read again what the one before it wrote"


@dataclass(slots=True)
class Reread:
    """Result of rereading another client's blocks."""

    run_id: str = ""
    writer: str = ""
    report: VerifyReport = field(default_factory=lambda: VerifyReport(checked_blocks=0))


def reread(
    content: bytes, place: ClientPlace, campaign: str, keep_going: Callable[[], bool]
) -> Reread:
    """Reread on this client what another client wrote.

    Args:
        content: Verify data from :meth:`Written.pack`.
        place: This client.
        campaign: Id of the campaign.
        keep_going: Function that returns False to stop; called regularly.

    Raises:
        ResultError: A file is missing, or was written to since.
        EngineError: The engine cannot reread.
        OSError: A read failed.
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
            f"does not exist here, but {written.writer} wrote to it: nothing can be verified",
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

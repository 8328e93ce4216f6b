"""State of verify mode: a record of the blocks that a run wrote, to verify them later.

The result directory has the job and the state of the last verify-mode run on a target in
``verify/<target>/``, on a cluster in ``verify/<target>/<client>/`` (another client rereads the
blocks). A later run that writes to the target without verify mode removes this state.
``verify/<target>.checked`` lists the files that a job has already verified before its load.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from pydantic import ValidationError

from storlab.base.errors import ResultError
from storlab.base.files import read_input, replace_file
from storlab.cluster.task import ClientPlace
from storlab.contracts.services import rereads_members
from storlab.lab.prepare.precondition import target_slug
from storlab.model.job import CheckedJob, Job, Member, RereadJob
from storlab.model.result import RunOutcome, VerifyReport
from storlab.model.study import StudyBase, Target
from storlab.process.execution import Interrupted, StopRequest
from storlab.stores.devices import place_of
from storlab.stores.sidecar import DataFileHold, read_sidecar

_FILES = ("run_id", "job.json", "state")


def asks_for_check(job: Job) -> TypeGuard[RereadJob]:
    """Return whether a job's blocks must be reread after its run (verify mode)."""
    return isinstance(job, RereadJob) and job.state is not None


class Verification:
    """Record of the blocks that verify mode wrote to one target, in a result directory."""

    def __init__(self, directory: Path, target: Target) -> None:
        self._root = directory / "verify"
        self._home = self._root / target_slug(target.name)

    def prepare(self, run_id: str, job: Job) -> Job:
        """Discard the record of blocks that a run will overwrite, and start a record for the run.

        The job is stored durably before the run starts, so that it survives a crash.

        Returns:
            The job to run.
        """
        _forget(self._root, job.touches())
        if isinstance(job, CheckedJob):
            self._root.mkdir(parents=True, exist_ok=True)
            return job.remembering(self._home.with_name(f"{self._home.name}.checked"))
        if not asks_for_check(job):
            return job
        # A run that was killed before it wrote job.json may have left this directory.
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        job = job.with_state(self._home / "state")
        replace_file(self._home / "run_id", f"{run_id}\n".encode())
        replace_file(self._home / "job.json", job.stored())
        return job

    def check(
        self,
        job: RereadJob,
        outcome: RunOutcome,
        stop: StopRequest,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Reread and verify all blocks after a run, and add the report to its outcome.

        Args:
            job: Job of the run.
            outcome: Outcome of the run.
            stop: Stop request to watch, because there may be terabytes to read.
            alive: Function that is called several times per second.

        Raises:
            Interrupted: A stop was requested.
        """
        from storlab.engines.native.engine import verify_pass

        def keep_going() -> bool:
            alive()
            return not stop.requested

        report = verify_pass(job, keep_going)
        if stop.requested:
            raise Interrupted
        outcome.verify = merged(outcome.verify, report)


def merged(first: VerifyReport | None, other: VerifyReport) -> VerifyReport:
    """Add up two verify reports; the first may be None."""
    if first is None:
        return other
    kinds = sorted({*first.bad_blocks, *other.bad_blocks})
    return VerifyReport(
        checked_blocks=first.checked_blocks + other.checked_blocks,
        bad_blocks={k: first.bad_blocks.get(k, 0) + other.bad_blocks.get(k, 0) for k in kinds},
        examples=[*first.examples, *other.examples][:1000],
    )


@dataclass(frozen=True, slots=True)
class Verifiable:
    """Run in verify mode whose blocks can still be reread and verified."""

    run_id: str
    job: RereadJob


def verifiable_runs(directory: Path) -> list[Verifiable]:
    """Return the runs in a result directory that can still be verified, at most one per target.

    Raises:
        ResultError: A stored job is damaged.
    """
    runs = []
    for job_file in sorted((directory / "verify").glob("*/job.json")):
        try:
            run_id = read_input(job_file.parent / "run_id").decode().strip()
            job = rereads_members().stored_job(read_input(job_file))
        except (OSError, ValidationError) as error:
            raise ResultError(
                str(job_file), f"is damaged: {error}", "run the study again"
            ) from error
        if job.state is not None:
            # The result directory may have been moved since, so set the path of the state.
            runs.append(Verifiable(run_id, job.with_state(job_file.parent / "state")))
    return runs


@contextmanager
def held_files(job: RereadJob, campaign: str) -> Iterator[None]:
    """Lock the data files of a job inside a ``with`` block in which they are reread.

    Raises:
        GuardError: A campaign uses one of the files.
        ResultError: Another campaign has written to one of the files after the job.
    """
    with ExitStack() as stack:
        for path in (Path(member.path) for member in job.members if member.kind == "file"):
            with suppress(FileNotFoundError):
                stack.enter_context(DataFileHold(path, campaign, make=False))
            sidecar = read_sidecar(path)
            if sidecar is not None and sidecar.written_by not in ("", campaign):
                raise ResultError(
                    str(path),
                    f"campaign {sidecar.written_by} has overwritten it, so nothing can be verified",
                    "use a different file in each campaign",
                )
        yield


def _forget(root: Path, touched: list[Member]) -> None:
    """Remove verify-mode state of all earlier jobs on these files or devices, of any target."""
    overwritten = {place_of(member.path) for member in touched}
    for job_file in root.glob("*/job.json"):
        try:
            earlier = rereads_members().stored_job(read_input(job_file))
        except ValidationError:
            continue
        if overwritten & {place_of(member.path) for member in earlier.members}:
            job_file.unlink()  # first, because the rest counts only together with job.json
            shutil.rmtree(job_file.parent)


def read_by_others(target: Target) -> bool:
    """Return whether other clients can read the blocks that one client writes to a target."""
    return target.directory is not None


@dataclass(frozen=True, slots=True)
class Written:
    """Job and state of a client's verify-mode run, so that another client can reread its blocks."""

    writer: str
    mount: str | None  # mount point on the client that wrote
    run_id: str
    job: bytes
    state: bytes

    def pack(self) -> bytes:
        """Serialise for a client, which must run the same version of storlab."""
        return zlib.compress(pickle.dumps(self), 1)

    @classmethod
    def unpack(cls, content: bytes) -> Written:
        """Return the object that ``pack`` has serialised.

        This is safe only for content from a process of this user, since it is pickled.
        """
        written = pickle.loads(zlib.decompress(content))  # noqa: S301
        if not isinstance(written, cls):
            raise TypeError(f"rank 0 sent a {type(written).__name__} instead of verify data")
        return written


def collect(directory: Path) -> dict[str, bytes]:
    """Return the contents of the files with verify-mode state in a client's folder, by name.

    The dict is empty if there are none.
    """
    homes = sorted(path.parent for path in (directory / "verify").glob("*/job.json"))
    return {name: (home / name).read_bytes() for home in homes[-1:] for name in _FILES}


class States:
    """Verify-mode state (job and written blocks) of each client, in the result directory."""

    def __init__(self, directory: Path) -> None:
        self._root = directory / "verify"

    def forget(self, study: StudyBase, target: Target) -> None:
        """Remove verify-mode state of all targets at this location, as runs overwrite the data."""
        for other in study.target:
            if other.name == target.name or other.directory == target.directory:
                shutil.rmtree(self._root / target_slug(other.name), ignore_errors=True)

    def store(self, target: Target, client: str, files: Mapping[str, bytes]) -> None:
        """Store the state files of a client; job.json is last, since it marks them as complete."""
        home = self._root / target_slug(target.name) / client
        home.mkdir(parents=True, exist_ok=True)
        for name in sorted(files, key=lambda name: name == "job.json"):
            replace_file(home / name, files[name])

    def written(self, target: Target, places: Sequence[ClientPlace]) -> list[Written]:
        """Return the stored jobs and states in the order of clients; some clients may have none.

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
        """Return the names of the clients that have verify-mode state for a target."""
        home = self._root / target_slug(target.name)
        return sorted(path.parent.name for path in home.glob("*/job.json"))


def handed_on(written: Sequence[Written], places: Sequence[ClientPlace]) -> dict[int, bytes]:
    """Return by rank the packed job and state of the client whose blocks that rank must reread.

    Each client rereads blocks of the client before it, and the first client those of the last. A
    single client rereads its own blocks.
    """
    ranks = {place.name: place.rank for place in places}
    readers = [*written[1:], *written[:1]]
    return {ranks[reader.writer]: own.pack() for own, reader in zip(written, readers, strict=True)}


def describe_verification(written: Sequence[Written]) -> str:
    """Return a note on which client verified whose blocks."""
    if len(written) == 1:
        return f"verified by {written[0].writer}, which also wrote the data: the only client"
    return "verified across clients: each read the data that the client before it wrote"


@dataclass(slots=True)
class Reread:
    """Result of rereading another client's blocks."""

    run_id: str = ""
    writer: str = ""
    report: VerifyReport = field(default_factory=lambda: VerifyReport(checked_blocks=0))


def reread(
    content: bytes, place: ClientPlace, campaign: str, keep_going: Callable[[], bool]
) -> Reread:
    """Reread and verify on this client the blocks that another client wrote.

    Args:
        content: Job and state from :meth:`Written.pack`.
        place: This client.
        campaign: Id of the campaign.
        keep_going: Function that returns False to stop; called regularly.

    Raises:
        ResultError: A file is missing, or was overwritten by another campaign.
        EngineError: The engine cannot reread the blocks.
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
            "set keep_data = true in the target; run storlab doctor, which checks whether clients "
            "share the directory",
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

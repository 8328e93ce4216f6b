"""An S3 target held for a campaign: its store, and a prefix in it that is nobody else's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storlab.base.errors import GuardError, PreflightError, StorlabError
from storlab.base.files import read_input
from storlab.model.s3 import EMBEDDED, S3Access, S3Options, S3Store
from storlab.model.target import Target
from storlab.stores.s3.claim import BucketClaim
from storlab.stores.s3.control import S3Control, top_of
from storlab.stores.s3.credentials import resolve
from storlab.stores.s3.embedded import BUCKET, EmbeddedServer, check_directory
from storlab.stores.s3.errors import DENIED
from storlab.stores.s3.keys import (
    MARKER,
    PROBE,
    foreign_keys,
    marker_content,
    own_prefix,
    prefix_problem,
    read_marker,
)
from storlab.stores.s3.proof import Proof, prove

# Stands for the server's address where it is not started. Nothing is sent there.
_NOT_STARTED = "http://127.0.0.1:9"
_NAMED = 5


class S3Hold:
    """One S3 target from entering to leaving, for a new campaign or (``recorded``) an older one.

    Entering raises PreflightError for a store that cannot be used, and GuardError for a prefix that
    is not this campaign's. ``look_only`` asks the same and writes nothing; a server is not started
    then. ``cleaning`` takes the campaign up to remove what it left: nothing is made anew.

    Leaving takes back what entering made, if nothing was added to it since.
    """

    access: S3Access
    control: S3Control
    server: EmbeddedServer | None

    def __init__(
        self,
        target: Target,
        campaign: str,
        base: Path,
        recorded: Mapping[str, Any] | None,
        look_only: bool = False,
        *,
        cleaning: bool = False,
    ) -> None:
        if target.s3 is None:
            raise ValueError(f"{target.name} is not an S3 target")
        self.target = target
        self.campaign = campaign
        self.base = base
        self.recorded = recorded
        self.look_only = look_only
        self.cleaning = cleaning
        self.server = None
        self.made_bucket = bool((recorded or {}).get("made_bucket", False))
        self._options = target.s3_options or S3Options()
        self._prefix = own_prefix(self._options.prefix, campaign, target.name)
        self._exists = True  # the bucket, as far as is known
        self._wrote = False  # the marker, in this session
        self._cleaned = False
        self.proof = _recorded_proof(recorded)
        self._claim: BucketClaim | None = None  # of a store that others may use, too
        self._stack = ExitStack()

    def __enter__(self) -> S3Hold:
        self._check_options()
        with ExitStack() as stack:
            store = self._store(stack)
            stack.push(self._take_back)
            self.access = S3Access(store=store, prefix=self._prefix)
            self.control = S3Control(store)
            if self._is_reachable:
                self._check_recorded()
                self._check_bucket()
                if self._exists:
                    self._look_for_rivals()
                    self._check_prefix()
                    self._take()
                    self._claim_place(stack)
                    self._check_other_endpoints()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def where(self) -> str:
        """Bucket and prefix, for people."""
        if self.target.is_embedded:
            return f"{self.target.s3}/{BUCKET}/{self._prefix}"
        return f"{self.control.where}/{self._prefix}"

    @property
    def bucket_exists(self) -> bool:
        """Whether there is a bucket, and so anything to look at."""
        return self._is_reachable and self._exists

    @property
    def claim_is_weak(self) -> bool:
        """The place is claimed, and the store does not keep two from claiming it at once."""
        return self._claim is not None and self._claim.is_weak

    def check_claim(self) -> str:
        """As ``BucketClaim.check``; nothing of a place that is not claimed."""
        return "" if self._claim is None else self._claim.check()

    @property
    def skew_s(self) -> float | None:
        """How far the store's clock is ahead, in s; None where it does not tell, or is ours."""
        return None if self.target.is_embedded else self.control.clock_skew_s()

    def record(self) -> dict[str, Any]:
        """Where the objects are, for the result directory. Nothing secret is in it."""
        store = self.access.store
        return {
            "bucket": store.bucket,
            "endpoints": [] if self.target.is_embedded else list(store.endpoints),
            "prefix": self._prefix,
            "campaign": self.campaign,
            "made_bucket": self.made_bucket,
            "embedded": str(self._directory) if self.target.is_embedded else None,
            "proof": None if self.proof is None else self.proof.model_dump(),
        }

    def own_tops(self) -> list[str]:
        """What is right below the prefix: the marker, pools and runs, each with its slash.

        Also of multipart uploads that nobody ended. Raises GuardError, naming the first five, where
        something foreign is among it.
        """
        if not self.bucket_exists:
            return []
        uploads = {top_of(key, self._prefix) for key in self.control.list_uploads(self._prefix)}
        tops = sorted({*self.control.list_top(self._prefix), *uploads})
        foreign = foreign_keys(tops, self._prefix)
        if foreign:
            more = f" and {len(foreign) - _NAMED:,} more" if len(foreign) > _NAMED else ""
            raise GuardError(
                self.where,
                f"holds what storlab did not make: {', '.join(foreign[:_NAMED])}{more}",
                "move it elsewhere; nothing below this prefix was touched",
            )
        return tops

    def forget(self) -> list[str]:
        """After the last object: remove the marker, and what storlab made around the prefix.

        Returns the names of what went. Raises PreflightError.
        """
        self.control.delete([self._prefix + MARKER])
        self._cleaned = True
        if self._claim is not None:
            self._claim.release(left=self.cleaning)  # else the bucket is not empty
        if self.server is not None and not self.control.list_keys("", 1):
            return self.server.remove_empty()
        return [f"bucket {self.control.where}"] if self.remove_bucket() else []

    @property
    def _directory(self) -> Path:
        return self.base / (self.target.s3 or "").removeprefix(EMBEDDED).strip()

    @property
    def _is_reachable(self) -> bool:
        return not self.target.is_embedded or self.server is not None

    def _store(self, stack: ExitStack) -> S3Store:
        if self.target.is_embedded:
            check_directory(self._directory)
            if self.look_only or (self.cleaning and not self._directory.exists()):
                return S3Store(endpoints=[_NOT_STARTED], bucket=BUCKET)
            self.server = stack.enter_context(EmbeddedServer(self._directory))
            return self.server.store
        credentials, region = resolve(self.target, self.base)
        address = urlsplit(self.target.s3 or "")
        return S3Store(
            endpoints=self._endpoints(f"{address.scheme}://{address.netloc}"),
            bucket=address.path.strip("/"),
            region=region,
            addressing=self._options.addressing,
            ca_file=self._ca_file(),
            verify_tls=self._options.verify_tls,
            credentials=credentials,
        )

    def _endpoints(self, first: str) -> list[str]:
        return list(dict.fromkeys([first, *(e.rstrip("/") for e in self._options.endpoints)]))

    def _ca_file(self) -> str | None:
        if self._options.ca_file is None:
            return None
        path = (self.base / self._options.ca_file).absolute()
        fix = "name a PEM file that holds the authority's certificate"
        try:
            if b"-----BEGIN CERTIFICATE-----" in read_input(path):
                return str(path)
        except OSError as error:
            raise PreflightError(
                str(path), f"s3_options.ca_file cannot be read: {error.strerror}", fix
            ) from error
        raise PreflightError(str(path), "s3_options.ca_file holds no certificate", fix)

    def _check_options(self) -> None:
        """Of a new campaign: an older one has made its objects, and must be able to go on."""
        prefix = self._options.prefix
        problem = prefix_problem(prefix) if self.recorded is None else None
        if problem is not None:
            plain = "/".join(part for part in prefix.split("/") if part not in ("", ".", ".."))
            slash = "/" if plain and prefix.endswith("/") else ""
            raise PreflightError(
                f"target {self.target.name}",
                f's3_options.prefix = "{prefix}" {problem}: some stores would not list its objects '
                "again, and they would stay behind",
                f'set s3_options.prefix = "{plain}{slash}"',
            )

    def _check_recorded(self) -> None:
        before = self.recorded
        if before is None:
            return
        now = self.record()
        changed = [n for n in ("bucket", "endpoints", "prefix", "embedded") if before[n] != now[n]]
        if changed:
            raise GuardError(
                f"target {self.target.name}",
                f"its {changed[0]} was {before[changed[0]]} when this campaign began, and is "
                f"{now[changed[0]]} now",
                "begin a new campaign with `storlab run`",
            )

    def _check_bucket(self) -> None:
        self._exists = self.control.bucket_exists()
        if self._exists or self.cleaning:
            return
        if not self._options.create_bucket and not self.target.is_embedded:
            raise PreflightError(
                self.control.where,
                "the bucket does not exist",
                "make it, correct the address, or set s3_options.create_bucket = true",
            )
        if not self.look_only:
            self.control.create_bucket()
            self._exists = self.made_bucket = True

    def _look_for_rivals(self) -> None:
        """One campaign at a time measures in this bucket, below the study's prefix."""
        if self.target.is_embedded:
            return
        prefix = self._options.prefix
        self._claim = BucketClaim(self.access.store, prefix, self.campaign, str(self.base))
        if not self.cleaning:
            self._claim.look()

    def _claim_place(self, stack: ExitStack) -> None:
        """Once it is known that objects can be deleted here: a claim must not stay behind."""
        if self._claim is not None and not self.look_only and not self.cleaning:
            stack.callback(self._claim.release)
            self._claim.take()

    def _check_prefix(self) -> None:
        """Whose is the prefix? Refuses one that is not this campaign's."""
        tops = self.own_tops()
        content = self.control.get(self._prefix + MARKER)
        if content is None:
            if tops and not self.cleaning:
                raise GuardError(
                    self.where,
                    f"has objects ({tops[0]}, ...) and no {MARKER} that says whose they are",
                    "begin a new campaign with `storlab run`",
                )
            return
        marker = read_marker(content)
        if self.recorded is None:
            raise GuardError(self.where, "is in use already", "run the study again")
        if marker is None or (marker.get("campaign"), marker.get("target")) != (
            self.campaign,
            self.target.name,
        ):
            raise GuardError(
                self.where,
                f"belongs to another campaign, says its {MARKER}",
                "begin a new campaign with `storlab run`",
            )
        # Also of a bucket that a later session made: the record is of the first.
        self.made_bucket = self.made_bucket or marker.get("made_bucket") is True

    def _take(self) -> None:
        """Write the marker, and see that what the campaign must do below the prefix is allowed.

        Deleting comes first: where it is refused, nothing has been written that would stay.
        """
        if self.look_only or self.cleaning:
            return
        probe = self._prefix + PROBE
        content = marker_content(self.campaign, self.target.name, self.made_bucket)
        try:
            self.control.delete([probe])
            self.control.put(self._prefix + MARKER, content)
            self._wrote = True
            self.proof = prove(self.control, self._prefix, self._prefix + MARKER, probe)
        except PreflightError as error:
            if self._wrote and self.recorded is None:
                # By its key: a listing may not show it, which may be what is wrong.
                with suppress(StorlabError):
                    self.control.delete([self._prefix + MARKER])
            if DENIED not in error.what:
                raise
            raise PreflightError(
                self.where,
                error.what,
                "allow these credentials s3:PutObject and s3:DeleteObject (and "
                "s3:AbortMultipartUpload) below this prefix: a campaign writes objects, and "
                "deletes them at its end (docs/s3.md names all rights that it needs)",
            ) from error

    def _check_other_endpoints(self) -> None:
        """Every endpoint must lead to the same bucket: each shows the marker."""
        store = self.access.store
        for endpoint in store.endpoints[1:]:
            other = S3Control(store.model_copy(update={"endpoints": [endpoint]}))
            same = other.bucket_exists()
            if same and self._wrote:
                same = other.get(self._prefix + MARKER) is not None
            if not same:
                raise PreflightError(
                    f"target {self.target.name}",
                    f"{endpoint} does not show the bucket that {store.endpoints[0]} shows",
                    "name endpoints of one store in s3_options.endpoints",
                )

    def _take_back(self, *_: object) -> None:
        """A campaign that was refused later, or never wrote an object, leaves nothing behind."""
        # A store that has gone keeps what it has; the reason for leaving matters more.
        with suppress(StorlabError):
            if self._cleaned:
                # Again: another target of the campaign may have been cleaned since.
                self.remove_bucket()
            elif self._wrote:
                self._take_back_marker()
        if self.server is not None:
            with suppress(OSError):
                self.server.remove_empty()

    def _take_back_marker(self) -> None:
        marker = self._prefix + MARKER
        if self.control.list_keys(self._prefix, 2) not in ([marker], []):
            return
        if self.control.list_uploads(self._prefix, 1):
            return
        self.control.delete([marker])
        self.remove_bucket()

    def remove_bucket(self) -> bool:
        """Remove the bucket if storlab made it and nothing is in it; True when it is gone."""
        if not (self.made_bucket and self.bucket_exists) or self.target.is_embedded:
            return False
        if self.control.list_keys("", 1) or self.control.list_uploads("", 1):
            return False
        if self.control.has_versions(""):  # no store removes a bucket that holds any
            return False
        self.control.delete_bucket()
        self._exists = False
        return True


def _recorded_proof(recorded: Mapping[str, Any] | None) -> Proof | None:
    proof = (recorded or {}).get("proof")
    return None if proof is None else Proof.model_validate(proof)

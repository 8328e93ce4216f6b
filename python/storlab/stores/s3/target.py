"""Give a campaign exclusive use of an S3 target, below a key prefix of its own."""

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
from storlab.stores.s3.lease import BucketLease
from storlab.stores.s3.proof import Proof, prove

# Address used if the embedded server is not started; no request is sent to it.
_NOT_STARTED = "http://127.0.0.1:9"
_NAMED = 5


class S3Hold:
    """Context manager that gives a campaign exclusive use of an S3 target.

    Entering creates the bucket if necessary, leases it, and writes an ownership marker below the
    campaign's prefix. It raises PreflightError if the store cannot be used, and GuardError if the
    prefix or the lease is another campaign's. Leaving removes what entering created, unless objects
    were added.

    ``recorded`` is the result of ``record`` in an earlier session of the campaign. ``look_only``
    makes the checks without writing or starting a server. ``cleaning`` opens an earlier campaign to
    remove its objects, and creates nothing.
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
        self._exists = True  # whether the bucket exists, as far as known
        self._wrote = False  # whether the marker was written in this session
        self._cleaned = False
        self.proof = _recorded_proof(recorded)
        self._claim: BucketLease | None = None  # None for the embedded server
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
        """Address of bucket and prefix, for messages."""
        if self.target.is_embedded:
            return f"{self.target.s3}/{BUCKET}/{self._prefix}"
        return f"{self.control.where}/{self._prefix}"

    @property
    def bucket_exists(self) -> bool:
        """Whether the bucket exists and its server runs."""
        return self._is_reachable and self._exists

    @property
    def claim_is_weak(self) -> bool:
        """Whether two campaigns could lease the bucket at once, for lack of conditional writes."""
        return self._claim is not None and self._claim.is_weak

    def check_claim(self) -> str:
        """Check that the campaign still has its lease of the bucket, and renew it if expired.

        Returns:
            A warning if the lease had expired; otherwise, and without a lease, "".

        Raises:
            GuardError: Another campaign has the lease, or it was removed.
        """
        return "" if self._claim is None else self._claim.check()

    @property
    def skew_s(self) -> float | None:
        """Seconds by which the store's clock is ahead; None if unknown or embedded."""
        return None if self.target.is_embedded else self.control.clock_skew_s()

    def record(self) -> dict[str, Any]:
        """Return bucket, prefix and other facts, without secrets, to find the objects later."""
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
        """Return the top level of keys below the prefix, such as ``storlab.json`` and ``<run>/``.

        Keys of open multipart uploads are included.

        Raises:
            GuardError: There are objects that storlab did not create; names the first five.
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
                f"has objects that storlab did not create: {', '.join(foreign[:_NAMED])}{more}",
                "move them elsewhere; storlab has changed no object below this prefix",
            )
        return tops

    def forget(self) -> list[str]:
        """Delete the ownership marker, and the bucket or directories that storlab created.

        All other objects must have been deleted.

        Returns:
            Names of the removed bucket and directories.

        Raises:
            PreflightError: A request to the store failed.
        """
        self.control.delete([self._prefix + MARKER])
        self._cleaned = True
        if self._claim is not None:
            self._claim.release(left=self.cleaning)  # otherwise the bucket would not be empty
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
        fix = "set it to a PEM file with the certificate of the authority"
        try:
            if b"-----BEGIN CERTIFICATE-----" in read_input(path):
                return str(path)
        except OSError as error:
            raise PreflightError(
                str(path), f"s3_options.ca_file cannot be read: {error.strerror}", fix
            ) from error
        raise PreflightError(str(path), "s3_options.ca_file contains no certificate", fix)

    def _check_options(self) -> None:
        """Check the prefix of a new campaign; a resumed one keeps its prefix unchecked."""
        prefix = self._options.prefix
        problem = prefix_problem(prefix) if self.recorded is None else None
        if problem is not None:
            plain = "/".join(part for part in prefix.split("/") if part not in ("", ".", ".."))
            slash = "/" if plain and prefix.endswith("/") else ""
            raise PreflightError(
                f"target {self.target.name}",
                f's3_options.prefix = "{prefix}" {problem}, so some stores might not list its '
                "objects, and storlab could not delete them",
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
                f"its {changed[0]} was {before[changed[0]]} when this campaign began, but is "
                f"{now[changed[0]]} now",
                "undo the change, or begin a new campaign with `storlab run`",
            )

    def _check_bucket(self) -> None:
        self._exists = self.control.bucket_exists()
        if self._exists or self.cleaning:
            return
        if not self._options.create_bucket and not self.target.is_embedded:
            raise PreflightError(
                self.control.where,
                "the bucket does not exist",
                "create it, correct the address, or set s3_options.create_bucket = true",
            )
        if not self.look_only:
            self.control.create_bucket()
            self._exists = self.made_bucket = True

    def _look_for_rivals(self) -> None:
        """Raise GuardError if another campaign has leased this bucket or ``s3_options.prefix``."""
        if self.target.is_embedded:
            return
        prefix = self._options.prefix
        self._claim = BucketLease(self.access.store, prefix, self.campaign, str(self.base))
        if not self.cleaning:
            self._claim.look()

    def _claim_place(self, stack: ExitStack) -> None:
        """Take the lease; called after the test that objects, such as the claim, can be deleted."""
        if self._claim is not None and not self.look_only and not self.cleaning:
            stack.callback(self._claim.release)
            self._claim.take()

    def _check_prefix(self) -> None:
        """Raise GuardError if the campaign's prefix contains objects of another campaign."""
        tops = self.own_tops()
        content = self.control.get(self._prefix + MARKER)
        if content is None:
            if tops and not self.cleaning:
                raise GuardError(
                    self.where,
                    f"has objects ({tops[0]}, ...) but no {MARKER} that names their owner",
                    "begin a new campaign with `storlab run`",
                )
            return
        marker = read_marker(content)
        if self.recorded is None:
            raise GuardError(
                self.where,
                "is in use by another campaign",
                "run the study again when that campaign has ended",
            )
        if marker is None or (marker.get("campaign"), marker.get("target")) != (
            self.campaign,
            self.target.name,
        ):
            raise GuardError(
                self.where,
                f"belongs to another campaign, according to its {MARKER}",
                "begin a new campaign with `storlab run`",
            )
        # Ask the marker, too: a session after the one of the record may have created the bucket.
        self.made_bucket = self.made_bucket or marker.get("made_bucket") is True

    def _take(self) -> None:
        """Write the ownership marker, and test the operations that a campaign needs.

        Deletion is tested before anything is written that might not be deletable.
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
                # Delete the marker by its key, because the failure may be that no listing shows it.
                with suppress(StorlabError):
                    self.control.delete([self._prefix + MARKER])
            if DENIED not in error.what:
                raise
            raise PreflightError(
                self.where,
                error.what,
                "allow these credentials s3:PutObject and s3:DeleteObject (and "
                "s3:AbortMultipartUpload) below this prefix: a campaign writes objects, and "
                "deletes them at its end (docs/s3.md lists all permissions that it needs)",
            ) from error

    def _check_other_endpoints(self) -> None:
        """Check that the ownership marker can be read through every endpoint of the target."""
        store = self.access.store
        for endpoint in store.endpoints[1:]:
            other = S3Control(store.model_copy(update={"endpoints": [endpoint]}))
            same = other.bucket_exists()
            if same and self._wrote:
                same = other.get(self._prefix + MARKER) is not None
            if not same:
                raise PreflightError(
                    f"target {self.target.name}",
                    f"{endpoint} does not serve the same bucket as {store.endpoints[0]}",
                    "list only endpoints of the same store in s3_options.endpoints",
                )

    def _take_back(self, *_: object) -> None:
        """Remove the marker and a created bucket if the campaign has no objects there."""
        # Ignore errors of the store, so that the error that ended the campaign is shown.
        with suppress(StorlabError):
            if self._cleaned:
                # Try again, because another target in the same bucket may have been cleaned since.
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
        """Remove the bucket if storlab created it and it is empty; return whether it did."""
        if not (self.made_bucket and self.bucket_exists) or self.target.is_embedded:
            return False
        if self.control.list_keys("", 1) or self.control.list_uploads("", 1):
            return False
        if self.control.has_versions(""):  # no store removes a bucket with versions
            return False
        self.control.delete_bucket()
        self._exists = False
        return True


def _recorded_proof(recorded: Mapping[str, Any] | None) -> Proof | None:
    proof = (recorded or {}).get("proof")
    return None if proof is None else Proof.model_validate(proof)

"""Lease a bucket, or its part below ``s3_options.prefix``, to one campaign at a time.

Campaigns have separate prefixes and cannot damage each other's objects, but two at once would
distort each other's measurements. The lease is an object beside these prefixes, called the claim,
that names the campaign and the end of the lease. The campaign renews the claim while it runs and
deletes it at its end. The claim of a crashed campaign expires. Times are taken from the store's
response headers, so the clocks of two machines need not agree.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from socket import gethostname
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s, wall_at_ns
from storlab.base.errors import GuardError, PreflightError, StorlabError
from storlab.base.units import NS_PER_S
from storlab.model.s3 import S3Store
from storlab.stores.s3.control import S3Control
from storlab.stores.s3.keys import CLAIM

LEASE_S = 180.0
RENEW_S = 60.0
# Time after which another campaign's concurrent write is visible, for stores that may ignore the
# condition of a write.
SETTLE_S = 2.0
_SESSION = os.urandom(6).hex()  # shared by the targets of one campaign


@dataclass(frozen=True, slots=True)
class BucketHolder:
    """Campaign that has leased a bucket, until ``until_s`` (s since 1970 on the store's clock)."""

    campaign: str
    lab: str  # HOST:DIRECTORY in which the campaign was started
    session: str = _SESSION
    until_s: float = 0.0

    def __str__(self) -> str:
        return f"campaign {self.campaign}, started in {self.lab}"


class BucketLease:
    """A campaign's lease of a bucket or prefix, which lasts from ``take`` to ``release``."""

    def __init__(self, store: S3Store, prefix: str, campaign: str, directory: str) -> None:
        self.key = prefix + CLAIM
        self.is_weak = False  # the store ignores conditions of writes
        self._control = S3Control(store)
        self._own = BucketHolder(campaign, f"{gethostname()}:{directory}")
        self._held = False
        self._ends = threading.Event()
        self._renewing: threading.Thread | None = None

    def look(self) -> None:
        """Check that no other campaign has the lease.

        Raises:
            GuardError: Another campaign has the lease.
            PreflightError: A request to the store failed.
        """
        self._rival_free()

    def take(self) -> None:
        """Take the lease; other targets of the same campaign in this process may share it.

        Raises:
            GuardError: Another campaign has the lease.
            PreflightError: A request to the store failed.
        """
        holder, etag = self._rival_free()
        if holder is not None and (holder.campaign, holder.session) == self._identity:
            return
        if not self._write(etag) and not self._is_of_session():
            self._refuse()
        # Test conditional writes: the object exists now, so a store that has them refuses this.
        self.is_weak = self._write(None)
        if etag is not None or self.is_weak:
            sleep_s(SETTLE_S)
        if not self._is_of_session():
            self._refuse()
        self._held = True
        self._renewing = threading.Thread(target=self._renew, name="storlab-claim", daemon=True)
        self._renewing.start()

    def check(self) -> str:
        """Check that this campaign still has the lease, and renew it if it has expired.

        If the store does not respond, nothing is checked.

        Returns:
            A warning if the lease had expired, for example while the campaign was suspended, but no
            other campaign had taken it; otherwise "".

        Raises:
            GuardError: The claim was removed, or another campaign has the lease.
        """
        try:
            tagged = self._control.get_tagged(self.key)
            holder = None if tagged is None else read_holder(tagged[0])
            over_s = 0.0 if holder is None else self._now_s() - holder.until_s
            lapsed = self._is_own(holder) and over_s > 0
            if tagged is not None and lapsed and not self._write(tagged[1]):
                holder = self._there()
        except PreflightError:
            return ""
        if not self._is_own(holder):
            lost = f"is in use by {holder} now" if holder else "is no longer leased"
            raise GuardError(
                self._place,
                f"{lost}: this campaign was suspended for longer than its lease of "
                f"{LEASE_S:.0f} s, or somebody deleted {self.key}",
                "make sure that no other campaign uses this bucket, then continue with "
                "`storlab resume`, or start over with another s3_options.prefix",
            )
        if over_s <= 0:
            return ""
        return (
            f"the lease of {self._place} had expired {over_s:.0f} s ago, "
            "but no other campaign has taken it since"
        )

    def release(self, *, left: bool = False) -> None:
        """End the lease by deleting the claim that ``take`` wrote.

        If the store does not respond, the claim stays until it expires.

        Args:
            left: Whether to delete a claim that an earlier session of the campaign left, too.
        """
        self._ends.set()
        if self._renewing is not None:
            self._renewing.join()
        with suppress(StorlabError):
            if (self._held and self._is_of_session()) or (left and self._is_of_campaign()):
                self._control.delete([self.key])
        self._held = False

    @property
    def _identity(self) -> tuple[str, str]:
        return self._own.campaign, self._own.session

    def _rival_free(self) -> tuple[BucketHolder | None, str | None]:
        """Return the existing claim, which may have expired, and its ETag; both None without claim.

        Raises:
            GuardError: Another campaign has the lease.
        """
        tagged = self._control.get_tagged(self.key)
        if tagged is None:
            return None, None
        holder = read_holder(tagged[0])
        if holder is None:
            raise GuardError(
                f"{self._control.where}/{self.key}",
                "is not a lease of this version of storlab",
                "if no campaign is using this bucket, delete the object",
            )
        left_s = holder.until_s - self._now_s()
        if holder.campaign != self._own.campaign and left_s > 0:
            raise GuardError(
                self._place,
                f"is in use by {holder}",
                "wait until that campaign has ended, end it, or choose another s3_options.prefix; "
                f"if it has crashed, its lease ends in {left_s:.0f} s, or by `storlab clean`",
            )
        return holder, tagged[1]

    def _refuse(self) -> None:
        """Raise GuardError because another campaign has just taken the lease."""
        self._rival_free()
        raise GuardError(
            self._place,
            "was leased by another campaign at the same moment",
            "start the campaign again",
        )

    def _renew(self) -> None:
        """Renew the lease until ``release``; runs in a thread, and ignores errors of the store."""
        while not self._ends.wait(RENEW_S):
            with suppress(StorlabError):
                tagged = self._control.get_tagged(self.key)
                holder = None if tagged is None else read_holder(tagged[0])
                if tagged is None or not self._is_own(holder):
                    return  # another campaign has taken the claim after it expired
                self._write(tagged[1])

    def _write(self, etag: str | None) -> bool:
        """Write the claim under a condition; return whether it was written.

        Args:
            etag: ETag that the existing claim must have; None if there must be no claim, "" to
                write in any case.
        """
        if etag == "":
            self._control.put(self.key, self._content())
            return True
        condition = ("if-none-match", "*") if etag is None else ("if-match", etag)
        return self._control.put_if(self.key, self._content(), condition)

    @property
    def _place(self) -> str:
        return f"{self._control.where}/{self.key.removesuffix(CLAIM)}"

    def _content(self) -> bytes:
        holder = replace(self._own, until_s=round(self._now_s() + LEASE_S, 1))
        fields = {"schema_version": 1, **asdict(holder)}
        return (json.dumps(fields, indent=2) + "\n").encode()

    def _now_s(self) -> float:
        """Return the time on the store's clock in s since 1970; on this machine's if unknown."""
        skew_s = self._control.clock_skew_s() or 0.0
        return wall_at_ns(monotonic_ns()) / NS_PER_S + skew_s

    def _is_of_session(self) -> bool:
        return self._is_own(self._there())

    def _is_own(self, holder: BucketHolder | None) -> bool:
        return holder is not None and _identity_of(holder) == self._identity

    def _is_of_campaign(self) -> bool:
        holder = self._there()
        return holder is not None and holder.campaign == self._own.campaign

    def _there(self) -> BucketHolder | None:
        content = self._control.get(self.key)
        return None if content is None else read_holder(content)


def _identity_of(holder: BucketHolder) -> tuple[str, str]:
    return holder.campaign, holder.session


def read_holder(content: bytes) -> BucketHolder | None:
    """Parse a claim, the object that records a lease; None if its format is not this version's."""
    try:
        document: Any = json.loads(content)
        if document.pop("schema_version") == 1:
            return BucketHolder(**document)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None

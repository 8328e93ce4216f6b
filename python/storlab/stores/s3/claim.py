"""One campaign at a time on a bucket, or on the part of it below ``s3_options.prefix``.

Each has a prefix of its own, so that none harms another; but two at once measure one another. The
claim is an object beside these prefixes that says whose the place is and until when. Its campaign
renews it while it works, and takes it away at its end; what a dead one leaves ends by itself. Times
are the store's, as its answers have them: clocks of two labs need not agree.
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
SETTLE_S = 2.0  # until a store without conditions shows all who wrote at the same time
_SESSION = os.urandom(6).hex()  # targets of one campaign share a claim


@dataclass(frozen=True, slots=True)
class BucketHolder:
    """Whose a place in a bucket is, until when (s since the epoch, by the store's clock)."""

    campaign: str
    lab: str  # HOST:DIRECTORY that it was started in
    session: str = _SESSION
    until_s: float = 0.0

    def __str__(self) -> str:
        return f"campaign {self.campaign}, started in {self.lab}"


class BucketClaim:
    """A campaign's claim, from ``take`` to ``release``."""

    def __init__(self, store: S3Store, prefix: str, campaign: str, directory: str) -> None:
        self.key = prefix + CLAIM
        self.is_weak = False  # the store overwrites it, whatever the condition
        self._control = S3Control(store)
        self._own = BucketHolder(campaign, f"{gethostname()}:{directory}")
        self._held = False
        self._ends = threading.Event()
        self._renewing: threading.Thread | None = None

    def look(self) -> None:
        """Raise GuardError while another campaign has the place, PreflightError for the store."""
        self._rival_free()

    def take(self) -> None:
        """Have it, or share what this process has for the same campaign. Raises as ``look``."""
        holder, etag = self._rival_free()
        if holder is not None and (holder.campaign, holder.session) == self._identity:
            return
        if not self._write(etag) and not self._is_of_session():
            self._refuse()
        self.is_weak = self._write(None)  # whoever heeds the condition refuses: it is there
        if etag is not None or self.is_weak:
            sleep_s(SETTLE_S)
        if not self._is_of_session():
            self._refuse()
        self._held = True
        self._renewing = threading.Thread(target=self._renew, name="storlab-claim", daemon=True)
        self._renewing.start()

    def check(self) -> str:
        """Raise GuardError where the place is not this campaign's any more.

        Returns a note where its claim had ended, as of a campaign that was suspended, and nobody
        has come meanwhile: it is renewed then. A store that does not answer is asked the next time.
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
            lost = f"is in use by {holder} now" if holder else "is not claimed any more"
            raise GuardError(
                self._place,
                f"{lost}: this campaign stood still for longer than the {LEASE_S:.0f} s for which "
                "it claims the place, or somebody removed its claim",
                "see that nobody else measures there, then go on with `storlab resume`, or begin "
                "anew with another s3_options.prefix",
            )
        if over_s <= 0:
            return ""
        return f"the claim on {self._place} had ended {over_s:.0f} s ago; nobody has come meanwhile"

    def release(self, *, left: bool = False) -> None:
        """Give up what ``take`` took; ``left``: also what an earlier session left.

        A store that does not answer keeps it until it ends.
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
        """The claim that is there and may be taken, and its etag."""
        tagged = self._control.get_tagged(self.key)
        if tagged is None:
            return None, None
        holder = read_holder(tagged[0])
        if holder is None:
            raise GuardError(
                f"{self._control.where}/{self.key}",
                "is not a claim of this version of storlab",
                "delete it, if nothing is measured there",
            )
        left_s = holder.until_s - self._now_s()
        if holder.campaign != self._own.campaign and left_s > 0:
            raise GuardError(
                self._place,
                f"is in use by {holder}",
                "wait until it has ended, end it there, or choose another s3_options.prefix; "
                f"where it has died, the place is free in {left_s:.0f} s, or after `storlab clean`",
            )
        return holder, tagged[1]

    def _refuse(self) -> None:
        """Somebody was faster. Raises GuardError."""
        self._rival_free()
        raise GuardError(
            self._place, "was claimed by another campaign at the same moment", "run it again"
        )

    def _renew(self) -> None:
        """In a thread of its own. A store that does not answer now may do so the next time."""
        while not self._ends.wait(RENEW_S):
            with suppress(StorlabError):
                tagged = self._control.get_tagged(self.key)
                holder = None if tagged is None else read_holder(tagged[0])
                if tagged is None or not self._is_own(holder):
                    return  # it was away for longer than its lease, and another has the place
                self._write(tagged[1])

    def _write(self, etag: str | None) -> bool:
        """In place of what has that etag; None: where there is nothing. False: it is not so."""
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
        """By the store's clock; by this machine's where it does not tell."""
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
    """Whose a claim is; None for what is none of this version."""
    try:
        document: Any = json.loads(content)
        if document.pop("schema_version") == 1:
            return BucketHolder(**document)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None

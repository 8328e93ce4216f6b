"""One campaign at a time per bucket, on every available server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from storlab.base.errors import GuardError
from storlab.base.units import NS_PER_S
from storlab.lab.preflight.s3 import store_checks
from storlab.model.point import Plan
from storlab.model.s3 import S3Options, S3Store
from storlab.model.target import Target
from storlab.stores.s3 import lease
from storlab.stores.s3.control import S3Control
from storlab.stores.s3.embedded import EmbeddedServer
from storlab.stores.s3.lease import LEASE_S, BucketLease, read_holder
from storlab.stores.s3.target import S3Hold
from support.s3_servers import S3Server, gofakes3, versitygw

FIRST, OTHER = "0123456789ab", "ba9876543210"
KEY = "bench/storlab-claim.json"
SERVERS: dict[str, Callable[[Path], AbstractContextManager[S3Server]]] = {
    "versitygw": versitygw,
    "gofakes3": gofakes3,
}


@pytest.fixture(params=["versitygw", "gofakes3", "embedded"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[S3Store]:
    """Provide an empty bucket."""
    if request.param == "embedded":
        with EmbeddedServer(tmp_path / "objects") as own:
            yield own.store
        return
    with SERVERS[request.param](tmp_path / "s3") as server:
        if request.param == "versitygw":
            server.make_bucket()
        yield server.store()


def claim_of(store: S3Store, campaign: str, prefix: str = "bench/") -> BucketLease:
    return BucketLease(store, prefix, campaign, "/somewhere")


def another_session(monkeypatch: pytest.MonkeyPatch, claimed: BucketLease) -> BucketLease:
    """Claim as a lab on another machine would."""
    monkeypatch.setattr(claimed, "_own", lease.replace(claimed._own, session="another"))
    return claimed


def test_the_second_campaign_is_refused_until_the_first_has_ended(store: S3Store) -> None:
    first, second = claim_of(store, FIRST), claim_of(store, OTHER)
    first.take()
    holder = read_holder(S3Control(store).get(KEY) or b"")
    assert holder is not None
    assert holder.campaign == FIRST
    for asked in (second.look, second.take):
        with pytest.raises(GuardError, match=f"is in use by campaign {FIRST}") as caught:
            asked()
        assert "prefix" in caught.value.fix
    claim_of(store, OTHER, "elsewhere/").look()
    second.release()
    assert S3Control(store).get(KEY) is not None, "it was not the second's to give up"
    first.release()
    assert S3Control(store).get(KEY) is None
    second.take()
    second.release()


def test_what_a_dead_campaign_left_ends_by_itself(store: S3Store) -> None:
    control = S3Control(store)
    dead, heir = claim_of(store, OTHER), claim_of(store, FIRST)
    dead.take()
    dead._ends.set()  # like SIGKILL: no renewal
    content = json.loads(control.get(KEY) or b"")
    control.put(KEY, json.dumps(content | {"until_s": content["until_s"] - LEASE_S - 5}).encode())
    heir.take()
    assert json.loads(control.get(KEY) or b"")["campaign"] == FIRST
    dead.release()
    assert json.loads(control.get(KEY) or b"")["campaign"] == FIRST
    heir.release()
    assert control.get(KEY) is None


def test_a_campaign_that_goes_on_has_what_its_earlier_session_left(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_session(monkeypatch, before := claim_of(store, FIRST))
    before.take()
    before._ends.set()
    now = claim_of(store, FIRST)
    now.take()
    beside = claim_of(store, FIRST)  # of another target in the same bucket
    beside.take()
    beside.release()
    assert S3Control(store).get(KEY) is not None
    now.release()
    assert S3Control(store).get(KEY) is None


def test_it_is_renewed_and_noticed_when_it_is_lost(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = S3Control(store)
    monkeypatch.setattr(lease, "RENEW_S", 0.05)
    held = claim_of(store, FIRST)
    held.take()
    content = json.loads(control.get(KEY) or b"")
    control.put(KEY, json.dumps(content | {"until_s": 1.0}).encode())
    while json.loads(control.get(KEY) or b"")["until_s"] == 1.0:
        pass
    taken = json.dumps(content | {"campaign": OTHER}).encode()
    # Without conditional writes, a renewal may write in between: repeat until ours stays.
    while control.get(KEY) != taken:
        control.put(KEY, taken)
    held._renewing.join()  # type: ignore[union-attr]
    held.release()
    assert json.loads(control.get(KEY) or b"")["campaign"] == OTHER


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Shift the clock of claims, as after a suspend."""
    true = lease.wall_at_ns

    def set_ahead(seconds: float) -> None:
        ahead_ns = round(seconds * NS_PER_S)
        monkeypatch.setattr(lease, "wall_at_ns", lambda time_ns: true(time_ns) + ahead_ns)

    return set_ahead


def test_a_campaign_that_was_suspended_hears_that_another_has_come(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None]
) -> None:
    """Check that a campaign that renewed no lease notices another owner."""
    held = claim_of(store, FIRST)
    held.take()
    beside = claim_of(store, FIRST)  # of another target, which has the first one's claim
    beside.take()
    assert (held.check(), beside.check()) == ("", "")
    clock(LEASE_S + 5)
    rival = another_session(monkeypatch, claim_of(store, OTHER))
    rival.take()
    for own in (held, beside):
        with pytest.raises(GuardError, match=f"is in use by campaign {OTHER}") as caught:
            own.check()
        assert caught.value.where.endswith("/bench/")
        assert "storlab resume" in caught.value.fix
    rival.release()
    with pytest.raises(GuardError, match="is no longer leased"):
        held.check()
    held.release()


def test_a_suspension_that_nobody_used_is_told_and_the_claim_renewed(
    store: S3Store, clock: Callable[[float], None]
) -> None:
    held = claim_of(store, FIRST)
    held.take()
    clock(LEASE_S + 1000)
    assert re.search(r"expired 1\d{3} s ago", held.check())
    assert held.check() == ""
    with pytest.raises(GuardError, match=f"is in use by campaign {FIRST}"):
        claim_of(store, OTHER).look()
    held.release()


def test_a_store_that_does_not_answer_is_asked_the_next_time(tmp_path: Path) -> None:
    with gofakes3(tmp_path / "s3") as server:
        held = claim_of(server.store(), FIRST)
        held.take()
    assert held.check() == ""
    held.release()


def test_the_servers_here_heed_conditions(store: S3Store) -> None:
    held = claim_of(store, FIRST)
    held.take()
    assert not held.is_weak
    held.release()


def test_of_two_that_a_store_lets_in_at_once_the_first_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the conflict on a store that ignores conditional writes (simulated)."""
    monkeypatch.setattr(
        S3Control, "put_if", lambda self, key, data, condition: self.put(key, data) is None
    )
    monkeypatch.setattr(lease, "SETTLE_S", 0.0)
    with versitygw(tmp_path / "s3") as server:
        server.make_bucket()
        held = claim_of(server.store(), FIRST)
        held.take()
        assert held.is_weak
        held.release()
        rival = another_session(monkeypatch, claim_of(server.store(), OTHER))
        monkeypatch.setattr(lease, "sleep_s", lambda _: rival._write(None))
        with pytest.raises(GuardError, match=f"is in use by campaign {OTHER}"):
            held.take()


def aim(server: S3Server) -> Target:
    options = S3Options(prefix="bench/")
    return Target(name="SSD", s3=f"{server.endpoint}/bench", s3_options=options)


def test_a_target_is_claimed_while_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with versitygw(tmp_path / "s3") as server:
        server.set_environment(monkeypatch)
        server.make_bucket()
        with S3Hold(aim(server), FIRST, tmp_path, None) as held:
            assert KEY in set(server.keys())
            with (
                pytest.raises(GuardError, match="in use by campaign"),
                S3Hold(aim(server), OTHER, tmp_path, None),
            ):
                pytest.fail("the second was let in")
            held.control.put(f"{held.access.prefix}run-0123456789ab-r1/x", b"data")
            record = held.record()
            prefix = held.access.prefix
            empty = Plan(
                study_name="x", study_sha256="", points={}, runs=[], estimated_ns=0, bytes_written=0
            )
            told = {c.name: c for c in store_checks(aim(server), empty, tmp_path, None)}
            assert told["store"].status == "error"
            assert "in use by campaign" in told["store"].what
        assert KEY not in set(server.keys())
        left = server.keys()
        assert left == [f"{prefix}run-0123456789ab-r1/x", f"{prefix}storlab.json"]
        # A session that was killed, then cleaned up.
        dead = another_session(monkeypatch, claim_of(server.store(), FIRST))
        dead.take()
        dead._ends.set()
        with S3Hold(aim(server), FIRST, tmp_path, record, cleaning=True) as cleaning:
            cleaning.control.delete([f"{prefix}run-0123456789ab-r1/x"])
            cleaning.forget()
        assert server.keys() == []

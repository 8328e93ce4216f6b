"""An S3 target through a campaign on a real server: held, resumed, reclaimed, cleaned."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from storlab.base.errors import GuardError, PreflightError, StorlabError
from storlab.lab.run.progress import PlainReporter
from storlab.lab.site.clean import clean_store
from storlab.model.s3 import S3Options
from storlab.model.target import Target
from storlab.process.execution import Interrupted, StopRequest
from storlab.stores.s3.target import S3Hold
from support.ports import free_port
from support.s3_servers import S3Server, versitygw

CAMPAIGN = "0123456789ab"
OTHER = "ba9876543210"
RUN = "run-0123456789ab-r1/"


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "tls"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    with versitygw(tmp_path_factory.mktemp("s3"), tls=request.param) as server:
        yield server


@pytest.fixture
def server(
    running: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> S3Server:
    running.set_environment(monkeypatch)
    return running


@pytest.fixture
def bucket(server: S3Server, request: pytest.FixtureRequest) -> str:
    """Provide an existing bucket for this test."""
    name = new_bucket(request)
    server.make_bucket(name)
    return name


def new_bucket(request: pytest.FixtureRequest) -> str:
    letters = request.node.name.split("[")[0].removeprefix("test_").replace("_", "-")
    return letters[:50].strip("-")


def target(server: S3Server, bucket: str, name: str = "SSD", **options: Any) -> Target:
    if server.ca_file is not None:
        options["ca_file"] = str(server.ca_file)
    return Target(
        name=name,
        s3=f"{server.endpoint}/{bucket}",
        s3_options=S3Options(**options) if options else None,
    )


def hold(aim: Target, recorded: dict[str, Any] | None = None, **more: Any) -> S3Hold:
    return S3Hold(aim, more.pop("campaign", CAMPAIGN), Path.cwd(), recorded, **more)


def begun(aim: Target) -> dict[str, Any]:
    """Return the record of a campaign interrupted after it made two objects."""
    with hold(aim) as held:
        for rest in ("pool-01234567/0000/00000001", RUN + "x"):
            held.control.put(held.access.prefix + rest, b"data")
        return held.record()


def clean(held: S3Hold, stop: StopRequest | None = None) -> list[str]:
    console = Console(file=io.StringIO())
    return clean_store(held, stop or StopRequest(), PlainReporter(console))


def refused(kind: type[StorlabError], held: S3Hold) -> StorlabError:
    with pytest.raises(kind) as caught, held:
        pass
    assert caught.value.fix
    return caught.value


def test_a_new_campaign_marks_its_prefix_and_takes_it_back_when_unused(
    server: S3Server, bucket: str
) -> None:
    server.put("somebody/else", bucket=bucket)
    with hold(target(server, bucket, prefix="bench/")) as held:
        prefix = held.access.prefix
        assert prefix.startswith("bench/storlab-")
        own = [f"{prefix}storlab.json", "bench/storlab-claim.json"]
        assert server.keys(bucket) == [*own, "somebody/else"]
        marker = json.loads(held.control.get(f"{prefix}storlab.json") or b"")
        assert marker["campaign"] == CAMPAIGN
        record = held.record()
    assert server.keys(bucket) == ["somebody/else"]
    assert (record["bucket"], record["prefix"], record["made_bucket"]) == (bucket, prefix, False)
    assert record["endpoints"] == [server.endpoint]
    text = json.dumps(record)
    assert server.credentials.secret_key not in text
    assert server.credentials.access_key not in text


def test_what_was_written_stays_for_resume(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    record = begun(aim)
    assert len(server.keys(bucket)) == 3
    with hold(aim, record) as held:
        assert held.access.prefix == record["prefix"]
    assert len(server.keys(bucket)) == 3


def test_looking_writes_nothing(server: S3Server, request: pytest.FixtureRequest) -> None:
    name = new_bucket(request)
    with hold(target(server, name, create_bucket=True), look_only=True) as held:
        assert not held.bucket_exists
        assert held.access.store.bucket == name
    assert not (server.root / name).exists()
    server.make_bucket(name)
    with hold(target(server, name), look_only=True) as held:
        assert held.bucket_exists
        assert server.keys(name) == []


def test_a_missing_bucket(server: S3Server, request: pytest.FixtureRequest) -> None:
    reason = refused(PreflightError, hold(target(server, new_bucket(request))))
    assert "does not exist" in reason.what
    assert "create_bucket" in reason.fix


def test_a_bucket_that_storlab_made_goes_with_the_campaign(
    server: S3Server, request: pytest.FixtureRequest
) -> None:
    name = new_bucket(request)
    aim = target(server, name, create_bucket=True)
    record = begun(aim)
    assert record["made_bucket"] is True
    with hold(aim, record, cleaning=True) as held:
        removed = clean(held)
    assert len(removed) == 2
    assert not (server.root / name).exists()


def test_a_bucket_that_storlab_made_stays_while_somebody_uses_it(
    server: S3Server, request: pytest.FixtureRequest
) -> None:
    name = new_bucket(request)
    aim = target(server, name, create_bucket=True)
    record = begun(aim)
    server.put("somebody/else", bucket=name)
    with hold(aim, record, cleaning=True) as held:
        assert len(clean(held)) == 1
    assert server.keys(name) == ["somebody/else"]


def test_a_bucket_that_storlab_did_not_make_stays_though_empty(
    server: S3Server, bucket: str
) -> None:
    aim = target(server, bucket, create_bucket=True)
    record = begun(aim)
    assert record["made_bucket"] is False
    with hold(aim, record, cleaning=True) as held:
        assert len(clean(held)) == 1
    assert (server.root / bucket).is_dir()
    assert server.keys(bucket) == []


def test_a_bucket_that_two_targets_share_goes_with_the_last(
    server: S3Server, request: pytest.FixtureRequest
) -> None:
    name = new_bucket(request)
    one_target = target(server, name, "one", create_bucket=True)
    two = target(server, name, "two", create_bucket=True)
    with hold(one_target) as first, hold(two) as second:
        assert first.access.prefix != second.access.prefix
        for held in (first, second):
            held.control.put(f"{held.access.prefix}{RUN}x", b"data")
        assert len(clean(first)) == 1
        assert len(server.keys(name)) == 2
        assert len(clean(second)) == 1
        assert (server.root / name).is_dir()
    assert not (server.root / name).exists()


def test_a_made_bucket_is_taken_back_when_the_campaign_is_refused_later(
    server: S3Server, request: pytest.FixtureRequest
) -> None:
    name = new_bucket(request)
    with pytest.raises(GuardError), hold(target(server, name, create_bucket=True)):
        raise GuardError("another target", "was refused", "")
    assert not (server.root / name).exists()


def test_cleaning_removes_objects_and_open_uploads_of_this_campaign_only(
    server: S3Server, bucket: str
) -> None:
    aim = target(server, bucket, prefix="bench/")
    record = begun(aim)
    for key in ("bench/thesis", "bench/storlab-", record["prefix"].rstrip("/") + "x"):
        server.put(key, bucket=bucket)
    other = begun(target(server, bucket, "HDD", prefix="bench/"))
    kept = [key for key in server.keys(bucket) if not key.startswith(record["prefix"])]
    with hold(aim, record, cleaning=True) as held:
        client = held.control._client
        upload = [("uploads", "")]
        client.request("POST", f"{record['prefix']}run-0123456789ab-r2/up", upload, b"", 10.0)
        client.request("POST", "bench/of-somebody", upload, b"", 10.0)
        assert clean(held) == [held.where]
        assert held.control.list_uploads("") == ["bench/of-somebody"]
        assert clean(held) == []
    assert server.keys(bucket) == kept
    assert any(key.startswith(other["prefix"]) for key in kept)


def test_a_foreign_object_below_the_prefix_stops_everything(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    record = begun(aim)
    with hold(aim, record, cleaning=True) as held:
        for number in range(7):
            server.put(f"{record['prefix']}thesis-{number}.tex", bucket=bucket)
        before = server.keys(bucket)
        with pytest.raises(GuardError) as caught:
            clean(held)
    assert "thesis-0.tex" in caught.value.what
    assert "thesis-5.tex" not in caught.value.what
    assert "2 more" in caught.value.what
    assert server.keys(bucket) == before
    for again in (hold(aim, record), hold(aim, record, look_only=True)):
        assert "thesis-0.tex" in refused(GuardError, again).what
    assert server.keys(bucket) == before


def test_a_new_campaign_takes_no_prefix_that_is_in_use(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    begun(aim)
    before = server.keys(bucket)
    assert "in use" in refused(GuardError, hold(aim)).what
    marker = next(key for key in before if key.endswith("storlab.json"))
    (server.root / bucket / marker).unlink()
    assert "no storlab.json" in refused(GuardError, hold(aim)).what
    assert len(server.keys(bucket)) == 2


def test_a_prefix_of_another_campaign_is_not_resumed(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    record = begun(aim)
    marker = f"{record['prefix']}storlab.json"
    path = server.root / bucket / marker
    server.put(marker, path.read_bytes().replace(CAMPAIGN.encode(), OTHER.encode()), bucket)
    assert "another campaign" in refused(GuardError, hold(aim, record)).what
    reason = refused(GuardError, hold(aim, record, cleaning=True))
    assert "another campaign" in reason.what
    assert len(server.keys(bucket)) == 3


def test_a_probe_that_was_left_is_no_stranger(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    record = begun(aim)
    probe = server.put(f"{record['prefix']}probe", bucket=bucket)
    with hold(aim, record):
        assert not probe.exists()
    server.put(f"{record['prefix']}probe", bucket=bucket)
    with hold(aim, record, cleaning=True) as held:
        clean(held)
    assert server.keys(bucket) == []


def test_resuming_after_a_clean_begins_anew(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    record = begun(aim)
    with hold(aim, record, cleaning=True) as held:
        clean(held)
    with hold(aim, record) as held:
        assert server.keys(bucket) == [f"{record['prefix']}storlab.json", "storlab-claim.json"]
        held.control.put(f"{record['prefix']}{RUN}x", b"data")
    assert len(server.keys(bucket)) == 2


def test_a_campaign_is_resumed_where_it_began(server: S3Server, bucket: str) -> None:
    record = begun(target(server, bucket))
    server.make_bucket(f"{bucket}-2")
    reason = refused(GuardError, hold(target(server, f"{bucket}-2"), record))
    assert f"{bucket}-2" in reason.what
    assert "prefix" in refused(GuardError, hold(target(server, bucket, prefix="x/"), record)).what


def test_cleaning_a_bucket_that_has_gone(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    with hold(aim) as held:
        record = held.record()
    shutil.rmtree(server.root / bucket)
    with hold(aim, record, cleaning=True) as held:
        assert clean(held) == []
    assert not (server.root / bucket).exists()


def test_stopping_a_clean_keeps_the_marker(server: S3Server, bucket: str) -> None:
    aim = target(server, bucket)
    record = begun(aim)
    with hold(aim, record, cleaning=True) as held:
        for number in range(200):
            server.put(f"{record['prefix']}{RUN}{number}", bucket=bucket)
        stop = StopRequest()
        stop.ask()
        try:
            clean(held, stop)
        except Interrupted:
            assert f"{record['prefix']}storlab.json" in server.keys(bucket)
        with hold(aim, record, cleaning=True) as again:
            clean(again)
    assert server.keys(bucket) == []


def test_further_endpoints_lead_to_the_same_bucket(
    server: S3Server, bucket: str, tmp_path: Path
) -> None:
    alias = server.endpoint.replace("127.0.0.1", "localhost")
    with hold(target(server, bucket, endpoints=[f"{alias}/"])) as held:
        assert held.access.store.endpoints == [server.endpoint, alias]
    with versitygw(tmp_path, tls=server.ca_file is not None) as stranger:
        stranger.make_bucket(bucket)
        reason = refused(
            PreflightError, hold(target(server, bucket, endpoints=[stranger.endpoint]))
        )
        assert reason.fix
    assert server.keys(bucket) == []


def test_an_authority_file_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = S3Options(ca_file="ca.pem")
    aim = Target(name="SSD", s3=f"https://127.0.0.1:{free_port()}/bench", s3_options=options)
    held = S3Hold(aim, CAMPAIGN, tmp_path, None)
    assert "cannot be read" in refused(PreflightError, held).what
    (tmp_path / "ca.pem").write_text("no certificate")
    assert "contains no certificate" in refused(PreflightError, held).what

"""The control plane of a bucket against a real server, plain and with TLS."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from storlab.base.errors import PreflightError
from storlab.model.s3 import Credentials, S3Store
from storlab.stores.s3 import control as s3_control
from storlab.stores.s3.control import S3Control
from support.ports import free_port
from support.s3_servers import S3Server, versitygw

KEYS = ["a b", "a/b+c", "a/d/e", "a/d/f", "a/é%41", "z"]


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "tls"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    with versitygw(tmp_path_factory.mktemp("s3"), tls=request.param) as running:
        running.make_bucket()
        yield running


@pytest.fixture(scope="module")
def control(server: S3Server) -> S3Control:
    made = S3Control(server.store())
    for key in KEYS:
        made.put(key, key.encode())
    return made


def test_a_bucket_comes_and_goes(server: S3Server) -> None:
    control = S3Control(server.store("fresh"))
    assert not control.bucket_exists()
    control.create_bucket()
    assert control.bucket_exists()
    control.put("key", b"")
    with pytest.raises(PreflightError, match="BucketNotEmpty"):
        control.delete_bucket()
    control.delete(["key"])
    control.delete_bucket()
    control.delete_bucket()
    assert not control.bucket_exists()


def test_keys_are_listed_as_they_are(control: S3Control) -> None:
    assert control.list_keys("") == KEYS
    assert control.list_keys("a/", 2) == KEYS[1:3]
    assert control.list_keys("none") == []
    assert control.list_top("") == ["a b", "a/", "z"]
    assert control.list_top("a/") == ["a/b+c", "a/d/", "a/é%41"]


def test_a_listing_of_many_pages_is_whole(server: S3Server) -> None:
    server.make_bucket("pages")
    for number in range(1203):
        server.put(f"{number % 3}/{number:05}", b"", "pages")
    control = S3Control(server.store("pages"))
    assert control.list_keys("") == server.keys("pages")
    assert len(control.list_keys("", 1100)) == 1100
    assert control.list_top("") == ["0/", "1/", "2/"]


def test_objects_come_back_and_missing_ones_are_none(control: S3Control) -> None:
    assert control.get("a/é%41") == "a/é%41".encode()
    assert control.get("missing") is None
    control.put("gone", b"x")
    control.delete(["gone", "missing"])
    assert control.get("gone") is None


def test_uploads_that_nobody_ended_are_listed(control: S3Control) -> None:
    status, _, _ = control._client.request("POST", "up/load", [("uploads", "")], b"", 10.0)
    assert status == 200
    assert control.list_uploads("") == ["up/load"]
    assert control.list_uploads("up/") == ["up/load"]
    assert control.list_uploads("other/") == []
    assert "up/load" not in control.list_keys("")


def test_the_clock_of_the_store(server: S3Server) -> None:
    skew = S3Control(server.store()).clock_skew_s()
    assert skew is not None
    assert abs(skew) < 60  # same machine, so only a missing or damaged header would differ more


def test_versions_are_not_kept_here(control: S3Control) -> None:
    assert not control.is_versioned()


def failure(store: S3Store) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        S3Control(store, timeout_s=5.0).bucket_exists()
    text = str(caught.value)
    assert caught.value.where == f"{store.endpoints[0]}/{store.bucket}"
    assert store.credentials is not None
    assert store.credentials.secret_key not in text
    assert store.credentials.access_key not in text
    return caught.value


def test_wrong_keys(server: S3Server) -> None:
    good = server.credentials
    other = dataclasses.replace(good, access_key="AKIDUNKNOWN")
    reason = failure(server.store(credentials=other))
    assert "does not know the access key" in reason.what
    wrong = dataclasses.replace(good, secret_key=good.secret_key[:-1] + "#")
    reason = failure(server.store(credentials=wrong))
    assert "SignatureDoesNotMatch (403)" in reason.what
    assert "secret key" in reason.fix


def test_the_wrong_region_names_the_right_one(server: S3Server) -> None:
    reason = failure(server.store(region="eu-north-1"))
    assert reason.fix == 'set s3_options.region = "us-east-1"'


def test_a_missing_bucket_is_an_error_of_everything_else(server: S3Server) -> None:
    with pytest.raises(PreflightError, match="the bucket does not exist") as caught:
        S3Control(server.store("missing")).list_keys("")
    assert "create_bucket" in caught.value.fix


def test_nobody_listens(server: S3Server) -> None:
    reason = failure(server.store(endpoints=[f"http://127.0.0.1:{free_port()}"]))
    assert "refused" in reason.what
    assert "port" in reason.fix


def test_a_name_that_nobody_has(server: S3Server) -> None:
    reason = failure(server.store(endpoints=["http://storlab.invalid:9"]))
    assert "name is not found" in reason.what


def test_somebody_who_never_answers(server: S3Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(PreflightError) as caught:
            S3Control(server.store(endpoints=[endpoint]), timeout_s=0.3).bucket_exists()
    assert "no answer in time" in caught.value.what


@contextmanager
def answering(*answers: tuple[int, str, datetime]) -> Iterator[str]:
    """Provide a server with these answers (status, code, date), repeating the last one."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, code, date = left.pop(0) if len(left) > 1 else left[0]
            body = f"<Error><Code>{code}</Code></Error>" if code else "<ListBucketResult/>"
            self.send_response_only(status)
            self.send_header("Date", format_datetime(date, usegmt=True))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def store_at(endpoint: str) -> S3Store:
    return S3Store(endpoints=[endpoint], bucket="bench", credentials=Credentials("AK", "SK"))


def test_a_clock_that_is_off_is_measured_and_named() -> None:
    there = datetime.now(UTC) + timedelta(hours=1)
    with answering((403, "RequestTimeTooSkewed", there)) as endpoint:
        control = S3Control(store_at(endpoint))
        skew = control.clock_skew_s()
        assert skew is not None
        assert 3500 < skew < 3700
        with pytest.raises(PreflightError, match="clocks") as caught:
            control.bucket_exists()
    assert "behind" in caught.value.fix


def test_a_store_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_control, "_PAUSES_S", (0.001, 0.001))
    now = datetime.now(UTC)
    busy = (503, "SlowDown", now)
    with answering(busy, busy, (200, "", now)) as endpoint:
        assert S3Control(store_at(endpoint)).bucket_exists()
    with answering(busy) as endpoint, pytest.raises(PreflightError, match="busy"):
        S3Control(store_at(endpoint)).bucket_exists()


def test_what_is_no_store_is_not_taken_for_a_missing_bucket() -> None:
    reason = pytest.raises(PreflightError, match="like an S3 store")
    with answering((404, "", datetime.now(UTC))) as endpoint, reason:
        S3Control(store_at(endpoint)).bucket_exists()


def test_a_store_that_may_only_be_read(tmp_path: Path) -> None:
    with versitygw(tmp_path, "--readonly") as server:
        server.make_bucket()
        control = S3Control(server.store())
        assert control.bucket_exists()
        with pytest.raises(PreflightError, match="do not allow it") as caught:
            control.put("key", b"")
    assert "s3:PutObject" in caught.value.fix


def test_tls_where_there_is_none(tmp_path: Path) -> None:
    with versitygw(tmp_path) as plain:
        reason = failure(plain.store(endpoints=[plain.endpoint.replace("http:", "https:")]))
    assert "TLS" in reason.what
    assert "scheme" in reason.fix


def test_certificates_are_checked_unless_told_otherwise(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with versitygw(tmp_path, tls=True) as server:
        server.make_bucket()
        reason = failure(server.store(ca_file=str(tmp_path / "other.pem")))
        assert "certificate is not accepted" in reason.what
        assert "s3_options.ca_file" in reason.fix
        assert "s3_options.ca_file" in failure(server.store(ca_file=None)).fix
        assert S3Control(server.store(ca_file=None, verify_tls=False)).bucket_exists()


def test_plain_http_to_a_tls_port(tmp_path: Path) -> None:
    with versitygw(tmp_path, tls=True) as server:
        reason = failure(server.store(endpoints=[server.endpoint.replace("https:", "http:")]))
    assert "cannot list the bucket" in reason.what or "connection" in reason.what
    assert reason.fix

"""Preflight of an S3 target: network path, clock, and storlab's own server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.units import NS_PER_S
from storlab.contracts.check import Check
from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.preflight import check_study
from storlab.lab.preflight.s3 import is_loopback
from storlab.lab.study.file import load_study
from storlab.results.environment import target_facts

OBJECTS = '[[workload]]\nkind = "object"\nobjects = 10\nobject_size = "64KiB"\n'


@contextmanager
def empty_bucket(skew_s: float) -> Iterator[str]:
    """Run a store with one empty bucket and a wrong clock; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def date_time_string(self, timestamp: float | None = None) -> str:
            del timestamp
            return super().date_time_string(wall_at_ns(monotonic_ns()) / NS_PER_S + skew_s)

        def do_GET(self) -> None:
            found = "list-type=" in self.path or "uploads" in self.path
            name = "ListBucketResult" if "list-type=" in self.path else "ListMultipartUploadsResult"
            body = f"<{name}><IsTruncated>false</IsTruncated></{name}>".encode()
            if not found:
                body = b"<Error><Code>NoSuchKey</Code></Error>"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/bucket"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "and his secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def checks_of(tmp_path: Path, target: str) -> dict[str, Check]:
    path = tmp_path / "s.toml"
    path.write_text(f'[study]\nname = "p"\n[[target]]\nname = "t"\n{target}\n{OBJECTS}')
    study = load_study(path)
    checks = check_study(study.study, make_plan(study), tmp_path)
    return {check.name: check for check in checks if check.name.startswith("t: ")}


@pytest.mark.parametrize(
    ("skew_s", "status", "words"),
    [
        (0.0, "ok", "the store's clock is"),
        (120.0, "warning", "ahead of"),
        (-200.0, "warning", "behind"),
        (3600.0, "error", "3600 s ahead of"),
    ],
)
def test_a_clock_that_is_wrong_is_told(
    tmp_path: Path, skew_s: float, status: str, words: str
) -> None:
    with empty_bucket(skew_s) as address:
        found = checks_of(tmp_path, f's3 = "{address}"')
    assert found["t: store"].status == "ok"
    assert found["t: clock"].status == status
    if skew_s not in (0.0, 3600.0):
        assert words in found["t: clock"].what
    assert "t: encryption" not in found  # loopback cannot be intercepted
    assert "t: TLS" not in found


def test_a_store_that_nobody_serves_is_an_error_and_its_way_is_warned_of(tmp_path: Path) -> None:
    found = checks_of(
        tmp_path,
        's3 = "http://store.invalid:9000/bucket"\ns3_options = { verify_tls = false }',
    )
    assert found["t: store"].status == "error"
    assert "store.invalid" in found["t: store"].what
    assert found["t: encryption"].status == "warning"
    assert "store.invalid:9000" in found["t: encryption"].what
    assert found["t: TLS"].status == "warning"


def test_storlabs_own_server_is_not_started_to_be_looked_at(tmp_path: Path) -> None:
    found = checks_of(tmp_path, 's3 = "embedded:objects"')
    assert {check.status for check in found.values()} <= {"ok", "warning"}
    assert found["t: free space"].what.startswith("655 KB needed")
    assert "on this machine" in found["t: store"].what
    assert "t: clock" not in found
    assert found["t: directory"].status == "ok"  # storlab creates it
    assert str(tmp_path) in found["t: directory"].what
    assert not (tmp_path / "objects").exists()


def test_objects_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    text = f'[study]\nname = "p"\n[[target]]\nname = "t"\ns3 = "embedded:objects"\n{OBJECTS}'
    path.write_text(text.replace('"64KiB"', '"4GiB"').replace("10\n", "10_000_000\n"))
    study = load_study(path)
    checks = {c.name: c for c in check_study(study.study, make_plan(study), tmp_path)}
    assert checks["t: free space"].status == "error"


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("s3.localhost", True),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("store.example", False),
        ("", False),
    ],
)
def test_loopback_is_known_by_its_name(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_the_environment_tells_how_a_store_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    target = 's3 = "https://h.example:9000/bucket/"\ns3_options = { addressing = "virtual" }'
    path.write_text(f'[study]\nname = "p"\n[[target]]\nname = "t"\n{target}\n{OBJECTS}')
    facts = target_facts(load_study(path).study.target[0], tmp_path)
    assert facts == {
        "kind": "s3",
        "embedded": False,
        "endpoints": ["https://h.example:9000"],
        "bucket": "bucket",
        "addressing": "virtual",
        "tls": True,
        "verify_tls": True,
        "drives": [],
    }


def test_the_environment_knows_the_drive_below_storlabs_own_server(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        f'[study]\nname = "p"\n[[target]]\nname = "t"\ns3 = "embedded:new/objects"\n{OBJECTS}'
    )
    facts = target_facts(load_study(path).study.target[0], tmp_path)
    assert facts["kind"] == "s3"
    assert facts["embedded"]
    assert facts["mount_point"]

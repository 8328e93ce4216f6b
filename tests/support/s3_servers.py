"""Real S3 servers on loopback: versitygw (plain and with TLS) and gofakes3."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from conftest import missing, need_versitygw
from storlab._native import S3Client
from storlab.model.s3 import Credentials, S3Store
from storlab.stores.s3.control import S3Control
from support.ports import free_port


@dataclass(frozen=True)
class S3Server:
    """A running server; each bucket is a directory below ``root``."""

    endpoint: str
    credentials: Credentials
    root: Path
    ca_file: Path | None = None

    def store(self, bucket: str = "bench", **changes: object) -> S3Store:
        """Return a bucket of the server, which need not exist."""
        made = S3Store(
            endpoints=[self.endpoint],
            bucket=bucket,
            ca_file=None if self.ca_file is None else str(self.ca_file),
            credentials=self.credentials,
        )
        return made.model_copy(update=changes)

    def set_environment(self, monkeypatch: pytest.MonkeyPatch, prefix: str = "AWS") -> None:
        """Set the environment variables from which storlab reads the keys."""
        monkeypatch.setenv(f"{prefix}_ACCESS_KEY_ID", self.credentials.access_key)
        monkeypatch.setenv(f"{prefix}_SECRET_ACCESS_KEY", self.credentials.secret_key)
        monkeypatch.delenv(f"{prefix}_SESSION_TOKEN", raising=False)

    def make_bucket(self, bucket: str = "bench") -> Path:
        """Make a bucket in the file system and return its directory."""
        (self.root / bucket).mkdir()
        return self.root / bucket

    def put(self, key: str, content: bytes = b"somebody's", bucket: str = "bench") -> Path:
        """Make an object in the file system and return its file."""
        path = self.root / bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def keys(self, bucket: str = "bench") -> list[str]:
        """Return all keys of a bucket from the file system."""
        files = (path for path in (self.root / bucket).rglob("*") if path.is_file())
        names = (path.relative_to(self.root / bucket) for path in files)
        return sorted(str(name) for name in names if not name.parts[0].startswith(".sgwtmp"))

    def add_user(self, role: str = "user") -> Credentials:
        """Add a user to a versitygw with ``--iam-dir``; bucket policies define its permissions."""
        keys = Credentials("user" + secrets.token_hex(6), secrets.token_urlsafe(24))
        command = ["admin", "--endpoint-url", self.endpoint, "--allow-insecure", "create-user"]
        given = ["--access", keys.access_key, "--secret", keys.secret_key, "--role", role]
        subprocess.run(
            [str(need_versitygw()), *command, *given],
            check=True,
            capture_output=True,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "ADMIN_ACCESS_KEY": self.credentials.access_key,
                "ADMIN_SECRET_KEY": self.credentials.secret_key,
            },
        )
        return keys

    def allow(self, user: Credentials, bucket: str, *statements: dict[str, Any]) -> None:
        """Set the bucket's policy: ``statements``, each for this user."""
        whose = {"Principal": {"AWS": user.access_key}}
        policy = {
            "Version": "2012-10-17",
            "Statement": [{**whose, **statement} for statement in statements],
        }
        client = S3Client(self.store(bucket).model_dump_json(), self.credentials.as_dict())
        body = json.dumps(policy).encode()
        status, _, answer = client.request("PUT", None, [("policy", "")], body, 30.0)
        assert status in (200, 204), answer


@contextmanager
def versitygw(
    place: Path,
    *options: str,
    tls: bool = False,
    port: int | None = None,
    versions: Path | None = None,
) -> Iterator[S3Server]:
    """Run versitygw over ``place/objects`` with generated keys and extra ``options``.

    If ``versions`` is an existing directory, buckets may keep versions.
    """
    program = need_versitygw()
    root = place / "objects"
    root.mkdir(parents=True)
    ca_file = None
    if tls:
        ca_file, *given = _certificate(place)
        options = (*options, "--cert", given[0], "--key", given[1])
    credentials = Credentials("test" + secrets.token_hex(6), secrets.token_urlsafe(24))
    port = port or free_port()
    usual = ("--keep-alive", "--quiet", "--port", f"127.0.0.1:{port}")
    kept = () if versions is None else ("--versioning-dir", str(versions))
    with (place / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), *usual, *options, "posix", *kept, str(root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "ROOT_ACCESS_KEY": credentials.access_key,
                "ROOT_SECRET_KEY": credentials.secret_key,
            },
        )
    try:
        _wait_for(port, process, place / "versitygw.log")
        scheme = "https" if tls else "http"
        yield S3Server(f"{scheme}://127.0.0.1:{port}", credentials, root, ca_file)
    finally:
        process.kill()
        process.wait()


class InMemory(S3Server):
    """Server without a directory, whose keys are read by listing. Its bucket exists already."""

    def keys(self, bucket: str = "bench") -> list[str]:
        return S3Control(self.store(bucket)).list_keys("")


@contextmanager
def gofakes3(place: Path) -> Iterator[S3Server]:
    """Run gofakes3 with the bucket "bench": independent of versitygw, does not check signatures."""
    place.mkdir(parents=True, exist_ok=True)
    port = free_port()
    usual = ("-quiet", "-host", f"127.0.0.1:{port}", "-backend", "memory")
    with (place / "gofakes3.log").open("wb") as log:
        process = subprocess.Popen(
            [str(need_gofakes3()), *usual, "-initialbucket", "bench"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(port, process, place / "gofakes3.log")
        credentials = Credentials("test" + secrets.token_hex(6), secrets.token_urlsafe(24))
        yield InMemory(f"http://127.0.0.1:{port}", credentials, place)
    finally:
        process.kill()
        process.wait()


def need_gofakes3() -> Path:
    """Return the path of gofakes3 (Go module github.com/johannesboyne/gofakes3, cmd/gofakes3)."""
    homes = [os.environ.get("GOBIN"), str(Path.home() / "go" / "bin")]
    path = os.pathsep.join(filter(None, [os.environ.get("PATH", os.defpath), *homes]))
    program = shutil.which("gofakes3", path=path)
    if program is None:
        missing("the program gofakes3 is not installed")
    return Path(program)


def _certificate(place: Path) -> tuple[Path, str, str]:
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost", "*.localhost")
    ca_file, chain, key = (place / name for name in ("ca.pem", "server.pem", "server.key"))
    authority.cert_pem.write_to_path(ca_file)
    chain.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
    server.private_key_pem.write_to_path(key)
    return ca_file, str(chain), str(key)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail(f"{log.stem} ended at once: {log.read_text(errors='replace')[-2000:]}")

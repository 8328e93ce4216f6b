"""S3 clients compared by the object bench, and the stores they run against."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from programs import compiled

from storlab.base.clock import sleep_s
from storlab.contracts.registry import get_engine
from storlab.model.job import WeightedSize
from storlab.model.s3 import Credentials, S3Store
from storlab.workloads.object.job import ObjectJob, ObjectMix, ObjectSizes, Pool

HERE = Path(__file__).parent
BUCKET = "bench"
CONCURRENCY = 16
RAMP_S = 0.5
GB = 1e9


@dataclass(frozen=True)
class Load:
    """Load of every client, with 16 requests in flight."""

    operation: str  # "get", "put", or "mixed": equal shares of both
    size: int  # of each object, bytes
    objects: int = 64  # number of objects to get


@dataclass(frozen=True)
class Reading:
    """Result of one run of one client; NaN if not reported. CPU is that of the client alone."""

    mb_s: float
    requests_s: float
    cpu_s_per_gb: float
    cpu_s_per_1000: float
    system_share: float  # share of the kernel in the CPU time
    latency_p50_ms: float = float("nan")
    server_s_per_gb: float = float("nan")  # of storlab's own server only


@dataclass(frozen=True)
class Place:
    """Running store; ``forget()`` removes written objects, ``server_cpu_s()`` is its CPU time."""

    store: S3Store
    forget: Callable[[], None]
    server_cpu_s: Callable[[], float] | None = None


@dataclass(frozen=True)
class Tool:
    """Client whose ``run(load, place, seconds)`` returns one reading."""

    name: str
    run: Callable[[Load, Place, float], Reading]


def job(load: Load, place: Place, seconds: float, task: str = "run") -> ObjectJob:
    """Return the load as a job for both storlab's engine and warp."""
    sizes = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=load.size)])
    gets = load.operation != "put"
    mixes = {"get": {"get": 100}, "put": {"put": 100}, "mixed": {"get": 50, "put": 50}}
    return ObjectJob.model_validate(
        {
            "task": task,
            "store": place.store,
            "pool": Pool(prefix=_pool(load), objects=load.objects, sizes=sizes) if gets else None,
            "write_prefix": "written/",
            "sizes": sizes,
            "mix": ObjectMix(**mixes[load.operation]),
            "concurrency": CONCURRENCY,
            "ramp_ns": round(RAMP_S * 1e9),
            "window_ns": round(seconds * 1e9) if task == "run" else None,
        }
    )


def _pool(load: Load) -> str:
    return f"pool-{load.size}/"


def fill(load: Load, place: Place) -> None:
    """Create the objects to be read."""
    if load.operation != "put":
        outcome = get_engine("native").start(job(load, place, 0, "fill"), Path()).wait()
        if outcome is None or outcome.status != "finished":
            raise SystemExit(f"cannot fill the store: {outcome and outcome.failure}")


def engine(name: str, title: str) -> Tool:
    """Return storlab's engine or warp on the same job, with histograms, samples and TTFB."""

    def run(load: Load, place: Place, seconds: float) -> Reading:
        keys = place.store.credentials
        order = {
            "job": job(load, place, seconds).model_dump(mode="json"),
            "secrets": {} if keys is None else keys.as_dict(),
        }
        server_s = place.server_cpu_s() if place.server_cpu_s else float("nan")
        done = subprocess.run(
            [sys.executable, str(HERE / "object_run.py"), name],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        server_s = (place.server_cpu_s() if place.server_cpu_s else server_s) - server_s
        place.forget()
        return _reading(json.loads(done.stdout), load, server_s, seconds)

    return Tool(title, run)


def _reading(document: dict[str, Any], load: Load, server_s: float, seconds: float) -> Reading:
    totals = [document["totals"][name] for name in ("get", "put") if name in document["totals"]]
    if any(total["errors"] for total in totals):
        raise SystemExit(f"requests failed: {[total['errors'] for total in totals]}")
    window_s = document["window_ns"] / 1e9
    cpu_s = (document["user_ns"] + document["system_ns"]) / 1e9
    moved, done = (sum(total[name] for total in totals) for name in ("bytes", "operations"))
    if not done:
        raise SystemExit(f"no request ended in {seconds:g} s: try more --seconds")
    mixed = load.operation == "mixed"  # GET and PUT latencies are not combined
    # The server's CPU time includes the ramp, which moves as much per second as the window.
    server_share = server_s * seconds / (seconds + RAMP_S)
    return Reading(
        mb_s=moved / window_s / 1e6,
        requests_s=done / window_s,
        cpu_s_per_gb=cpu_s / (moved / GB),
        cpu_s_per_1000=cpu_s / (done / 1000),
        system_share=document["system_ns"] / 1e9 / cpu_s,
        latency_p50_ms=float("nan") if mixed else _p50_ms(totals),
        server_s_per_gb=server_share / (moved / GB),
    )


def _p50_ms(totals: list[dict[str, Any]]) -> float:
    return float(max(total["latency"]["p50_ns"] for total in totals if total["operations"]) / 1e6)


def bare(title: str, source: int) -> Tool:
    """Return a one-thread loop that only sends or receives, without histograms and checks.

    Data to send comes from ``source`` bytes of memory.
    """

    def run(load: Load, place: Place, seconds: float) -> Reading:
        port = int(place.store.endpoints[0].rpartition(":")[2])
        gets = load.operation == "get"
        given = [] if gets else [str(load.size), str(source)]
        done = subprocess.run(
            [compiled("receive" if gets else "send"), str(port), str(seconds), *given],
            input="".join(_signed(load, place, n) for n in range(CONCURRENCY)),
            capture_output=True,
            text=True,
            check=False,
        )
        place.forget()
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        size, requests, user_us, system_us = map(int, done.stdout.split())
        cpu_us = user_us + system_us
        return Reading(
            mb_s=size / seconds / 1e6,
            requests_s=requests / seconds,
            cpu_s_per_gb=cpu_us / 1e6 / (size / GB),
            cpu_s_per_1000=cpu_us / 1e6 / (requests / 1000),
            system_share=system_us / cpu_us,
        )

    return Tool(title, run)


def _signed(load: Load, place: Place, number: int) -> str:
    """Return a signed request head (AWS Signature Version 4) for a GET of the pool or a PUT."""
    keys, region = place.store.credentials, place.store.region
    assert keys is not None
    gets = load.operation == "get"
    pooled = f"{_pool(load)}0000/{number % load.objects:08x}"
    method, path = ("GET", pooled) if gets else ("PUT", f"written/{number}")
    host, path = place.store.endpoints[0].partition("//")[2], f"/{BUCKET}/{path}"
    at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{at[:8]}/{region}/s3/aws4_request"
    names, body = "host;x-amz-content-sha256;x-amz-date", "UNSIGNED-PAYLOAD"
    headers = f"host:{host}\nx-amz-content-sha256:{body}\nx-amz-date:{at}\n"
    request = f"{method}\n{path}\n\n{headers}\n{names}\n{body}".encode()
    key = f"AWS4{keys.secret_key}".encode()
    for part in (at[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(request).hexdigest()}".encode()
    signature = hmac.digest(key, text, "sha256").hex()
    length = "" if gets else f"Content-Length: {load.size}\r\n"
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}x-amz-content-sha256: {body}\r\n"
        f"x-amz-date: {at}\r\nAuthorization: AWS4-HMAC-SHA256 "
        f"Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        "\r\n\r\n"
    )


def warp_path() -> str | None:
    """Return ``$WARP`` or warp from PATH."""
    return os.environ.get("WARP") or shutil.which("warp")


def versitygw_path() -> str:
    """Return ``$VERSITYGW`` or versitygw from PATH."""
    program = os.environ.get("VERSITYGW") or shutil.which("versitygw")
    if program is None:
        raise SystemExit("versitygw is needed: go install github.com/versity/versitygw/cmd/...")
    return program


@contextmanager
def versitygw(directory: Path, tls: bool = False) -> Iterator[Place]:
    """Run versitygw over a temporary directory below ``directory``."""
    keys = Credentials(secrets.token_hex(8), secrets.token_urlsafe(24))
    with (
        tempfile.TemporaryDirectory(prefix="storlab-bench-", dir=directory.resolve()) as place,
        tempfile.TemporaryDirectory() as secret,
    ):
        (Path(place) / BUCKET).mkdir()
        certificate = _certificate(Path(secret)) if tls else []
        port = _free_port()
        command = [versitygw_path(), "--keep-alive", "--quiet", "--port", f"127.0.0.1:{port}"]
        command += ["--cert", certificate[0], "--key", certificate[1]] if tls else []
        given = {"ROOT_ACCESS_KEY": keys.access_key, "ROOT_SECRET_KEY": keys.secret_key}
        process = subprocess.Popen(
            [*command, "posix", place], stdout=subprocess.DEVNULL, env=os.environ | given
        )
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
                if process.poll() is not None:
                    raise SystemExit("versitygw ended at once")
                sleep_s(0.05)
            store = S3Store(
                endpoints=[f"{'https' if tls else 'http'}://127.0.0.1:{port}"],
                bucket=BUCKET,
                credentials=keys,
                ca_file=certificate[0] if tls else None,
            )
            yield Place(store, lambda: _remove_written(Path(place) / BUCKET))
        finally:
            process.kill()
            process.wait()


def _certificate(place: Path) -> list[str]:
    """Create a loopback certificate; return the paths of certificate and key."""
    made = [str(place / "certificate.pem"), str(place / "key.pem")]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    command += ["-out", made[0], "-keyout", made[1]]
    subprocess.run(command, check=True, capture_output=True)
    return made


@contextmanager
def embedded(directory: Path) -> Iterator[Place]:
    """Run storlab's own server over a temporary directory."""
    from storlab.stores.s3.embedded import EmbeddedServer

    with (
        tempfile.TemporaryDirectory(prefix="storlab-bench-", dir=directory) as place,
        EmbeddedServer(Path(place)) as server,
    ):
        bucket = Path(place) / server.store.bucket
        forget, cpu_s = (lambda: _remove_written(bucket)), (lambda: sum(server.cpu()) / 1e9)
        yield Place(server.store, forget, cpu_s)


def _remove_written(bucket: Path) -> None:
    """Delete written objects in the file system, so that it does not count as server CPU.

    A server may still be writing for a client that has left; the next call removes that.
    """
    shutil.rmtree(bucket / "written", ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

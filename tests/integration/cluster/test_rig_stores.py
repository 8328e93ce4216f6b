"""A store that is reachable for the lab, but not for one client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import need_cluster, need_mpi, need_versitygw
from storlab.base.errors import ExitCode
from support.cluster import ClusterRig

pytestmark = [pytest.mark.cluster, pytest.mark.versitygw]

ADDRESS, PORT = "10.77.0.9", 7070  # second address of the controller
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "tested twice"}
STUDY = """
[study]
name = "a store"
repeats = 1
[cluster]
mpiexec = "{mpiexec}"
launch_agent = "{agent}"
interface = "eth0"
hosts = ["c[1-2]"]
lost_after = "20s"
[[target]]
name = "bucket"
s3 = "http://{address}:{port}/bench"
[[workload]]
kind = "object"
get_percent = 100
object_size = "4KiB"
objects = 16
"""


@contextmanager
def gateway(rig: ClusterRig, place: Path) -> Iterator[None]:
    (place / "objects" / "bench").mkdir(parents=True)
    served = [need_versitygw(), "--quiet", "--port", f"{ADDRESS}:{PORT}", "posix"]
    keys = {"ROOT_ACCESS_KEY": "test", "ROOT_SECRET_KEY": "tested twice"}
    command = rig.command(rig.controller, [*served, place / "objects"])
    with subprocess.Popen(command, env=os.environ | keys, stderr=subprocess.DEVNULL) as process:
        try:
            tried = f"import socket; socket.create_connection(('{ADDRESS}', {PORT}), 1)"
            while rig.run("c0", [sys.executable, "-c", tried], check=False).returncode:
                assert process.poll() is None
                time.sleep(0.1)
            yield
        finally:
            process.kill()


def doctor(rig: ClusterRig, study: Path) -> tuple[int, dict[str, Any]]:
    command = rig.command(
        rig.controller, [sys.executable, "-m", "storlab", "doctor", study, "--json"]
    )
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env=os.environ | KEYS
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_client_that_does_not_reach_the_store_is_named(tmp_path: Path) -> None:
    need_cluster()
    mpiexec = need_mpi("mpich")
    with ClusterRig(clients=2, servers=0) as rig:
        rig.run("c0", ["ip", "addr", "add", f"{ADDRESS}/16", "dev", "eth0"])
        study = tmp_path / "study.toml"
        study.write_text(STUDY.format(mpiexec=mpiexec, agent=rig.agent, address=ADDRESS, port=PORT))
        with gateway(rig, tmp_path):
            code, document = doctor(rig, study)
            told = {check["name"]: check for check in document["checks"]}
            assert told["bucket: clients"]["what"].startswith("2 clients can list it"), told
            endpoint = f"http://{ADDRESS}:{PORT}"
            for fact in document["clients"].values():
                assert abs(fact["stores"]["bucket"][endpoint]["skew_s"]) < 60
            assert "tested twice" not in json.dumps(document)
            rig.run("c2", ["ip", "route", "add", "unreachable", f"{ADDRESS}/32"])
            code, document = doctor(rig, study)
            told = {check["name"]: check for check in document["checks"]}
            assert code == ExitCode.PREFLIGHT
            assert told["bucket: store"]["status"] == "ok", "the lab reaches it"
            assert told["bucket: clients"]["status"] == "error"
            assert f"{endpoint} cannot be listed from c2: " in told["bucket: clients"]["what"]

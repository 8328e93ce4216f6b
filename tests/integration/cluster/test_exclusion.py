"""Two campaigns on one shared directory, from hosts whose clients have other names."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from conftest import need_mpi
from storlab.base.errors import ExitCode
from storlab.base.locks import is_locked
from storlab.base.units import NS_PER_S
from storlab.results.store import ResultStore
from storlab.stores.directory_lease import WAITS
from support.cluster_lab import Lab, kill, stop, wait_for

STUDY = """
[study]
name = "{name}"
repeats = 1
ramp = 0
runtime = "{runtime}"
interval = "200ms"
[cluster]
mpiexec = "{mpiexec}"
hosts = {hosts}
clients = {clients}
lost_after = "20s"
[[target]]
name = "shared"
directory = "{directory}"
size = "1MiB"
direct = false
{more}[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = 50
rate_iops = 500
"""
BESIDE = """
[[target]]
name = "beside"
directory = "{directory}"
size = "1MiB"
direct = false
"""
LOCK = "storlab-cluster.lock"
# Their client folders differ: client-1 and client-2, and 127.0.0.1.
NUMBERED = {"name": "numbered", "hosts": '["localhost"]', "clients": 2}
NAMED = {"name": "named", "hosts": '["127.0.0.1"]', "clients": 1}


def write_study(
    place: Path, of: dict[str, object], runtime: str = "500ms", *, beside: bool = False
) -> Path:
    shared = place / "shared"
    shared.mkdir(exist_ok=True)
    path = place / f"{of['name']}.toml"
    more = BESIDE.format(directory=shared) if beside else ""
    given = {"mpiexec": need_mpi("mpich"), "directory": shared, "more": more}
    path.write_text(STUDY.format(**of, **given, runtime=runtime))
    return path


def files(place: Path) -> dict[str, int]:
    """Return the inodes in the shared directory by name."""
    return {str(p.relative_to(place)): p.stat().st_ino for p in (place / "shared").rglob("*")}


def hasten(lock: Path) -> None:
    """Shorten the wait for a dead campaign's lease from minutes."""
    told = json.loads(lock.read_bytes())
    assert told["away_ns"] > 0
    lock.write_text(json.dumps(told | {"away_ns": NS_PER_S}))


def test_the_second_campaign_is_refused_until_the_first_has_died(tmp_path: Path) -> None:
    first = write_study(tmp_path, NAMED, runtime="600s")
    second = write_study(tmp_path, NUMBERED, beside=True)
    with Lab.run(first, tmp_path / "first") as holder:
        holder.loading(0)
        before = files(tmp_path)
        with Lab.run(second, tmp_path / "refused") as refused:
            assert refused.end() == ExitCode.PREFLIGHT, refused.printed
        words = " ".join(refused.printed.split())
        campaign = ResultStore.open(tmp_path / "first").environment["guard"]["campaign"]
        assert f"is in use by campaign {campaign} (named, results in " in words
        assert "another directory" in words
        assert files(tmp_path) == before
        ranks = holder.ranks()
        kill(holder.process.pid)
        holder.process.wait()
    assert sorted(ranks) == [0, 1]
    wait_for("ranks have gone", lambda: not holder.ranks())
    hasten(tmp_path / "shared" / LOCK)
    with Lab.run(second, tmp_path / "second") as heir:
        assert heir.end() == ExitCode.OK, heir.printed
    waited = next(line for line in heir.printed.splitlines() if line.startswith(WAITS))
    assert f"campaign {campaign} (named, results in " in waited
    assert str(tmp_path / "shared") in waited
    assert [record.status for record in heir.records()] == ["finished"] * 2
    assert f"shared/{LOCK}" not in files(tmp_path)
    assert (tmp_path / "shared" / "127.0.0.1").is_dir(), "data of the first are its own"


def test_nobody_else_comes_in_while_a_straggler_still_works(tmp_path: Path) -> None:
    study = write_study(tmp_path, NUMBERED, runtime="3s")
    with Lab.run(study, tmp_path / "out") as lab:
        task = lab.out / "work" / lab.loading(0) / "cluster"
        straggler = lab.ranks()[2]
        stop(straggler)
        wait_for("the first has done its share", (task / "client-1.outcome").exists, lab)
        assert is_locked(tmp_path / "shared" / LOCK)
        os.kill(straggler, signal.SIGCONT)
        assert lab.end() == ExitCode.OK, lab.printed
    assert f"shared/{LOCK}" not in files(tmp_path)

"""Store keys reach clients only through the order and MPI messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conftest import need_mpi
from storlab.cluster.launch import MARK
from storlab.results.store import ResultStore
from storlab.stores.s3.embedded import BUCKET, EmbeddedServer
from support.local_clients import run_verb

RANK = b"storlab.lab.site.rank"
STUDY = """
[study]
name = "keys"
repeats = 1
ramp = 0
runtime = "1s"
interval = "500ms"
[cluster]
hosts = ["localhost"]
clients = 2
[[target]]
name = "store"
s3 = "{endpoint}/{bucket}"
s3_options.credentials_env = "BENCH"
[[workload]]
kind = "object"
object_size = "4KiB"
objects = 20
get_percent = 50
concurrency = 2
"""


class Watch:
    """Scanner that polls all processes and some folders for secret texts."""

    def __init__(self, texts: list[str], folders: list[Path]) -> None:
        self._texts = [text.encode() for text in texts]
        self._folders = folders
        self.leaks: set[str] = set()
        self.ranks: set[int] = set()  # ranks whose environment was read
        self.job: set[int] = set()  # including mpiexec and its helpers
        self.files = 0
        self._over = threading.Event()

    @contextmanager
    def looking(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    command = (process / "cmdline").read_bytes()
                    environment = (process / "environ").read_bytes()
                    if RANK in command and environment:
                        self.ranks.add(int(process.name))
                    self._check(f"{process}: command line", command)
                    # Other programs started by the lab inherit the user's environment.
                    if MARK.encode() in environment or RANK in command:
                        self.job.add(int(process.name))
                        self._check(f"environment of {command!r}", environment)
            for folder in self._folders:
                with suppress(OSError):  # it may be removed during the walk
                    self._read_all(folder)

    def _read_all(self, folder: Path) -> None:
        for path in folder.rglob("*"):
            with suppress(OSError):
                if path.is_file():
                    self.files += 1
                    self._check(str(path), path.read_bytes())

    def _check(self, where: str, content: bytes) -> None:
        if any(text in content for text in self._texts):
            self.leaks.add(where)


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_keys_are_in_no_command_environment_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    mpiexec = need_mpi(vendor)
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # also used by ranks
    with EmbeddedServer(tmp_path / "server") as server:
        keys = server.store.credentials
        assert keys is not None
        monkeypatch.setenv("BENCH_ACCESS_KEY_ID", keys.access_key)
        monkeypatch.setenv("BENCH_SECRET_ACCESS_KEY", keys.secret_key)
        study = work / "study.toml"
        text = STUDY.format(endpoint=server.store.endpoints[0], bucket=BUCKET)
        study.write_text(text.replace("clients = 2", f'clients = 2\nmpiexec = "{mpiexec}"'))
        watch = Watch([keys.access_key, keys.secret_key], [work, temporary])
        with watch.looking():
            code = run_verb("run", study, "--out", work / "results", "--no-report", "--quiet")
    assert code == 0
    (record,) = ResultStore.open(work / "results").records()
    assert record.status == "finished", record.failure
    assert record.cluster is not None and all(c.operations for c in record.cluster.clients)
    # Make sure that it scanned everything; with Open MPI all of a job may have what ranks have.
    assert len(watch.job) >= len(watch.ranks) >= 3 and watch.files > 0
    assert watch.leaks == set()

"""storlab's own S3 server: own directory only, loopback only, ends with its parent."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from storlab.base.errors import GuardError, PreflightError
from storlab.lab.run.progress import PlainReporter
from storlab.lab.site.clean import clean_store
from storlab.model.target import Target
from storlab.process.execution import StopRequest
from storlab.stores.s3 import embedded as embedded_server
from storlab.stores.s3.control import S3Control
from storlab.stores.s3.embedded import MARKER, EmbeddedServer, check_directory
from storlab.stores.s3.target import S3Hold

CAMPAIGN = "0123456789ab"
OBJECT = "pool-01234567/0000/00000001"


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_the_end_of(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline, "the server outlives its parent"
        time.sleep(0.02)


def test_it_serves_and_ends(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "objects") as server:
        control = S3Control(server.store)
        assert control.bucket_exists()
        control.put("a/b", b"content")
        assert control.get("a/b") == b"content"
        assert control.list_keys("") == ["a/b"]
        assert control.list_top("") == ["a/"]
        assert sum(server.cpu()) > 0
        pid = server.pid
    assert not is_alive(pid)
    with pytest.raises(OSError, match="No such file"):
        server.cpu()
    with EmbeddedServer(tmp_path / "objects") as server:
        assert S3Control(server.store).get("a/b") == b"content"


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "objects") as server:
        port = int(server.store.endpoints[0].rpartition(":")[2])
        listening = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{server.pid}/net/{table}").read_text().splitlines()[1:]:
                local, _, state = line.split()[1:4]
                address, _, number = local.partition(":")
                if state == "0A" and int(number, 16) == port:
                    listening.append(address)
        assert listening == ["0100007F"]


def test_keys_are_new_and_needed(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "one") as first, EmbeddedServer(tmp_path / "two") as two:
        keys = first.store.credentials
        assert keys is not None
        assert keys != two.store.credentials
        for wrong in (
            two.store.credentials,
            dataclasses.replace(keys, secret_key="x" * 40),
            None,
        ):
            store = first.store.model_copy(update={"credentials": wrong})
            with pytest.raises(PreflightError):
                S3Control(store).bucket_exists()
        S3Control(first.store).put("only/one", b"")
        assert S3Control(two.store).get("only/one") is None


def test_the_child_knows_only_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of another store")
    with (tmp_path / "private").open("wb") as private:
        os.set_inheritable(private.fileno(), True)
        with EmbeddedServer(tmp_path / "objects") as server:
            assert server.store.credentials is not None
            place = Path(f"/proc/{server.pid}")
            told = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
            for secret in (*server.store.credentials.as_dict().values(), "of another store"):
                assert secret.encode() not in told
            opened = [str(handle.readlink()) for handle in (place / "fd").iterdir()]
            assert not [name for name in opened if name.endswith("/private")]
            # The server has its own session, so Ctrl-C at the terminal does not reach it.
            assert os.getsid(server.pid) == server.pid != os.getsid(0)


PARENT = """
import sys, time
from pathlib import Path
from storlab.stores.s3.embedded import EmbeddedServer
with EmbeddedServer(Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    time.sleep(600)
"""


@contextmanager
def parent(directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-c", PARENT, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    with parent(tmp_path / "objects") as (process, pid):
        assert is_alive(pid)
        process.send_signal(number)
        process.wait()
        wait_for_the_end_of(pid)
    with EmbeddedServer(tmp_path / "objects") as server:  # no lock is left
        assert S3Control(server.store).bucket_exists()


def test_a_directory_serves_one_campaign_at_a_time(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "objects") as server:
        S3Control(server.store).put("a", b"content")
        with pytest.raises(GuardError, match="another campaign"), EmbeddedServer(server.directory):
            pass
        assert S3Control(server.store).get("a") == b"content"


@pytest.mark.parametrize("place", ["objects", "link"])
def test_a_directory_of_somebody_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "thesis.tex").write_text("years of work")
    (tmp_path / "link").symlink_to("objects")
    for enter in (check_directory, lambda path: EmbeddedServer(path).__enter__()):
        with pytest.raises(GuardError, match="not empty"):
            enter(tmp_path / place)
    assert [path.name for path in (tmp_path / "objects").iterdir()] == ["thesis.tex"]


def test_a_marker_of_somebody_else_is_none(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text(json.dumps({"what": "something", "made_directory": True}))
    with pytest.raises(GuardError, match="not empty"):
        check_directory(tmp_path)


def test_places_where_no_directory_can_be(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="does not exist"):
        check_directory(tmp_path / "no" / "objects")
    (tmp_path / "file").touch()
    with pytest.raises(GuardError, match="not a directory"):
        check_directory(tmp_path / "file")
    with pytest.raises(GuardError, match="never creates files"):
        check_directory(Path("/proc/objects"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_server, "_BOOTSTRAP", "raise SystemExit('no luck today')")
    with pytest.raises(PreflightError, match="no luck today"), EmbeddedServer(tmp_path / "objects"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_never_listens_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_server, "_BOOTSTRAP", "import time; time.sleep(600)")
    monkeypatch.setattr(embedded_server, "READY_S", 0.2)
    with (
        pytest.raises(PreflightError, match="no answer within"),
        EmbeddedServer(tmp_path / "objects"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_only_empty_directories_are_removed(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "objects") as server:
        S3Control(server.store).put("a", b"content")
        assert server.remove_empty() == []
    with EmbeddedServer(tmp_path / "objects") as server:
        control = S3Control(server.store)
        assert control.get("a") == b"content"
        control.delete(["a"])
        assert server.remove_empty()[-1] == str(tmp_path / "objects")
    assert list(tmp_path.iterdir()) == []


def hold(directory: Path, recorded: dict[str, object] | None = None, **more: bool) -> S3Hold:
    aim = Target(name="own", s3=f"embedded:{directory.name}")
    return S3Hold(aim, CAMPAIGN, directory.parent, recorded, **more)


def clean(held: S3Hold) -> list[str]:
    return clean_store(held, StopRequest(), PlainReporter(Console(file=io.StringIO())))


def test_an_embedded_target_from_campaign_to_clean(tmp_path: Path) -> None:
    directory = tmp_path / "objects"
    with hold(directory) as held:
        record = held.record()
        held.control.put(held.access.prefix + OBJECT, b"data")
        assert held.server is not None
        assert held.skew_s is None
    assert record["embedded"] == str(directory)
    assert record["endpoints"] == []
    with hold(directory, record) as held:
        assert held.control.get(held.access.prefix + OBJECT) == b"data"
    with hold(directory, record, cleaning=True) as held:
        removed = clean(held)
    assert str(directory) in removed
    assert list(tmp_path.iterdir()) == []
    with hold(directory, record, cleaning=True) as held:
        assert clean(held) == []
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_there_stays(tmp_path: Path) -> None:
    directory = tmp_path / "objects"
    directory.mkdir()
    with hold(directory) as held:
        record = held.record()
        held.control.put(held.access.prefix + OBJECT, b"data")
    with hold(directory, record, cleaning=True) as held:
        clean(held)
    assert list(tmp_path.iterdir()) == [directory]
    assert list(directory.iterdir()) == []


def test_an_embedded_target_that_was_refused_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(GuardError), hold(tmp_path / "objects"):
        raise GuardError("another target", "was refused", "")
    assert list(tmp_path.iterdir()) == []


def test_looking_at_an_embedded_target_starts_nothing(tmp_path: Path) -> None:
    with hold(tmp_path / "objects", look_only=True) as held:
        assert held.server is None
        assert not held.bucket_exists
        assert held.access.prefix.startswith("storlab-")
    assert list(tmp_path.iterdir()) == []


def test_two_campaigns_in_one_directory_do_not_touch_each_other(tmp_path: Path) -> None:
    directory = tmp_path / "objects"
    with hold(directory) as held:
        first = held.record()
        held.control.put(held.access.prefix + OBJECT, b"data")
    other = S3Hold(Target(name="own", s3="embedded:objects"), "f" * 12, tmp_path, None)
    with other as held:
        second = held.record()
        held.control.put(held.access.prefix + OBJECT, b"more")
    with hold(directory, first, cleaning=True) as held:
        assert clean(held) == [held.where]
    with S3Hold(other.target, "f" * 12, tmp_path, second, cleaning=True) as held:
        assert held.control.get(str(second["prefix"]) + OBJECT) == b"more"
        assert str(directory) in clean(held)
    assert list(tmp_path.iterdir()) == []

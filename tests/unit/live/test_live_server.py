"""Access to the live page: token and host name required; slow clients block no one."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from storlab.base.errors import UsageError
from storlab.cli import campaign
from storlab.lab.run.progress import PlainReporter
from storlab.live import page as live_page
from storlab.live.feed import QUEUE_LENGTH, Feed
from storlab.live.page import LivePage
from storlab.live.server import MOST_CONNECTIONS, LiveServer
from support.live_pages import HOSTILE, Stream, a_plan, a_record, ask, named
from support.ports import free_port
from tidy import tree
from unit.cli.test_progress import terminal

WATCHERS = 10


@pytest.fixture
def server() -> Iterator[LiveServer]:
    server = LiveServer(Feed("study", "1"))
    server.start()
    yield server
    server.feed.close()
    server.stop()


PLACES = ("", "page.js", "page.css", "events", "metrics", "brief")


@pytest.mark.parametrize("place", PLACES)
def test_nothing_without_the_token(server: LiveServer, place: str) -> None:
    root, token = f"http://127.0.0.1:{server.port}/", server.token
    wrong = [
        *["", "x/", f"{token[:-1]}/", f"{token}x/", f"{token.swapcase()}/"],
        *[f"x/{token}/", f"?token={token}&", f"%{ord(token[0]):x}{token[1:]}/"],
    ]
    for before in wrong:
        answer = ask(root + before + place)
        assert (answer.status, answer.body) == (404, b""), before
        assert set(answer.headers) == {"Content-Length", "Connection"}


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "127.0.0.2", "[::1]"]
)
def test_nothing_under_another_name(server: LiveServer, host: str) -> None:
    """Check that a foreign host name gets no answer (DNS rebinding)."""
    answer = ask(server.url, Host=host)
    assert (answer.status, answer.body) == (404, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "FROB"])
def test_it_can_only_be_read(server: LiveServer, method: str) -> None:
    answer = ask(server.url, method=method, Origin="https://evil.example")
    assert (answer.status, answer.body) == (404, b"")
    assert set(answer.headers) == {"Content-Length", "Connection"}


def test_with_the_token_all_is_there_and_for_this_page_only(server: LiveServer) -> None:
    for place, kind in (
        ("", "text/html"),
        ("page.js", "text/javascript"),
        ("page.css", "text/css"),
    ):
        answer = ask(server.url + place, Origin="https://evil.example")
        assert (answer.status, answer.headers["Content-Type"].split(";")[0]) == (200, kind)
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    assert ask(server.url.replace("127.0.0.1", "localhost")).status == 200
    assert ask(server.url, Host="localhost:8080").status == 200  # forwarded by ssh
    assert ask(server.url + "metrics").body.endswith(b"# EOF\n")
    for place in ("brief", "../", "page.html", "x", "events/x", "brief/../../etc"):
        assert ask(server.url + place).status == 404


def test_it_listens_on_loopback_only(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32
    another = LiveServer(Feed("s", "1"))
    another.server_close()
    assert another.token != server.token


def test_a_request_that_is_none_gets_nothing(server: LiveServer) -> None:
    for request in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda c=connection: c.recv(4096), b""))
        assert b"storlab" not in answer.lower()
        assert b"python" not in answer.lower()


def test_ten_watchers_see_the_same(server: LiveServer) -> None:
    streams = [Stream(server.url) for _ in range(WATCHERS)]
    each = [stream.events() for stream in streams]
    assert {kind for kind, _ in map(next, each)} == {"state"}
    for number in range(3 * QUEUE_LENGTH):
        server.feed.note(f"{number} {HOSTILE}")
        assert [next(events) for events in each] == [
            ("note", {"text": f"{number} {HOSTILE}"})
        ] * WATCHERS
    for stream in streams:
        stream.__exit__()


def test_who_comes_back_sees_what_was_missed(server: LiveServer) -> None:
    with Stream(server.url) as stream:
        stream.until("state")
    server.feed.note("while nobody looked")
    with Stream(server.url) as stream:
        assert stream.until("state")["notes"] == ["while nobody looked"]


def test_one_who_never_reads_holds_nobody_up(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a watcher that never reads does not delay the others."""
    monkeypatch.setattr(server.RequestHandlerClass, "timeout", 600)
    never, reads = Stream(server.url), Stream(server.url)
    events = reads.events()
    next(events)
    large = "x" * (1 << 20)
    for number in range(4 * QUEUE_LENGTH):
        server.feed.note(large)
        assert len(next(events)[1]["text"]) == len(large), number
    slow = [watcher for watcher in server.feed.watchers if watcher.dropped]
    assert not slow
    assert len(server.feed.watchers) == 1
    told = list(never.events())  # it finally reads, while its thread still waits
    assert told[-1][0] == "dropped"
    assert len(told) < 2 * QUEUE_LENGTH
    for stream in (never, reads):
        stream.__exit__()


def test_a_thread_waits_so_long_for_one_who_never_reads(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.RequestHandlerClass, "timeout", 0.05)
    server.feed.note("x" * (8 << 20))
    with Stream(server.url) as never:
        while server.feed.watchers:
            pass
        assert [kind for kind, _ in never.events()] == []  # cut off within its first event


def test_connections_are_bounded(server: LiveServer) -> None:
    streams = [Stream(server.url) for _ in range(MOST_CONNECTIONS)]
    for stream in streams:
        stream.until("state")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    for stream in streams:
        stream.__exit__()


def live_page_of(tmp_path: Path, urls: list[str], port: int = 0) -> LivePage:
    plan = a_plan("disk", HOSTILE)
    earlier = [a_record(plan, number) for number in range(2)]
    return LivePage(plan, tmp_path, named, urls.append, port=port, earlier=earlier)


@contextmanager
def opened(tmp_path: Path, urls: list[str]) -> Iterator[LivePage]:
    with live_page_of(tmp_path, urls) as page:
        page.beside(PlainReporter(terminal()[0]))
        yield page


def test_a_port_asks_for_the_page_too(tmp_path: Path) -> None:
    with (
        campaign.live_page(False, 0, a_plan(), tmp_path) as none,
        campaign.live_page(False, free_port(), a_plan(), tmp_path) as page,
    ):
        assert (none, page is None) == (None, False)


def test_a_session_from_its_earlier_runs_to_its_brief(tmp_path: Path) -> None:
    urls: list[str] = []
    brief = tmp_path / "brief.html"
    brief.write_text("<p>the brief</p>")
    with opened(tmp_path, urls) as page:
        (url,) = urls
        with Stream(url) as stream:
            state = stream.until("state")
            assert [row["number"] for row in state["runs"]] == [0, 1]
            assert state["study"] == HOSTILE
            place = tmp_path.parent / ".live" / f"{tmp_path.name}.json"
            assert place.stat().st_mode & 0o777 == 0o600
            (found,) = json.loads(place.read_text())
            metrics = f"http://{found['targets'][0]}{found['labels']['__metrics_path__']}"
            assert ask(metrics).body.endswith(b"# EOF\n")
            assert ask(url + "brief").status == 404
            page.over("all done", ["a is faster"], brief)
            told = stream.until("news")
            assert told["over"] == {
                "text": "all done",
                "sentences": ["a is faster"],
                "brief": str(brief),
            }
            assert ask(url + "brief").body == b"<p>the brief</p>"
            assert ask(url + "brief").headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert not place.parent.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((urlsplit(url).hostname or "", urlsplit(url).port or 0))


def test_prometheus_takes_the_documented_place() -> None:
    """Check the scrape file's pattern by Prometheus' rule: one wildcard, in the last part."""
    (asked,) = re.findall(r'files: \["(.*)"\]', tree.read("docs/live.md"))
    assert re.fullmatch(r"[^*]*(\*[^/]*)?\.(json|yml|yaml|JSON|YML|YAML)", asked)
    assert asked == f"/srv/results/{live_page.SCRAPE_FOLDER}/*.json"


def test_a_session_that_breaks_says_so(tmp_path: Path) -> None:
    urls: list[str] = []
    with pytest.raises(UsageError), opened(tmp_path, urls):
        stream = Stream(urls[0])
        stream.until("state")
        raise UsageError("there", "it broke", "mend it")
    assert stream.until("news")["over"]["text"] == "ended early: there: it broke"
    stream.__exit__()


def test_a_port_that_is_taken_is_named(tmp_path: Path, server: LiveServer) -> None:
    page = live_page_of(tmp_path, [], port=server.port)
    with pytest.raises(UsageError, match="--live-port"), page:
        pass


def test_a_page_that_nobody_came_to_see_ends(tmp_path: Path) -> None:
    """Check that a page ends if the guard refuses the study before serving."""
    with pytest.raises(UsageError, match="there"), live_page_of(tmp_path, []):
        raise UsageError("there", "it broke", "mend it")


def test_a_place_for_prometheus_that_is_somebodys(tmp_path: Path) -> None:
    """Check that the campaign continues if the scrape file cannot be written."""
    directory = tmp_path / "out"
    (tmp_path / live_page.SCRAPE_FOLDER).write_text("precious")
    with opened(directory, []):
        pass
    assert (tmp_path / live_page.SCRAPE_FOLDER).read_text() == "precious"

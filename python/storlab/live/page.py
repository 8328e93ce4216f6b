"""Serve the live page of one session of a campaign, until its brief is ready."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from storlab import __version__
from storlab.analysis.dataset import RunData
from storlab.analysis.flag_times import Span, flag_times
from storlab.base.errors import StorlabError, UsageError
from storlab.contracts.reporter import Reporter
from storlab.lab.run.progress import Names
from storlab.live.feed import Feed
from storlab.live.reporter import Beside, FeedReporter, rows_of
from storlab.live.server import LiveServer
from storlab.model.point import Plan
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

BRIEF_S = 5.0  # time that open pages have to load the brief before the program ends
SCRAPE_FOLDER = ".live"
"""Folder beside result directories for Prometheus' files; wildcards work only in a file's name."""


class LivePage:
    """Context manager that serves the live page during a session of a campaign.

    Entering only reserves the port; :meth:`beside` starts to serve. While the page is served, a
    file in a folder beside the result directory lets Prometheus discover the metrics.
    """

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        names: Names,
        announce: Callable[[str], None],
        *,
        port: int = 0,
        earlier: Sequence[RunRecord] = (),
    ) -> None:
        self._plan, self._directory, self._names = plan, directory, names
        self._announce, self._port, self._earlier = announce, port, earlier
        self._feed = Feed(plan.study_name, __version__)
        self._is_open = False
        self._is_over = False

    def __enter__(self) -> LivePage:
        """Open the port of the live page.

        Raises:
            UsageError: The port cannot be opened.
        """
        try:
            self._server = LiveServer(self._feed, self._port)
        except OSError as error:
            raise UsageError(
                "--live-port",
                f"{self._port}: {error.strerror}",
                "choose another port, or omit the option",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        server = self._server
        if not self._is_open:
            server.stop()
            return
        with suppress(OSError):  # the file was not created, or is another user's
            self._scrape_file.unlink(missing_ok=True)
        with suppress(OSError):  # the folder contains another campaign's file
            self._scrape_file.parent.rmdir()
        if not self._is_over:
            what = f"{error.where}: {error.what}" if isinstance(error, StorlabError) else ""
            self.over(f"ended early: {what or 'see the terminal'}")
        pages = [watcher for watcher in self._feed.watchers if watcher.loads_brief]
        self._feed.close()
        for _ in pages if server.brief is not None else ():
            if not server.briefs_served.acquire(timeout=BRIEF_S):
                break
        server.stop()

    def beside(self, reporter: Reporter) -> Reporter:
        """Start to serve the page; return a reporter that also passes reports to ``reporter``."""
        self._feed.earlier(rows_of(self._earlier, self._plan, self._names))
        self._is_open = True
        self._server.start()
        self._write_scrape_file(self._server)
        self._announce(self._server.url)
        return Beside(reporter, FeedReporter(self._feed, self._names, self._when_flags_held))

    def over(self, text: str, sentences: Sequence[str] = (), brief: Path | None = None) -> None:
        """Publish the outcome of the campaign; open pages then load the brief.

        Args:
            text: How the session ended.
            sentences: Answers to the study's questions.
            brief: HTML file of the brief, if it was written.
        """
        if not self._is_open:
            return
        self._server.brief = brief
        self._is_over = True
        told = {
            "text": text,
            "sentences": list(sentences),
            "brief": None if brief is None else str(brief),
        }
        self._feed.news(stage="is over", over=told)

    def _when_flags_held(self, record: RunRecord) -> dict[str, list[Span]]:
        """Return the times at which each kind of flag applied; empty if the run cannot be read."""
        try:
            store = ResultStore.open(self._directory)
            return flag_times(RunData(record, record.target, store))
        except (StorlabError, OSError):
            return {}

    @property
    def _scrape_file(self) -> Path:
        whole = self._directory.absolute()
        return whole.parent / SCRAPE_FOLDER / f"{whole.name}.json"

    def _write_scrape_file(self, server: LiveServer) -> None:
        """Write the file by which Prometheus (``file_sd_configs``) discovers the metrics.

        Only its owner may read it, because it contains the token of the page's address.
        """
        url = urlsplit(server.url)
        labels = {"__metrics_path__": f"{url.path}metrics"}
        content = json.dumps([{"targets": [url.netloc], "labels": labels}], indent=2) + "\n"
        place = self._scrape_file
        with suppress(OSError):  # the file is optional, because the page shows the same
            place.parent.mkdir(mode=0o700, exist_ok=True)
            place.unlink(missing_ok=True)
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(content)

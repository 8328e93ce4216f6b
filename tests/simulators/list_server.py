"""S3 server with a million virtual small objects, which it lists, deletes and counts.

Keys are those of a pool with one shard, ``<prefix>0000/<number as 8 hex digits>``. Signatures are
not checked.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlsplit

PAGE = 1000
_KEY = re.compile(rb"<Key>[^<]*/([0-9a-f]{8})</Key>")


class ListServer:
    """Server listening inside the ``with`` block.

    ``there`` has a byte for each object: 1, or 0 if deleted. ``requests`` counts pages, deletes,
    puts and others.
    """

    def __init__(self, prefix: str, objects: int, size: int) -> None:
        self.prefix = prefix
        self.size = size
        self.there = bytearray(b"\1") * objects
        self.requests: Counter[str] = Counter()
        self._lock = threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                query = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
                if "uploads" in query:
                    store.answer(self, "uploads", b"<ListMultipartUploadsResult/>")
                else:
                    store.answer(self, "pages", store.page(query))

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                store.delete(content)
                store.answer(self, "deletes", b"<DeleteResult/>")

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                number = int(self.path.rpartition("/")[2], 16)
                store.there[number] = 1
                store.answer(self, "puts", b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> ListServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def page(self, query: dict[str, str]) -> bytes:
        """Return the next up to 1,000 keys after the token, as ListObjectsV2 does."""
        most = min(int(query.get("max-keys", PAGE)), PAGE)
        numbers: list[int] = []
        at = int(query.get("continuation-token", "0"))
        while len(numbers) < most and (at := self.there.find(1, at)) >= 0:
            numbers.append(at)
            at += 1
        more = len(numbers) == most and self.there.find(1, at) >= 0
        if not self.prefix.startswith(query.get("prefix", "")[: len(self.prefix)]):
            numbers, more = [], False
        shard = quote(f"{self.prefix}0000/") if "encoding-type" in query else f"{self.prefix}0000/"
        rest = (
            "</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;0&quot;</ETag><Size>{self.size}</Size></Contents>"
        )
        contents = "".join(f"<Contents><Key>{shard}{n:08x}{rest}" for n in numbers)
        encoding = "<EncodingType>url</EncodingType>" if "encoding-type" in query else ""
        after = f"<NextContinuationToken>{at}</NextContinuationToken>" if more else ""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult>'
            f"{encoding}<IsTruncated>{str(more).lower()}</IsTruncated>{after}"
            f"<KeyCount>{len(numbers)}</KeyCount>{contents}</ListBucketResult>"
        ).encode()

    def delete(self, content: bytes) -> None:
        """Handle a multi-object delete."""
        for found in _KEY.finditer(content):
            self.there[int(found.group(1), 16)] = 0

    def answer(self, handler: BaseHTTPRequestHandler, what: str, body: bytes) -> None:
        """Count the request and answer 200 with the body."""
        with self._lock:
            self.requests[what] += 1
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("ETag", '"0"')
        handler.end_headers()
        handler.wfile.write(body)

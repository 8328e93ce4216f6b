"""A bucket in memory that lists like MinIO, over HTTP. Signatures are not checked.

MinIO matches the prefix of an upload listing only as a whole key, and without a prefix lists the
uploads of the whole bucket that are in its memory. It lists prefixes whose objects are all deleted
but have versions, and it refuses to delete a bucket with versions.
"""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from storlab.model.s3 import Credentials, S3Store


class Minio:
    """Server listening inside the ``with`` block, with the bucket ``bench`` unless ``empty``.

    ``objects``: content by key. ``versions``: keys of old versions and delete markers, one entry
    each. ``uploads``: key by id. ``forgetful``: uploads are listed by their whole key only, as
    after a restart. ``refuse``: the start of "METHOD /path?query" and the error code that the body
    of a status 200 answer then contains.
    """

    def __init__(self, *, versioned: bool = False, empty: bool = False) -> None:
        self.versioned = versioned
        self.there = not empty
        self.forgetful = False
        self.objects: dict[str, bytes] = {}
        self.versions: list[str] = []
        self.uploads: dict[str, str] = {}
        self.refuse: tuple[str, str] | None = None
        self._begun = 0
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                _, _, key = unquote(parts.path).removeprefix("/").partition("/")
                status, body = store.answer(self.command, key, query, self.rfile.read(length))
                if store.refuse and f"{self.command} {self.path}".startswith(store.refuse[0]):
                    status, body = 200, _error(store.refuse[1])
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", '"0"')
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Minio:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def store(self) -> S3Store:
        """Its bucket."""
        keys = Credentials("AK", "SK")
        return S3Store(endpoints=[self.endpoint], bucket="bench", credentials=keys)

    def answer(
        self, method: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """Return status and body."""
        with self._lock:
            if not self.there and not (method == "PUT" and not key):
                return 404, _error("NoSuchBucket")
            return (
                self._of_object(method, key, query, body)
                if key
                else self._of_bucket(method, query, body)
            )

    def _of_bucket(self, method: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if method == "PUT":
            self.there = True
            return 200, b""
        if method == "DELETE":
            if self.objects or self.versions:
                return 409, _error("BucketNotEmpty")
            self.there = False
            return 204, b""
        if method == "POST":
            for found in re.findall(r"<Key>([^<]*)</Key>", body.decode()):
                self._delete(found)
            return 200, b"<DeleteResult/>"
        if "versioning" in query:
            state = "<Status>Enabled</Status>" if self.versioned else ""
            return 200, f"<VersioningConfiguration>{state}</VersioningConfiguration>".encode()
        if "versions" in query:
            keys = [*self.objects, *self.versions]
            listed = [key for key in keys if key.startswith(query.get("prefix", ""))]
            text = "".join(f"<Version><Key>{escape(key)}</Key></Version>" for key in listed)
            return 200, f"<ListVersionsResult>{text}</ListVersionsResult>".encode()
        return 200, (self._uploads(query) if "uploads" in query else self._list(query))

    def _uploads(self, query: dict[str, str]) -> bytes:
        prefix = query.get("prefix", "")
        text = "".join(
            f"<Upload><Key>{escape(key)}</Key><UploadId>{upload}</UploadId></Upload>"
            for upload, key in self.uploads.items()
            if key == prefix or (not prefix and not self.forgetful)
        )
        return f"<ListMultipartUploadsResult>{text}</ListMultipartUploadsResult>".encode()

    def _list(self, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        keys, tops = [], set()
        for key in sorted({*self.objects, *self.versions}):
            if not key.startswith(prefix):
                continue
            head, slash, _ = key.removeprefix(prefix).partition("/")
            if delimiter and slash:
                tops.add(prefix + head + slash)  # including deleted objects
            elif key in self.objects:
                keys.append(key)
        keys = keys[: int(query.get("max-keys", 1000))]  # sufficient for the tests
        text = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key])}</Size></Contents>"
            for key in keys
        )
        text += "".join(
            f"<CommonPrefixes><Prefix>{escape(top)}</Prefix></CommonPrefixes>"
            for top in sorted(tops)
        )
        return f"<ListBucketResult>{text}</ListBucketResult>".encode()

    def _of_object(
        self, method: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if method == "POST" and "uploads" in query:
            self._begun += 1
            upload = f"upload-{self._begun}"
            self.uploads[upload] = key
            text = f"<UploadId>{upload}</UploadId>"
            return 200, (
                f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>".encode()
            )
        if method == "DELETE":
            if "uploadId" in query:
                gone = self.uploads.pop(query["uploadId"], None)
                return (204, b"") if gone else (404, _error("NoSuchUpload"))
            self._delete(key)
            return 204, b""
        if method == "PUT":
            if self.versioned and key in self.objects:
                self.versions.append(key)
            self.objects[key] = body
            return 200, b""
        if key not in self.objects:
            return 404, _error("NoSuchKey")
        return 200, self.objects[key]

    def _delete(self, key: str) -> None:
        there = self.objects.pop(key, None) is not None
        if self.versioned:
            self.versions += [key, key] if there else [key]


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()

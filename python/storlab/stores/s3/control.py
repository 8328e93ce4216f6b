"""Send control requests to a bucket: existence, listings, small objects, multipart uploads.

The native S3 client signs and sends them one at a time. The measured load does not use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime

from storlab import _native
from storlab.base.clock import monotonic_ns, sleep_s, wall_at_ns
from storlab.base.errors import PreflightError
from storlab.base.units import NS_PER_S
from storlab.model.s3 import S3Store
from storlab.stores.s3.errors import refused, unreachable
from storlab.stores.s3.xml import (
    ErrorBody,
    Page,
    error_body,
    late_error,
    objects_page,
    parsed,
    text_of,
    uploads_page,
    versions_page,
)

TIMEOUT_S = 30.0
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)  # before a retry, if the store reports that it is busy
_BUSY = (500, 502, 503, 504)
_NAME_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"

Answer = tuple[int, dict[str, str], bytes]
Pairs = list[tuple[str, str]]
_Reply = tuple[int, Pairs, bytes]


class S3Control:
    """Client for control requests to one bucket; a failed request raises PreflightError.

    The constructor sends no request; it raises PreflightError for inconsistent settings.
    """

    def __init__(self, store: S3Store, timeout_s: float = TIMEOUT_S) -> None:
        self.store = store
        self.where = f"{store.endpoints[0]}/{store.bucket}"
        self._timeout_s = timeout_s
        self._skew_s: float | None = None
        secrets = {} if store.credentials is None else store.credentials.as_dict()
        self._hide = list(secrets.values())
        try:
            self._client = _native.S3Client(store.model_dump_json(), secrets)
        except ValueError as error:
            raise PreflightError(self.where, str(error), "correct the target") from error
        except OSError as error:
            raise unreachable(self.where, error, self._hide) from error

    def bucket_exists(self) -> bool:
        """Return whether the bucket exists.

        Raises:
            PreflightError: The credentials do not allow listing the bucket, or the request failed.
        """
        # A listing, because error responses to HEAD contain no error code.
        answer = self._request("GET", None, [("list-type", "2"), ("max-keys", "1")])
        if answer[0] == 404 and error_body(answer[2]).code == "NoSuchBucket":
            return False
        self._expect(answer, "list the bucket")
        return True

    def create_bucket(self) -> None:
        """Create the bucket in the region for which requests are signed."""
        region = self.store.region
        body = b""
        if region != "us-east-1":  # the only region that must not be named
            body = (
                f'<CreateBucketConfiguration xmlns="{_NAME_SPACE}"><LocationConstraint>{region}'
                "</LocationConstraint></CreateBucketConfiguration>"
            ).encode()
        self._expect(self._request("PUT", None, [], body), "create the bucket")

    def delete_bucket(self) -> None:
        """Remove the bucket if it exists; a bucket that is not empty is an error."""
        answer = self._request("DELETE", None, [])
        if answer[0] != 404:
            self._expect(answer, "remove the bucket")

    def is_versioned(self) -> bool:
        """Return whether the bucket keeps object versions; False if not reported."""
        status, _, body = self._request("GET", None, [("versioning", "")])
        if status != 200:
            return False
        try:
            return text_of(parsed(body), "Status") in ("Enabled", "Suspended")
        except ValueError:
            return False

    def has_versions(self, prefix: str) -> bool | None:
        """Return whether object versions or delete markers exist below a prefix.

        An existing object counts as a version even in a bucket without versioning. The result is
        None if the store does not report versions.
        """
        query = [("versions", ""), ("max-keys", "1"), ("prefix", prefix)]
        status, _, body = self._request("GET", None, query)
        try:
            return versions_page(body) > 0 if status == 200 else None
        except ValueError:
            return None

    def list_keys(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the first ``limit`` keys below a prefix, in byte order; all if None."""
        return self._list(prefix, limit, "").keys

    def list_top(self, prefix: str) -> list[str]:
        """Return the keys and "directories" (ending with a slash) directly below a prefix.

        Directories without objects are left out: MinIO lists them if they contain old versions.
        """
        page = self._list(prefix, None, "/")
        there = [top for top in page.prefixes if self.list_keys(top, 1)]
        return sorted({*there, *(top_of(key, prefix) for key in page.keys)})

    def list_uploads(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the keys of the first ``limit`` open multipart uploads below a prefix.

        If the store lists none, the uploads of the whole bucket are searched, because MinIO
        compares the prefix with whole keys. The result is empty for a store without such uploads.
        """
        uploads = self.uploads(prefix, prefix, limit)
        return [key for key, _ in uploads or self.uploads("", prefix, limit)]

    def uploads(self, asked: str, prefix: str, limit: int | None = None) -> list[tuple[str, str]]:
        """Return keys and ids of open multipart uploads.

        Args:
            asked: Prefix that is sent to the store.
            prefix: Prefix of the keys to return; other listed keys are dropped.
            limit: Largest number of uploads; None for all.
        """
        uploads: list[tuple[str, str]] = []
        after: Pairs = []
        while True:
            query = [("uploads", ""), ("encoding-type", "url"), ("prefix", asked), *after]
            answer = self._request("GET", None, query)
            if answer[0] in (404, 501) and error_body(answer[2]).code != "NoSuchBucket":
                return uploads  # the store does not support multipart uploads
            if answer[0] == 403 and asked != prefix:
                return uploads  # these credentials may list only below ``prefix``, listed before
            page = self._page(self._expect(answer, "list multipart uploads"), uploads_page)
            # Filter keys, because some stores ignore the prefix in this request.
            pairs = zip(page.keys, page.ids, strict=True)
            uploads += [(key, upload) for key, upload in pairs if key.startswith(prefix)]
            if not page.after or (limit is not None and len(uploads) >= limit):
                return uploads[:limit]
            after = page.after

    def begin_upload(self, key: str) -> str | None:
        """Begin a multipart upload; return its id, or None if the store supports none."""
        # Retry only after 503. After 500, 502 or 504 the store may have begun an upload, which
        # would never be aborted if a retry began a second one.
        answer = self._sent(
            lambda: self._client.request("POST", key, [("uploads", "")], b"", self._timeout_s),
            (503,),
        )
        if answer[0] in (404, 405, 501) and error_body(answer[2]).code != "NoSuchBucket":
            return None
        body = self._expect(answer, f"begin a multipart upload of {key}")
        try:
            return text_of(parsed(body), "UploadId") or None
        except ValueError:
            return None

    def abort_upload(self, key: str, upload: str) -> None:
        """Abort a multipart upload; it is no error if the upload does not exist."""
        answer = self._request("DELETE", key, [("uploadId", upload)])
        if answer[0] != 404:
            self._expect(answer, f"abort a multipart upload of {key}")

    def get(self, key: str) -> bytes | None:
        """Return the content of a small object; None if it does not exist."""
        answer = self._request("GET", key, [])
        if answer[0] == 404 and error_body(answer[2]).code == "NoSuchKey":
            return None
        return self._expect(answer, f"read {key}")

    def get_tagged(self, key: str) -> tuple[bytes, str] | None:
        """Return content and ETag of a small object; None if the object does not exist.

        The ETag is "" if the store sends none.
        """
        answer = self._request("GET", key, [])
        if answer[0] == 404 and error_body(answer[2]).code == "NoSuchKey":
            return None
        return self._expect(answer, f"read {key}"), answer[1].get("etag", "")

    def put_if(self, key: str, data: bytes, condition: tuple[str, str]) -> bool:
        """Write a small object if a condition is met.

        A store without conditional writes always writes it.

        Args:
            key: Key of the object.
            data: Content.
            condition: ("if-none-match", "*") if no object may exist; ("if-match", etag) if the
                existing object must have this ETag.

        Returns:
            Whether it was written; may be False after a write whose response was lost.
        """
        answer = self._sent(lambda: self._client.put_if(key, data, condition, self._timeout_s))
        if answer[0] in (409, 412) or (answer[0] == 404 and condition[0] == "if-match"):
            return False
        if answer[0] in (400, 501) and error_body(answer[2]).code == "NotImplemented":
            answer = self._request("PUT", key, [], data)
        self._expect(answer, f"write {key}")
        return True

    def put(self, key: str, data: bytes) -> None:
        """Write a small object, replacing an existing one."""
        self._expect(self._request("PUT", key, [], data), f"write {key}")

    def delete(self, keys: Iterable[str]) -> None:
        """Delete a few objects, one by one; an object that does not exist is no error."""
        for key in keys:
            answer = self._request("DELETE", key, [])
            if answer[0] != 404:
                self._expect(answer, f"delete {key}")

    def clock_skew_s(self) -> float | None:
        """Return by how many seconds the store's clock is ahead; None if it sends no date."""
        if self._skew_s is None:
            self._request("GET", None, [("list-type", "2"), ("max-keys", "1")])
        return self._skew_s

    def _list(self, prefix: str, limit: int | None, delimiter: str) -> Page:
        keys: list[str] = []
        prefixes: list[str] = []
        after: Pairs = []
        most = 1000 if limit is None else max(1, min(limit, 1000))
        while True:
            query = [("list-type", "2"), ("max-keys", str(most)), ("prefix", prefix), *after]
            query += [("encoding-type", "url"), *([("delimiter", "/")] if delimiter else [])]
            body = self._expect(self._request("GET", None, query), "list the bucket")
            page = self._page(body, objects_page)
            keys += page.keys
            prefixes += page.prefixes
            if not page.after or (limit is not None and len(keys) >= limit):
                return Page(keys[:limit], prefixes)
            after = page.after

    def _page(self, body: bytes, read: Callable[[bytes], Page]) -> Page:
        try:
            return read(body)
        except ValueError as error:
            raise PreflightError(
                self.where,
                f"does not answer like an S3 store: {error}",
                "check host, port and bucket of the target's address",
            ) from error

    def _request(self, method: str, key: str | None, query: Pairs, body: bytes = b"") -> Answer:
        """Send a request, with retries while the store is busy; measure the clock difference."""
        return self._sent(lambda: self._client.request(method, key, query, body, self._timeout_s))

    def _sent(self, ask: Callable[[], _Reply], busy: Iterable[int] = _BUSY) -> Answer:
        for pause_s in (*_PAUSES_S, None):
            before_ns = monotonic_ns()
            try:
                status, pairs, content = ask()
            except OSError as error:
                raise unreachable(self.where, error, self._hide) from error
            headers = {name.lower(): value for name, value in pairs}
            self._see_clock(headers.get("date"), (before_ns + monotonic_ns()) // 2)
            if status not in busy or pause_s is None:
                break
            sleep_s(pause_s)
        return status, headers, content

    def _see_clock(self, date: str | None, at_ns: int) -> None:
        try:
            there = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        # The Date header contains whole seconds, so on average it is half a second behind.
        self._skew_s = there + 0.5 - wall_at_ns(at_ns) / NS_PER_S

    def _expect(self, answer: Answer, operation: str) -> bytes:
        status, headers, body = answer
        error: ErrorBody | None = late_error(body) if 200 <= status < 300 else error_body(body)
        if error is not None:
            raise refused(self.store, operation, status, headers, error, self._skew_s, self._hide)
        return body


def top_of(key: str, prefix: str) -> str:
    """Return the part of a key up to and including the first slash after a prefix."""
    head, slash, _ = key.removeprefix(prefix).partition("/")
    return prefix + head + slash

"""The control plane of a bucket: is it there, what is in it, whose is the prefix.

Every request is a single one, signed by the native client. Load never comes from here.
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
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)  # before another try, where the store says that it is busy
_BUSY = (500, 502, 503, 504)
_NAME_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"

Answer = tuple[int, dict[str, str], bytes]
Pairs = list[tuple[str, str]]
_Reply = tuple[int, Pairs, bytes]


class S3Control:
    """One bucket. All failures are PreflightError with where, what and the fix.

    Raises PreflightError for a store that contradicts itself, without a request.
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
        """Whether the bucket is there, and may be listed."""
        # Not HEAD: its refusals carry no code.
        answer = self._request("GET", None, [("list-type", "2"), ("max-keys", "1")])
        if answer[0] == 404 and error_body(answer[2]).code == "NoSuchBucket":
            return False
        self._expect(answer, "list the bucket")
        return True

    def create_bucket(self) -> None:
        """Make the bucket, in the region that requests are signed for."""
        region = self.store.region
        body = b""
        if region != "us-east-1":  # the one region that must not be named
            body = (
                f'<CreateBucketConfiguration xmlns="{_NAME_SPACE}"><LocationConstraint>{region}'
                "</LocationConstraint></CreateBucketConfiguration>"
            ).encode()
        self._expect(self._request("PUT", None, [], body), "make the bucket")

    def delete_bucket(self) -> None:
        """Remove the bucket. One that is not there is no error, one that is not empty is."""
        answer = self._request("DELETE", None, [])
        if answer[0] != 404:
            self._expect(answer, "remove the bucket")

    def is_versioned(self) -> bool:
        """Whether deleting leaves something. False also where the store does not tell."""
        status, _, body = self._request("GET", None, [("versioning", "")])
        if status != 200:
            return False
        try:
            return text_of(parsed(body), "Status") in ("Enabled", "Suspended")
        except ValueError:
            return False

    def has_versions(self, prefix: str) -> bool | None:
        """Whether versions or delete markers lie below a prefix; None: the store does not tell.

        Objects that are there have a version, too, in a bucket of any kind.
        """
        query = [("versions", ""), ("max-keys", "1"), ("prefix", prefix)]
        status, _, body = self._request("GET", None, query)
        try:
            return versions_page(body) > 0 if status == 200 else None
        except ValueError:
            return None

    def list_keys(self, prefix: str, limit: int | None = None) -> list[str]:
        """The first ``limit`` keys below a prefix, in the order of their bytes; all for None."""
        return self._list(prefix, limit, "").keys

    def list_top(self, prefix: str) -> list[str]:
        """What begins with the prefix, only as far as the next slash, which it includes.

        Not what only looks so: MinIO names prefixes below which all is deleted and versions lie.
        """
        page = self._list(prefix, None, "/")
        there = [top for top in page.prefixes if self.list_keys(top, 1)]
        return sorted({*there, *(top_of(key, prefix) for key in page.keys)})

    def list_uploads(self, prefix: str, limit: int | None = None) -> list[str]:
        """Keys of the first ``limit`` multipart uploads that are open; none where unknown.

        MinIO matches a prefix here only as a whole key: where nothing is found by it, the uploads
        of the whole bucket are looked through.
        """
        uploads = self.uploads(prefix, prefix, limit)
        return [key for key, _ in uploads or self.uploads("", prefix, limit)]

    def uploads(self, asked: str, prefix: str, limit: int | None = None) -> list[tuple[str, str]]:
        """Keys and ids of open uploads below ``prefix``, of those that are listed for ``asked``."""
        uploads: list[tuple[str, str]] = []
        after: Pairs = []
        while True:
            query = [("uploads", ""), ("encoding-type", "url"), ("prefix", asked), *after]
            answer = self._request("GET", None, query)
            if answer[0] in (404, 501) and error_body(answer[2]).code != "NoSuchBucket":
                return uploads  # a store without multipart uploads
            if answer[0] == 403 and asked != prefix:
                return uploads  # who may list only below his prefix has been answered already
            page = self._page(self._expect(answer, "list multipart uploads"), uploads_page)
            # Not every store heeds the prefix here.
            pairs = zip(page.keys, page.ids, strict=True)
            uploads += [(key, upload) for key, upload in pairs if key.startswith(prefix)]
            if not page.after or (limit is not None and len(uploads) >= limit):
                return uploads[:limit]
            after = page.after

    def begin_upload(self, key: str) -> str | None:
        """Begin a multipart upload: its id, or None for a store that knows no such thing."""
        # A gateway that gives up (500, 502, 504) may have passed it on: a second attempt would
        # begin a second upload, and nobody would end the first.
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
        """Give up a multipart upload. One that is not there is no error."""
        answer = self._request("DELETE", key, [("uploadId", upload)])
        if answer[0] != 404:
            self._expect(answer, f"give up a multipart upload of {key}")

    def get(self, key: str) -> bytes | None:
        """A small object, or None where there is none of that key."""
        answer = self._request("GET", key, [])
        if answer[0] == 404 and error_body(answer[2]).code == "NoSuchKey":
            return None
        return self._expect(answer, f"read {key}")

    def get_tagged(self, key: str) -> tuple[bytes, str] | None:
        """What ``get`` gives, and its etag (empty: the store tells none)."""
        answer = self._request("GET", key, [])
        if answer[0] == 404 and error_body(answer[2]).code == "NoSuchKey":
            return None
        return self._expect(answer, f"read {key}"), answer[1].get("etag", "")

    def put_if(self, key: str, data: bytes, condition: tuple[str, str]) -> bool:
        """Write a small object if ("if-none-match", "*") or ("if-match", etag) holds; else False.

        False also where an answer was lost, and this is the second try. A store that knows no
        conditions writes all the same.
        """
        answer = self._sent(lambda: self._client.put_if(key, data, condition, self._timeout_s))
        if answer[0] in (409, 412) or (answer[0] == 404 and condition[0] == "if-match"):
            return False
        if answer[0] in (400, 501) and error_body(answer[2]).code == "NotImplemented":
            answer = self._request("PUT", key, [], data)
        self._expect(answer, f"write {key}")
        return True

    def put(self, key: str, data: bytes) -> None:
        """Write a small object."""
        self._expect(self._request("PUT", key, [], data), f"write {key}")

    def delete(self, keys: Iterable[str]) -> None:
        """Delete a few objects, one by one. One that is not there is no error."""
        for key in keys:
            answer = self._request("DELETE", key, [])
            if answer[0] != 404:
                self._expect(answer, f"delete {key}")

    def clock_skew_s(self) -> float | None:
        """How far the store's clock is ahead of this one's, to a second; None: it does not tell."""
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
                self.where, f"does not answer like an S3 store: {error}", "check the address"
            ) from error

    def _request(self, method: str, key: str | None, query: Pairs, body: bytes = b"") -> Answer:
        """One request, again while the store is busy. Reads its clock on the way."""
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
        # The header is cut to whole seconds: half of one is what it lacks on average.
        self._skew_s = there + 0.5 - wall_at_ns(at_ns) / NS_PER_S

    def _expect(self, answer: Answer, operation: str) -> bytes:
        status, headers, body = answer
        error: ErrorBody | None = late_error(body) if 200 <= status < 300 else error_body(body)
        if error is not None:
            raise refused(self.store, operation, status, headers, error, self._skew_s, self._hide)
        return body


def top_of(key: str, prefix: str) -> str:
    """A key below a prefix only as far as the next slash, which it includes."""
    head, slash, _ = key.removeprefix(prefix).partition("/")
    return prefix + head + slash

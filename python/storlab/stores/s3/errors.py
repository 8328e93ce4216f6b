"""Explain error responses of S3 stores, with fixes; codes from the Amazon S3 API reference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from storlab.base.errors import PreflightError
from storlab.base.secrets import hide
from storlab.model.s3 import S3Store
from storlab.stores.s3.xml import ErrorBody

DENIED = "these credentials do not allow it"
_KEYS = "check the access key, and that it is for this endpoint (docs/s3.md: where keys come from)"
_UNKNOWN_KEY = ("the store does not know the access key", _KEYS)
_FIXES = {
    "InvalidAccessKeyId": _UNKNOWN_KEY,
    "XAdminUserNotFound": _UNKNOWN_KEY,  # versitygw's code
    "SignatureDoesNotMatch": (
        "the secret key does not match the access key",
        "check the secret key for missing characters; if there is a proxy, check that it does not "
        "change the Host header",
    ),
    "AccessDenied": (
        DENIED,
        "storlab needs s3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, "
        "s3:DeleteObject and s3:AbortMultipartUpload; with create_bucket also s3:CreateBucket and "
        "s3:DeleteBucket",
    ),
    "NoSuchBucket": (
        "the bucket does not exist",
        "create it, correct the address, or set s3_options.create_bucket = true",
    ),
    "BucketAlreadyExists": (
        "a bucket with this name belongs to somebody else",
        "choose another bucket name",
    ),
    "BucketNotEmpty": ("the bucket is not empty", "check what else it contains"),
    "InvalidBucketName": ("the store does not allow this bucket name", "choose another one"),
    "IllegalLocationConstraintException": (
        "the endpoint cannot create buckets in this region",
        "set s3_options.region to the endpoint's region",
    ),
    "NotImplemented": (
        "the store does not support this operation",
        "use a store with GET, PUT, DELETE and ListObjectsV2",
    ),
}
_REGION_CODES = (
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "AuthorizationQueryParametersError",
    "IncorrectEndpoint",
)
_NO_BACKEND = (502, 503, 504)
_NOT_ACCEPTED = "its TLS certificate is not accepted: {text}"
_SCHEME = "check port and scheme: https:// or http://"
_UNREACHED = ("", "check the address, and that this machine can reach it")
_FAULTS = {
    "untrusted": (
        _NOT_ACCEPTED,
        "set s3_options.ca_file to the certificate of the authority that signed it",
    ),
    "wrong-name": (
        _NOT_ACCEPTED,
        "use a host name that the certificate covers; virtual addressing needs *.host in it",
    ),
    "expired": (_NOT_ACCEPTED, "renew the certificate, or check this machine's clock"),
    "tls": ("the server does not speak TLS on this port: {text}", _SCHEME),
    "handshake": ("the server does not speak TLS on this port: {text}", _SCHEME),
    "refused": (
        "connection refused: no server listens on this port",
        "check host and port, and that the store is running",
    ),
    "name": (
        "the host name is not found: {text}",
        "check the host name; virtual addressing also needs bucket.host in the DNS",
    ),
    "time-out": ("no answer in time", "check host, port and firewalls, and the store's load"),
    "ended": (
        "the store closed the connection: {text}",
        "check scheme and port: an https port rejects plain http, and the other way round",
    ),
}
"""Problem and fix for each word of ``Failure::fault`` in crates/s3/src/failure.rs."""
_BUSY = ("SlowDown", "ServiceUnavailable", "InternalError")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException")
_BAD_TOKEN = ("InvalidToken", "InvalidTokenId")  # the second is MinIO's code
_SKEWED = ("RequestTimeTooSkewed", "RequestExpired")
_EXPECTED_REGION = re.compile(r"expecting ['\"]([a-z0-9-]+)['\"]")


class StoreUnreachableError(PreflightError):
    """Error for a store that does not respond, or whose proxy gets no response from it."""


def refused(
    store: S3Store,
    action: str,
    status: int,
    headers: Mapping[str, str],
    body: ErrorBody,
    skew_s: float | None,
    secrets: Iterable[str],
) -> PreflightError:
    """Build the exception for an error response of an S3 store, with its meaning and a fix.

    Args:
        store: Store that responded.
        action: Requested operation as a phrase, such as "list the bucket".
        status: HTTP status.
        headers: Headers of the response.
        body: Parsed error document.
        skew_s: By how many seconds the store's clock is ahead; None if unknown.
        secrets: Texts that must not be in the message.
    """
    where = f"{store.endpoints[0]}/{store.bucket}"
    code = body.code or _code_of(status)
    answer = f"{code} ({status})" if body.code else f"HTTP {status}"
    if body.message:
        answer += f", {body.message}"
    answer = hide(answer, secrets)
    meaning, fix = _meaning(store, code, headers, body, skew_s)
    text = f"cannot {action}: {meaning} ({answer})" if meaning else f"cannot {action}: {answer}"
    kind = StoreUnreachableError if status in _NO_BACKEND else PreflightError
    return kind(where, text, fix)


def _code_of(status: int) -> str:
    known = {
        301: "PermanentRedirect",
        307: "TemporaryRedirect",
        403: "AccessDenied",
        500: "InternalError",
        501: "NotImplemented",
        503: "ServiceUnavailable",
    }
    return known.get(status, "")


def _meaning(
    store: S3Store,
    code: str,
    headers: Mapping[str, str],
    body: ErrorBody,
    skew_s: float | None,
) -> tuple[str, str]:
    region = headers.get("x-amz-bucket-region") or body.region or _expected(body.message)
    if region and region != store.region and (code in _REGION_CODES or code == "AccessDenied"):
        return (
            f"the bucket is in {region}, but requests are signed for {store.region}",
            f'set s3_options.region = "{region}"',
        )
    if code in _REGION_CODES:
        other = f", which is {body.endpoint}" if body.endpoint else ""
        return (
            "the bucket has another endpoint or region",
            f"use the bucket's own endpoint{other}, and set s3_options.region to its region",
        )
    if code in _SKEWED:
        by = "" if skew_s is None else f": they differ by {abs(skew_s):,.0f} s"
        return f"the clocks of client and store are too far apart{by}", _clock_fix(skew_s)
    if code in _EXPIRED or code in _BAD_TOKEN:
        return _token(store, code)
    if code in _BUSY:
        return (
            "the store is busy or has an internal error",
            "try again later, or look at the store's log",
        )
    if not code:
        return (
            "the server does not answer like an S3 store",
            "check host, port and bucket of the address",
        )
    return _FIXES.get(code, ("", "look at the store's documentation and log"))


def _token(store: S3Store, code: str) -> tuple[str, str]:
    keys = store.credentials
    place = "AWS_SESSION_TOKEN" if keys is None else keys.token_place
    if code in _EXPIRED:
        return "the session token has expired", f"get new keys, and set {place} to the new token"
    if keys is not None and keys.session_token is None:
        fix = f"temporary keys need their session token: set {place}"
        return "the store requires a session token, but none is set", fix
    return (
        "the session token is not valid",
        f"set {place} again, or remove it if the keys need no token",
    )


def _expected(message: str) -> str:
    match = _EXPECTED_REGION.search(message)
    return match.group(1) if match else ""


def _clock_fix(skew_s: float | None) -> str:
    if skew_s is None:
        return "synchronise both clocks by NTP"
    late = "behind" if skew_s > 0 else "ahead of"
    return f"synchronise the clocks by NTP; this machine's is {late} the store's"


def unreachable(where: str, error: OSError, secrets: Iterable[str]) -> StoreUnreachableError:
    """Build the exception for a request that got no response from the store.

    Args:
        where: Endpoint and bucket.
        error: Error of the native client. Its ``fault`` is a word for the cause, such as "refused"
            (``Failure::fault`` in crates/s3/src/failure.rs).
        secrets: Texts that must not be in the message.
    """
    text = hide(str(error.strerror or error), secrets)
    meaning, fix = _FAULTS.get(getattr(error, "fault", ""), _UNREACHED)
    return StoreUnreachableError(where, meaning.format(text=text) if meaning else text, fix)

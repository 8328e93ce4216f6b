"""Classification of warp's error messages into the kinds of errors that storlab counts.

warp records the message of its S3 library, without S3's error code or the HTTP status. The patterns
below match messages that S3 documents, and the library's own messages.
"""

from __future__ import annotations

import re

_LONGEST = 80
_KINDS: tuple[tuple[str, str], ...] = (
    (r"connection refused", "connection refused"),
    (r"connection reset|broken pipe", "connection reset"),
    (r"x509|tls:|certificate", "TLS"),
    (r"timeout|deadline exceeded|timed out", "time-out"),
    (r"unexpected (download|stat|file) size|unexpected EOF|short upload", "short body"),
    (r"\bEOF$|server closed idle connection|connection (was )?closed", "connection closed"),
    (r"specified key does not exist", "NoSuchKey (404)"),
    (r"specified bucket does not exist", "NoSuchBucket (404)"),
    (r"multipart upload does not exist", "NoSuchUpload (404)"),
    (r"reduce your request rate", "SlowDown (503)"),
    (r"service unavailable|server is currently unavailable", "ServiceUnavailable (503)"),
    (r"encountered an internal error", "InternalError (500)"),
    (r"access denied", "AccessDenied (403)"),
    (r"access key id you provided does not exist", "InvalidAccessKeyId (403)"),
    (r"request signature we calculated does not match", "SignatureDoesNotMatch (403)"),
    (r"request time and the (server's|current) time is too large", "RequestTimeTooSkewed (403)"),
    (r"requested range", "InvalidRange (416)"),
    (r"pre-?conditions? you specified", "PreconditionFailed (412)"),
    (r"proposed upload exceeds", "EntityTooLarge (400)"),
    (r"proposed upload is smaller", "EntityTooSmall (400)"),
    (r"number of bytes specified by the content-length", "IncompleteBody (400)"),
    (r"content-sha256.* does not match", "XAmzContentSHA256Mismatch (400)"),
    (r"content-md5 you specified did not match", "BadDigest (400)"),
    (r"implies functionality that is not implemented", "NotImplemented (501)"),
)
_STATUS = re.compile(r"^(?P<status>[45]\d\d)\b")
_CODE = re.compile(r"Error response code (?P<code>\w+)")
_PRIVATE = re.compile(r"https?://\S+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\"[^\"]*\"")


def kind(message: str) -> str:
    """Return the kind of error of a warp message, such as ``SlowDown (503)``.

    If no pattern matches, the beginning of the message is returned, without addresses and object
    keys, so that equal errors count as one kind.
    """
    for pattern, name in _KINDS:
        if re.search(pattern, message, re.IGNORECASE):
            return name
    status = _STATUS.match(message)
    if status is not None:
        return f"HTTP {status['status']}"
    code = _CODE.search(message)
    if code is not None:
        return code["code"]
    words = " ".join(_PRIVATE.sub("", message).split()).strip(" .:")
    return words[:_LONGEST] or "unknown"

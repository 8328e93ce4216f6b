"""The XML of S3: only what the lab reads of it, from any store's dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote_plus
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing. ``after`` is what asks for the next one, empty on the last page."""

    keys: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)  # what a delimiter rolled up
    after: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)  # of uploads, one for each key


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What a store says of a request that it refused; empty where it says nothing."""

    code: str = ""
    message: str = ""
    region: str = ""
    endpoint: str = ""


def late_error(body: bytes) -> ErrorBody | None:
    """The error in an answer whose status says success; None where there is none.

    Some stores begin an answer with status 200, and then find that they cannot do what was asked.
    """
    try:
        parsed(body, "Error")
    except ValueError:
        return None
    error = error_body(body)
    return error if error.code else None


def error_body(body: bytes) -> ErrorBody:
    """The ``<Error>`` document, from a body that may be anything."""
    try:
        root = parsed(body)
    except ValueError:
        return ErrorBody()
    return ErrorBody(
        *(text_of(root, name) for name in ("Code", "Message", "Region", "Endpoint")),
    )


def objects_page(body: bytes) -> Page:
    """A page of ListObjectsV2. Raises ValueError for another document."""
    root = parsed(body, "ListBucketResult")
    return Page(
        keys=_keys(root, "Contents"),
        prefixes=_texts(root, "CommonPrefixes", "Prefix"),
        after=_after(root, {"continuation-token": "NextContinuationToken"}),
    )


def uploads_page(body: bytes) -> Page:
    """A page of ListMultipartUploads: keys and ids. Raises ValueError for another document."""
    root = parsed(body, "ListMultipartUploadsResult")
    markers = {"key-marker": "NextKeyMarker", "upload-id-marker": "NextUploadIdMarker"}
    ids = [text_of(upload, "UploadId") for upload in root.iter("Upload")]
    return Page(keys=_keys(root, "Upload"), ids=ids, after=_after(root, markers))


def versions_page(body: bytes) -> int:
    """How many versions and delete markers a page of ListObjectVersions has.

    Raises ValueError for another document.
    """
    root = parsed(body, "ListVersionsResult")
    return sum(1 for name in ("Version", "DeleteMarker") for _ in root.iter(name))


def parsed(body: bytes, name: str = "") -> ElementTree.Element:
    """The document's root without its name space. Raises ValueError for what is not that."""
    if b"<!DOCTYPE" in body[:1000]:  # no store sends one; entities that grow are made in them
        raise ValueError("the answer has a document type")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314  (without a document type, see above)
    except ElementTree.ParseError as error:
        raise ValueError(f"the answer is not XML: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if name and root.tag != name:
        raise ValueError(f"the answer is {root.tag}, and not {name}")
    return root


def text_of(root: ElementTree.Element, name: str) -> str:
    """The text of one child; empty where there is none."""
    return (root.findtext(name) or "").strip()


def _keys(root: ElementTree.Element, inside: str) -> list[str]:
    return _texts(root, inside, "Key")


def _texts(root: ElementTree.Element, inside: str, name: str) -> list[str]:
    encoded = text_of(root, "EncodingType") == "url"
    texts = [element.findtext(name) or "" for element in root.iter(inside)]
    return [unquote_plus(text) for text in texts] if encoded else texts


def _after(root: ElementTree.Element, markers: dict[str, str]) -> list[tuple[str, str]]:
    if text_of(root, "IsTruncated").lower() != "true":
        return []
    encoded = text_of(root, "EncodingType") == "url"
    after = []
    for parameter, name in markers.items():
        value = text_of(root, name)
        is_key = name == "NextKeyMarker"
        after.append((parameter, unquote_plus(value) if encoded and is_key else value))
    if not any(value for _, value in after):
        raise ValueError("the listing goes on, and does not say where")
    return after

"""Parse the XML responses of S3 stores: errors, listings of objects, uploads and versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote_plus
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; ``after`` is the query for the next page, empty on the last page."""

    keys: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)  # common prefixes up to the delimiter
    after: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)  # ids of multipart uploads, one per key


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """Error document of a store's response; a field that is missing there is empty."""

    code: str = ""
    message: str = ""
    region: str = ""
    endpoint: str = ""


def late_error(body: bytes) -> ErrorBody | None:
    """Return the error document in a response with status 200, or None if it has none.

    Some stores send the status before they notice that the operation fails.
    """
    try:
        parsed(body, "Error")
    except ValueError:
        return None
    error = error_body(body)
    return error if error.code else None


def error_body(body: bytes) -> ErrorBody:
    """Parse the ``<Error>`` document of a response; all fields are empty for any other body."""
    try:
        root = parsed(body)
    except ValueError:
        return ErrorBody()
    return ErrorBody(
        *(text_of(root, name) for name in ("Code", "Message", "Region", "Endpoint")),
    )


def objects_page(body: bytes) -> Page:
    """Parse a page of a ListObjectsV2 response.

    Raises:
        ValueError: The body is another document.
    """
    root = parsed(body, "ListBucketResult")
    return Page(
        keys=_keys(root, "Contents"),
        prefixes=_texts(root, "CommonPrefixes", "Prefix"),
        after=_after(root, {"continuation-token": "NextContinuationToken"}),
    )


def uploads_page(body: bytes) -> Page:
    """Parse keys and upload ids of a page of a ListMultipartUploads response.

    Raises:
        ValueError: The body is another document.
    """
    root = parsed(body, "ListMultipartUploadsResult")
    markers = {"key-marker": "NextKeyMarker", "upload-id-marker": "NextUploadIdMarker"}
    ids = [text_of(upload, "UploadId") for upload in root.iter("Upload")]
    return Page(keys=_keys(root, "Upload"), ids=ids, after=_after(root, markers))


def versions_page(body: bytes) -> int:
    """Return the number of versions and delete markers on a page of ListObjectVersions.

    Raises:
        ValueError: The body is another document.
    """
    root = parsed(body, "ListVersionsResult")
    return sum(1 for name in ("Version", "DeleteMarker") for _ in root.iter(name))


def parsed(body: bytes, name: str = "") -> ElementTree.Element:
    """Parse XML and remove its namespaces.

    Args:
        body: XML document.
        name: Required name of the root element; empty for any.

    Raises:
        ValueError: The document is not valid XML, or has another root element.
    """
    if b"<!DOCTYPE" in body[:1000]:  # stores send none, and entity expansion attacks need one
        raise ValueError("the answer contains a document type declaration")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314  (without a document type, see above)
    except ElementTree.ParseError as error:
        raise ValueError(f"the answer is not XML: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if name and root.tag != name:
        raise ValueError(f"the answer is XML with root element <{root.tag}> instead of <{name}>")
    return root


def text_of(root: ElementTree.Element, name: str) -> str:
    """Return the text of an element's child; empty if there is no such child."""
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
        raise ValueError("the listing is truncated, but has no token to continue")
    return after

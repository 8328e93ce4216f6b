"""Reading and checking of the publisher's logo, an image that is embedded in a brief."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storlab.base.errors import StudyError
from storlab.base.files import read_input
from storlab.contracts.check import Check
from storlab.lab.study.file import LoadedStudy

LARGEST_LOGO = 1_000_000  # bytes; every copy of a brief contains the image
_FORMATS = "give a PNG, JPEG, GIF, WebP or SVG file"
_BEGINS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
_ENDS = {"png": b"IEND\xaeB`\x82", "jpeg": b"\xff\xd9", "gif": b"\x3b"}
_SVG = re.compile(rb"\s*(<\?xml|<!--|<!DOCTYPE svg|<svg)")
_ELSEWHERE = re.compile(rb"""(?:href|src)\s*=\s*["']\s*(?!#|data:)|url\(\s*["']?(?!#|data:|["'])""")


@dataclass(frozen=True, slots=True)
class Logo:
    """Image that is embedded in a brief."""

    kind: str  # png, jpeg, gif, webp, svg
    content: bytes

    @property
    def uri(self) -> str:
        """Image as a data URI, for the ``src`` attribute in HTML."""
        mime = "svg+xml" if self.kind == "svg" else self.kind
        return f"data:image/{mime};base64,{base64.b64encode(self.content).decode()}"


def read_logo(path: Path, folders: Sequence[Path]) -> Logo:
    """Read a logo from the first of the folders that has it.

    Args:
        path: Path of the image, absolute or relative to one of the folders.
        folders: Folders to search, in this order.

    Raises:
        StudyError: The file does not exist, is larger than ``LARGEST_LOGO``, is truncated, is not
            an image of a supported format, or is an SVG that loads other files.
    """
    places = [folder / path for folder in folders]  # joining an absolute path keeps it
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        there = next((place for place in places if place.exists()), None)
        what = "does not exist" if there is None else "is not a regular file"
        fix = (
            "use a path that is absolute, or relative to the file with [brief] or to the current "
            "directory"
        )
        raise StudyError(f"[brief] logo {there or path}", what, fix)
    where = f"[brief] logo {place}"
    try:
        size = place.stat().st_size
        if size > LARGEST_LOGO:
            fix = f"use an image of at most {LARGEST_LOGO:,} bytes"
            raise StudyError(where, f"has {size:,} bytes, which is too large", fix)
        content = read_input(place)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise StudyError(where, what, "check its permissions") from None
    kind = _kind(content)
    if not kind:
        raise StudyError(where, "is not an image that a brief can embed", _FORMATS)
    if kind in _ENDS and _ENDS[kind] not in content[-64:]:
        raise StudyError(
            where, f"is incomplete: the end of the {kind.upper()} file is missing", "copy it again"
        )
    if kind == "svg" and _ELSEWHERE.search(content):
        fix = "embed these files in the SVG, or use a PNG"
        raise StudyError(where, "loads other files, which a brief cannot do", fix)
    return Logo(kind, content)


def logo_checks(loaded: LoadedStudy, base: Path) -> list[Check]:
    """Check whether the study's logo can be read; return no check if the study names none."""
    table = loaded.study.brief
    if table is None or table.logo is None:
        return []
    try:
        read_logo(Path(table.logo), [loaded.path.parent, base])
    except StudyError as error:
        return [Check(name=error.where, status="error", what=error.what, fix=error.fix)]
    return [Check(name="[brief] logo", status="ok", what=table.logo)]


def _kind(content: bytes) -> str:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    if _SVG.match(content) and b"<svg" in content:
        return "svg"
    return next((kind for magic, kind in _BEGINS.items() if content.startswith(magic)), "")

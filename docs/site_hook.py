"""Hook of mkdocs (``make site``) for pages outside of docs and for repository links.

README, ARCHITECTURE and others become pages; a linked file, such as a study, is copied; a link to a
source folder becomes plain text. A broken link is kept, so that the strict build reports it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "python/storlab/published/README.md": "published.md",
}
LINK = re.compile(r"(?<!\\)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Add pages missing from the navigation under "More"."""
    named = set(_names(config.nav))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    if left := sorted(pages | set(PAGES.values()) - named):
        config.nav.append({"More": [page for page in left if page not in named]})
    config.watch += [str(ROOT / page) for page in PAGES]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages from outside of docs, and the files that pages link to."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for page in list(files.documentation_pages()):
        source = _source(page.src_uri)
        for match in LINK.finditer((ROOT / source).read_text(encoding="utf-8")):
            there = _target(source, match[3])
            place = _place(there)
            if place.startswith("files/") and files.get_file_from_path(place) is None:
                files.append(File.generated(config, place, abs_src_path=str(ROOT / there)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Convert repository links to site links."""
    here = page.file.src_uri
    source = _source(here)

    def link(match: re.Match[str]) -> str:
        bang, text, path, anchor = match[1], match[2], match[3], match[4] or ""
        if not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        there = _target(source, path)
        if (ROOT / there).is_dir():
            return text
        new = os.path.relpath(_place(there), PurePosixPath(here).parent)
        return f"{bang}[{text}]({new}{anchor})"

    pieces = CODE.split(markdown)  # every second piece is code; links containing code are rare
    joined = "".join(piece.replace("[", "\0") if n % 2 else piece for n, piece in enumerate(pieces))
    return LINK.sub(link, joined).replace("\0", "[")


def _names(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    values = nav.values() if isinstance(nav, dict) else nav
    return [name for value in values for name in _names(value)]


def _source(page: str) -> str:
    """Return the path of a page's source in the repository."""
    return next((source for source, name in PAGES.items() if name == page), f"docs/{page}")


def _target(source: str, link: str) -> str:
    """Resolve a relative link to a path in the repository."""
    return os.path.normpath(PurePosixPath(source).parent / link)


def _place(path: str) -> str:
    """Return the path of a repository file in the site."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if (ROOT / path).is_file() else path

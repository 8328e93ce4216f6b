"""Add a publisher's byline, logo and texts to a brief, and omit what the publisher leaves out.

The additions are neither measured nor checked, and the brief says so. Parts that prove numbers,
such as the list of runs, cannot be left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from storlab.brief.model import Brief, Publisher
from storlab.lab.study.logo import read_logo
from storlab.model.publisher import BriefTable, Components
from storlab.model.target import Target
from storlab.results.store import ResultStore

_TITLES = {"cpu": "CPU", "nic": "NIC"}


def publisher_of(
    table: BriefTable | None, folders: Sequence[Path], targets: Sequence[Target]
) -> Publisher:
    """Build a publisher's additions to a brief, with the declared components of each target.

    Args:
        table: The ``[brief]`` table of a study, if there is one.
        folders: Folders to search for the logo, in order.
        targets: Targets whose components are listed.

    Raises:
        StudyError: The logo is in none of the folders, or is not an image.
    """
    components = _components([target.components for target in targets])
    if table is None:
        return Publisher(components=components)
    words = sorted(table.leave_out)
    left_out = f"Left out by the publisher: {', '.join(words)}." if words else ""
    return Publisher(
        byline=", ".join(filter(None, (table.author, table.organisation))),
        name=table.organisation or table.author,
        logo=None if table.logo is None else read_logo(Path(table.logo), folders),
        introduction=_paragraphs(table.introduction),
        conclusion=_paragraphs(table.conclusion),
        footnotes=[" ".join(text.split()) for text in table.footnotes],
        legal=_paragraphs(table.legal),
        components=components,
        left_out=left_out,
    )


def folders_of(store: ResultStore) -> list[Path]:
    """Return the folders to search for files that a study names, such as a logo.

    These are the result directory, the folder of the study, the working directory of the campaign,
    and the current directory.
    """
    guard = store.environment.get("guard", {})
    recorded = [guard[name] for name in ("study_directory", "working_directory") if name in guard]
    return [store.directory, *map(Path, recorded), Path.cwd()]


def _paragraphs(text: str) -> list[str]:
    """Split a text into paragraphs at empty lines."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _components(given: Sequence[Components | None]) -> list[tuple[str, list[str]]]:
    rows = []
    for name in Components.model_fields:
        values = [getattr(publication, name, "") for publication in given]
        if any(values):
            title = _TITLES.get(name, name.capitalize())
            rows.append((title, [value or "not stated" for value in values]))
    return rows


def without(brief: Brief, table: BriefTable | None) -> Brief:
    """Return the brief without the parts that the publisher leaves out.

    The embedded data and the audit stay complete.
    """
    names = set(table.leave_out) if table is not None else set()
    body, reference, publisher = brief.body, brief.reference, brief.publisher
    if "ratios" in names:
        body = replace(body, ratios=[], overview=[])
    if "configuration" in names:
        reference = replace(reference, configuration=[], environment=[])
    if "components" in names:
        publisher = replace(publisher, components=[])
    extras = [extra for extra in body.extras if extra.anchor not in names]
    return replace(
        brief, body=replace(body, extras=extras), reference=reference, publisher=publisher
    )

"""Publications in a short text format, for tests of the whole audit; all data is invented.

A line that ends a heading names kind, configuration, counterpart and place::

    ratio_claim: A > B @ workload mix block_size op x_name=x_value

and indented lines below it hold cells, ``metric = printed [unit] !qualifier ~value``, separated by
semicolons. ``-`` leaves a part of a place empty; the default qualifier is "exact".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from storlab.audit import audit_table
from storlab.audit.finding import Finding
from support.audit_tables import table
from unit.audit.audit_publications_drives import DRIVES
from unit.audit.audit_publications_systems import SYSTEMS

PUBLICATIONS = {**DRIVES, **SYSTEMS}
_CELL = re.compile(
    r"(?P<metric>\S+) = (?P<printed>.*?)(?: \[(?P<unit>.*?)\])?"
    r"(?: !(?P<qualifier>\S+))?(?: ~(?P<value>\S+))?"
)
_SCALES = {"million": 1e6, "M": 1e6, "K": 1e3, "k": 1e3}


def rows(text: str) -> list[dict[str, str]]:
    """Return the rows of a publication."""
    head: dict[str, str] = {}
    found = []
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            head = _heading(line)
            continue
        for cell in filter(None, (part.strip() for part in line.split(";"))):
            match = _CELL.fullmatch(cell)
            assert match is not None, cell
            known = {name: value or "" for name, value in match.groupdict().items()}
            known["value"] = known["value"] or number(known["printed"])
            known["qualifier"] = known["qualifier"] or "exact"
            found.append({**head, **known})
    return found


def _heading(line: str) -> dict[str, str]:
    kind, _, rest = line.partition(":")
    names, _, place = rest.partition("@")
    config, _, compare = names.partition(">")
    head = {"kind": kind, "config": config.strip(), "compare_config": compare.strip()}
    parts = ["" if part == "-" else part for part in place.split()]
    if parts and "=" in parts[-1]:
        head["x_name"], _, head["x_value"] = parts.pop().partition("=")
    return {**head, **dict(zip(("workload", "rw_mix", "block_size", "op"), parts, strict=False))}


def number(printed: str) -> str:
    """Return the value of a printed token: 1450K is 1450000; "" if it has none."""
    match = re.search(r"(\d[\d,]*(?:\.\d+)?) ?(million|[MKk](?![A-Za-z]))?", printed)
    if match is None:
        return ""
    return f"{float(match[1].replace(',', '')) * _SCALES.get(match[2], 1.0):.10g}"


def audit(cells: list[dict[str, str]]) -> list[Finding]:
    """Return the findings of all rules."""
    return audit_table(table(*cells))


def select(cells: list[dict[str, str]], where: str) -> Iterator[int]:
    """Return the indices of rows that contain all texts of ``where``, the last one as metric."""
    *texts, metric = where.split(" | ")
    for place, cell in enumerate(cells):
        if cell["metric"] == metric and all(text in cell.values() for text in texts):
            yield place

"""A gate's verdicts for others to read: lines, Markdown for a pull request, JUnit XML for a CI."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from storlab.analysis.environments import Difference
from storlab.analysis.gate import Check, Gate
from storlab.base.units import format_quantity
from storlab.figures.common import interval_text

WORDS = {"held": "held", "broken": "broken", "undecided": "could not tell"}
SIDES = {"at_most": "at most", "at_least": "at least"}


def rule_text(check: Check) -> str:
    """``at most 2 ms``, ``at least 0.95 x baseline``."""
    if check.limit.of_baseline:
        return f"{SIDES[check.side]} {check.limit.text}"
    return f"{SIDES[check.side]} {format_quantity(check.bound, check.column.unit)}"


def measured_text(check: Check) -> str:
    """``1.23 ms [1.2 ms, 1.26 ms]``; of a ratio ``0.97 x [0.95 x, 0.99 x]``."""
    return interval_text(check.interval, lambda v: format_quantity(v, check.unit or "x"))


def advice_text(check: Check) -> str:
    """What would decide an undecided check, or why nothing would; else empty."""
    if check.needed is not None:
        return f"{check.needed} repeats would decide it"
    return check.reason


def line(check: Check) -> str:
    """A check in one line."""
    parts = [
        f"{WORDS[check.verdict]}: {check.column.label}, {check.target}, {check.where}: "
        f"{measured_text(check)}, {rule_text(check)}"
    ]
    parts += [text for text in (advice_text(check), *check.remarks) if text]
    return "; ".join(parts)


def summary(gate: Gate) -> str:
    """All verdicts counted, and what the intervals are."""
    counts = ", ".join(f"{gate.count(v)} {WORDS[v]}" for v in ("held", "broken", "undecided"))
    together = "together " if len(gate.checks) > 1 else ""
    return f"{counts}. Intervals hold {together}at 95 % ({100 * gate.confidence:.4g} % each)."


def to_markdown(title: str, gate: Gate, accepted: Sequence[Difference]) -> str:
    """A table of all checks."""
    rows = [
        "| verdict | metric | target | point | measured | rule | |",
        "|---|---|---|---|---|---|---|",
    ]
    for check in gate.checks:
        more = "; ".join(text for text in (advice_text(check), *check.remarks) if text)
        cells = (
            f"**{WORDS[check.verdict]}**",
            _plain(check.column.label),
            _plain(check.target),
            _plain(check.where),
            _plain(measured_text(check)),
            _plain(rule_text(check)),
            _plain(more),
        )
        rows.append(f"| {' | '.join(cells)} |")
    told = [f"- accepted: {_plain(difference_text(each))}" for each in accepted]
    head = [f"### storlab gate: {_plain(title)}: {WORDS[gate.verdict]}", "", summary(gate)]
    return "\n".join([*head, "", *rows, "", *told, ""]).rstrip() + "\n"


def difference_text(difference: Difference) -> str:
    """``kernel: Linux 6.8 here, Linux 6.5 in the baseline``."""
    here, there = (
        "nothing" if value is None else str(value) for value in (difference.here, difference.there)
    )
    return f"{difference.field}: {here} here, {there} in the baseline"


_MARKS = str.maketrans(
    {sign: f"&#{ord(sign)};" for sign in "<>@&"} | {sign: f"\\{sign}" for sign in "\\`*_{}[]#|~!"}
)


def _plain(text: str) -> str:
    """Names are of users: they may hold what Markdown and HTML give a meaning."""
    return " ".join(text.translate(_MARKS).split())


def to_junit(title: str, gate: Gate, accepted: Sequence[Difference]) -> bytes:
    """A test suite. What could not be told is an error, not a failure, and not skipped either."""
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(f"storlab gate: {title}"),
        tests=str(len(gate.checks)),
        failures=str(gate.count("broken")),
        errors=str(gate.count("undecided")),
    )
    properties = ElementTree.SubElement(suite, "properties")
    for each in accepted:
        ElementTree.SubElement(
            properties, "property", name="accepted", value=_xml(difference_text(each))
        )
    for check in gate.checks:
        name = f"{check.column.key} {rule_text(check)}, {check.where}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(check.target), name=_xml(name)
        )
        if check.verdict != "held":
            kind = "failure" if check.verdict == "broken" else "error"
            ElementTree.SubElement(
                case, kind, type=check.verdict, message=_xml(line(check))
            ).text = _xml("runs: " + ", ".join(check.runs))
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(line(check))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _xml(text: str) -> str:
    """Without the control characters that XML 1.0 has no way to hold."""
    return "".join(c if c >= " " or c in "\t\n" else "\ufffd" for c in text)

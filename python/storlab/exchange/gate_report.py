"""Report a gate's checks as text lines, Markdown for pull requests, or JUnit XML for CI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from storlab.analysis.environments import Difference
from storlab.analysis.gate import ERROR, VERDICTS, Check, Gate, RuleVerdict
from storlab.base.units import format_quantity, show
from storlab.model.decision import WIDE
from storlab.words.outcomes import OUTCOMES
from storlab.words.text import interval_text

SIDES = {"at_most": "at most", "at_least": "at least"}


def rule_text(check: Check) -> str:
    """Return a check's bound as text: ``at most 2 ms``, ``at least 0.95 x baseline``."""
    if check.limit.of_baseline:
        return f"{SIDES[check.side]} {check.limit.text}"
    return f"{SIDES[check.side]} {format_quantity(check.bound, check.column.unit)}"


def metric_text(check: Check) -> str:
    """Return a check's metric as text: ``mean read latency``, ``power at the wall (AC)``."""
    return check.column.label + (f" at the {check.boundary}" if check.boundary else "")


def measured_text(check: Check) -> str:
    """Return a check's measured value with its interval: ``1.23 ms [1.20 ms–1.26 ms]``.

    Ratios are formatted as ``0.970 x [0.950 x–0.990 x]``.
    """
    known, unit = check.interval, check.unit or "x"
    if known is None or known.low is None or known.high is None:
        return interval_text(known, lambda v: format_quantity(v, unit))
    mean, low, high = (format_quantity(v, unit) for v in (known.estimate, known.low, known.high))
    if check.verdict == "inconclusive" and known.is_open:
        return f"{mean} [wider than a factor of {WIDE:.0f}]"
    return f"{mean} [{low}–{high}]"


def advice_text(check: Check) -> str:
    """Return how many more repeats would decide an inconclusive check, or why none can; else ""."""
    if check.needed is not None:
        more = check.needed - check.repeats
        repeats = "repeat" if more == 1 else "repeats"
        return f"{more} more {repeats} would decide it ({check.needed} in all)"
    return check.reason


def rule_words(judged: RuleVerdict) -> str:
    """Return a gate's rule as text: ``rule 1, power of SSD A at jobs = 1, at most 2 W``."""
    rule = judged.rule
    words = [rule.metric]
    words += [f"of {rule.target}"] if rule.target is not None else []
    words += [f"in {rule.workload}"] if rule.workload is not None else []
    values = ", ".join(f"{name} = {show(value)}" for name, value in rule.at.items())
    words += [f"at {values}"] if values else []
    bounds = " and ".join(f"{SIDES[side]} {limit.text}" for side, limit in rule.bounds)
    return f"rule {judged.number}, {' '.join(words)}, {bounds}"


def rule_line(judged: RuleVerdict) -> str:
    """Return a gate's rule as one line of text: outcome, rule, and number of checks per outcome."""
    return f"{judged.verdict}: {rule_words(judged)}: {_counts(judged)}"


def _counts(judged: RuleVerdict | Gate) -> str:
    of = {verdict: sum(c.verdict == verdict for c in judged.checks) for verdict in VERDICTS}
    return ", ".join(f"{number} {verdict}" for verdict, number in of.items())


def verdict_text(check: Check) -> str:
    """Return a check's verdict, and why it is inconclusive: ``inconclusive (not measured)``."""
    why = f" ({OUTCOMES[check.outcome]})" if check.verdict == "inconclusive" else ""
    return f"{check.verdict}{why}"


def line(check: Check) -> str:
    """Return a gate's check as one line of text: outcome, metric, measured value, bound, advice."""
    parts = [
        f"{verdict_text(check)}: {metric_text(check)}, {check.target}, {check.where}: "
        f"{measured_text(check)}, {rule_text(check)}"
    ]
    parts += [text for text in (advice_text(check), *check.remarks) if text]
    return "; ".join(parts)


def summary(gate: Gate) -> str:
    """Return the number of a gate's checks per outcome, and the confidence of their intervals."""
    return f"{_counts(gate)}. Intervals hold {confidence_text(gate)}."


def confidence_text(gate: Gate) -> str:
    """Return the confidence of a gate's intervals as text, such as ``at 95 %``.

    With several checks, it states the confidence of each after Bonferroni's correction, too.
    """
    whole, single = (f"{100 * value:.4g} %" for value in (1 - ERROR, gate.confidence))
    checks = len(gate.checks)
    if checks == 1:
        return f"at {whole}"
    return f"together at {whole} ({single} each, by Bonferroni's correction for {checks} checks)"


def to_markdown(title: str, gate: Gate, accepted: Sequence[Difference]) -> str:
    """Return a gate's report as Markdown: outcome of each rule, and a table of all checks.

    Args:
        title: Title of the report.
        gate: Outcome of the gate.
        accepted: Differences from the baseline's environment that the user accepted.
    """
    rules = [f"- **{r.verdict}**: {_plain(rule_words(r))}: {_counts(r)}" for r in gate.rules]
    rows = [
        "| verdict | rule | metric | target | point | measured | bound | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for check in gate.checks:
        more = "; ".join(text for text in (advice_text(check), *check.remarks) if text)
        cells = (
            f"**{verdict_text(check)}**",
            str(check.number),
            _plain(metric_text(check)),
            _plain(check.target),
            _plain(check.where),
            _plain(measured_text(check)),
            _plain(rule_text(check)),
            _plain(more),
        )
        rows.append(f"| {' | '.join(cells)} |")
    differences = [f"- accepted: {_plain(difference_text(difference))}" for difference in accepted]
    head = [f"### storlab gate: {_plain(title)}: {gate.verdict}", "", summary(gate)]
    return "\n".join([*head, "", *rules, "", *rows, "", *differences, ""]).rstrip() + "\n"


def difference_text(difference: Difference) -> str:
    """Return a difference from the baseline's environment: ``kernel: 6.8 here, 6.5 in the ...``."""
    here, there = (
        "nothing" if value is None else str(value) for value in (difference.here, difference.there)
    )
    return f"{difference.field}: {here} here, {there} in the baseline"


_MARKS = str.maketrans(
    {sign: f"&#{ord(sign)};" for sign in "<>@&"} | {sign: f"\\{sign}" for sign in "\\`*_{}[]#|~!"}
)


def _plain(text: str) -> str:
    """Escape the characters of Markdown and HTML in a text, because names are user input."""
    return " ".join(_xml(text).translate(_MARKS).split())


def to_junit(title: str, gate: Gate, accepted: Sequence[Difference]) -> bytes:
    """Return a gate's report as a JUnit test suite; inconclusive checks are errors, not failures.

    Args:
        title: Title of the report.
        gate: Outcome of the gate.
        accepted: Differences from the baseline's environment that the user accepted.
    """
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(f"storlab gate: {title}"),
        tests=str(len(gate.checks)),
        failures=str(gate.count("broken")),
        errors=str(gate.count("inconclusive")),
    )
    properties = ElementTree.SubElement(suite, "properties")
    facts = [
        ("confidence", f"{gate.confidence:.6g}"),
        ("intervals", f"hold {confidence_text(gate)}"),
        *((f"rule {rule.number}", rule_line(rule)) for rule in gate.rules),
        *(("accepted", difference_text(difference)) for difference in accepted),
    ]
    for name, value in facts:
        ElementTree.SubElement(properties, "property", name=name, value=_xml(value))
    for check in gate.checks:
        name = f"rule {check.number}: {check.column.key} {rule_text(check)}, {check.where}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(check.target), name=_xml(name)
        )
        if check.verdict != "held":
            kind = "failure" if check.verdict == "broken" else "error"
            ElementTree.SubElement(
                case, kind, type=check.verdict, message=_xml(line(check))
            ).text = _xml("runs: " + ", ".join(check.runs[0]))
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(line(check))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


_NO_CHARACTERS = re.compile("[^\\t\\n\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML 1.0 forbids (production 2), and carriage return, which it reads as LF."""


def _xml(text: str) -> str:
    """Replace characters that XML 1.0 cannot represent by U+FFFD."""
    return _NO_CHARACTERS.sub("\ufffd", text)

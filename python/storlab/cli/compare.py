"""Implementation of the ``storlab compare`` command."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storlab.base.errors import UsageError, with_fixes
from storlab.base.nearest import suggest
from storlab.cli import completion, conclusion, terminal
from storlab.cli.common import (
    AcceptOption,
    BaselineOption,
    JsonOption,
    QuestionOption,
    emit_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from storlab.analysis.compare import Comparison, Row
    from storlab.brief.flags import Mark
    from storlab.brief.model import DataTable, FindingTable, Number, TableRow

MOST_POINTS = 1_000  # workload points printed in a terminal; of more, a selection is printed
_COLUMNS = 4  # quantities in the short table: rate, throughput, two latencies
_LINES_BESIDE = 16  # lines for head, marks and answer beside the rows of a table
MOST_DRIFTS = 12  # points whose repeats are printed in order of time


def compare(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Result directories.", autocompletion=completion.results
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="Print only this metric, such as latency_p99_ns; may be repeated.",
            autocompletion=completion.metrics,
        ),
    ] = None,
    points: Annotated[
        list[str] | None,
        typer.Option(
            "--point",
            "-p",
            metavar="TERMS",
            help="Print only these points, with every target: terms such as "
            "jobs=4,block_size=256KiB, parts of a description such as '8 jobs', or an id of "
            "`storlab plan --json`. Repeat for more.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="METRIC",
            help="Print first the points at which targets differ most in this metric; if there is "
            "only one target, those with the largest values.",
            autocompletion=completion.metrics,
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="Print only the first N points."),
    ] = None,
    questions: QuestionOption = None,
    baseline: BaselineOption = None,
    accept: AcceptOption = None,
    answer: Annotated[
        bool, typer.Option("--answer", help="Print only the answer, and where the brief is.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Print all tables on a terminal, not a screenful.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the table of the brief: every point with every target, and the ratios.

    Each mean has its 95 % t-interval below it, or both values of two repeats. Percentiles are those
    of the repeats' merged histograms; without histograms, the median of the repeats' own, marked
    "not merged", with the smallest and largest below it. Ratios are relative to the study's
    baseline. With several directories, all their targets are compared at points that they have in
    common. Failed runs are listed, and not included in means. On a terminal without options, one
    table that fits the screen is printed. Of more than 1,000 workload points only a selection is
    printed; --json and --metric give all.

    --question, --baseline and --accept-unequal-boundaries replace settings of the study.

    Example: storlab compare results/demo-20261120t113000z --metric throughput_mb_s
    """
    from storlab.analysis.compare import compare as compare_dataset
    from storlab.analysis.proofs import proofs_of
    from storlab.analysis.table import comparison_dict
    from storlab.brief.family_additions import all_additions
    from storlab.brief.selection import shown
    from storlab.brief.settings import Settings, load_with
    from storlab.results.store import ResultStore
    from storlab.words.caveats import changed_settings

    if answer and (metrics or points or sort or top or every or as_json):
        what = "prints only sentences, so options that choose numbers do not apply"
        raise UsageError("--answer", what, "leave out --answer, or the other options")
    stores = [ResultStore.open(directory) for directory in directories]
    data, changes = load_with(stores, Settings(questions or (), baseline, accept))
    changed = [changed_settings(changes)] if changes else []
    comparison = compare_dataset(data)
    keys = _keys(comparison, metrics, "--metric") if metrics else None
    selected = _selected(comparison, points or [], sort, top)
    if as_json:
        from storlab.cli.documents import CompareDocument

        additions: dict[str, Any] = {}
        for extra in all_additions(selected) if keys is None else ():
            additions |= extra.data(selected)
        emit_json(
            CompareDocument(
                **comparison_dict(selected, keys),
                proofs=proofs_of(selected),
                changed_settings=changes,
                verdicts=conclusion.as_json(conclusion.answers(comparison)),
                **additions,
            )
        )
        return
    if answer:
        _print_answer(comparison, changed)
        return
    if terminal.out.is_terminal and keys is None and selected is comparison and not every:
        part = _on_a_screen(comparison)
        print_short(comparison, part)
        terminal.out.print(
            f"\n{len(part.rows):,} of {len(comparison.rows):,} workload points. --all prints all "
            "tables; --point, --metric, --sort and --top choose.",
            soft_wrap=True,
        )
    else:
        part = shown(selected, MOST_POINTS) if keys is None else selected
        _print(part, keys)
        _print_drifts(part)
        _print_proofs(selected)
        if part is not comparison:
            terminal.out.print(
                f"\n{len(part.rows):,} of {len(comparison.rows):,} workload points"
                + (", spread evenly over the sweep" if part is not selected else "")
                + ". --json has all of them, --metric prints all of one metric.",
                soft_wrap=True,
            )
    _print_failed(selected)
    sentences = [*conclusion.lines(conclusion.answers(comparison)), *conclusion.knees(comparison)]
    if sentences:
        terminal.out.print()
        conclusion.print_lines([*sentences, *changed])


def _print_answer(comparison: Comparison, changed: Sequence[str]) -> None:
    """Print the names of the studies, the answer, and the briefs that exist."""
    stores = comparison.dataset.stores
    for store in stores:
        terminal.out.print(store.study.study.name, style="bold underline", soft_wrap=True)
    sentences = [*conclusion.lines(conclusion.answers(comparison)), *conclusion.knees(comparison)]
    conclusion.print_lines([*sentences, *changed])
    for brief in (store.directory / "brief.html" for store in stores):
        if brief.exists():
            terminal.out.print(f"brief: {brief}", soft_wrap=True)


def _on_a_screen(comparison: Comparison) -> Comparison:
    """Restrict a comparison to points whose table fits the terminal, spread over the sweep.

    A point takes two lines for each target.
    """
    from storlab.audit.screening import spread
    from storlab.brief.selection import only_points

    lines = terminal.out.height - _LINES_BESIDE
    most = max(4, lines // (2 * len(comparison.targets)))
    points = [point for section in comparison.sections for point in section.points]
    return only_points(comparison, [points[place] for place in spread(len(points), most)])


def _selected(
    comparison: Comparison, wanted: list[str], sort: str | None, top: int | None
) -> Comparison:
    """Restrict a comparison to the points that the options choose.

    Args:
        comparison: Comparison of all points.
        wanted: Selections of points, see :func:`_matching`; empty for all.
        sort: Metric whose differences order the points.
        top: Largest number of points.

    Raises:
        UsageError: A selection matches no point, or the metric was not measured.
    """
    from storlab.brief.selection import only_points

    if not wanted and sort is None and top is None:
        return comparison
    names = {
        point.key: f"{point.workload}: {section.where(point)}".replace("\u00a0", " ")
        for section in comparison.sections
        for point in section.points
    }
    kept: set[str] = set() if wanted else {*names}
    for wish in wanted:
        kept |= (matching := _matching(comparison, names, wish))
        if not matching:
            examples = "; ".join(list(names.values())[:3])
            fix = f"use terms such as jobs=4, or a part of a description, such as: {examples}"
            raise UsageError("--point", f'"{wish}" matches no point of the results', fix)
    found = [key for key in names if key in kept]
    if sort is not None:
        keys = _keys(comparison, [sort], "--sort")
        found.sort(key=lambda key: _difference(comparison.rows[key], keys), reverse=True)
    return only_points(comparison, [comparison.rows[key].point for key in found[:top]])


def _matching(comparison: Comparison, names: Mapping[str, str], wish: str) -> set[str]:
    """Return the keys of the points that a selection matches.

    Args:
        comparison: Comparison of all points.
        names: Descriptions of its points by key.
        wish: Terms such as ``jobs=4``, or parts of a description, joined by commas, that must all
            hold; or the beginning of a point's id.
    """
    from storlab.lab.plan.crosscheck import terms_hold

    parts = wish.split(",")
    terms = ",".join(part for part in parts if "=" in part)
    texts = [part.strip().lower() for part in parts if "=" not in part]
    targets = {column.label: column.target.name for column in comparison.dataset.targets}
    matching, by_id = set(), set()
    for (key, label), point_id in comparison.dataset.point_ids.items():
        if key not in names:
            continue
        point = comparison.rows[key].point
        values = {"target": targets[label], "workload": point.workload, **point.params}
        if all(text in names[key].lower() for text in texts) and (
            not terms or terms_hold(values, terms)
        ):
            matching.add(key)
        if point_id.startswith(wish):
            by_id.add(key)
    return matching or by_id


def _difference(row: Row, keys: set[str]) -> float:
    """Return the largest difference between targets at a point, as the logarithm of their ratio.

    If there is only one target, return its largest value.
    """
    by_key = [
        [cell.values[key].estimate for cell in row.cells.values() if key in cell.values]
        for key in keys
    ]
    if not row.decisions:
        return max((value for values in by_key for value in values), default=-math.inf)
    ends = [(min(values), max(values)) for values in by_key if len(values) > 1]
    return max((math.log(most / least) for least, most in ends if least > 0), default=-math.inf)


def _keys(comparison: Comparison, metrics: list[str], option: str) -> set[str]:
    """Return the keys of the columns of the requested metrics.

    Raises:
        UsageError: A metric was not measured; the error names the option.
    """
    known_keys = set()
    for metric in metrics:
        wanted = metric.replace(":", ".")
        keys = {c.key for c in comparison.columns if wanted in (c.name, c.key)}
        if not keys:
            names = dict.fromkeys(c.name for c in comparison.columns)
            begun = [name for name in names if name.startswith(metric)]
            fix = suggest(metric, begun or names)
            raise UsageError(option, f'"{metric}" was not measured', fix)
        known_keys |= keys
    return known_keys


def _print(comparison: Comparison, keys: set[str] | None) -> None:
    from storlab.analysis.columns import RATIO_KEYS, ratio_table_keys
    from storlab.brief.family_additions import all_additions
    from storlab.brief.flags import legend
    from storlab.brief.tables import ratio_table, scales_of, section_tables

    scales = scales_of(comparison)
    shown: list[Mark] = []
    wanted = None if keys is None else [c.key for c in comparison.columns if c.key in keys]
    for section in comparison.sections:
        for table in section_tables(comparison, section, scales[section.kind], wanted):
            if table.columns:
                _show(table, show_target=True)
                shown += table.marks
    for sections in comparison.kinds.values():
        chosen = [k for k in ratio_table_keys(sections[0].page) if keys is None or k in keys]
        chosen += [k for k in RATIO_KEYS if keys is not None and k in keys and k not in chosen]
        ratios = ratio_table(comparison, sections, chosen)
        if ratios is not None:
            _show(ratios, show_target=len(comparison.others) > 1)
            shown += ratios.marks
    for extra in all_additions(comparison) if keys is None else ():
        for table in extra.tables(comparison):
            _show(table, show_target=True)
            shown += table.marks
    for m in legend(shown):
        terminal.out.print(f"{m.label}: {m.meaning}")


def print_short(comparison: Comparison, part: Comparison) -> None:
    """Print the values of throughput and latency, and in which quantities a target is better.

    Args:
        comparison: Comparison of all points.
        part: Points to print values of.
    """
    from storlab.brief.best_values import main_keys
    from storlab.brief.flags import legend
    from storlab.brief.key_findings import key_findings
    from storlab.brief.tables import scales_of, table_of_points

    scales = scales_of(part)
    shown: list[Mark] = []
    for kind, sections in part.kinds.items():
        keys = main_keys(sections[0].page)[:_COLUMNS]
        table = table_of_points(part, sections, scales[kind], keys)
        _show(table, show_target=len(part.targets) > 1, short=True)
        shown += table.marks
    for m in legend(shown):
        terminal.out.print(f"{m.label}: {m.meaning}")
    for found in key_findings(comparison):
        _print_findings(found, named=len(comparison.targets) > 2)


def _print_findings(table: FindingTable, *, named: bool) -> None:
    """Print for each of two targets in which quantities it is better, and by how much.

    Args:
        table: Findings about the two targets.
        named: Whether headings name the other target.
    """
    from storlab.words import findings as words

    for side, other in (table.sides, table.sides[::-1]):
        rows = [row for row in table.rows if row.better == side]
        if rows:
            title = words.better_title(side, other if named else "")
            terminal.out.print(f"\n{title}:", style="bold", soft_wrap=True)
        for row in rows:
            place = words.place(row.won, row.won + row.lost + row.undecided, row.where)
            line = f"  {row.quantity}: {row.lead} {place}"
            terminal.out.print(line.replace("\u00a0", " "), soft_wrap=True)


def _show(table: DataTable, *, show_target: bool, short: bool = False) -> None:
    """Print a table; if the terminal is too narrow, print its columns in several parts.

    If ``short``, labels of flags stand in one column instead of beside numbers.
    """
    from storlab.brief.flags import labels_text

    table = table.condensed(by_row=short)
    parts = [list(range(len(table.columns)))]
    while parts:
        columns = parts.pop(0)
        drawn = _rich(table, columns, show_target=show_target)
        if _width(drawn) > terminal.out.width:
            drawn = _rich(table, columns, show_target=show_target, label_width=_label_width(table))
        if _width(drawn) > terminal.out.width and len(columns) > 1:
            half = len(columns) // 2
            parts = [columns[:half], columns[half:], *parts]
        else:
            terminal.out.print(drawn)
    if table.everywhere:
        terminal.out.print(f"all rows: {labels_text(table.everywhere)}", style="yellow")


def _label_width(table: DataTable) -> int:
    """Return a width for label columns that leaves half the terminal to numbers."""
    return max(8, terminal.out.width // 2 // (len(table.head) + 1))


def _width(drawn: Table) -> int:
    """Return the width of a table in terminal columns."""
    from rich.measure import Measurement

    return Measurement.get(terminal.out, terminal.out.options.update(width=10_000), drawn).maximum


def _rich(
    table: DataTable, columns: list[int], *, show_target: bool, label_width: int | None = None
) -> Table:
    """Build a table for the terminal from some columns; labels wrap at ``label_width``."""
    drawn = terminal.table(
        title=table.caption,
        title_justify="left",
        title_style="bold",
        padding=(0, 0, 0, 1),
    )
    for name in (*table.head, *(("target",) if show_target else ())):
        drawn.add_column(name, overflow="fold", max_width=label_width)
    for name, unit in (table.columns[i] for i in columns):
        drawn.add_column(f"{name.replace(' ', chr(10), 1)}\n{unit}", justify="right", no_wrap=True)
    for row in table.rows:
        drawn.add_row(*_cells(row, columns, show_target))
    return drawn


def _cells(row: TableRow, columns: list[int], show_target: bool) -> list[terminal.Text]:
    heads = [terminal.Text(text if span else "") for text, span in row.heads]
    target = [terminal.Text(row.target)] if show_target else []
    return [*heads, *target, *(_number(row.numbers[i]) for i in columns)]


def _number(number: Number) -> terminal.Text:
    from storlab.brief.flags import labels_text

    style = "dim italic" if number.missing else "bold" if number.strong else ""
    lines = [(number.text, style), (number.spread, "dim")]
    lines += [(label, "yellow") for label in labels_text(number.marks).split(", ")]
    return terminal.Text("\n").join(
        [terminal.Text(line, style=style) for line, style in lines if line]
    )


def _print_drifts(comparison: Comparison) -> None:
    """Print points at which the repeats depend on their order in time, with their values."""
    from storlab.analysis.drift import DRIFT
    from storlab.brief.caveats import drift_texts

    texts = drift_texts(comparison)
    if not texts:
        return
    terminal.out.print(f"\nRepeats that changed with their order in time ({DRIFT}): {len(texts)}")
    for text in texts[:MOST_DRIFTS]:
        terminal.out.print(f"  {text}", soft_wrap=True)
    if len(texts) > MOST_DRIFTS:
        terminal.out.print(f"  and {len(texts) - MOST_DRIFTS:,} more: --json has all of them")


def _print_proofs(comparison: Comparison) -> None:
    """Print for each workload and target whether its runs prove that the medium served the I/O."""
    from storlab.brief.proofs import TITLE, proof_texts

    texts = proof_texts(comparison)
    if not texts:
        return
    terminal.out.print(f"\n{TITLE}")
    for text in texts:
        terminal.out.print(f"  {text}")


def _print_failed(comparison: Comparison) -> None:
    failed = [
        run for row in comparison.rows.values() for c in row.cells.values() for run in c.failed
    ]
    if not failed:
        return
    terminal.out.print(f"\nFailed runs, not included in any mean: {len(failed)}")
    lines = []
    for run in failed:
        failure = run.record.failure
        reason, fix = (failure.message, failure.fix) if failure else (run.record.status, "")
        lines.append((f"  {run.record.run_id}  {run.target}: {reason}", fix))
    for line in with_fixes(lines):
        terminal.out.print(line, soft_wrap=True)

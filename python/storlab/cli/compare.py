"""Implementation of the ``storlab compare`` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storlab.base.errors import UsageError, with_fixes
from storlab.base.nearest import suggest
from storlab.cli import completion, conclusion, terminal
from storlab.cli.common import JsonOption, emit_json

if TYPE_CHECKING:
    from rich.table import Table

    from storlab.analysis.compare import Comparison
    from storlab.brief.flags import Mark
    from storlab.brief.model import DataTable, Number, TableRow

MOST_POINTS = 1_000  # workload points printed in a terminal; of more, a selection is printed
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
    as_json: JsonOption = False,
) -> None:
    """Print the table of the brief: every point with every target, and the ratios.

    Each mean has its 95 % t-interval below it. Percentiles are those of the repeats' merged
    histograms; without histograms, the median of the repeats' own, marked #, with the smallest and
    largest below it. Ratios are relative to the study's baseline. With several directories, all
    their targets are compared at points that they have in common. Failed runs are listed, and not
    included in means. Of more than 1,000 workload points only a selection is printed; --json and
    --metric give all.

    Example: storlab compare results/demo-20261120t113000z --metric throughput_mb_s
    """
    from storlab.analysis.compare import compare as compare_dataset
    from storlab.analysis.dataset import load_dataset
    from storlab.analysis.proofs import proofs_of
    from storlab.analysis.table import comparison_dict
    from storlab.brief.family_additions import all_additions
    from storlab.brief.selection import shown
    from storlab.results.store import ResultStore

    comparison = compare_dataset(load_dataset([ResultStore.open(d) for d in directories]))
    keys = _keys(comparison, metrics)
    if as_json:
        from storlab.cli.documents import CompareDocument

        additions: dict[str, Any] = {}
        for extra in all_additions(comparison) if keys is None else ():
            additions |= extra.data(comparison)
        emit_json(
            CompareDocument(
                **comparison_dict(comparison, keys),
                proofs=proofs_of(comparison),
                verdicts=conclusion.as_json(conclusion.answers(comparison)),
                **additions,
            )
        )
        return
    part = shown(comparison, MOST_POINTS) if keys is None else comparison
    _print(part, keys)
    _print_drifts(part)
    _print_proofs(comparison)
    _print_failed(comparison)
    if part is not comparison:
        terminal.out.print(
            f"\n{len(part.rows):,} of {len(comparison.rows):,} workload points, spread evenly over "
            "the sweep. --json has all of them, --metric prints all of one metric.",
            soft_wrap=True,
        )
    if sentences := conclusion.lines(conclusion.answers(comparison)):
        terminal.out.print()
        conclusion.print_lines(sentences)


def _keys(comparison: Comparison, metrics: list[str] | None) -> set[str] | None:
    """Return the keys of the columns of the requested metrics; None if no metric is requested.

    Raises:
        UsageError: A metric was not measured.
    """
    if not metrics:
        return None
    known_keys = set()
    for metric in metrics:
        wanted = metric.replace(":", ".")
        keys = {c.key for c in comparison.columns if wanted in (c.name, c.key)}
        if not keys:
            names = dict.fromkeys(c.name for c in comparison.columns)
            begun = [name for name in names if name.startswith(metric)]
            fix = suggest(metric, begun or names)
            raise UsageError("--metric", f'"{metric}" was not measured', fix)
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
        terminal.out.print(f"{m.letter}  {m.meaning}")


def _show(table: DataTable, *, show_target: bool) -> None:
    """Print a table; if the terminal is too narrow, print its columns in several parts."""
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
    marks = "".join(m.letter for m in number.marks)
    text = terminal.Text(f"{marks} " if marks else "", style="yellow")
    style = "dim italic" if number.missing else "bold" if number.strong else ""
    text.append(number.text, style=style or "default")
    if number.spread:
        text.append(f"\n{number.spread}", style="dim")
    return text


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

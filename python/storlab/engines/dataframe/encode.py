"""Units of work of the encode stage, and a journal of finished units for resuming it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from storlab.engines.dataframe.layout import CATEGORIES, INTEGERS
from storlab.engines.dataframe.library import batches
from storlab.engines.dataframe.units import Unit
from storlab.engines.dataframe.worker import Files, Worker

_UNITS = 4  # minimum per worker
_ROWS = 1 << 22  # rows per unit; work on an unfinished unit is lost if the process is killed
# A unit builds an index of the vocabulary, so it must encode many rows per vocabulary value.
_ROWS_PER_VALUE = 8
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def encode_units(
    worker: Worker, files: Files, cardinalities: Sequence[int], train: Path
) -> list[Unit]:
    """Return the units of work of the encode stage, in order of rows.

    A unit encodes some of the files: either one categorical column, or labels and integers.

    Args:
        worker: The settings that all units share.
        files: Parquet files with their numbers of rows.
        cardinalities: The size of each categorical column's vocabulary.
        train: The directory of the output.
    """
    total = sum(rows for _, rows in files)
    wanted = -(-_UNITS * int(worker.job["workers"]) // (1 + len(CATEGORIES)))
    even = -(-total // wanted)
    units = [
        Unit(
            f"features {row}+{rows}", worker.encode_features, (some, row, train),
            columns=("label", *INTEGERS), share=rows / total,
        )
        for some, row, rows in _runs(files, min(_ROWS, even))
    ]  # fmt: skip
    for name, cardinality in zip(CATEGORIES, cardinalities, strict=True):
        most = min(max(_ROWS, _ROWS_PER_VALUE * cardinality), even)
        units += [
            Unit(
                f"{name} {row}+{rows}", worker.encode_column, (name, some, row, train),
                columns=(name,), share=rows / total,
            )
            for some, row, rows in _runs(files, most)
        ]  # fmt: skip
    return sorted(units, key=lambda unit: int(unit.arguments[-2]))


def _runs(files: Files, most: int) -> Iterator[tuple[Files, int, int]]:
    """Yield batches of files of up to ``most`` rows, with first output row and number of rows."""
    row = 0
    for batch in batches(files, most):
        rows = sum(held for _, held in batch)
        yield batch, row, rows
        row += rows


class Journal:
    """File that lists the finished units of the encode stage, so that a later process can resume.

    Output of units is flushed only after the last unit. It survives the death of the process but
    not a crash of the machine, so entries from before a reboot are ignored. The header identifies
    the boot and the list of units.
    """

    def __init__(self, path: Path, units: Sequence[Unit]) -> None:
        """Read the entries of an earlier process; start over if boot or list of units differ."""
        self._path = path
        plan = hashlib.sha256("\n".join(unit.name for unit in units).encode()).hexdigest()
        boot = ""
        with suppress(OSError):
            boot = _BOOT_ID.read_text().strip()
        head = f"{boot} {plan}\n"
        journal = path.read_bytes().decode(errors="replace") if path.exists() else ""
        self.done: frozenset[str] = frozenset()
        if boot and journal.startswith(head):
            # A killed process may have written only part of the last line.
            whole = (line for line in journal.splitlines() if line.endswith(";"))
            self.done = frozenset(line.removesuffix(";") for line in whole)
        else:
            path.write_text(head)

    def add(self, name: str) -> None:
        """Record that a unit of the encode stage is finished."""
        with self._path.open("a") as file:
            file.write(f"\n{name};")

    def remove(self) -> None:
        """Delete the journal.

        Call this when the output is durable, or when a flush failed and listed output may be lost.
        """
        self._path.unlink(missing_ok=True)

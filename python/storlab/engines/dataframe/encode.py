"""Encoding in units that a run which goes on does not do again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from storlab.engines.dataframe.layout import CATEGORIES, INTEGERS
from storlab.engines.dataframe.library import batches
from storlab.engines.dataframe.units import Unit
from storlab.engines.dataframe.worker import Files, Worker

_UNITS = 4  # for each worker, at least
_ROWS = 1 << 22  # of a unit: what is done again after a kill,
_ROWS_PER_VALUE = 8  # or so many for each value that is looked up: a unit has to make their index
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def encode_units(
    worker: Worker, files: Files, cardinalities: Sequence[int], train: Path
) -> list[Unit]:
    """Each a column, or all that is no category, of some of the files; in order of rows."""
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
    """Batches of files, with the row of the output that they begin at, and how many they have."""
    row = 0
    for batch in batches(files, most):
        rows = sum(held for _, held in batch)
        yield batch, row, rows
        row += rows


class Journal:
    """A line for each finished unit, below a head that tells their plan.

    What units write is flushed only when all of them are finished. So it is there after a process
    was killed, and may be lost when the machine went down: it counts only since that came up.
    """

    def __init__(self, path: Path, units: Sequence[Unit]) -> None:
        """Go on with what is there, or begin anew where it is of other units or another boot."""
        self._path = path
        plan = hashlib.sha256("\n".join(unit.name for unit in units).encode()).hexdigest()
        boot = ""
        with suppress(OSError):
            boot = _BOOT_ID.read_text().strip()
        head = f"{boot} {plan}\n"
        journal = path.read_bytes().decode(errors="replace") if path.exists() else ""
        self.done: frozenset[str] = frozenset()
        if boot and journal.startswith(head):
            whole = (line for line in journal.splitlines() if line.endswith(";"))  # one may be torn
            self.done = frozenset(line.removesuffix(";") for line in whole)
        else:
            path.write_text(head)

    def add(self, name: str) -> None:
        """The unit of that name is finished."""
        with self._path.open("a") as file:
            file.write(f"\n{name};")

    def remove(self) -> None:
        """All is durable; or a flush has failed, and the kernel may have dropped what it held."""
        self._path.unlink(missing_ok=True)

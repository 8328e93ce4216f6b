"""Click logs with all kinds of errors, and runs over them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from storlab.contracts.registry import get_engine
from storlab.model.result import RunOutcome
from storlab.workloads.preprocess.job import PreprocessJob
from support.preprocess_oracle import Expected, expect

WAIT_S = 600
REASONS = {"fields", "label", "integer", "category"}
WORDS = ("+5", " 5", "5 ", "1e5", "-", "--5", "5-", "2147483648", "-2147483649", "0x1f", "1.0")


def line_of(draw: random.Random, *, pool: int = 40) -> bytes:
    """Return a valid line; categories come from ``pool`` values, low ones more often."""
    fields = [str(draw.randrange(2))]
    for _ in range(13):
        size = draw.choice((1, 1, 2, 3, 5, 9))
        value = draw.randrange(-(10**size) // 8, 10**size)
        odd = draw.choice(("-0", "007", "2147483647", "-2147483648", "00000000000000000000000012"))
        texts = (str(value), "" if draw.random() < 0.5 else str(value), odd)
        fields.append(draw.choices(texts, (8, 4, 0.2))[0])
    for column in range(26):
        drawn = int(pool * draw.random() ** 3)
        text = f"{(drawn * 2_654_435_761 + column * 977) % 2**32:08x}"
        text = text.upper() if draw.random() < 0.2 else text
        fields.append("" if draw.random() < 0.2 else text)
    return "\t".join(fields).encode()


def wrong_line(draw: random.Random) -> bytes:
    """Return a line that is malformed in one of many ways."""
    fields = line_of(draw).split(b"\t")
    kind = draw.choice(("fields", "label", "integer", "category", "letters"))
    if kind == "fields":
        return draw.choice((b"", b"\t", b"1", b"\t".join(fields[:-1]), b"\t".join([*fields, b""])))
    if kind == "label":
        fields[0] = draw.choice((b"", b"2", b"01", b"-0", b" 1", b"00"))
    elif kind == "integer":
        fields[draw.randrange(1, 14)] = draw.choice((*map(str.encode, WORDS), b"9" * 5000))
    elif kind == "category":
        wrong = (b"1234567", b"123456789", b"-1234567", b"1234 678", b"0x123456", b"\x00" * 8)
        fields[draw.randrange(14, 40)] = draw.choice(wrong)
    else:
        wrong = (b"\xff\xfe", b'"', b"x" * 3000, b"\\", "é".encode(), b"\x7f")
        fields[draw.randrange(40)] = draw.choice(wrong)
    return b"\t".join(fields)


def clicks(place: Path, name: str, rows: int, *, seed: int = 1, wrong: float = 0.0) -> Path:
    """Return a file in which a share of the lines is malformed."""
    draw = random.Random(seed)
    lines = [
        wrong_line(draw) if draw.random() < wrong else line_of(draw, pool=400) for _ in range(rows)
    ]
    path = place / name
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def messy(place: Path) -> list[Path]:
    """Return files of every kind, most of whose lines are valid."""
    place.mkdir(parents=True, exist_ok=True)
    first = clicks(place, "day_0", 250, wrong=0.08)
    windows = place / "crlf"
    windows.write_bytes(clicks(place, "day_1", 20, seed=2).read_bytes().replace(b"\n", b"\r\n"))
    empty = place / "empty"
    empty.write_bytes(b"")
    open_end = place / "open end"
    open_end.write_bytes(clicks(place, "day_2", 300, seed=3).read_bytes()[:-1])
    blank = place / "blank"
    blank.write_bytes(b"\n\n" + clicks(place, "day_3", 30, seed=4).read_bytes() + b"\n")
    return [first, windows, empty, open_end, blank, first]


def order(inputs: list[Path], directory: Path, **changes: Any) -> PreprocessJob:
    """Return a job with small parts that skips malformed lines."""
    made = {"part_bytes": 4096, "malformed": "skip", "interval_ns": 10_000_000, **changes}
    return PreprocessJob(inputs=[str(path) for path in inputs], directory=str(directory), **made)


def outcome_of(engine: str, job: PreprocessJob, work_dir: Path) -> RunOutcome:
    """Return the outcome of a complete run."""
    work_dir.mkdir(parents=True)
    outcome = get_engine(engine).start(job, work_dir).wait(WAIT_S)
    assert outcome is not None
    return outcome


def expected_of(job: PreprocessJob) -> Expected:
    """Return the expected output of a job."""
    return expect(
        [Path(path) for path in job.inputs],
        threshold=job.threshold,
        modulo=job.modulo,
        numerical=job.numerical,
        malformed_samples=job.malformed_samples,
    )


def assert_as_expected(outcome: RunOutcome, job: PreprocessJob, expected: Expected) -> None:
    """Check the outcome and every byte below the directory except for Parquet files."""
    stderr = outcome.raw.get("stderr.txt", b"").decode()
    assert (outcome.status, outcome.failure) == ("finished", None), (outcome.failure, stderr)
    details = outcome.details
    assert (details["rows"], details["lines"]) == (expected.rows, expected.lines)
    assert details["malformed"] == {
        "count": sum(expected.by_reason.values()),
        "by_reason": expected.by_reason,
        "samples": expected.samples,
    }
    directory = Path(job.directory)
    assert sorted(path.name for path in directory.iterdir()) == [
        *("binary", "parquet", "run.json", "vocabulary")
    ]
    files = {
        str(path.relative_to(directory)): path
        for name in ("binary", "vocabulary")
        for path in (directory / name).rglob("*")
        if path.is_file() and path.suffix != ".json"
    }
    assert sorted(files) == sorted(expected.files)
    for name, path in files.items():
        assert path.read_bytes() == expected.files[name], name
    for column in range(26):
        facts = json.loads((directory / "vocabulary" / f"C{column + 1}.json").read_text())
        kept = expected.cardinalities[column] - 1
        assert facts == {"kept": kept, "distinct": expected.distinct[column]}

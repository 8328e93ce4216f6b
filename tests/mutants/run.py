"""Run the mutants of mutants.toml: plant one fault at a time and check that a named test fails.

A copy of the working tree with its own cargo build is kept in target/mutants; the tree itself is
never changed. The copy uses the extension that `make develop` built, so faults in Rust are tested
by cargo.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target/mutants"
COPY = WORK / "tree"
TIMEOUT_S = 600


@dataclass(frozen=True)
class Mutant:
    """One planted fault.

    Attributes:
        name: Identifier for ``--only``.
        file: Path of the file below the repository's root.
        fault: What goes wrong, in one sentence.
        find: Text that occurs exactly once in the file.
        replace: Text that takes its place.
        tests: Ids for pytest, or for a ``.rs`` file arguments of one ``cargo test`` each.
    """

    name: str
    file: str
    fault: str
    find: str
    replace: str
    tests: tuple[str, ...]

    @property
    def is_rust(self) -> bool:
        """Whether cargo runs its tests."""
        return self.file.endswith(".rs")

    def is_stale(self) -> bool:
        """Return whether ``find`` doesn't occur exactly once in the working tree's file."""
        path = ROOT / self.file
        return not path.exists() or path.read_text(encoding="utf-8").count(self.find) != 1


def load() -> list[Mutant]:
    """Read mutants.toml, in its order."""
    text = Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def copy_tree() -> None:
    """Bring the copy up to date with the working tree, and undo what a killed run left in it.

    Only files whose content differs are written, so that cargo compiles nothing else again.
    """
    command = ["git", "-C", str(ROOT), "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {name for name in listed.split("\0") if (ROOT / name).is_file()}
    names |= {str(path.relative_to(ROOT)) for path in ROOT.glob("python/storlab/_native*.so")}
    for name in sorted(names):
        source, copy = ROOT / name, COPY / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    for top in ("crates", "python", "tests"):
        for path in (COPY / top).rglob("*.*"):
            if path.suffix in {".py", ".rs", ".so"} and str(path.relative_to(COPY)) not in names:
                path.unlink()
    if not (COPY / ".venv").exists():
        (COPY / ".venv").symlink_to(ROOT / ".venv")


def run(command: Sequence[str]) -> tuple[int, str]:
    """Run a command in the copy.

    Returns:
        Its exit code, -1 after ``TIMEOUT_S``, and its output.
    """
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(WORK / "build"),
        "CI": "true",
        "PYTHONPATH": str(COPY / "python"),
    }
    try:
        done = subprocess.run(
            command,
            cwd=COPY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end within {TIMEOUT_S} s"
    return done.returncode, done.stdout


def cargo(test: str, *more: str) -> tuple[int, str]:
    """Run ``cargo test`` with the arguments of one entry of ``tests``."""
    return run(["cargo", "test", "--locked", "--quiet", *more, *shlex.split(test)])


def pytest(tests: Sequence[str]) -> tuple[int, str]:
    """Run pytest on the tests with these ids, until one fails."""
    options = ["-x", "-p", "no:cacheprovider", "-o", "timeout=120"]
    return run([str(COPY / ".venv/bin/python"), "-m", "pytest", *options, *tests])


def check_unmutated(mutants: Sequence[Mutant]) -> str | None:
    """Run all tests without a fault.

    Returns:
        Output of the first that doesn't pass or runs no test; None if all pass.
    """
    rust = dict.fromkeys(test for mutant in mutants if mutant.is_rust for test in mutant.tests)
    for test in rust:
        code, output = cargo(test)
        if code != 0 or not re.search(r"[1-9]\d* passed", output):
            return f"cargo test {test}\n{output}"
    python = dict.fromkeys(t for mutant in mutants if not mutant.is_rust for t in mutant.tests)
    code, output = pytest(list(python)) if python else (0, "")
    return output if code != 0 else None


def outcome(mutant: Mutant) -> str:
    """Plant the fault in the copy, run the mutant's tests, and take the fault out again.

    Returns:
        ``caught``, ``missed``, ``stale``, ``no build``, or ``no result`` if tests could not run.
    """
    if mutant.is_stale():
        return "stale"
    path = COPY / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutant.find, mutant.replace), encoding="utf-8")
    try:
        if not mutant.is_rust:
            code, _ = pytest(mutant.tests)
            return {0: "missed", 1: "caught"}.get(code, "no result")
        for test in mutant.tests:
            if cargo(test, "--no-run")[0] != 0:
                return "no build"
            code, _ = cargo(test)
            if code != 0:
                return "caught" if code == 101 else "no result"
        return "missed"
    finally:
        path.write_text(original, encoding="utf-8")


def write_line(text: str) -> None:
    """Write to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Parse the command line, run the mutants and print a table.

    Returns:
        0 if every mutant is caught.
    """
    parser = argparse.ArgumentParser(description="Plant faults and check that tests fail.")
    parser.add_argument("--only", metavar="NAME", action="append", help="run this mutant only")
    parser.add_argument("--list", action="store_true", help="list the mutants and run none")
    arguments = parser.parse_args()
    mutants = [m for m in load() if not arguments.only or m.name in arguments.only]
    if not mutants:
        parser.error("no mutant has that name; --list shows the names")
    width = max(len(mutant.name) for mutant in mutants)
    if arguments.list:
        for mutant in mutants:
            write_line(f"{mutant.name:{width}}  {mutant.fault}")
        return 0
    copy_tree()
    failure = check_unmutated(mutants)
    if failure is not None:
        write_line(f"Tests fail without a fault, so they cannot judge one:\n{failure}")
        return 1
    outcomes = []
    for mutant in mutants:
        start_s = time.monotonic()
        outcomes.append(outcome(mutant))
        seconds = time.monotonic() - start_s
        write_line(f"{mutant.name:{width}}  {outcomes[-1]:9}  {seconds:5.1f} s")
    caught = outcomes.count("caught")
    write_line(f"{caught} of {len(mutants)} mutants caught")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())

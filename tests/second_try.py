"""Second, sequential run of failed integration tests, the last step of `make test-python`.

They run real servers, clusters, browsers and a guest machine, and a machine that stalls for some
seconds can fail one of 2,000. A real defect fails twice, and so does the build. Tests that passed
only now are listed, so that the test or a race in the product gets fixed.

Unit and property tests get no second try, nor do failures in more than three files, which a stall
does not explain.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
RETRIED = ("tests/integration/", "tests/vm/")
MOST_FILES = 3


def refusal(failed: list[str]) -> str | None:
    """Return why these tests get no second try, or None if they get one.

    >>> refusal(["tests/unit/lab/test_plan.py::test_a"])
    'no second try: tests/unit/lab/test_plan.py is no integration test'
    >>> refusal(["tests/integration/lab/test_run.py::test_a[1]"])
    """
    files = sorted({test.partition("::")[0] for test in failed})
    if not files:
        return "no second try: pytest names no test that failed"
    if len(files) > MOST_FILES:
        return f"no second try: {len(files)} files have failures, more than {MOST_FILES}"
    for file in files:
        if not file.startswith(RETRIED):
            return f"no second try: {file} is no integration test"
    return None


def tell(heading: str, tests: list[str]) -> None:
    """Print to stdout at once, before pytest continues."""
    sys.stdout.write("\n  ".join([heading, *tests]) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Return the exit code of the second try, or 1 if there is none."""
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    refused = refusal(failed)
    if refused is not None:
        sys.stderr.write(f"{refused}\n")
        return 1
    tell(f"A second try, alone, of {len(failed)} that failed:", failed)
    again = [sys.executable, "-m", "pytest", "--last-failed", "--last-failed-no-failures=none"]
    code = subprocess.run(again, check=False).returncode
    if code == 0:
        tell("PASSED ONLY ON A SECOND TRY, to be mended:", failed)
    return code


if __name__ == "__main__":
    sys.exit(main())

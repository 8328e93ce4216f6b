"""Integration tests that failed, once more and alone: what `make test-python` does in the end.

They run real servers, clusters and browsers, and a machine that stands still for some seconds can
fail one of 2,000. A defect fails twice, and so does the build. What passed only now is named, so
that nobody takes it for a pass: it is a test, or a race of the product, to be mended.

Unit and property tests have no second try, and neither have failures in more than three files: that
is not a stall.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
RETRIED = "tests/integration/"
MOST_FILES = 3


def refusal(failed: list[str]) -> str | None:
    """Why these tests get no second try; None where they do.

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
    """To stdout, before pytest goes on."""
    sys.stdout.write("\n  ".join([heading, *tests]) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Exit code of the second try; 1 where there is none."""
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

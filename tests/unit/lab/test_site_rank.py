"""Actions of a rank before it joins the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.argv = ["rank", {task!r}]
from storlab.cluster import rank as joining
def join():
    print("imported", {module!r} in sys.modules, {other!r} in sys.modules, "numpy" in sys.modules)
    raise SystemExit
joining.join = join
from storlab.lab.site.rank import main
main()
"""
TASK, CHECK = "storlab.lab.site.client_task", "storlab.lab.site.check"


@pytest.mark.parametrize(
    ("task", "module", "other"),
    [("run", TASK, CHECK), ("clean", TASK, CHECK), ("check", CHECK, TASK)],
)
def test_what_a_task_takes_is_imported_before_others_wait(
    task: str, module: str, other: str
) -> None:
    """Check that a rank imports its task's modules before it joins, and no numpy.

    Hundreds of ranks may start on one host, and numpy takes a fifth of a client's import time.
    """
    program = PROGRAM.format(task=task, module=module, other=other)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["imported", "True", "False", "False"], done.stderr

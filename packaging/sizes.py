"""Check the sizes of a wheel and of the environment in which it is installed.

``python packaging/sizes.py WHEEL PYTHON`` prints both and returns 1 if one exceeds its budget.
PYTHON is the environment's interpreter; pip itself does not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MB = 1_000_000
WHEEL_BUDGET_MB = 15
INSTALL_BUDGET_MB = 480
_OWN = "storlab"
_ASK = """
import importlib.metadata as m, json, pathlib
found = {}
for d in m.distributions():
    files = [pathlib.Path(d.locate_file(f)) for f in d.files or ()]
    found[d.name] = sum(f.stat().st_size for f in files if f.suffix != ".pyc" and f.is_file())
print(json.dumps(found))
"""


def main() -> int:
    """Print the sizes; return 1 if one exceeds its budget."""
    wheel, python = Path(sys.argv[1]), sys.argv[2]
    sizes = installed(python)
    print(f"{'wheel':24}{wheel.stat().st_size / MB:8.1f} MB  (budget {WHEEL_BUDGET_MB})")
    print(f"{'base install':24}{sum(sizes.values()) / MB:8.1f} MB  (budget {INSTALL_BUDGET_MB})")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if size >= MB:
            print(f"  {name:22}{size / MB:8.1f} MB")
    problems = beyond(wheel, sizes)
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


def installed(python: str) -> dict[str, int]:
    """Return the bytes of each distribution in that Python's environment, without byte code."""
    asked = [python, "-I", "-c", _ASK]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    sizes: dict[str, int] = json.loads(done.stdout)
    return {name: size for name, size in sizes.items() if name not in ("pip", "setuptools")}


def beyond(wheel: Path | None, sizes: dict[str, int]) -> list[str]:
    """Return a message for each size over budget.

    Without a wheel, storlab itself is not counted, because a test build contains debug information.
    """
    total = sum(size for name, size in sizes.items() if wheel is not None or name != _OWN) / MB
    problems = []
    if wheel is not None and wheel.stat().st_size > WHEEL_BUDGET_MB * MB:
        problems.append(f"{wheel.name} is larger than {WHEEL_BUDGET_MB} MB")
    if total > INSTALL_BUDGET_MB:
        problems.append(f"a base install has {total:.0f} MB, more than {INSTALL_BUDGET_MB} MB")
    return problems


if __name__ == "__main__":
    sys.exit(main())

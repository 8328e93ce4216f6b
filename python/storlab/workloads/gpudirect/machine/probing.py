"""Child process of ``probe``, which loads the libraries and writes the result to a file.

The libraries may print, crash or hang, so they run in a process of their own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from storlab import _native


def main(job: str, answer: Path) -> None:
    """Run a probe job; the file ``answer`` is written completely or not at all."""
    run = _native.Run("gpudirect", job, {}, False)
    run.wait(None)
    text, _ = run.outcome()
    document = json.loads(text)
    aside = answer.with_suffix(".part")
    aside.write_text(json.dumps({key: document.get(key) for key in ("details", "failure")}))
    aside.replace(answer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # a thread may hang in a library

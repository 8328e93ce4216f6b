"""The child of ``probe``: asks the libraries what they find, and writes that to a file.

They may print, crash, or never come back, so that all of it happens in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from storlab import _native


def main(job: str, answer: Path) -> None:
    """Carry out a probe job; its outcome is whole in ``answer``, or not there."""
    run = _native.Run("gpudirect", job, {}, False)
    run.wait(None)
    text, _ = run.outcome()
    document = json.loads(text)
    aside = answer.with_suffix(".part")
    aside.write_text(json.dumps({key: document.get(key) for key in ("details", "failure")}))
    aside.replace(answer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # a thread may be in a library, and never come back

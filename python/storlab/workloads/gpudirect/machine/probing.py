"""Program of the child process that ``probe`` starts: load GPU libraries, write what they report.

It is a separate process, because the libraries may print, crash or hang.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from storlab import _native
from storlab.base.files import replace_file


def main(job: str, answer: Path) -> None:
    """Probe the libraries of a job in JSON, and write the result to ``answer`` atomically."""
    run = _native.Run("gpudirect", job, {}, False)
    run.wait(None)
    text, _ = run.outcome()
    document = json.loads(text)
    kept = {key: document.get(key) for key in ("details", "failure")}
    replace_file(answer, json.dumps(kept).encode(), durable=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # a thread may hang in a library

"""Stand-in for a fio with libcufile that runs the real fio with POSIX I/O.

The first argument is the real fio. ``STANDIN_LIBCUFILE`` selects its behaviour: ``ok``, ``missing``
(a fio without that engine) or ``refused`` (cuFile does not open).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HELP = (
    "gpu_dev_ids             : GPU IDs, one per subjob, separated by :\n"
    "cuda_io                 : Type of I/O to use with CUDA\n"
)
OWN = ("cuda_io=", "gpu_dev_ids=")


def main() -> int:
    fio, *arguments = sys.argv[1:]
    mode = os.environ.get("STANDIN_LIBCUFILE", "ok")
    if arguments == ["--enghelp=libcufile"] and mode != "missing":
        sys.stdout.write(HELP)
        return 0
    if arguments[-1].endswith(".fio"):
        if mode == "refused":
            sys.stderr.write("cuFileDriverOpen: err=5001:nvidia-fs driver is not loaded\n")
            return 1
        job = Path(arguments[-1])
        lines = [line for line in job.read_text().splitlines() if not line.startswith(OWN)]
        text = "\n".join(lines).replace("ioengine=libcufile", "ioengine=psync")
        arguments[-1] = str(job.with_name("posix.fio"))
        Path(arguments[-1]).write_text(text.replace("direct=1", "direct=0") + "\n")
    return subprocess.run([fio, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Stand-in for gdsio with its options and result line, over POSIX reads.

Started like gdsio. ``STANDIN_GDSIO`` selects its behaviour: ``ok``, ``unsupported`` (cuFile refuses
the file), ``io-error``, ``lost`` (the GPU), ``hangs``, ``no-line``, ``teardown`` (ends a second
after its line), ``cut`` (half of its line), ``old`` (the line of a gdsio before 1.0), ``idle`` (no
I/O), ``boast`` (twice the rate), ``unloadable`` or ``other`` (another program). One thread does all
I/O; the line reports the requested number of threads.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

NAMES = {
    0: "GPUD",
    1: "CPUONLY",
    2: "CPU_GPU",
    3: "CPU_ASYNC_GPU",
    4: "CPU_CACHED_GPU",
    5: "GPUD_ASYNC",
    6: "GPU_BATCH",
    7: "GPU_BATCH_STREAM",
}
TYPES = ("READ", "WRITE", "RANDREAD", "RANDWRITE")
GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "gdsio"


def size(text: str) -> int:
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


class Options:
    """Command line; ``-f``, ``-D``, ``-d`` and ``-w`` may be repeated."""

    def __init__(self, words: list[str]) -> None:
        self.files: list[str] = []
        self.threads = 0
        self.given: dict[str, str] = {}
        place, folder = "", False
        while words:
            flag = words.pop(0)
            if flag in ("-R", "-b"):
                self.given[flag] = ""
                continue
            value = words.pop(0)
            if flag in ("-f", "-D"):
                place, folder = value, flag == "-D"
            elif flag == "-w":
                self.threads += int(value)
                names = [f"{place}/gdsio.{n}" for n in range(int(value))] if folder else [place]
                self.files += names
            else:
                self.given[flag] = value


def work(options: Options) -> tuple[int, float]:
    """Read the files in turn; return the operations and seconds."""
    block, length = size(options.given["-i"]), size(options.given["-s"])
    start = size(options.given.get("-o", "0K"))
    kind = TYPES[int(options.given["-I"])]
    writes = kind.endswith("WRITE")
    fds = [os.open(name, os.O_RDWR if writes else os.O_RDONLY) for name in options.files]
    draw, data, done = random.Random(options.given.get("-k")), os.urandom(block), 0
    begun = time.monotonic()
    while (took := time.monotonic() - begun) < float(options.given["-T"]):
        turn = done // len(fds)
        blocks = length // block
        place = turn % blocks if kind in ("READ", "WRITE") else draw.randrange(blocks)
        offset, fd = start + place * block, fds[done % len(fds)]
        if writes:
            os.pwrite(fd, data, offset)
        else:
            os.pread(fd, block, offset)
        done += 1
    return done, took


def line(options: Options, done: int, took: float, mode: str) -> str:
    block = size(options.given["-i"])
    moved = done * block
    rate = moved / took / 2**30 * (2 if mode == "boast" else 1)
    xfer, batch = int(options.given["-x"]), options.given["-x"] in ("6", "7")
    threads = f"1 IoDepth: {options.threads}" if batch else str(options.threads)
    return (
        f"IoType: {TYPES[int(options.given['-I'])]} XferType: {NAMES[xfer]} Threads: {threads} "
        f"DataSetSize: {moved >> 10}/{size(options.given['-s']) >> 10}(KiB) IOSize: {block >> 10}"
        f"(KiB) Throughput: {rate:.6f} GiB/sec, "
        f"Avg_Latency: {1e6 * took / max(1, done) * options.threads:.6f} usecs ops: {done} "
        f"total_time {took:.6f} secs\n"
    )


def main() -> int:
    mode = os.environ.get("STANDIN_GDSIO", "ok")
    if sys.argv[1:] == ["-h"]:
        name = "something else 1.0" if mode == "other" else "gdsio version :1.12"
        sys.stdout.write(f"{name}\nUsage [using config file]: gdsio rw-sample.gdsio\n")
        return 0
    if mode == "unloadable":
        sys.stderr.write(
            "gdsio: error while loading shared libraries: libcufile.so.0: cannot open shared "
            "object file: No such file or directory\n"
        )
        return 127
    options = Options(sys.argv[1:])
    if mode == "unsupported":
        text = (GOLDEN / "not-supported.txt").read_text()
        sys.stdout.write(text.replace("/mnt/gds_test/gdsio.0", options.files[0]))
        return 1
    if mode == "lost":
        sys.stderr.write("cuda call failed: CUDA_ERROR_NO_DEVICE\n")
        return 1
    if mode == "hangs":
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        Path("ready").touch()
        time.sleep(600)
    done, took = (0, 0.1) if mode == "idle" else work(options)
    if mode == "io-error":
        sys.stdout.write((GOLDEN / "io-failed.txt").read_text())
    text = (GOLDEN / "old.txt").read_text() if mode == "old" else line(options, done, took, mode)
    if mode != "no-line":
        sys.stdout.write(text[: len(text) // 2] if mode == "cut" else text)
    sys.stdout.flush()
    if mode == "teardown":
        time.sleep(2)
        sys.stdout.write("deregistered\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

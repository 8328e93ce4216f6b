"""Start a cluster by hand: ``python -m tests.support.cluster up 12``, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from .rig import ClusterRig

EXPLAINED = """\
export RIG_AGENT={agent}
export RIG_MOUNT={mount}
export RIG_HOSTS={hosts}
# Up in {seconds:.1f} s: {clients} clients, {servers} storage hosts, {size:.0f} MB.
# A shell on a host:        $RIG_AGENT c1
# A command on a host:      $RIG_AGENT c1 df -h $RIG_MOUNT
# storlab, or mpiexec, runs on the controller, which sees the files of this machine:
#                           $RIG_AGENT c0 'cd DIRECTORY && .venv/bin/python -m storlab ...'
# Logs of GlusterFS:        {logs}
# Ctrl-C removes all of it.
"""


def main() -> None:
    """Start a rig and wait, or remove what killed rigs left."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.cluster", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="bring a cluster up and wait for Ctrl-C")
    up.add_argument("clients", type=int, nargs="?", default=12)
    up.add_argument("--servers", type=int, default=3)
    up.add_argument("--brick-mib", type=int, default=256, help="the volume has two of them")
    verbs.add_parser("sweep", help="remove what is left of rigs that were killed")
    asked = parser.parse_args()
    if asked.verb == "sweep":
        _write("".join(f"removed {token}\n" for token in ClusterRig.sweep()) or "nothing left\n")
        return
    for number in (signal.SIGINT, signal.SIGTERM):  # also if the shell has SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    with ClusterRig(asked.clients, asked.servers, brick_size=asked.brick_mib << 20) as rig:
        _write(_explained(rig, time.monotonic() - began))
        try:
            while True:
                signal.pause()
        except KeyboardInterrupt:
            _write("\n")


def _explained(rig: ClusterRig, seconds: float) -> str:
    return EXPLAINED.format(
        agent=rig.agent,
        mount=rig.mount,
        hosts=",".join(rig.hosts),
        seconds=seconds,
        clients=len(rig.hosts),
        servers=len(rig.servers),
        size=rig.volume_size / 1e6 if rig.servers else 0,
        logs=rig.agent.parent / "log",
    )


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Studies of drives in the guest."""

from __future__ import annotations


def study(*targets: tuple[str, str, str], runtime: str, workload: str) -> str:
    """Return the text of a study without repeats and ramp.

    It waits for drives, because a guest without CPU time may not answer a probe within its limit.

    Args:
        targets: Name, path and serial number or other identity of each drive.
        runtime: Length of each run.
        workload: Fields of a block workload; tables may follow.
    """
    tables = "".join(
        f"""
        [[target]]
        name = "{name}"
        path = "{path}"
        serial = "{serial}"
        """
        for name, path, serial in targets
    )
    return f"""
    [study]
    name = "guest"
    repeats = 1
    ramp = 0
    runtime = "{runtime}"
    interval = "100ms"
    wait_for_target = "2min"
    {tables}
    [[workload]]
    kind = "block"
    {workload}
    """

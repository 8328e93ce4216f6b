"""Network switch between the hosts of a rig, with faults."""

from __future__ import annotations

import subprocess

from .hosts import NETWORK, SWITCH, Host, Hosts

NIC = "eth0"  # on each host
PREFIX_LENGTH = NETWORK.split("/")[1]
BURST = "256kb"  # veth passes 64 KiB at once: a smaller bucket would drop packets
LATENCY = "50ms"


def connect(hosts: Hosts) -> None:
    """Connect all hosts with ``eth0`` to one bridge in a namespace of its own."""
    linked = [host for host in hosts.specs if host.address]
    lines = ["link add br0 type bridge", "link set br0 up"]
    for host in linked:
        lines += [
            f"link add name {port(host.name)} type veth peer name {NIC} "
            f"netns {hosts.holders[host.name]}",
            f"link set {port(host.name)} master br0 up",
        ]
    _in_network(hosts, SWITCH, ["ip", "-batch", "-"], "\n".join(lines) + "\n")
    for host in linked:
        _in_network(hosts, host.name, ["ip", "-batch", "-"], _addresses(host))


def port(name: str) -> str:
    """Return the switch's end of a host's cable."""
    return f"port-{name}"


def set_link(hosts: Hosts, name: str, *, up: bool) -> None:
    """Connect or disconnect a host's cable. Addresses stay; launching on it fails as with ssh."""
    hosts.spec(name)
    flag = hosts.directory / "down" / name
    state = "up" if up else "down"
    _in_network(hosts, SWITCH, ["ip", "link", "set", port(name), state])
    if up:
        flag.unlink(missing_ok=True)
    else:
        flag.touch()


def shape(hosts: Hosts, name: str, rate: str | None) -> None:
    """Limit a host's NIC to ``rate`` (tc syntax: ``100mbit``) each way; None removes the limit."""
    hosts.spec(name)
    for where, device in ((name, NIC), (SWITCH, port(name))):
        if rate is None:
            done = _tc(hosts, where, ["qdisc", "del", "dev", device, "root"], check=False)
            if done.returncode and "handle of zero" not in done.stderr:
                raise RuntimeError(f"{where}: {device} cannot be freed: {done.stderr}")
        else:
            limit = ["tbf", "rate", rate, "burst", BURST, "latency", LATENCY]
            _tc(hosts, where, ["qdisc", "replace", "dev", device, "root", *limit])


def _tc(
    hosts: Hosts, name: str, argv: list[str], *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    return _in_network(hosts, name, ["tc", *argv], check=check)


def _addresses(host: Host) -> str:
    return f"addr add {host.address}/{PREFIX_LENGTH} dev {NIC}\nlink set {NIC} up\nlink set lo up\n"


def _in_network(
    hosts: Hosts, name: str, argv: list[str], stdin: str = "", *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a command in the host's network namespace only, with the caller's process ids."""
    command = ["nsenter", "--target", str(hosts.holders[name]), "--net", "--", *argv]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{name}: {' '.join(argv)}: {done.stdout}{done.stderr}{stdin}")
    return done

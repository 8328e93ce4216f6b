"""Storage behind a network: NVMe over TCP by two paths, and NFS. Their servers are in the guest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vm import inside
from vm.machine import Guest
from vm.studies import study

WWID = "uuid.0a4c8a2e-5d8f-4a52-9c1e-6d2f0b7c9e11"
REMOTE = f"/dev/disk/by-id/nvme-{WWID}"
MOUNTED = "/mnt/nfs"
MEMORY = "/dev/nullb9"
TARGET = "/sys/kernel/config/nvmet"
# A namespace in memory, exported by two ports, of which the first is preferred.
EXPORTED = f"""
modprobe null_blk nr_devices=0
modprobe -a nvmet-tcp nvme-tcp
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
disk=/sys/kernel/config/nullb/nullb9
mkdir $disk
echo 64 > $disk/size
echo 1 > $disk/memory_backed
echo 1 > $disk/power
cd {TARGET}
mkdir subsystems/remote subsystems/remote/namespaces/1
cd subsystems/remote
echo 1 > attr_allow_any_host
echo REMOTE > attr_serial
echo -n {MEMORY} > namespaces/1/device_path
echo {WWID.removeprefix("uuid.")} > namespaces/1/device_uuid
echo 1 > namespaces/1/enable
for port in 1 2; do
  cd {TARGET}/ports
  mkdir $port
  cd $port
  echo tcp > addr_trtype
  echo ipv4 > addr_adrfam
  echo 127.0.0.1 > addr_traddr
  echo 442$port > addr_trsvcid
  (( port == 1 )) || echo non-optimized > ana_groups/1/ana_state
  ln -s {TARGET}/subsystems/remote subsystems/remote
  host=hostid=5f2d3c1b-0e9a-4b67-8c21-7a9e4d6b1f03
  host=$host,hostnqn=nqn.2014-08.org.nvmexpress:uuid:5f2d3c1b-0e9a-4b67-8c21-7a9e4d6b1f03
  echo "transport=tcp,traddr=127.0.0.1,trsvcid=442$port,nqn=remote,$host" > /dev/nvme-fabrics
done
udevadm settle
until [[ -e {REMOTE} ]]; do sleep 0.1; done
"""
DISCONNECTED = f"""
for path in /sys/class/nvme/nvme*; do
  [[ $(cat $path/transport) != tcp ]] || echo 1 > $path/delete_controller
done
rm {TARGET}/ports/*/subsystems/remote
rmdir {TARGET}/ports/*
echo 0 > {TARGET}/subsystems/remote/namespaces/1/enable
rmdir {TARGET}/subsystems/remote/namespaces/1 {TARGET}/subsystems/remote
echo 0 > /sys/kernel/config/nullb/nullb9/power
rmdir /sys/kernel/config/nullb/nullb9
"""


# Writes that path 1 or 2 got; hidden devices of the paths are in no other place.
COUNT = """
writes() {
  for path in /sys/class/nvme/nvme*; do
    if [[ $(cat $path/address) = *trsvcid=442$1* ]]; then awk '{print $5}' $path/nvme*c*n*/stat; fi
  done
}
"""
SERVED = f"""
modprobe -a nfsd nfs nfsv4
mkdir -p /tmp/served {MOUNTED}
mount -t tmpfs none /tmp/served
mountpoint -q /proc/fs/nfsd || mount -t nfsd none /proc/fs/nfsd
later=$(( $(date +%s) + 100000 ))
# What mountd would answer: clients of this address may use the directory as the root.
echo "nfsd 127.0.0.1 $later local" > /proc/net/rpc/auth.unix.ip/channel
echo "local /tmp/served $later 9216 0 0 0" > /proc/net/rpc/nfsd.export/channel
echo "local 1 \\x00000000 $later /tmp/served" > /proc/net/rpc/nfsd.fh/channel
echo -3 > /proc/fs/nfsd/versions  # the others need no rpcbind
# Files are opened only after this time, which passes during the other test. 10 is the least.
for wait in lease grace; do echo 10 > /proc/fs/nfsd/nfsv4${{wait}}time; done
echo "tcp 2049" > /proc/fs/nfsd/portlist
echo 2 > /proc/fs/nfsd/threads
mount -i -t nfs4 -o addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,sec=sys 127.0.0.1:/ {MOUNTED}
"""


@pytest.fixture(scope="module", autouse=True)
def _servers(guest: Guest) -> Iterator[None]:
    """Start an NFS server and a target of NVMe over TCP, and connect to both."""
    guest.call(inside.shell, SERVED)
    guest.call(inside.shell, EXPORTED)
    yield
    guest.call(inside.shell, f"umount {MOUNTED}; echo 0 > /proc/fs/nfsd/threads")
    guest.call(inside.shell, DISCONNECTED)


def test_a_drive_behind_nvme_over_tcp_is_identified_and_survives_the_loss_of_a_path(
    guest: Guest,
) -> None:
    it = guest.call(inside.device, REMOTE)
    assert it["facts"] == {"size": 64 << 20, "serial": "REMOTE", "nsid": "1", "wwid": WWID}
    assert it["others"] == []
    assert it["drive"]["transport"] == "tcp"
    paths = [path.partition(" ")[2] for path in it["drive"]["paths"]]
    assert paths == ["live, optimized", "live, non-optimized"]
    # Writes at a fixed rate, so that their number depends on no speed.
    workload = 'block_size = "4KiB"\nread_percent = 0\nrate_iops = 100\nqueue_depth = 1'
    text = study(("remote", REMOTE, WWID), runtime="20s", workload=workload)
    campaign = guest.start(inside.run, text, "/tmp/failover")
    lost = f"echo inaccessible > {TARGET}/ports/1/ana_groups/1/ana_state"
    guest.call(
        inside.shell,
        f"{COUNT}until (( $(writes 1) > 10 )); do sleep 0.1; done; (( $(writes 2) == 0 )); {lost}",
    )
    done = campaign()
    (run,) = done["runs"]
    assert run["status"] == "finished", run["failure"]
    assert run["proof"]["state"] != "contradicted"
    assert "path-degraded" in [flag["kind"] for flag in run["flags"]]
    assert int(guest.call(inside.shell, f"{COUNT}writes 2")) > 10


def test_files_on_nfs_keep_their_data_and_their_medium_is_unknown(guest: Guest) -> None:
    share = f"""
    [[target]]
    name = "share"
    directory = "{MOUNTED}"
    size = "1MiB"
    [[workload]]
    """
    workload = 'read_percent = 50\nqueue_depth = 2\nverify = true\ntotal_bytes = "400KiB"'
    text = study(runtime="1s", workload=workload).replace("[[workload]]", share)
    (run,) = guest.call(inside.run, text, f"{MOUNTED}/results")["runs"]
    assert run["status"] == "finished", run["failure"]
    assert (run["verify"]["bad_blocks"], run["proof"]["state"]) == ({}, "unproven")
    assert "network file system" in run["proof"]["reasons"][0]


def test_a_device_in_memory_proves_nothing_and_is_not_written_without_an_identity(
    guest: Guest,
) -> None:
    it = guest.call(inside.device, MEMORY)
    assert it["facts"].keys() == {"size", "diskseq"}
    target = ("memory", MEMORY, "none")
    done = guest.call(inside.run, study(target, runtime="500ms", workload=""), "/tmp/memory")
    proof = done["runs"][0]["proof"]
    assert proof["state"] == "contradicted"
    assert "is memory" in proof["reasons"][0]
    text = study(target, runtime="500ms", workload="read_percent = 0")
    done = guest.call(inside.run, text.replace('serial = "none"', ""), "/tmp/written")
    assert done["error"] == "GuardError"
    assert "next boot" in done["text"]

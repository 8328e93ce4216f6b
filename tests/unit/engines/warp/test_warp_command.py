"""An ObjectJob as warp options, and refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.warp import command as warp_command
from storlab.model.job import Arrival, WeightedSize
from storlab.model.s3 import Credentials, S3Store
from storlab.process.child import Launch
from storlab.workloads.object.job import Keys, ObjectJob, ObjectMix, ObjectSizes, Pool

MIB = 1 << 20
SECOND = 1_000_000_000
FOUR_MIB = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=4 * MIB)])
STORE = S3Store(
    endpoints=["http://127.0.0.1:9000"],
    bucket="bench",
    credentials=Credentials("the-access-key", "the-secret-key", "the-token"),
)


def job(**changes: Any) -> ObjectJob:
    fields: dict[str, Any] = {
        "store": STORE,
        "pool": Pool(prefix="storlab-1/pool-2/", objects=100, sizes=FOUR_MIB),
        "write_prefix": "storlab-1/run-3/",
        "sizes": FOUR_MIB,
        "mix": ObjectMix(get=70, put=30),
        "concurrency": 16,
        "ramp_ns": 5 * SECOND,
        "window_ns": 30 * SECOND,
    }
    return ObjectJob(**{**fields, **changes})


def options(of: ObjectJob) -> list[str]:
    assert warp_command.refusal(of) is None
    arguments = warp_command.command(Path("/opt/warp"), of, Path("/here/requests"))
    assert arguments[0] == "/opt/warp"
    return arguments[1:]


def test_a_mix_makes_its_own_objects_below_the_prefix_of_the_run() -> None:
    given = options(job())
    assert given[0] == "mixed"
    assert "--prefix=storlab-1/run-3" in given
    assert "--objects=100" in given
    assert f"--obj.size={4 * MIB}" in given
    assert {"--get-distrib=70", "--put-distrib=30", "--stat-distrib=0", "--delete-distrib=0"} < set(
        given
    )
    assert "--duration=35250ms" in given  # ramp, window, and a little more
    assert {"--concurrent=16", "--bucket=bench", "--lookup=path", "--region=us-east-1"} < set(given)
    assert {"--host=127.0.0.1:9000", "--benchdata=/here/requests"} < set(given)


@pytest.mark.parametrize(
    "mix", [ObjectMix(get=100), ObjectMix(put=100), ObjectMix(head=100), ObjectMix(get=50, put=50)]
)
def test_the_bucket_is_never_cleared_and_every_request_is_recorded(mix: ObjectMix) -> None:
    assert {"--noclear", "--full"} < set(options(job(mix=mix)))


@pytest.mark.parametrize(("mix", "name"), [({"get": 100}, "get"), ({"head": 100}, "stat")])
def test_reads_alone_use_the_pool_that_is_there(mix: dict[str, float], name: str) -> None:
    given = options(job(mix=ObjectMix(**mix), payload="signed"))
    assert given[0] == name
    assert {"--list-existing", "--prefix=storlab-1/pool-2/", "--objects=100"} < set(given)
    assert not any("obj.size" in option for option in given)


def test_ranges_of_reads() -> None:
    assert "--range-size=65536" in options(job(mix=ObjectMix(get=100), range_size=65536))


def test_uploads_are_one_request_each_unless_parts_are_asked_for() -> None:
    puts = job(mix=ObjectMix(put=100), pool=None)
    assert "--disable-multipart" in options(puts)
    in_parts = puts.model_copy(update={"part_size": 2 * MIB, "part_concurrency": 4})
    given = options(in_parts)
    assert "--disable-multipart" not in given
    assert f"--part.size={2 * MIB}" in given


@pytest.mark.parametrize(
    ("payload", "has", "lacks"),
    [
        ("unsigned", {"--disable-sha256-payload"}, {"--checksum=CRC32"}),
        ("streaming", set(), {"--disable-sha256-payload", "--checksum=CRC32"}),
        ("trailer-crc", {"--disable-sha256-payload", "--checksum=CRC32"}, set()),
    ],
)
def test_payload_modes(payload: str, has: set[str], lacks: set[str]) -> None:
    given = set(options(job(payload=payload)))
    assert has <= given
    assert not lacks & given


def test_several_endpoints_tls_and_virtual_hosts() -> None:
    store = STORE.model_copy(
        update={
            "endpoints": ["https://a:9000", "https://b:9000"],
            "addressing": "virtual",
            "ca_file": "/etc/own-ca.pem",
        }
    )
    wanted = job(store=store, routing="least_busy", threads=2)
    given = options(wanted)
    assert {"--host=a:9000,b:9000", "--host-select=weighed", "--lookup=host", "--tls"} < set(given)
    assert "--insecure" not in given
    assert warp_command.environment(wanted) == {
        "SSL_CERT_FILE": "/etc/own-ca.pem",
        "GOMAXPROCS": "2",
    }
    unchecked = wanted.model_copy(update={"store": store.model_copy(update={"verify_tls": False})})
    assert "--insecure" in options(unchecked)
    assert "--host-select=roundrobin" in options(job())


def test_keys_are_in_the_environment_only(tmp_path: Path) -> None:
    wanted = job()
    launch = Launch(
        name="warp",
        command=["warp", *options(wanted)],
        environment=warp_command.environment(wanted),
        secrets=warp_command.secrets(wanted),
        work_dir=tmp_path,
        inherits=warp_command.inherits,
    )
    assert not re.search("the-(access-key|secret-key|token)", launch.text)
    given = launch.child_environment(
        {"PATH": "/bin", "WARP_HOST": "elsewhere", "WARP_RDMA": "cpu", "HTTPS_PROXY": "http://p"}
    )
    assert given == {
        "PATH": "/bin",
        "WARP_ACCESS_KEY": "the-access-key",
        "WARP_SECRET_KEY": "the-secret-key",
        "WARP_SESSION_TOKEN": "the-token",
    }


def test_anonymous_requests_have_no_keys() -> None:
    store = STORE.model_copy(update={"credentials": None})
    assert warp_command.secrets(job(store=store)) == {}


def test_sizes_as_buckets_one_byte_wide() -> None:
    weighted = ObjectSizes(
        kind="weighted",
        sizes=[WeightedSize(bytes=4096, weight=70), WeightedSize(bytes=MIB, weight=30)],
    )
    assert warp_command.size_text(weighted) == f"4096:0,4097:700000,{MIB}:0,{MIB + 1}:300000"
    neighbours = ObjectSizes(
        kind="weighted", sizes=[WeightedSize(bytes=10), WeightedSize(bytes=11)]
    )
    assert warp_command.size_text(neighbours) == "10:0,11:500000,12:500000"
    assert warp_command.size_text(ObjectSizes(kind="uniform", low=10, high=20)) == "10:0,21:1"
    lognormal = ObjectSizes(kind="lognormal", low=1, high=9, median=3, sigma=1)
    assert warp_command.size_text(lognormal) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "fill"}, '"fill"'),
        ({"window_ns": None}, "window_ns"),
        ({"lanes": {"get": 4}}, "set concurrency"),
        ({"mix": ObjectMix(get=90, list=10)}, "list requests"),
        ({"mix": ObjectMix(multi_delete=100)}, "multi_delete requests"),
        ({"mix": ObjectMix(delete=100)}, "put_percent"),
        ({"mix": ObjectMix(get=50, put=20, delete=30)}, "at most as many"),
        ({"arrival": Arrival(kind="poisson", rate_iops=100)}, "no open loop"),
        ({"verify": True}, "verify"),
        ({"keys": Keys(kind="zipf")}, 'keys = "zipf"'),
        ({"keys": Keys(kind="hot_cold")}, 'keys = "hot_cold"'),
        ({"mix": ObjectMix(put=100), "join_pool": True}, "mix of reads and writes"),
        ({"pool": None}, "set objects"),
        ({"concurrency": 100}, "increase objects"),
        ({"range_size": 4096}, "100 % GET"),
        ({"mix": ObjectMix(get=100), "range_size": 4 * MIB}, "smaller than every object"),
        ({"payload": "signed"}, "payload"),
        ({"part_size": MIB, "part_concurrency": 2}, "part_concurrency = 4"),
        ({"part_size": MIB, "part_concurrency": 4}, "parts of 16 MiB"),
        (
            {"sizes": ObjectSizes(kind="lognormal", low=1, high=9, median=3, sigma=1)},
            "one size distribution",
        ),
        (
            {
                "mix": ObjectMix(put=100),
                "sizes": ObjectSizes(kind="lognormal", low=1, high=9, median=3, sigma=1),
            },
            "log-normal",
        ),
        (
            {"store": STORE.model_copy(update={"endpoints": ["http://a:1", "https://b:1"]})},
            "one scheme",
        ),
        (
            {
                "store": STORE.model_copy(update={"endpoints": ["https://a:1"]}),
                "payload": "streaming",
            },
            "over TLS",
        ),
    ],
)
def test_what_warp_cannot_do_is_refused(changes: dict[str, Any], reason: str) -> None:
    assert reason in (warp_command.refusal(job(**changes)) or "")


def test_caveats_belong_to_what_the_run_does() -> None:
    assert len(warp_command.caveats(job(mix=ObjectMix(put=100)))) == 1
    mixed = " ".join(warp_command.caveats(job()))
    assert "list of 1,000" in mixed
    assert "hash map" in mixed
    assert "read_written" in mixed
    assert "read_written" not in " ".join(warp_command.caveats(job(join_pool=True)))

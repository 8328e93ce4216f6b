"""A client's network facts, read from fake sysfs trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.cluster import client_facts
from storlab.cluster.client_facts import code_digest, nic_bytes


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(client_facts, "_NETWORK", tmp_path / "net")
    monkeypatch.setattr(client_facts, "_INFINIBAND", tmp_path / "infiniband")
    return tmp_path


def make_nic(network: Path, name: str, received: int, sent: int) -> None:
    statistics = network / "net" / name / "statistics"
    statistics.mkdir(parents=True)
    (statistics / "rx_bytes").write_text(f"{received}\n")
    (statistics / "tx_bytes").write_text(f"{sent}\n")


def make_port(network: Path, name: str, words: tuple[int, int], layer: str | None) -> None:
    (network / "net" / name / "device" / "infiniband" / f"mlx5_{name}").mkdir(parents=True)
    port = network / "infiniband" / f"mlx5_{name}" / "ports" / "1"
    (port / "counters").mkdir(parents=True)
    (port / "counters" / "port_rcv_data").write_text(f"{words[0]}\n")
    (port / "counters" / "port_xmit_data").write_text(f"{words[1]}\n")
    if layer is not None:
        (port / "link_layer").write_text(f"{layer}\n")


def test_the_stack_counts_what_passes_it(network: Path) -> None:
    make_nic(network, "e0", 100, 200)
    make_nic(network, "e1", 3, 4)
    assert nic_bytes(["e0", "e1"]) == (100, 200, 3, 4)


@pytest.mark.parametrize("layer", ["InfiniBand", None])
def test_an_infiniband_port_counts_all_in_words_of_four_bytes(
    network: Path, layer: str | None
) -> None:
    make_nic(network, "ib0", 100, 200)
    make_port(network, "ib0", (1000, 2000), layer)
    assert nic_bytes(["ib0"]) == (4000, 8000)


def test_a_port_of_ethernet_counts_rdma_alone(network: Path) -> None:
    """Check that RDMA counters are added to TCP's on an Ethernet port."""
    make_nic(network, "e0", 10**9, 10**6)
    make_port(network, "e0", (1000, 2000), "Ethernet")
    assert nic_bytes(["e0"]) == (10**9 + 4000, 10**6 + 8000)


def test_a_port_without_counters_leaves_those_of_the_stack(network: Path) -> None:
    make_nic(network, "e0", 100, 200)
    make_port(network, "e0", (1, 2), "Ethernet")
    for counter in (network / "infiniband").rglob("port_*_data"):
        counter.unlink()
    assert nic_bytes(["e0"]) == (100, 200)


def test_an_interface_that_is_not_there_is_an_error(network: Path) -> None:
    make_nic(network, "e0", 100, 200)
    with pytest.raises(OSError, match="No such file"):
        nic_bytes(["e0", "e9"])


def test_the_digest_of_code_changes_with_any_name_or_content(tmp_path: Path) -> None:
    package = tmp_path / "storlab"
    (package / "cli").mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1")
    (package / "cli" / "main.py").write_text("y = 1")
    digests = [code_digest(package)]
    (package / "cli" / "main.py").write_text("y = 2")
    digests.append(code_digest(package))
    (package / "cli" / "main.py").rename(package / "main.py")
    digests.append(code_digest(package))
    assert len(set(digests)) == 3
    (package / "main.pyc").write_text("compiled")
    assert code_digest(package) == digests[-1]

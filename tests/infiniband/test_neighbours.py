"""What real smpquery says of the other end of a port, on a simulated fabric without a subnet manager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ibsim
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import infiniband_neighbours
from ansible_collections.muster.cluster.plugins.module_utils.probes.lldp import Neighbour

DEVICE = "ibsim0"
Ask = Callable[[str], dict[str, Neighbour]]


@pytest.fixture
def simulator(tools: None, tmp_path: Path) -> Iterator[ibsim.Simulator]:
    net = ibsim.Net(200)
    for name in ("gpu-1 rail0", "gpu-2 rail0", "gpu-3 rail0", "gpu-4 rail0"):
        net.add("Hca", name)
    for name, description in (("leaf-1", "MF0;leaf-1:MQM9700/U1"), ("core-1", "MF0;core-1:MCS8500/L02/U1")):
        net.add("Switch", name, 8, description)
    net.link("gpu-1 rail0", 1, "leaf-1", 5)
    net.link("gpu-2 rail0", 1, "core-1", 8)
    net.link("gpu-3 rail0", 1, "gpu-4 rail0", 1)
    with ibsim.Simulator(tmp_path / "fabric") as simulator:
        yield simulator.start(net, manager=False)


@pytest.fixture
def ask(simulator: ibsim.Simulator, tmp_path: Path) -> Ask:
    """What the probe finds on the host of an adapter."""
    layer = tmp_path / "root/sys/class/infiniband" / DEVICE / "ports/1/link_layer"
    layer.parent.mkdir(parents=True)
    layer.write_text("InfiniBand\n")

    def answers(adapter: str) -> dict[str, Neighbour]:
        environment = {**simulator.environment, "SIM_HOST": adapter}
        host = LocalHost(root=str(tmp_path / "root"), environment=environment)
        expect: Any = None
        return infiniband_neighbours.parse(infiniband_neighbours.collect(host, expect))

    return answers


def test_port_names_its_switch_and_the_port_there(ask: Ask) -> None:
    assert ask("gpu-1 rail0") == {DEVICE: Neighbour("leaf-1", ("5",))}
    assert ask("gpu-2 rail0") == {DEVICE: Neighbour("core-1-L02", ("8",))}


def test_adapter_at_the_other_end_is_no_switch(ask: Ask) -> None:
    with pytest.raises(Unreadable, match="NodeType 'Channel Adapter', Node Description 'gpu-4 rail0', LocalPort '1'"):
        ask("gpu-3 rail0")


def test_port_without_a_cable_has_no_neighbour(ask: Ask, simulator: ibsim.Simulator) -> None:
    simulator.command('Unlink "gpu-1 rail0"[1]')
    with pytest.raises(Unreadable, match=f"{DEVICE} nodedesc: exit status 255: .*failed"):
        ask("gpu-1 rail0")


def test_device_that_is_not_there_has_no_neighbour(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "root/sys/class/infiniband" / DEVICE).rename(tmp_path / "root/sys/class/infiniband/mlx5_0")
    with pytest.raises(Unreadable, match=r"mlx5_0 nodedesc: exit status 255: .*can't open UMAD port"):
        ask("gpu-1 rail0")

"""Who is at the other end of a rail's cable, by LLDP and by InfiniBand; what is not certain is no neighbour."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import infiniband_neighbours, lldp
from ansible_collections.muster.cluster.plugins.module_utils.probes.lldp import Neighbour

from tests.fake_host import FakeHost
from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

LAYER = "/sys/class/infiniband/{}/ports/1/link_layer"
DESCRIPTION = "Node Description:...........MF0;leaf-1:MQM9700/U1\n"
INFORMATION = "# Node info: DR path slid 65535; dlid 65535; 0,1\nNodeType:........................Switch\n"
PORT = "LocalPort:.......................5\n"


def test_healthy_rails_hear_their_leaves_over_lldp():
    found = lldp.parse(Output(healthy("lldp")))
    software = "Cumulus Linux version 5.9.1 running on Nvidia SN5600"
    assert found == {
        f"rdma{rail}": [Neighbour(f"leaf-{rail + 1}", ("swp1s0", f"gpu-0001 rail{rail}"), software)]
        for rail in range(8)
    }


def test_a_recorded_output_of_lldpd_gives_the_neighbours(recorded):
    said = json.loads(recorded("net/ip-json-bond-good.json"))["lldp_status"]
    software = "Arista Networks EOS version 4.24.4M running on an Arista Networks 7368"
    assert lldp.parse(Output(json.dumps(said))) == {
        "enp97s0f0": [Neighbour("rscfee5001", ("ifname_value",), software)],
        "enp225s0f0": [Neighbour("rscfee4001", ("ifname_value",), software)],
    }


def test_json0_of_one_interface_is_read_too():
    chassis = [
        {"id": [{"type": "mac", "value": "02:00"}], "name": [{"value": "leaf-1"}], "descr": [{"value": "SONiC"}]}
    ]
    port = [{"id": [{"type": "local", "value": "etp1"}], "descr": [{"value": "Ethernet0"}]}]
    interface = {"name": "eth0", "via": "LLDP", "chassis": chassis, "port": port}
    text = json.dumps({"lldp": [{"interface": [interface, {**interface, "name": "eth1", "via": "CDPv2"}]}]})
    assert lldp.parse(Output(text)) == {"eth0": [Neighbour("leaf-1", ("etp1", "Ethernet0"), "SONiC")]}


@pytest.mark.parametrize("text", ['{"lldp": {}}', '{"lldp": {"interface": []}}'])
def test_host_that_hears_nobody_has_no_neighbours(text):
    assert lldp.parse(Output(text)) == {}


@pytest.mark.parametrize(
    "output",
    [
        Output(rc=None, error="lldpctl: not found in /usr/bin"),
        Output("", "unable to connect to socket", 1),
        Output(healthy("lldp")[:700]),
        Output('{"lldp": {"interface": null}}'),
        Output('{"lldp": {"interface": {"eth0": {"chassis": {"leaf-1": {"id": {"value": "02:00"}}}, "port": {}}}}}'),
        Output('{"lldp": {"interface": {"eth0": {"chassis": {}, "port": {"id": {"value": "swp1"}}}}}}'),
    ],
)
def test_lldp_that_cannot_be_read(output):
    with pytest.raises(Unreadable):
        lldp.parse(output)


def replies(**others):
    """Return a host with two InfiniBand ports, one in Ethernet mode and one that cannot be told."""
    given = {
        "mlx5_0 nodedesc": Output(DESCRIPTION),
        "mlx5_0 nodeinfo": Output(INFORMATION + PORT),
        "mlx5_1 nodedesc": Output(DESCRIPTION.replace("leaf-1", "leaf-2")),
        "mlx5_1 nodeinfo": Output(INFORMATION + PORT),
        **{name.replace("_of_", " "): output for name, output in others.items()},
    }
    commands = {
        f"smpquery -C {device} -P 1 -D {question} 0,1": output
        for (device, question), output in ((name.split(), output) for name, output in given.items())
    }
    layers = {"mlx5_0": Output("InfiniBand\n"), "mlx5_1": Output("InfiniBand\n"), "mlx5_2": Output("Ethernet\n")}
    files = {LAYER.format(device): output for device, output in layers.items()}
    return FakeHost({**commands, **files})


def found(host, expect):
    return infiniband_neighbours.parse(infiniband_neighbours.collect(host, typed(expect)))


def test_each_infiniband_port_asks_its_own_other_end(expect):
    host = replies()
    assert found(host, expect) == {"mlx5_0": Neighbour("leaf-1", ("5",)), "mlx5_1": Neighbour("leaf-2", ("5",))}
    assert len(host.runs) == 4 and set(host.limits) == {infiniband_neighbours.TIMEOUT_SECONDS}


def test_nvswitch_is_not_asked_through_the_nic_that_manages_it(expect):
    host = replies()
    base = "/sys/bus/pci/devices/0000:05:00.0"
    host.outputs |= {f"{base}/vendor": Output("0x15b3\n"), f"{base}/class": Output("0x020700\n")}
    host.outputs |= {f"{base}/vpd": Output("V3 SW_MNG"), f"{base}/infiniband/mlx5_1": Output()}
    assert found(host, expect) == {"mlx5_0": Neighbour("leaf-1", ("5",))}
    assert not [command for command in host.commands if "mlx5_1" in command]


def test_healthy_output_names_a_leaf_for_each_rail():
    found = infiniband_neighbours.parse(Output(healthy("infiniband_neighbours")))
    assert found == {f"mlx5_{rail}": Neighbour(f"leaf-{rail + 1}", ("1",)) for rail in range(8)}


SILENT = Output("smpquery: iberror: failed: operation nodeinfo: node info query failed\n", "ibwarn: failed\n", 255)


@pytest.mark.parametrize(
    "output",
    [
        SILENT,
        Output(rc=None, timed_out=True, error="smpquery: no answer within 10 s"),
        Output(""),
        Output(INFORMATION),
        Output(INFORMATION.replace("Switch", "Channel Adapter") + PORT),
        Output(INFORMATION + PORT.replace("5", "0x5")),
    ],
)
def test_port_whose_other_end_is_not_known_is_left_out(expect, output):
    assert set(found(replies(mlx5_1_of_nodeinfo=output), expect)) == {"mlx5_0"}
    with pytest.raises(Unreadable, match=r"mlx5_0|NodeType"):
        found(replies(mlx5_0_of_nodeinfo=output, mlx5_1_of_nodeinfo=output), expect)


def test_port_whose_link_layer_cannot_be_read_is_asked(expect):
    host = replies(mlx5_1_of_nodedesc=SILENT)
    host.outputs[LAYER.format("mlx5_1")] = Output(rc=None, error="Input/output error")
    assert set(found(host, expect)) == {"mlx5_0"} and any("mlx5_1" in argv for argv in host.runs)


def test_host_without_infiniband_ports_has_no_neighbours(fake_host, expect):
    assert found(fake_host, expect) == {} and fake_host.runs == []


def test_output_that_was_cut_short_is_no_output():
    whole = healthy("infiniband_neighbours")
    for text in ("", whole[:-9], "smpquery: failed\n"):
        with pytest.raises(Unreadable, match="expected a whole list"):
            infiniband_neighbours.parse(Output(text))
    assert set(infiniband_neighbours.parse(Output(whole[: whole.index("==> mlx5_2")]))) == {"mlx5_0"}


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("MF0;su1-leaf1:MQM9790/U1", "su1-leaf1"),
        ("MF0;core-1:MCS8500/L01/U1", "core-1-L01"),
        ("leaf-1", "leaf-1"),
        ("Quantum Mellanox Technologies", "Quantum Mellanox Technologies"),
    ],
)
def test_name_of_a_switch(description, name):
    assert infiniband_neighbours.switch_name(description) == name

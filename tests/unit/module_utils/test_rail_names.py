"""What the system calls the rails: read by PCI address from paths of sysfs, whatever the names are."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import (
    NamedRail,
    Names,
    collect_names,
    named,
    no_device,
    no_interface,
    parse_names,
    read_names,
)
from ansible_collections.muster.cluster.plugins.module_utils.probes import rail_names
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail

from tests.fake_host import FakeHost
from tests.typed import typed

PCI = "/sys/bus/pci/devices"
RAIL = Rail(0, "0000:1a:00.0")


def host(*paths, **parents):
    """Return a host with these paths below PCI, and the parent of each class and name (``net/ib0.8001``)."""
    files = {f"/sys/class/{name}/parent": Output(f"{parent}\n") for name, parent in parents.pop("parents", {}).items()}
    return FakeHost({**dict.fromkeys((f"{PCI}/{path}" for path in paths), Output()), **files})


def rail_on(found):
    """Return rail 0 with the names of a host."""
    (rail,) = named([RAIL], read_names(found))
    return rail


@pytest.mark.parametrize(
    ("device", "interface"),
    [("mlx5_0", "eth2"), ("rocep26s0", "enp26s0np0"), ("mlx5_1", "ens1f0"), ("ibp26s0", "ibp26s0")],
)
def test_rail_is_the_function_at_its_address_by_any_name(device, interface):
    # A card that was found first took the name which the rail would have.
    first = ("0000:0a:00.0/infiniband/mlx5_9", "0000:0a:00.0/net/ens9")
    found = host(*first, f"0000:1a:00.0/infiniband/{device}", f"0000:1a:00.0/net/{interface}")
    rail = rail_on(found)
    assert rail == NamedRail(0, "0000:1a:00.0", device, interface)
    assert (str(rail), rail.name) == (f"rail 0 ({device})", "rail0")


def test_rail_without_an_interface_or_device_has_no_name_of_such():
    without = rail_on(host("0000:1a:00.0/infiniband/mlx5_0"))
    assert (without.device, without.interface) == ("mlx5_0", None)
    nothing = rail_on(host("0000:0a:00.0/infiniband/mlx5_0"))
    assert (nothing.device, nothing.interface, nothing.name) == (None, None, "rail0")
    assert str(nothing) == "rail 0 (0000:1a:00.0)"


def test_interface_of_a_virtual_machine_lies_below_its_virtio_device():
    assert rail_on(host("0000:1a:00.0/virtio3/net/eth1")).interface == "eth1"


def test_device_in_software_is_that_of_its_interface():
    soft = host("0000:1a:00.0/net/eth1", "0000:0a:00.0/net/eth0", parents={"infiniband/rxe0": "eth1"})
    assert rail_on(soft).device == "rxe0"


def test_interface_of_a_further_partition_is_not_the_rail_s_own():
    children = {"net/ib0.8001": "ib0"}
    ipoib = host("0000:1a:00.0/net/ib0", "0000:1a:00.0/net/ib0.8001", parents=children)
    assert rail_on(ipoib).interface == "ib0"


def test_parent_that_cannot_be_read_tells_nothing():
    found = host("0000:1a:00.0/net/eth1", parents={"infiniband/rxe0": "eth1"})
    found.outputs["/sys/class/infiniband/rxe0/parent"] = Output(rc=None, error="gone")
    assert rail_on(found).device is None


def test_two_names_at_one_address_are_none_and_told():
    names = read_names(host(*(f"0000:1a:00.0/{name}" for name in ("infiniband/a", "infiniband/b", "net/c", "net/d"))))
    (rail,) = named([RAIL], names)
    assert (rail.device, rail.interface) == (None, None)
    assert no_device(RAIL, names) == "rail 0 has RDMA devices a, b at 0000:1a:00.0, expected one"
    assert no_interface(RAIL, names) == "rail 0 has network interfaces c, d at 0000:1a:00.0, expected one"


def test_missing_names_are_told_with_those_that_are_there():
    names = read_names(host("0000:0a:00.0/infiniband/mlx5_0"))
    assert no_device(RAIL, names) == (
        "rail 0 has no RDMA device at 0000:1a:00.0, RDMA devices of this host: mlx5_0 at 0000:0a:00.0"
    )
    assert no_interface(RAIL, names).endswith("network interfaces of this host: none")


def test_host_without_nics_has_no_names():
    assert read_names(host()) == Names()


@pytest.mark.parametrize(
    "output",
    [
        Output(f"{PCI}/0000:1a:00.0/infiniband/mlx5_0"),
        Output(f"{PCI}/0000:1a:00.0/infiniband/mlx5_0\n\n"),
        Output(f"{PCI}/0000:1a:00.0/infini\n"),
        Output(f"{PCI}/0000:1a:00.0/infiniband/mlx5_0/ports\n"),
        Output("mlx5_0\n"),
        Output("/sys/class/infiniband/rxe0/parent\n"),
        Output("", rc=1, stderr="no such host"),
        Output(rc=None, error="no answer"),
    ],
)
def test_what_is_no_list_of_names_is_unreadable(output):
    with pytest.raises(Unreadable):
        parse_names(output)


def test_probe_reads_the_names_of_the_healthy_host_without_running_a_tool(fake_host, expect):
    names = rail_names.parse(rail_names.collect(fake_host, typed(expect)))
    rails = named(typed(expect).nic.rails, names)
    assert [(rail.device, rail.interface) for rail in rails] == [(f"mlx5_{n}", f"rdma{n}") for n in range(8)]
    assert fake_host.runs == []


def test_names_are_read_through_the_links_of_a_real_sysfs(tmp_path):
    function = tmp_path / "sys/devices/pci0000:15/0000:15:01.0/0000:1a:00.0"
    for name in ("infiniband/rocep26s0/ports/1", "net/enp26s0np0"):
        (function / name).mkdir(parents=True)
    for place, target in (
        ("sys/bus/pci/devices/0000:1a:00.0", function),
        ("sys/class/infiniband/rocep26s0", function / "infiniband/rocep26s0"),
        ("sys/class/net/enp26s0np0", function / "net/enp26s0np0"),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(target)
    real = LocalHost(root=str(tmp_path))
    assert collect_names(real).stdout.splitlines() == [
        f"{PCI}/0000:1a:00.0/infiniband/rocep26s0",
        f"{PCI}/0000:1a:00.0/net/enp26s0np0",
    ]
    assert str(rail_on(real)) == "rail 0 (rocep26s0)"

"""NICs against the class."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import (
    nic_counter_growth,
    nic_errors,
    nic_firmware,
    nic_interface,
    nic_inventory,
    nic_link,
    nic_pcie,
    nic_physical,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import parse_names
from ansible_collections.muster.cluster.plugins.module_utils.probes import infiniband, mlxlink, net_devices
from ansible_collections.muster.cluster.plugins.module_utils.stress.nic_counters import Readings

from tests.typed import RAILS_FABRIC, typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
DEVICES = infiniband.parse(Output((HEALTHY / "infiniband.txt").read_text()))
INTERFACES = net_devices.parse(Output((HEALTHY / "net_devices.txt").read_text()))
NAMES = parse_names(Output((HEALTHY / "rail_names.txt").read_text()))
LINKS = mlxlink.parse(Output((HEALTHY / "mlxlink.txt").read_text()))
CHECKS = (nic_inventory, nic_link, nic_interface, nic_pcie, nic_firmware, nic_physical, nic_errors)
SICK = "nic rail3"


@pytest.fixture
def expect(expect):
    """The class on a fabric whose rails have network interfaces."""
    return {**expect, "fabric": RAILS_FABRIC}


def judged(check, value, expect, names=NAMES):
    """Return the findings by part."""
    found = check.decide({check.PROBES[0]: value, "rail_names": names}, typed(expect))
    return {finding.subject: finding for finding in found}


def only(check, value, expect, names=NAMES):
    """Return the finding on the sick rail; all others pass."""
    found = judged(check, value, expect, names)
    assert list(found) == list(check.subjects(typed(expect)))
    sick = found.pop(SICK)
    assert {finding.verdict for finding in found.values()} == {"pass"}
    assert sick.verdict == "pass" or "rail 3 " in sick.reason
    return sick


def device(**changes):
    """Return the devices with one of them changed; what is no field of it is one of its port."""
    own = {key: value for key, value in changes.items() if key in infiniband.Device.__dataclass_fields__}
    port = {key: value for key, value in changes.items() if key not in own}
    sick = DEVICES["mlx5_3"]
    return {**DEVICES, "mlx5_3": replace(sick, ports=(replace(sick.ports[0], **port),), **own)}


def counters(**changes):
    return device(counters={**DEVICES["mlx5_3"].ports[0].counters, **changes})


def link(**changes):
    return replace(LINKS, links={**LINKS.links, "rail3": replace(LINKS.links["rail3"], **changes)})


def without_rail_3(kind):
    """Return the names of a host on which nothing of the kind lies at the address of rail 3."""
    found = {address: names for address, names in getattr(NAMES, kind).items() if address != "0000:5e:00.0"}
    return replace(NAMES, **{kind: found})


def called(number_of):
    """Return devices, interfaces and names of the host when they are called otherwise, and a card lies besides."""
    devices = {number_of(name): value for name, value in DEVICES.items()}
    interfaces = {number_of(name): value for name, value in INTERFACES.items()}
    more = {number_of("mlx5_8"): replace(DEVICES["mlx5_0"], firmware="22.39.1002", model="MT4125")}
    names = replace(
        NAMES,
        devices={
            **{address: tuple(map(number_of, each)) for address, each in NAMES.devices.items()},
            "0000:1b:00.0": (number_of("mlx5_8"),),
        },
        interfaces={address: tuple(map(number_of, each)) for address, each in NAMES.interfaces.items()},
    )
    return {**devices, **more}, interfaces, names


def persistent(name):
    """Return a name as rdma-core and systemd give it at the next boot."""
    kind, number = name[:-1].rstrip("_"), int(name[-1])
    return f"{'roce' if kind == 'mlx5' else 'en'}p{20 + number}s0{'' if kind == 'mlx5' else 'np0'}"


def shifted(name):
    """Return a name where a further card was found first."""
    return f"{name[:-1]}{(int(name[-1]) + 1) % 9}"


@pytest.mark.parametrize("check", [*CHECKS, nic_counter_growth])
def test_healthy_rails_pass_and_a_class_without_nics_owes_nothing(check, expect):
    values = {
        "infiniband": DEVICES,
        "net_devices": INTERFACES,
        "mlxlink": LINKS,
        "nic_counters": Readings(DEVICES, DEVICES),
    }
    found = judged(check, values[check.PROBES[0]], expect)
    assert list(found) == [f"nic rail{rail}" for rail in range(8)]
    assert {finding.verdict for finding in found.values()} == {"pass"}
    expect["nic"] = None
    assert list(check.subjects(typed(expect))) == []


@pytest.mark.parametrize(
    ("check", "changes", "answer"),
    [
        (nic_link, {"state": "down", "phys_state": "disabled"}, ("fail", "down, disabled", "reseat")),
        (nic_link, {"state": "down"}, ("fail", "down, linkup", "reseat")),
        (nic_link, {"state": "init"}, ("fail", "init, linkup", "investigate")),
        (nic_link, {"rate_gbps": 200.0}, ("fail", 200.0, "reseat")),
        (nic_link, {"rate_gbps": 800.0}, ("fail", 800.0, "investigate")),
        (nic_link, {"lanes": 2}, ("fail", 2, "reseat")),
        (nic_link, {"link_layer": "InfiniBand"}, ("fail", "InfiniBand", "investigate")),
        (nic_link, {"lanes": None}, ("pass", 400.0, "none")),
        (nic_link, {"rate_gbps": None}, ("incomplete", None, "investigate")),
        (nic_link, {"state": None}, ("incomplete", None, "investigate")),
        (nic_link, {"phys_state": None}, ("incomplete", None, "investigate")),
        (nic_link, {"link_layer": None}, ("incomplete", None, "investigate")),
        (nic_pcie, {"pcie_gt_per_s": 16.0}, ("fail", "Gen4 x16", "reseat")),
        (nic_pcie, {"pcie_width": 8}, ("fail", "Gen5 x8", "reseat")),
        (nic_pcie, {"pcie_width": 8, "pcie_gt_per_s": None}, ("fail", "Gen? x8", "reseat")),
        (nic_pcie, {"pcie_gt_per_s": 64.0}, ("pass", "Gen6 x16", "none")),
        (nic_pcie, {"pcie_width": None}, ("incomplete", None, "investigate")),
        (nic_firmware, {"firmware": "28.39.1002"}, ("fail", "28.39.1002", "investigate")),
        (nic_firmware, {"firmware": None}, ("incomplete", None, "investigate")),
    ],
)
def test_one_sick_rail_is_named(check, changes, answer, expect):
    sick = only(check, device(**changes), expect)
    assert (sick.verdict, sick.measured, sick.action) == answer


@pytest.mark.parametrize("check", [nic_link, nic_pcie, nic_firmware, nic_errors])
@pytest.mark.parametrize(
    ("devices", "names", "said"),
    [
        ({name: value for name, value in DEVICES.items() if name != "mlx5_3"}, NAMES, "not among the 7 RDMA devices"),
        (DEVICES, without_rail_3("devices"), "rail 3 has no RDMA device at 0000:5e:00.0"),
    ],
)
def test_rail_that_is_gone_is_incomplete_but_in_the_inventory(check, devices, names, said, expect):
    sick = only(check, devices, expect, names)
    assert sick.verdict == "incomplete" and said in sick.reason
    missing = only(nic_inventory, devices, expect, names)
    assert (missing.verdict, missing.measured, missing.expected) == ("fail", "absent", "0000:5e:00.0")
    assert missing.action == "reseat" and said in missing.reason


def test_device_at_another_address_is_no_rail_and_told(expect):
    moved = replace(NAMES, devices={**without_rail_3("devices").devices, "0000:5f:00.0": ("mlx5_3",)})
    assert "mlx5_3 at 0000:5f:00.0" in only(nic_inventory, DEVICES, expect, moved).reason


def test_two_devices_at_one_address_pass_nobody(expect):
    two = replace(NAMES, devices={**NAMES.devices, "0000:5e:00.0": ("mlx5_3", "mlx5_9")})
    missing = only(nic_inventory, {**DEVICES, "mlx5_9": DEVICES["mlx5_3"]}, expect, two)
    assert missing.verdict == "fail" and "rail 3 has RDMA devices mlx5_3, mlx5_9" in missing.reason


@pytest.mark.parametrize("number_of", [persistent, shifted])
@pytest.mark.parametrize("check", [nic_inventory, nic_link, nic_interface, nic_pcie, nic_firmware, nic_errors])
def test_rails_are_judged_whatever_the_system_calls_them(check, number_of, expect):
    expect["nic"]["model"] = "MT4129"
    devices, interfaces, names = called(number_of)
    found = judged(check, interfaces if check is nic_interface else devices, expect, names)
    assert list(found) == [f"nic rail{rail}" for rail in range(8)]
    assert {finding.verdict for finding in found.values()} == {"pass"}


@pytest.mark.parametrize("number_of", [persistent, shifted])
def test_sick_rail_is_named_by_what_the_system_calls_it(number_of, expect):
    devices, _, names = called(number_of)
    name = number_of("mlx5_3")
    devices[name] = replace(devices[name], pcie_width=8)
    sick = only(nic_pcie, devices, expect, names)
    assert sick.verdict == "fail" and sick.reason.startswith(f"rail 3 ({name}) PCIe link runs at Gen5 x8")


RAILS = dict.fromkeys(NAMES.devices, False)


@pytest.mark.parametrize(
    ("owed", "managers", "verdict"),
    [
        (False, None, "pass"),
        (False, {**RAILS, "0000:5e:00.0": None}, "pass"),
        (False, {**RAILS, "0000:5e:00.0": True}, "fail"),
        (True, {**RAILS, "0000:05:00.0": True}, "pass"),
        (True, {**RAILS, "0000:5e:00.0": True}, "fail"),
        (True, {**RAILS, "0000:5e:00.0": None}, "incomplete"),
        (True, {address: False for address in RAILS if address != "0000:5e:00.0"}, "incomplete"),
    ],
)
def test_nic_that_manages_nvswitches_is_no_rail(owed, managers, verdict, expect):
    expect["nvlink"] = {**expect["nvlink"], "subnet_manager": owed}
    values = {"infiniband": DEVICES, "rail_names": NAMES, "nvswitch_nics": managers}
    found = {finding.subject: finding for finding in nic_inventory.decide(values, typed(expect))}
    sick = found.pop(SICK)
    assert {finding.verdict for finding in found.values()} == {"pass"}
    assert sick.verdict == verdict and (verdict == "pass" or "rail 3 (mlx5_3) manages NVSwitches" in sick.reason)


def test_manager_without_a_driver_is_no_rail_either(expect):
    values = {"infiniband": DEVICES, "rail_names": without_rail_3("devices"), "nvswitch_nics": {"0000:5e:00.0": True}}
    found = {finding.subject: finding for finding in nic_inventory.decide(values, typed(expect))}
    assert (found[SICK].verdict, found[SICK].measured) == ("fail", "manages NVSwitches")


def test_unread_managers_pass_no_rail_of_a_host_that_has_some(expect):
    expect["nvlink"] = {**expect["nvlink"], "subnet_manager": True}
    assert {finding.verdict for finding in judged(nic_inventory, DEVICES, expect).values()} == {"incomplete"}


def test_declared_model_and_firmware_hold(expect):
    expect["nic"].update(model="MT4131", firmware="28.43.1014")
    assert {item.action for item in judged(nic_inventory, DEVICES, expect).values()} == {"replace"}
    assert only(nic_firmware, device(firmware="28.43.1015"), expect).expected == "28.43.1014"


def test_no_prevailing_firmware_fails_all(expect):
    half = {name: replace(value, firmware="1.0.0" if name < "mlx5_4" else "2.0.0") for name, value in DEVICES.items()}
    assert {item.verdict for item in judged(nic_firmware, half, expect).values()} == {"fail"}


@pytest.mark.parametrize(
    ("changes", "verdict", "measured"),
    [
        ({"operstate": "down", "speed_mbps": None}, "fail", "down"),
        ({"speed_mbps": 200000}, "fail", 200.0),
        ({"mtu": 1500}, "fail", 1500),
        ({"mtu": None}, "incomplete", None),
        ({"speed_mbps": None}, "incomplete", None),
        ({"operstate": "unknown"}, "incomplete", None),
        ({"operstate": None}, "incomplete", None),
    ],
)
def test_interface_of_a_rail(changes, verdict, measured, expect):
    sick = only(nic_interface, {**INTERFACES, "rdma3": replace(INTERFACES["rdma3"], **changes)}, expect)
    assert (sick.verdict, sick.measured) == (verdict, measured)


def test_rail_without_an_interface_fails(expect):
    sick = only(nic_interface, INTERFACES, expect, without_rail_3("interfaces"))
    assert (sick.verdict, sick.measured) == ("fail", "absent")
    assert "rail 3 has no network interface at 0000:5e:00.0" in sick.reason
    two = replace(NAMES, interfaces={**NAMES.interfaces, "0000:5e:00.0": ("rdma3", "rdma9")})
    sick = only(nic_interface, INTERFACES, expect, two)
    assert sick.verdict == "fail" and "expected one" in sick.reason


@pytest.mark.parametrize(
    ("fabric", "link_layer", "owed"),
    [
        (None, None, []),
        (None, "Ethernet", [f"nic rail{rail}" for rail in range(8)]),
        (None, "InfiniBand", []),
        ({**RAILS_FABRIC, "kind": "infiniband"}, "InfiniBand", []),
        (
            {**RAILS_FABRIC, "kind": "infiniband", "ipoib": "datagram"},
            "InfiniBand",
            [f"nic rail{rail}" for rail in range(8)],
        ),
    ],
)
def test_rails_owe_interfaces_where_their_network_has_such(fabric, link_layer, owed, expect):
    expect["fabric"], expect["nic"]["link_layer"] = fabric, link_layer
    assert list(nic_interface.subjects(typed(expect))) == owed
    assert list(judged(nic_interface, INTERFACES, expect)) == owed


def test_absent_front_end_interface_is_named(expect):
    expect["nic"]["frontend"] = [{"interface": "eth0", "speed_gbps": 200, "mtu_bytes": None}]
    found = judged(nic_interface, INTERFACES, expect)["nic eth0"]
    assert (found.verdict, found.measured) == ("fail", "absent")


@pytest.mark.parametrize(
    ("changes", "verdict", "said"),
    [
        ({"link_downed": 4}, "pass", "link_downed 4 of 4"),
        ({"link_downed": 5}, "fail", "link_downed 5 (class limit 4)"),
        ({"link_downed": 255}, "fail", "link_downed at least 255"),
        ({"symbol_error": 11, "port_rcv_errors": 101}, "fail", "port_rcv_errors 101"),
        ({"excessive_buffer_overrun_errors": 15}, "pass", ""),
    ],
)
def test_counters_against_the_class_limits(changes, verdict, said, expect):
    sick = only(nic_errors, counters(**changes), expect)
    assert sick.verdict == verdict and said in sick.reason


def test_limited_counter_that_is_not_there_is_incomplete(expect):
    left = {name: count for name, count in DEVICES["mlx5_3"].ports[0].counters.items() if name != "symbol_error"}
    sick = only(nic_errors, device(counters=left), expect)
    assert sick.verdict == "incomplete" and "symbol_error could not be read" in sick.reason


@pytest.mark.parametrize(
    ("changes", "verdict", "action", "said"),
    [
        ({"state": "Polling", "advice": "No signal"}, "fail", "reseat", "link is Polling: No signal"),
        ({"state": None}, "incomplete", "investigate", "state could not be read"),
        ({"effective_ber": 1e-12}, "pass", "none", ""),
        ({"effective_ber": 1.1e-12}, "fail", "reseat", "effective BER 1.1e-12, class limit 1e-12"),
        ({"effective_ber": None}, "incomplete", "investigate", "effective BER could not be read"),
        ({"raw_ber": 1e-5}, "pass", "investigate", "raw BER 1e-05 is above 1e-06"),
        ({"raw_ber": 3e-4}, "fail", "reseat", "raw BER 0.0003"),
        ({"raw_ber": None}, "incomplete", "investigate", "raw BER could not be read"),
        ({"speed": "IB-NDR"}, "incomplete", "investigate", "symbol BER could not be read"),
        ({"speed": "IB-NDR", "symbol_ber": 1e-13}, "fail", "reseat", "symbol BER 1e-13"),
        ({"advice_code": 15, "advice": "Bad signal integrity"}, "fail", "reseat", "Bad signal integrity"),
        ({"advice_code": None}, "incomplete", "investigate", "what the firmware found could not be read"),
        ({"link_downs": 5}, "fail", "reseat", "link_downed 5, class limit 4"),
        ({"fec_histogram": {}}, "incomplete", "investigate", "histogram"),
        ({"fec_histogram": {0: 1, 4: 9, 15: 0}}, "pass", "none", ""),
        ({"fec_histogram": {0: 1, 8: 3, 15: 0}}, "pass", "investigate", "3 code words needed 8 of 15"),
        ({"fec_histogram": {0: 1, 15: 1}}, "fail", "reseat", "1 code words needed 15 of 15"),
        ({"temperature": mlxlink.Reading((70.0,), -10, 80)}, "pass", "none", ""),
        ({"temperature": mlxlink.Reading((71.0,), -10, 80)}, "fail", "investigate", "class limit 70"),
        ({"temperature": mlxlink.Reading((69.0,), -10, 60)}, "fail", "investigate", "its own limit 60"),
        ({"temperature": mlxlink.Reading()}, "incomplete", "investigate", "module temperature"),
        ({"temperature": mlxlink.Reading(), "cable_type": "Passive copper cable"}, "pass", "none", ""),
        ({"rx_power": mlxlink.Reading((1.0, -40.0), -9.9, 7)}, "fail", "reseat", "received light on lane 1 -40 dBm"),
        ({"tx_power": mlxlink.Reading((8.0,), -9.9, 7)}, "fail", "reseat", "sent light on lane 0 8 dBm"),
        ({"rx_power": mlxlink.Reading()}, "incomplete", "investigate", "received light"),
        ({"rx_power": mlxlink.Reading(), "cable_type": "Active cable"}, "pass", "none", ""),
        ({"temperature": mlxlink.Reading((0.0,))}, "incomplete", "investigate", "module temperature could not be read"),
        ({"flags": ("Tx Fault on lane 0, 2",)}, "fail", "reseat", "the module reports Tx Fault on lane 0, 2"),
        ({"flags": ("Rx LOS on lane 0",), "cable_type": "Passive copper cable"}, "pass", "none", ""),
        ({"flags": ("Rx LOS on lane 0",), "monitored": "No"}, "fail", "reseat", "the module reports Rx LOS"),
        ({"unread_flags": ("Rx LOS",)}, "incomplete", "investigate", "Rx LOS could not be read"),
        ({"module_state": "Fault state"}, "fail", "reseat", "Fault state"),
        ({"module_state": "LowPwr state"}, "incomplete", "investigate", "a module in 'LowPwr state' contradict"),
        ({"configuration": "ConfigRejectedInvalidAppSel"}, "incomplete", "investigate", "ConfigRejectedInvalidAppSel"),
        ({"data_paths": ("DPInit", "DPInit")}, "fail", "reseat", "data path of 0 of 4 lanes is activated (DPInit)"),
        ({"data_paths": ("DPActivated",) * 3 + ("DPDeinit",)}, "fail", "reseat", "of 3 of 4 lanes is activated"),
        # The other four are another port's.
        ({"data_paths": ("DPActivated",) * 4 + ("DPDeactivated",) * 4}, "pass", "none", ""),
        ({"speed": "200G"}, "fail", "reseat", "runs at 200 Gb/s (4x 200G), class rate 400"),
        ({"speed": "100G", "width": "1x"}, "fail", "reseat", "runs at 100 Gb/s (1x 100G)"),
        ({"speed": None}, "incomplete", "investigate", "speed unread, width 4x: the rate could not be told"),
        ({"width": None}, "incomplete", "investigate", "the rate could not be told"),
        (
            {"limited": {"Voltage [mV]": mlxlink.Reading((2969.0,), 2970, 3630)}},
            "fail",
            "reseat",
            "below the module's 2970",
        ),
        ({"limited": {"Voltage [mV]": mlxlink.Reading((2970.0,), 2970, 3630)}}, "pass", "none", ""),
        ({"loopback": "PHY Local Loopback"}, "fail", "investigate", "the port talks to itself"),
        ({"speed": "400G", "width": "4x", "fec": "No FEC"}, "fail", "investigate", "at 100 Gb/s per lane"),
        ({"physical_state": "Disabled"}, "incomplete", "investigate", "contradict each other"),
        ({"raw_ber_lanes": (1e-9, 3e-4)}, "fail", "reseat", "raw BER 0.0003 on lane 1"),
        ({"raw_ber_lanes": (1e-9, 2e-6)}, "pass", "investigate", "on lane 1 is above 1e-06"),
        ({"raw_ber_lanes": (1e-9, None)}, "incomplete", "investigate", "raw BER of lane 1 could not be read"),
        ({"effective_errors": 5000}, "incomplete", "investigate", "contradict each other"),
        ({"effective_errors": 5, "effective_ber": 1e-15}, "pass", "investigate", "5 effective errors were left"),
        ({"minutes": 0.1}, "incomplete", "investigate", "they prove nothing yet"),
        ({"advice": "Bad signal integrity"}, "incomplete", "investigate", "status opcode 0 and the recommendation"),
    ],
)
def test_physical_layer(changes, verdict, action, said, expect):
    sick = only(nic_physical, link(**changes), expect)
    assert (sick.verdict, sick.action) == (verdict, action) and said in sick.reason
    assert not sick.reason or "serial LAB" in sick.reason


def test_lanes_of_25_gb_per_s_need_no_error_correction(expect):
    expect["nic"]["speed_gbps"] = 100
    found = only(nic_physical, link(speed="100G", width="4x", fec="No FEC"), expect)
    assert (found.verdict, found.action) == ("pass", "none")


def test_device_without_report_is_incomplete_with_its_reason(expect):
    links = {name: value for name, value in LINKS.links.items() if name != "rail3"}
    sick = only(nic_physical, mlxlink.Links(links, {"rail3": "exit status 1: no such device"}), expect)
    assert sick.verdict == "incomplete" and "no such device" in sick.reason


@pytest.mark.parametrize(
    ("before", "after", "verdict", "said"),
    [
        (counters(symbol_error=5), counters(symbol_error=15), "pass", ""),
        (counters(symbol_error=5), counters(symbol_error=16), "fail", "symbol_error by 11 (class limit 10)"),
        (DEVICES, counters(link_downed=1), "fail", "link_downed by 1 (class limit 0)"),
        (counters(link_downed=255), counters(link_downed=255), "incomplete", "was at its maximum (255) before load"),
        (counters(link_downed=9), DEVICES, "incomplete", "fell from 9 to 0"),
        (DEVICES, counters(port_xmit_discards=10**6), "pass", ""),
        (DEVICES, device(counters={}), "incomplete", "could not be read"),
        (
            DEVICES,
            device(interfaces={"rdma3": {"carrier_changes": 4, "rx_crc_errors": 0}}),
            "fail",
            "carrier_changes by 2",
        ),
        (DEVICES, device(interfaces={}), "incomplete", "carrier_changes of rdma3 could not be read"),
        (DEVICES, {name: DEVICES[name] for name in DEVICES if name != "mlx5_3"}, "fail", "is gone after it"),
        ({name: DEVICES[name] for name in DEVICES if name != "mlx5_3"}, DEVICES, "incomplete", "no counters before"),
    ],
)
def test_growth_under_load(before, after, verdict, said, expect):
    sick = only(nic_counter_growth, Readings(before, after), expect)
    assert sick.verdict == verdict and said in sick.reason


def test_growth_of_a_rail_without_a_device_is_incomplete(expect):
    readings = Readings(DEVICES, DEVICES)
    sick = only(nic_counter_growth, readings, expect, without_rail_3("devices"))
    assert sick.verdict == "incomplete" and "rail 3 has no RDMA device at 0000:5e:00.0" in sick.reason


def test_growth_is_found_by_any_name(expect):
    before, _, names = called(persistent)
    name = persistent("mlx5_3")
    after = {**before, name: replace(before[name], ports=counters(link_downed=1)["mlx5_3"].ports)}
    sick = only(nic_counter_growth, Readings(before, after), expect, names)
    assert sick.verdict == "fail" and sick.reason.startswith(f"rail 3 ({name}) under load")

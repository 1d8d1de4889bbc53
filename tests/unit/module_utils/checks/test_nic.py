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
from ansible_collections.muster.cluster.plugins.module_utils.probes import infiniband, mlxlink, net_devices
from ansible_collections.muster.cluster.plugins.module_utils.stress.nic_counters import Readings

from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
DEVICES = infiniband.parse(Output((HEALTHY / "infiniband.txt").read_text()))
INTERFACES = net_devices.parse(Output((HEALTHY / "net_devices.txt").read_text()))
LINKS = mlxlink.parse(Output((HEALTHY / "mlxlink.txt").read_text()))
CHECKS = (nic_inventory, nic_link, nic_interface, nic_pcie, nic_firmware, nic_physical, nic_errors)
SICK = "nic mlx5_3"


def judged(check, value, expect):
    """Return the findings by part."""
    return {finding.subject: finding for finding in check.decide({check.PROBES[0]: value}, typed(expect))}


def only(check, value, expect):
    """Return the finding on the sick rail; all others pass."""
    found = judged(check, value, expect)
    assert list(found) == list(check.subjects(typed(expect)))
    sick = found.pop(SICK)
    assert {finding.verdict for finding in found.values()} == {"pass"}
    assert sick.verdict == "pass" or "mlx5_3" in sick.reason
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
    return replace(LINKS, links={**LINKS.links, "mlx5_3": replace(LINKS.links["mlx5_3"], **changes)})


@pytest.mark.parametrize("check", [*CHECKS, nic_counter_growth])
def test_healthy_rails_pass_and_a_class_without_nics_owes_nothing(check, expect):
    values = {
        "infiniband": DEVICES,
        "net_devices": INTERFACES,
        "mlxlink": LINKS,
        "nic_counters": Readings(DEVICES, DEVICES),
    }
    found = judged(check, values[check.PROBES[0]], expect)
    assert list(found) == [f"nic mlx5_{rail}" for rail in range(8)]
    assert {finding.verdict for finding in found.values()} == {"pass"}
    expect["nic"] = None
    assert list(check.subjects(typed(expect))) == []


@pytest.mark.parametrize(
    ("check", "changes", "answer"),
    [
        (nic_inventory, {"address": "0000:5f:00.0"}, ("fail", "0000:5f:00.0", "investigate")),
        (nic_inventory, {"address": None}, ("incomplete", None, "investigate")),
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
def test_rail_that_is_gone_is_incomplete_but_in_the_inventory(check, expect):
    gone = {name: value for name, value in DEVICES.items() if name != "mlx5_3"}
    assert only(check, gone, expect).verdict == "incomplete"
    missing = only(nic_inventory, gone, expect)
    assert (missing.verdict, missing.measured, missing.action) == ("fail", "absent", "reseat")
    assert "rail 3 (mlx5_3) at 0000:5e:00.0" in missing.reason


def test_device_by_another_name_and_devices_besides_are_told_apart(expect):
    renamed = {("mlx5_9" if name == "mlx5_3" else name): value for name, value in DEVICES.items()}
    renamed["mlx5_9"] = replace(renamed["mlx5_9"], name="mlx5_9")
    assert "is called mlx5_9" in only(nic_inventory, renamed, expect).reason
    more = {**DEVICES, "mlx5_8": replace(DEVICES["mlx5_0"], name="mlx5_8", address="0000:1b:00.0")}
    assert only(nic_inventory, more, expect).verdict == "pass"


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
    ],
)
def test_physical_layer(changes, verdict, action, said, expect):
    sick = only(nic_physical, link(**changes), expect)
    assert (sick.verdict, sick.action) == (verdict, action) and said in sick.reason
    assert not sick.reason or "serial LAB" in sick.reason


def test_device_without_report_is_incomplete_with_its_reason(expect):
    links = {name: value for name, value in LINKS.links.items() if name != "mlx5_3"}
    sick = only(nic_physical, mlxlink.Links(links, {"mlx5_3": "exit status 1: no such device"}), expect)
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

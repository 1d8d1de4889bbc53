"""RDMA devices, network interfaces and mlxlink's reports: from text to values."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nic_physical
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import cables, infiniband, mlxlink, net_devices

from tests.fake_host import FakeHost
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
SYSFS = (HEALTHY / "infiniband.txt").read_text()
NET = (HEALTHY / "net_devices.txt").read_text()
LINKS = (HEALTHY / "mlxlink.txt").read_text()
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4129
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand"""
# As a port of a ConnectX-7 with a passive cable describes itself: sensors at 0, without limits.
TEXT = """
Operational Info
----------------
State                              : \x1b[32mActive\x1b[0m
Physical state                     : LinkUp
Speed                              : IB-NDR
Width                              : 4x
FEC                                : Ethernet_Consortium_LL_50G_RS_FEC_PLR -(272,257+1)

Physical Counters and BER Info
------------------------------
Symbol BER                         : 15E-255
Effective Physical BER             : 15E-255
Raw Physical BER                   : 2E-8

Module Info
-----------
Temperature [C]                    : 0 [0..0]
Rx Power Current [dBm]             : 0,0,0,0 [0..0]
Cable Type                         : Passive copper cable
Vendor Serial Number               : S0000000
"""

# Of a link that is down: a report all the same.
REFUSED = """{"result": {"output": {"Operational Info": {"State": "Polling"}}},
"status": {"code": 1, "message": "FEC Histogram is valid with active link operation only"}}
"""
MISSING = Output(rc=None, error="not found in /usr/bin")


def read(probe, text):
    return probe.parse(Output(text))


def linked(text):
    return mlxlink.parse(blocks.joined({"rail0": Output(text)}))


def test_sysfs_gives_device_port_pcie_link_and_counters():
    device = read(infiniband, SYSFS)["mlx5_3"]
    port = device.ports[0]
    assert (device.firmware, device.model) == ("28.43.1014", "MT4129")
    assert (device.pcie_gt_per_s, device.pcie_width) == (32.0, 16)
    assert (port.state, port.phys_state, port.rate_gbps, port.lanes) == ("active", "linkup", 400.0, 4)
    assert (port.link_layer, port.lane_speed, port.counters["link_downed"]) == ("Ethernet", "NDR", 0)
    assert device.interfaces == {"rdma3": {"carrier_changes": 2, "rx_crc_errors": 0}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no RDMA device"),
        ("hello\n", "expected files of"),
        (SYSFS[:-1], "has no end"),
        (IBSTAT.replace("CA 'mlx5_1'\n", ""), "stands twice"),
        (f"{IBSTAT}\nibpanic: [7] main: stat of IB device 'mlx5_2' failed: No such file\n", "is no field"),
        (f"{IBSTAT}\nUsage: ibstat [options] <ca_name>\n", "is no field"),
        (f"ibwarn: [7] mad_rpc_open_port: can't open UMAD port\n{IBSTAT}", "the tool failed"),
        ("==> mlx5_0/fw_ver <==\n1\n", "expected files of"),
    ],
)
def test_what_is_no_whole_list_of_devices_is_unreadable(text, said):
    with pytest.raises(Unreadable, match=said):
        read(infiniband, text)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("4: ACTIVE", "7: NEW", "state"),
        ("5: LinkUp", "4: ACTIVE", "phys_state"),
        ("400 Gb/sec (4X NDR)", "400 Gb/sec", "rate_gbps"),
        ("Ethernet", "Etherne", "link_layer"),
    ],
)
def test_field_in_no_known_form_is_none(old, new, field):
    port = read(infiniband, SYSFS.replace(old, new))["mlx5_0"].ports[0]
    assert getattr(port, field) is None


def test_counter_that_the_port_does_not_have_is_left_out():
    heading = "==> /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error <==\n"
    assert heading in SYSFS
    port = read(infiniband, SYSFS.replace(heading + "0", heading + "N/A (no PMA)"))["mlx5_0"].ports[0]
    assert "symbol_error" not in port.counters and "link_downed" in port.counters


def test_ibstat_without_its_last_newline_is_whole():
    found = read(infiniband, IBSTAT)
    assert (found["mlx5_0"].model, found["mlx5_0"].ports[0].rate_gbps) == ("MT4129", 400.0)
    assert (found["mlx5_1"].ports[0].state, found["mlx5_1"].ports[0].lanes) == ("init", None)


@pytest.mark.parametrize("length", range(1, len(IBSTAT), 7))
def test_ibstat_cut_off_anywhere_is_unreadable_or_lacks_a_field(length):
    try:
        found = read(infiniband, IBSTAT[:length])
    except Unreadable:
        return
    ports = [port for device in found.values() for port in device.ports]
    assert len(ports) < 2 or None in (ports[1].state, ports[1].rate_gbps, ports[1].link_layer)


def test_interfaces_are_read_and_a_link_that_is_down_has_no_speed():
    assert read(net_devices, NET)["rdma0"] == net_devices.Interface("rdma0", "up", 9000, 400000, 2)
    text = NET.replace("400000", "-1").replace("\nup\n", "\ndown\n")
    assert read(net_devices, text)["rdma0"] == net_devices.Interface("rdma0", "down", 9000, None, 2)


def test_ip_json_is_understood_without_speed():
    text = json.dumps([{"ifname": "ib0", "mtu": 2044, "operstate": "UP", "new": 1}, {"ifname": "lo"}])
    assert read(net_devices, text)["ib0"] == net_devices.Interface("ib0", "up", 2044)
    for bad in ("[", "[1]", "[]", '[{"ifname": "a"}, {"ifname": "a"}]', "nothing\n", NET[:-1]):
        with pytest.raises(Unreadable):
            read(net_devices, bad)


def test_report_gives_rates_histogram_light_and_serial():
    link = read(mlxlink, LINKS).links["rail7"]
    assert (link.state, link.infiniband, link.effective_ber, link.raw_ber) == ("Active", False, 1.5e-254, 5e-10)
    assert (link.fec_symbols, len(link.fec_histogram), link.fec_histogram[3]) == (15, 16, 204)
    assert link.temperature == mlxlink.Reading((58.0,), -10.0, 80.0)
    assert len(link.rx_power.values) == 4 and link.rx_power.low == -9.914
    assert link.serial and link.serial.startswith("LAB")


def test_text_report_of_a_passive_cable_has_no_limits():
    link = linked(TEXT).links["rail0"]
    assert (link.state, link.infiniband, link.passive, link.symbol_ber) == ("Active", True, True, 1.5e-254)
    assert (link.fec_symbols, link.temperature) == (7, mlxlink.Reading((0.0,)))


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (Output("{"), "not JSON"),
        (Output('{"status": {"code": 1, "message": "Device is not found"}}'), "Device is not found"),
        (Output('{"result": {"output": {"Module Info": {}}}, "status": {"code": 0}}'), "expected 'Operational Info'"),
        (Output("", "-E- no such device", 1), "exit status 1: -E- no such device"),
        (Output("\x1b[31m \n\x1b[0m \n", "-E- no such device\n", 1), "exit status 1: -E- no such device"),
        (Output("\x1b[31m \n-E- no such device\n\x1b[0m \n", "", 1), "exit status 1: -E- no such device"),
        (Output("\x1b[31m \n\x1b[0m \n", "", 1), "exit status 1: no message"),
        (Output(REFUSED, "", 1), "exit status 1: status is 'FEC Histogram is valid with active link operation only'"),
        (Output(REFUSED.replace('"code": 1', '"code": 0'), "", 1), "exit status 1: no message"),
        (Output(rc=None, timed_out=True, error="no answer within 30 s"), "no answer within 30 s"),
        (Output("hello\n"), "expected JSON or"),
    ],
)
def test_device_without_a_report_says_why(report, said):
    found = mlxlink.parse(blocks.joined({"rail0": report}))
    assert not found.links and said in found.unread["rail0"]


@pytest.mark.parametrize("rate", ["-1", "1.5", "nan"])
def test_bit_error_rate_that_is_no_share_of_bits_is_unread(rate):
    link = linked(TEXT.replace("Symbol BER                         : 15E-255", f"Symbol BER : {rate}")).links["rail0"]
    assert link.symbol_ber is None


def test_flags_of_a_module_are_told_with_their_lanes():
    flags = "Module FW Fault : 1\nDataPath FW Fault : 0\nRx LOS [per lane] : 0,1,1,0\nTx Fault [per lane] : N/A,N/A\n"
    text = f"Operational Info\n----\nState : Active\n\nModule Info\n----\n{flags}LOS Alarm : what\n"
    link = linked(text).links["rail0"]
    assert (link.flags, link.unread_flags) == (("Module FW Fault", "Rx LOS on lane 1, 2"), ("LOS Alarm",))


@pytest.mark.parametrize(
    ("speed", "width", "gbps"),
    [("400G", "4x", 100), ("100G", "4x", 25), ("IB-NDR", "4x", 100), ("IB-EDR", "4x", 25), ("N/A", "4x", None)],
)
def test_speed_of_a_lane(speed, width, gbps):
    text = f"Operational Info\n----\nState : Active\nSpeed : {speed}\nWidth : {width}\n"
    assert linked(text).links["rail0"].lane_gbps == gbps


def test_no_report_at_all_is_unreadable():
    for text in ("", "nothing\n", LINKS[:-1]):
        with pytest.raises(Unreadable):
            read(mlxlink, text)


def test_histogram_with_a_bin_that_cannot_be_read_is_none_at_all():
    whole = json.loads(blocks.split(LINKS)["rail0"].stdout)
    section = whole["result"]["output"]["Histogram of FEC Errors"]
    for change in ({"Bin 15": {"values": ["[15]", "N/A"]}}, {"Bin 15": {"values": ["[14]", "0"]}}):
        whole["result"]["output"]["Histogram of FEC Errors"] = {**section, **change}
        assert linked(json.dumps(whole)).links["rail0"].fec_histogram == {}
    del section["Bin 7"]
    whole["result"]["output"]["Histogram of FEC Errors"] = section
    assert linked(json.dumps(whole)).links["rail0"].fec_histogram == {}


def test_tool_may_be_named_and_the_histogram_left_out(fake_host, expect):
    expect["nic"]["physical"].update(tool="mstlink", fec_histogram=False)
    fake_host.outputs["mstlink"] = fake_host.outputs["mlxlink"]
    mlxlink.collect(fake_host, typed(expect))
    assert fake_host.runs[0] == ("mstlink", "-d", "0000:1a:00.0", "-m", "-c", "--json") and len(fake_host.runs) == 8
    expect["nic"]["physical"] = None
    assert "declares no physical layer" in mlxlink.collect(fake_host, typed(expect)).error


@pytest.mark.parametrize("probe", [mlxlink, cables])
def test_links_are_read_with_the_tool_that_is_there_and_kept_without_its_name(probe, expect):
    report = blocks.split(LINKS)["rail0"]
    kept = {}
    for there, missing in (("mlxlink", "mstlink"), ("mstlink", "mlxlink")):
        host = FakeHost({there: report, missing: MISSING})
        kept[there] = probe.collect(host, typed(expect))
        assert [words[0] for words in host.runs if "-d" in words] == [there] * 8
    assert kept["mlxlink"] == kept["mstlink"]
    assert len(probe.parse(kept["mstlink"]).links) == 8


@pytest.mark.parametrize("probe", [mlxlink, cables])
def test_host_without_a_tool_for_links_leaves_every_rail_incomplete_and_names_both(probe, expect):
    names = ("mlxlink", "mstlink")
    host = FakeHost({name: Output(rc=None, error=f"{name}: not found in /usr/bin") for name in names})
    output = probe.collect(host, typed(expect))
    found = judge({"mlxlink": output}, {"mlxlink": probe}, [nic_physical], typed(expect)).findings
    assert [finding.verdict for finding in found] == ["incomplete"] * 8
    told = "mlxlink: not found in /usr/bin; mstlink: not found in /usr/bin: package mstflint has one"
    assert all(told in finding.reason for finding in found)

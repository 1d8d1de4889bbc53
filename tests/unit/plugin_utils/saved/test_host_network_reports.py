"""What a host says of its network, as people save it."""

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.saved import host_network_reports

from tests.fuzz.cases import expect
from tests.typed import typed

PORT = """Settings for eth7:
\tSupported link modes:   25000baseCR/Full
\t                        100000baseCR4/Full
\tAdvertised FEC modes: RS
\tSpeed: 100000Mb/s
\tDuplex: Full
\tLink detected: yes
"""
FEC = "FEC parameters for eth7:\nSupported/Configured FEC encodings: Auto RS\nActive FEC encoding: RS\n"
MODULE = """\tIdentifier                                : 0x11 (QSFP28)
\tModule temperature                        : 40.00 degrees C / 104.00 degrees F
\tLaser tx bias current (Channel 1)         : 7.000 mA
\tRcvr signal avg optical power(Channel 1)  : 0.9000 mW / -0.46 dBm
\tLaser rx power low alarm   (Channel 1)    : Off
\tModule temperature high warning           : Off
\tLaser bias current high alarm threshold   : 12.000 mA
\tLaser bias current low alarm threshold    : 3.000 mA
\tModule temperature high alarm threshold   : 75.00 degrees C / 167.00 degrees F
\tModule temperature low alarm threshold    : -5.00 degrees C / 23.00 degrees F
"""
IN_FAULT = "Module State : 0x05 (ModuleFault)\n\tModule Fault Cause : 0x01 (TEC runaway)\n"
QOS = """Priority trust state: dscp
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   1   0   0
"""
GIDS = """DEV\tPORT\tINDEX\tGID\t\t\tIPv4\tVER\tDEV
---\t----\t-----\t---\t\t\t----\t---\t---
mlx5_4\t1\t0\tfe80:0000:0000:0000:0000:00ff:fe00:0001\t\tv2\teth4
mlx5_4\t1\t1\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1\tv2\teth4
"""
LOST = "Port 1 hw counters:\nout_of_sequence: 0\npacket_seq_err: 0\n"
ERRORS = "NIC statistics:\n     rx_packets: 9\n     rx_crc_errors_phy: 0\n     module_high_temp: 0\n"
LINKS = (
    '[{"ifname": "bond0", "flags": ["UP"], "operstate": "UP"}, {"ifname": "eth4", "flags": ["UP"], "master": "bond0"}]'
)


def judged(text, wanted=None):
    assert host_network_reports.recognises(text)
    found = host_network_reports.findings(text, wanted)
    order = ("fail", "incomplete", "pass")
    return min(found, key=lambda finding: order.index(finding.verdict))


@pytest.mark.parametrize("beside", [PORT, MODULE, QOS, GIDS, LOST])
@pytest.mark.parametrize("first", [True, False])
def test_what_one_tool_says_does_not_hide_what_another_says(beside, first):
    sick = ERRORS.replace("temp: 0", "temp: 7")
    assert judged(sick + beside if first else beside + sick).verdict == "fail"


@pytest.mark.parametrize(
    ("text", "old", "new", "verdict", "said"),
    [
        (PORT, "", "", "pass", ""),
        (PORT, "detected: yes", "detected: no (No cable)", "fail", "no link: no (No cable)"),
        (PORT, "Full\n\tLink", "Half\n\tLink", "fail", "half duplex"),
        (PORT, "Speed: 100000", "Speed: 25000", "incomplete", "a class says"),
        (PORT, "Speed: 100000Mb/s", "Speed: Unknown!", "incomplete", "Unknown!"),
        (FEC, "", "", "incomplete", "a class says"),
        (FEC, "encoding: RS", "encoding: Off", "incomplete", "error correction is Off"),
        (PORT + FEC, "encoding: RS", "encoding: Off", "incomplete", "error correction is Off"),
        (MODULE, "", "", "pass", ""),
        (MODULE, ": 40.00", ": 76.00", "fail", "module temperature 76.00"),
        (MODULE, ": 7.000", ": 0.000", "fail", "laser bias current (channel 1) 0.000 mA"),
        (MODULE, "alarm   (Channel 1)    : Off", "alarm   (Channel 1)    : On", "fail", "Laser rx power low alarm"),
        (MODULE, "warning           : Off", "warning           : On", "pass", "high warning"),
        (MODULE, "Module temperature  ", "Module State : 0x03 (ModuleReady)\n\tModule temperature  ", "pass", ""),
        (MODULE, "Module temperature  ", f"{IN_FAULT}\tModule temperature  ", "fail", "in fault: TEC runaway"),
        (
            MODULE,
            "Module temperature  ",
            "Module State : 0x01 (ModuleLowPwr)\n\tModule temperature  ",
            "pass",
            "LowPwr",
        ),
        (MODULE, "0.9000 mW / -0.46 dBm", "0.0000 mW / -inf dBm", "pass", "no light"),
        (QOS, "", "", "incomplete", "a class says"),
        (GIDS, "", "", "pass", ""),
        (GIDS, "10.0.0.1", "        ", "fail", "no RoCE v2 GID with an IPv4 address"),
        (GIDS, "v2", "v1", "incomplete", "an InfiniBand port has none"),
        (LOST, "", "", "pass", ""),
        (LOST, "sequence: 0", "sequence: 8", "incomplete", "out_of_sequence 8"),
        (ERRORS, "", "", "pass", ""),
        (ERRORS, "errors_phy: 0", "errors_phy: 4", "pass", "does it grow?"),
        (ERRORS, "errors_phy: 0", "errors_phy: 0\n     rx_prio3_discards: 7", "pass", "rx_prio3_discards 7"),
        (ERRORS, "errors_phy: 0", "errors_phy: 0\n     rx_pci_signal_integrity: 7", "pass", "signal_integrity 7"),
        (ERRORS, "errors_phy: 0", "errors_phy: 0\n     rx_err_lane_0_phy: 81234567", "pass", ""),
        (ERRORS, "     rx_crc_errors_phy: 0\n     module_high_temp: 0\n", "     rx0_xdp_drop: 0\n", "incomplete", ""),
        (ERRORS, "temp: 0", "temp: 2", "fail", "module_high_temp 2"),
        (LINKS, "", "", "incomplete", "a class says"),
        (LINKS, '["UP"], "master"', '["NO-CARRIER", "UP"], "master"', "fail", "no carrier"),
    ],
)
def test_report_is_judged_by_what_it_tells(text, old, new, verdict, said):
    assert old in text
    worst = judged(text.replace(old, new))
    assert worst.verdict == verdict and said in worst.reason


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [("", "", "pass"), ("0   1   0   1", "0   1   0   0", "fail"), ("state: dscp", "state: pcp", "fail")],
)
def test_flow_control_is_held_against_the_class(old, new, verdict):
    assert judged(QOS.replace(old, new), typed(expect())).verdict == verdict


@pytest.mark.parametrize("text", ["", "[", '[{"ifname": 5}]', "Settings for x:\n", "PFC configuration:\n"])
def test_what_cannot_be_read_is_incomplete_and_never_raises(text):
    assert {finding.verdict for finding in host_network_reports.findings(text, None)} <= {"incomplete"}

"""Firmware settings and PCIe settings of the rails: right, waiting for a reboot, wrong, unknown."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nic_firmware_settings, nic_pcie_settings
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import lspci as lspci_probe
from ansible_collections.muster.cluster.plugins.module_utils.probes import nic_config

from tests.typed import typed

from ..conftest import HEALTHY
from ..conftest import lspci as healthy_lspci

SETTINGS = {"MAX_ACC_OUT_READ": "128", "ADVANCED_PCI_SETTINGS": "True", "LINK_TYPE_P1": "ETH"}
REPORT = blocks.split((HEALTHY / "nic_config.txt").read_text())["rail0"].stdout


def row(key, current, following):
    """Return REPORT with other values of one setting, or without it."""
    lines = [line for line in REPORT.splitlines(keepends=True) if f" {key} " not in line]
    new = f"*       {key:44}{0:<21}{current:21}{following}\n" if current else ""
    return "".join([*lines[:-1], new, lines[-1]])


def judged(expect, report, **settings):
    expect["nic"]["rails"] = expect["nic"]["rails"][:1]
    expect["nic"]["firmware_settings"] = [
        {"key": key, "wanted": value} for key, value in {**SETTINGS, **settings}.items()
    ]
    output = report if isinstance(report, Output) else Output(report)
    raw = blocks.listed({"rail0": output})
    (finding,) = judge({"nic_config": raw}, {"nic_config": nic_config}, [nic_firmware_settings], typed(expect)).findings
    return finding


def test_declared_settings_in_force_pass(expect):
    assert judged(expect, REPORT).verdict == "pass"


def test_settings_that_wait_for_their_reboot_fail_and_ask_for_it(expect):
    finding = judged(expect, row("MAX_ACC_OUT_READ", "0", "128"))
    assert (finding.verdict, finding.action) == ("fail", "reboot")
    assert "reboot pending" in finding.reason and "MAX_ACC_OUT_READ is 0, 128 from the next boot" in finding.reason


@pytest.mark.parametrize("values", [("0", "0"), ("128", "0")])
def test_settings_that_a_reboot_does_not_bring_fail(expect, values):
    finding = judged(expect, row("MAX_ACC_OUT_READ", *values))
    assert (finding.verdict, finding.action) == ("fail", "investigate")
    assert "MAX_ACC_OUT_READ is 0, declared 128" in finding.reason


def test_read_only_setting_is_judged_as_the_others(expect):
    read_only = REPORT.replace("*       LINK_TYPE_P1", "*RO     LINK_TYPE_P1")
    assert read_only != REPORT and judged(expect, read_only).verdict == "pass"
    finding = judged(expect, read_only, LINK_TYPE_P1="IB")
    assert (finding.verdict, finding.action) == ("fail", "investigate")
    assert "LINK_TYPE_P1 is ETH(2), declared IB, and read-only" in finding.reason


def test_unknown_setting_fails(expect):
    finding = judged(expect, REPORT, NO_SUCH_SETTING="1")
    assert (finding.verdict, finding.action) == ("fail", "investigate")
    assert "no firmware setting NO_SUCH_SETTING" in finding.reason


def test_setting_that_another_one_unlocks_at_the_reboot_asks_for_it(expect):
    locked = row("MAX_ACC_OUT_READ", "", "").replace(
        "ADVANCED_PCI_SETTINGS                       False(0)             True(1)",
        "ADVANCED_PCI_SETTINGS                       False(0)             False(0)",
    )
    finding = judged(expect, locked)
    assert (finding.verdict, finding.action) == ("fail", "reboot")


@pytest.mark.parametrize(
    "report",
    [
        Output(REPORT[: len(REPORT) // 2]),
        Output(""),
        Output(rc=None, error="mstconfig: not found"),
        Output(rc=3, stderr="-E- Failed to open the device"),
        Output(row("MAX_ACC_OUT_READ", "N/A", "128")),
    ],
)
def test_settings_that_could_not_be_read_are_incomplete(expect, report):
    assert judged(expect, report).verdict == "incomplete"


def test_rail_that_was_not_asked_is_incomplete(expect):
    expect["nic"]["firmware_settings"] = [{"key": "NUM_OF_VFS", "wanted": "0"}]
    findings = judge(
        {"nic_config": blocks.listed({})}, {"nic_config": nic_config}, [nic_firmware_settings], typed(expect)
    )
    assert {finding.verdict for finding in findings.findings} == {"incomplete"}
    assert len(findings.findings) == 8


def test_every_rail_is_asked_by_its_address_whatever_its_device_is_called(expect, fake_host):
    expect["nic"]["firmware_settings"] = [{"key": "NUM_OF_VFS", "wanted": "0"}]
    found = nic_config.parse(nic_config.collect(fake_host, typed(expect)))
    assert list(found) == [f"rail{rail}" for rail in range(8)]
    assert [line.split()[2] for line in fake_host.commands if " -d " in line] == [
        rail["address"] for rail in expect["nic"]["rails"]
    ]


@pytest.mark.parametrize("declared", [None, []])
def test_class_without_settings_owes_nothing_and_asks_no_nic(expect, declared, fake_host):
    expect["nic"]["firmware_settings"] = declared
    assert nic_firmware_settings.subjects(typed(expect)) == []
    if declared is None:
        nic_config.collect(fake_host, typed(expect))
        assert not [words for words in fake_host.runs if "mstconfig" in words]


@pytest.mark.parametrize(
    ("before", "after", "verdict", "named"),
    [
        ("", "", "pass", ""),
        ("MaxReadReq 4096", "MaxReadReq 512", "fail", "is set to reads of 512 B, relaxed ordering on"),
        ("RlxdOrd+", "RlxdOrd-", "fail", "relaxed ordering off"),
        ("MaxReadReq 4096 bytes", "MaxReadReq", "incomplete", "could not be read"),
    ],
)
def test_pcie_settings_of_a_rail(expect, before, after, verdict, named):
    head, address, rest = healthy_lspci().partition("0000:1a:00.0 ")
    output = Output(head + address + rest.replace(before, after, 1))
    found = judge({"lspci": output}, {"lspci": lspci_probe}, [nic_pcie_settings], typed(expect)).findings
    assert [finding.verdict for finding in found] == [verdict] + ["pass"] * 7
    assert named in found[0].reason


def test_pcie_settings_of_a_rail_that_is_nowhere_are_incomplete(expect):
    expect["nic"]["rails"][3]["address"] = "0000:5f:00.0"
    found = judge(
        {"lspci": Output(healthy_lspci())}, {"lspci": lspci_probe}, [nic_pcie_settings], typed(expect)
    ).findings
    assert found[3].verdict == "incomplete" and "rail 3 (0000:5f:00.0)" in found[3].reason


def test_only_what_is_declared_is_compared(expect):
    expect["pcie"]["relaxed_ordering"] = None
    text = healthy_lspci().replace("RlxdOrd+", "RlxdOrd-")
    found = judge({"lspci": Output(text)}, {"lspci": lspci_probe}, [nic_pcie_settings], typed(expect)).findings
    assert {finding.verdict for finding in found} == {"pass"}
    expect["pcie"]["max_read_request_bytes"] = None
    assert nic_pcie_settings.subjects(typed(expect)) == []

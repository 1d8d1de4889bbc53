"""Findings on RoCE ports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    PROBES,
    parsers,
    required,
)
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy" / "roce_port.txt"
PORT = {
    "backend": "doca",
    "mtu_bytes": 9000,
    "dscp_priority": [{"dscp": 26, "priority": 3}, {"dscp": 46, "priority": 5}, {"dscp": 48, "priority": 6}],
    "lossless_priorities": [3, 5],
    "dcqcn": False,
    "cnp_dscp": None,
    "cnp_priority": None,
    "cm_tos": 104,
    "traffic_class": None,
    "rings": {"rx": 8192, "tx": 8192},
    "buffers": None,
}
ASKED = {"peer_memory": "dmabuf", "nccl_least": None, "verify_cabling": False, "ipoib": None}


def expect(**port: Any) -> dict[str, Any]:
    fabric = {"kind": "roce", "routing": "ecmp", "port": {**PORT, **port}, **ASKED}
    return {**expectations_of("lab_h100", {}, "test"), "fabric": fabric}


def found(check: str, text: str, **port: Any) -> dict[str, Finding]:
    examination = judge({"roce_port": Output(text)}, parsers(["roce_port"]), [CHECKS[check]], typed(expect(**port)))
    return {finding.subject: finding for finding in examination.findings}


@pytest.mark.parametrize("check", ["roce_settings", "roce_gid"])
def test_healthy_rails_pass(check: str) -> None:
    findings = found(check, HEALTHY.read_text())
    assert [finding.verdict for finding in findings.values()] == ["pass"] * 8


@pytest.mark.parametrize("fabric", [None, {"kind": "infiniband", "routing": "adaptive", "port": None, **ASKED}])
def test_nothing_is_owed_on_another_fabric(fabric: Any) -> None:
    other = {**expectations_of("lab_h100", {}, "test"), "fabric": fabric}
    owed = [check for check, _ in (*required("preflight", typed(other)), *required("health", typed(other)))]
    assert not {"roce_settings", "roce_gid"} & set(owed)
    output = PROBES["roce_port"].collect(None, typed(other))  # type: ignore[arg-type] -- no host is asked
    assert PROBES["roce_port"].parse(output) == {}


def test_one_rail_is_blamed_with_all_that_is_wrong_and_no_other() -> None:
    text = HEALTHY.read_text()
    text = re.sub(r"(class/net/rdma2/mtu <==\n)9000", r"\g<1>1500", text)
    text = re.sub(r"(cma_roce_tos -d mlx5_2 <==\n)104", r"\g<1>0", text)
    findings = found("roce_settings", text)
    assert [subject for subject, finding in findings.items() if finding.verdict != "pass"] == ["nic rail2"]
    wrong = findings["nic rail2"]
    assert (wrong.verdict, wrong.measured, wrong.expected) == ("fail", "1500", "9000")
    assert wrong.reason == (
        "rail 2 (mlx5_2, rdma2): mtu_bytes is 1500, expected 9000; rail 2 (mlx5_2, rdma2): cm_tos is 0, expected 104"
    )


def test_tool_that_is_missing_is_no_verdict() -> None:
    text = re.sub(
        r"==> mlnx_qos -i rdma2 <==\n(?:(?!\n==>)[\s\S])*\n",
        "==> mlnx_qos -i rdma2 <== (not found)\n\n",
        HEALTHY.read_text(),
    )
    wrong = found("roce_settings", text)["nic rail2"]
    assert wrong.verdict == "incomplete"
    assert "trust could not be read (mlnx_qos -i rdma2: not found)" in wrong.reason


def test_expected_comes_from_the_declaration() -> None:
    findings = found("roce_settings", HEALTHY.read_text(), lossless_priorities=[3])
    assert {finding.verdict for finding in findings.values()} == {"fail"}
    assert findings["nic rail0"].reason == "rail 0 (mlx5_0, rdma0): lossless_priorities is 3 5, expected 3"


def test_what_the_backend_cannot_do_passes_nobody() -> None:
    findings = found("roce_settings", HEALTHY.read_text(), backend="inbox")
    assert findings["nic rail0"].reason == (
        "rail 0 (0000:1a:00.0): backend inbox cannot set dcqcn (declared: notification: none, reaction: none)"
    )


def test_rail_without_a_gid_of_its_own_is_named() -> None:
    text = re.sub(r"(mlx5_2/ports/1/gid_attrs/types/3 <==\n).*", r"\g<1>IB/RoCE v1", HEALTHY.read_text())
    findings = found("roce_gid", text)
    assert [subject for subject, finding in findings.items() if finding.verdict != "pass"] == ["nic rail2"]
    assert findings["nic rail2"].reason == "rail 2 (mlx5_2, rdma2): no RoCE v2 GID of an IPv4 address, found none"


def test_gid_that_cannot_be_read_is_no_verdict() -> None:
    text = re.sub(r"(mlx5_2/ports/1/gid_attrs/types/3 <==)\n.*\n", r"\g<1> (Input/output error)\n", HEALTHY.read_text())
    wrong = found("roce_gid", text)["nic rail2"]
    assert wrong.verdict == "incomplete"
    assert "Input/output error" in wrong.reason


@pytest.mark.parametrize("check", ["roce_settings", "roce_gid"])
def test_rail_that_is_gone_fails_and_the_others_pass(check: str) -> None:
    outputs = {
        name: Output("".join(line for line in output.stdout.splitlines(keepends=True) if "0000:4d:00.0" not in line))
        for name, output in blocks.split(HEALTHY.read_text()).items()
        if "mlx5_2" not in name and "rdma2" not in name
    }
    findings = found(check, blocks.listed(outputs).stdout)
    assert [subject for subject, finding in findings.items() if finding.verdict != "pass"] == ["nic rail2"]
    wrong = findings["nic rail2"]
    assert (wrong.verdict, wrong.measured) == ("fail", "absent")
    assert wrong.reason.startswith("rail 2 has no RDMA device at 0000:4d:00.0, RDMA devices of this host: mlx5_0 at 0")


@pytest.mark.parametrize("check", ["roce_settings", "roce_gid"])
def test_rails_are_found_whatever_the_system_calls_them(check: str) -> None:
    # A further card is mlx5_0, so that the rails' numbers shift; rail 7 has the names of udev's rules.
    text = re.sub(r"mlx5_(\d)", lambda name: f"mlx5_{int(name[1]) + 1}", HEALTHY.read_text())
    text = text.replace("mlx5_8", "rocep220s0").replace("rdma7", "enp220s0np0")
    card = "/sys/bus/pci/devices/0000:03:00.0/infiniband/mlx5_0\n/sys/bus/pci/devices/0000:03:00.0/net/eth0\n"
    text = text.replace("==> rail_names <==\n", f"==> rail_names <==\n{card}")
    assert [finding.verdict for finding in found(check, text).values()] == ["pass"] * 8
    text = text.replace("class/net/rdma0/mtu <==\n9000", "class/net/rdma0/mtu <==\n1500")
    text = re.sub(r"(mlx5_1/ports/1/gid_attrs/types/3 <==\n).*", r"\g<1>IB/RoCE v1", text)
    wrong = [finding for finding in found(check, text).values() if finding.verdict != "pass"]
    assert [finding.subject for finding in wrong] == ["nic rail0"]
    assert wrong[0].reason.startswith("rail 0 (mlx5_1, rdma0): ")


@pytest.mark.parametrize("check", ["roce_settings", "roce_gid"])
def test_names_that_are_lost_are_no_verdict(check: str) -> None:
    text = HEALTHY.read_text()
    for lost in (
        text.replace("==> rail_names <==\n", ""),
        text.replace("==> rail_names <==", "==> rail_names <== (exit status 1: )"),
        text.replace("rail_names\n", "", 1),
    ):
        assert lost != text
        assert {finding.verdict for finding in found(check, lost).values()} == {"incomplete"}

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
ASKED = {"peer_memory": "dmabuf", "nccl_least": None, "verify_cabling": False}


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
    assert [subject for subject, finding in findings.items() if finding.verdict != "pass"] == ["nic mlx5_2"]
    wrong = findings["nic mlx5_2"]
    assert (wrong.verdict, wrong.measured, wrong.expected) == ("fail", "1500", "9000")
    assert wrong.reason == (
        "mlx5_2 (rdma2): mtu_bytes is 1500, expected 9000; mlx5_2 (rdma2): cm_tos is 0, expected 104"
    )


def test_tool_that_is_missing_is_no_verdict() -> None:
    text = re.sub(
        r"==> mlnx_qos -i rdma2 <==\n(?:(?!\n==>)[\s\S])*\n",
        "==> mlnx_qos -i rdma2 <== (not found)\n\n",
        HEALTHY.read_text(),
    )
    wrong = found("roce_settings", text)["nic mlx5_2"]
    assert wrong.verdict == "incomplete"
    assert "trust could not be read (mlnx_qos -i rdma2: not found)" in wrong.reason


def test_expected_comes_from_the_declaration() -> None:
    findings = found("roce_settings", HEALTHY.read_text(), lossless_priorities=[3])
    assert {finding.verdict for finding in findings.values()} == {"fail"}
    assert findings["nic mlx5_0"].reason == "mlx5_0 (rdma0): lossless_priorities is 3 5, expected 3"


def test_what_the_backend_cannot_do_passes_nobody() -> None:
    findings = found("roce_settings", HEALTHY.read_text(), backend="inbox")
    assert findings["nic mlx5_0"].reason == (
        "mlx5_0: backend inbox cannot set dcqcn (declared: notification: none, reaction: none)"
    )


def test_rail_without_a_gid_of_its_own_is_named() -> None:
    text = re.sub(r"(mlx5_2/ports/1/gid_attrs/types/3 <==\n).*", r"\g<1>IB/RoCE v1", HEALTHY.read_text())
    findings = found("roce_gid", text)
    assert [subject for subject, finding in findings.items() if finding.verdict != "pass"] == ["nic mlx5_2"]
    assert findings["nic mlx5_2"].reason == "mlx5_2 (rdma2): no RoCE v2 GID of an IPv4 address, found none"


def test_gid_that_cannot_be_read_is_no_verdict() -> None:
    text = re.sub(r"(mlx5_2/ports/1/gid_attrs/types/3 <==)\n.*\n", r"\g<1> (Input/output error)\n", HEALTHY.read_text())
    wrong = found("roce_gid", text)["nic mlx5_2"]
    assert wrong.verdict == "incomplete"
    assert "Input/output error" in wrong.reason


def test_rail_that_is_gone_fails() -> None:
    text = re.sub(r"(?s)==> files <==.*?in all\n\n", "", HEALTHY.read_text())
    kept = [
        block for block in re.split(r"(?m)^(?===> )", text) if block and "mlx5_2" not in block and "rdma2" not in block
    ]
    names = [block.split(" <==")[0][4:] for block in kept]
    listed = "==> files <==\n" + "".join(f"{name}\n" for name in names) + f"{len(names)} in all\n\n" + "".join(kept)
    for check in ("roce_settings", "roce_gid"):
        wrong = found(check, listed)["nic mlx5_2"]
        assert (wrong.verdict, wrong.measured) == ("fail", "absent")

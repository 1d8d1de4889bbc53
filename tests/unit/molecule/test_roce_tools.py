"""Simulated RoCE tools: what real ones print, and a host whose ports are set by them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.machine import LocalMachine
from ansible_collections.muster.cluster.plugins.module_utils.roce.apply import apply, check
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import PortSettings
from lab_state import StateError, declared

SETTINGS = PortSettings.from_dict(
    {
        "rail": 2,
        "address": "0000:4d:00.0",
        "ip": "172.18.0.1/16",
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
        "buffers": {"sizes_bytes": [20016, 156096, 0, 0, 0, 0, 0, 0], "of_priority": [0, 0, 0, 1, 0, 1, 0, 0]},
    }
)


@pytest.fixture
def machine(host_place: Path) -> LocalMachine:
    return LocalMachine(f"{host_place}/bin", str(host_place / "root"))


def shape(text: str) -> list[str]:
    lines = [re.sub(r"\d+", "0", line) for line in text.splitlines()]
    return [line for line in lines if not line.lstrip().startswith(("tc:", "priority:"))]


def test_mlnx_qos_prints_the_lines_of_a_recorded_one(tool: Callable[..., Any], recorded: Path) -> None:
    real = (recorded / "roce" / "mlnx_qos-dscp-pfc3.txt").read_text(encoding="utf-8")
    tool("mlnx_qos", "-i", "rdma0", "--trust", "dscp")
    ours = tool("mlnx_qos", "-i", "rdma0").stdout.decode()
    spaces = re.compile(r"^\s+", re.MULTILINE)
    assert shape(spaces.sub(" ", ours)) == shape(spaces.sub(" ", real))


def test_port_is_set_by_the_tools_and_read_back(machine: LocalMachine) -> None:
    first = apply(machine, SETTINGS, 0)
    assert (first.problems, first.changed) == ([], True)
    assert set(first.before) >= {"dcbx", "trust", "lossless_priorities", "dcqcn", "cm_tos", "rings", "buffers"}
    second = apply(machine, SETTINGS, 0)
    assert (second.problems, second.changed) == ([], False)


def test_what_was_set_outlasts_another_fault(machine: LocalMachine, set_faults: Callable[..., None]) -> None:
    apply(machine, SETTINGS, 0)
    set_faults(gpus_missing=["SXM6"])
    assert check(machine, SETTINGS).problems == []


IGNORED = [
    ("--dcbx", "dcbx is Firmware".lower()),
    ("--trust", "trust is pcp"),
    ("--pfc", "lossless_priorities is none"),
    ("--buffer_size", "buffers is"),
    ("cma_roce_tos", "cm_tos is 0"),
    ("ethtool", "rings is rx: 1024, tx: 1024"),
]


@pytest.mark.parametrize(("ignored", "expected"), IGNORED)
def test_device_that_ignores_a_setting_is_caught(
    machine: LocalMachine, set_faults: Callable[..., None], ignored: str, expected: str
) -> None:
    set_faults(roce_ignores={"rail2": [ignored]})
    assert any(f"rail 2 (mlx5_2, rdma2): {expected}" in text for text in apply(machine, SETTINGS, 0).problems)


def test_missing_gid_is_caught(machine: LocalMachine, set_faults: Callable[..., None]) -> None:
    set_faults(roce_no_gid=["rail2"])
    (problem,) = apply(machine, SETTINGS, 0).problems
    assert problem.startswith("rail 2 (mlx5_2, rdma2): no RoCE v2 GID of 172.18.0.1, found those of fe80::")


@pytest.mark.parametrize(
    ("names", "called"),
    [({"persistent_names": True}, "rocep77s0, enp77s0np0"), ({"extra_nic": True}, "mlx5_3, rdma3")],
)
def test_port_is_set_whatever_the_system_calls_it(
    machine: LocalMachine, set_faults: Callable[..., None], names: dict[str, bool], called: str
) -> None:
    set_faults(**names)
    assert apply(machine, SETTINGS, 0).problems == []
    set_faults(**names, nics_down=["rail3"], nic_values={"rail2": {"net/mtu": 1500}})
    assert check(machine, SETTINGS).problems == [f"rail 2 ({called}): mtu_bytes is 1500, expected 9000"]


def test_port_of_a_card_that_is_gone_is_no_other_cards(machine: LocalMachine, set_faults: Callable[..., None]) -> None:
    set_faults(nics_missing=["rail2"])
    (problem,) = apply(machine, SETTINGS, 0).problems
    assert problem.startswith("rail 2 has no RDMA device at 0000:4d:00.0")


@pytest.mark.parametrize("fault", ["crash", "truncate", "empty", "missing", "garble"])
def test_broken_tool_is_no_declared_port(machine: LocalMachine, set_faults: Callable[..., None], fault: str) -> None:
    apply(machine, SETTINGS, 0)
    set_faults(tool_faults={"mlnx_qos": fault})
    assert check(machine, SETTINGS).problems != []


def test_unknown_setting_cannot_be_ignored() -> None:
    with pytest.raises(StateError, match=r"roce_ignores\.rail2: found --speed, expected --dcbx"):
        declared("gpu-01", None, {"roce_ignores": {"rail2": ["--speed"]}})


def test_rail_has_an_address_where_none_is_declared(host_place: Path) -> None:
    state = json.loads((host_place / "state.json").read_text())
    assert state["nics"][2]["ip"] == "172.18.0.1"

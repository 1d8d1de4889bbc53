"""Simulated lldpctl: the layout of a recorded one, the plan's neighbours, and its faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab
import lab_files
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.lldp import parse
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import cabling_findings, compare
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import plan_of
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import ethernet_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from lab_state import RAILS, StateError, declared

from tests.fleets import LAB
from tests.run_module import run_module

Hear = Callable[..., dict[str, list[tuple[str, str]]]]
PLAN = plan_of(Fleet.load(LAB))
PLACED = [{**rail, "switch": "leaf-r1", "port": f"Ethernet{number}"} for number, rail in enumerate(RAILS, 1)]


@pytest.fixture
def show(host_place: Path, tool: Callable[..., Any]) -> Callable[..., str]:
    """What lldpctl prints on the host gpu-01, whose rails are plugged into leaf-r1."""

    def shown(**faults: Any) -> str:
        state = declared("gpu-01", None, faults, rails=PLACED)
        (host_place / "state.json").write_text(json.dumps(state), encoding="utf-8")
        lab.install_tools(host_place, state)
        lab_files.write_files(host_place, state)
        text: str = tool("lldpctl", "-f", "json").stdout.decode()
        return text

    return shown


@pytest.fixture
def hear(show: Callable[..., str]) -> Hear:
    """The neighbours by interface."""

    def heard(**faults: Any) -> dict[str, list[tuple[str, str]]]:
        found = parse(Output(show(**faults)))
        return {name: [(each.system, each.ports[0]) for each in neighbours] for name, neighbours in found.items()}

    return heard


@pytest.fixture
def judged(show: Callable[..., str], host_place: Path) -> Callable[..., list[Finding]]:
    """The findings on the cables of gpu-01, from what the module reads on it."""

    def found(**faults: Any) -> list[Finding]:
        show(**faults)
        path = f"{host_place / 'bin'}:{TOOL_PATH}"
        result = run_module("lldp_neighbors_info", root=str(host_place / "root"), tool_path=path)
        return cabling_findings(compare(PLAN, ethernet_of(PLAN, {"gpu-01": result})), "gpu-01")

    return found


def shape(value: Any, names: tuple[str, ...]) -> Any:
    """Structure and types alone; the names of interfaces and systems stand for themselves."""
    if isinstance(value, dict):
        return {("NAME" if key in names else key): shape(inner, names) for key, inner in value.items()}
    return [shape(inner, names) for inner in value[:1]] if isinstance(value, list) else type(value).__name__


def test_layout_is_that_of_a_recorded_one(show: Callable[..., str], recorded: Path) -> None:
    text = (recorded / "net" / "ip-json-bond-good.json").read_text(encoding="utf-8")
    real = shape(json.loads(text)["lldp_status"], ("enp97s0f0", "rscfee5001"))
    assert shape(json.loads(show()), ("rdma0", "leaf-r1")) == real


def test_each_rail_hears_the_switch_port_of_the_plan(hear: Hear) -> None:
    assert hear() == {f"rdma{rail}": [("leaf-r1", f"Ethernet{rail + 1}")] for rail in range(8)}


def test_swapped_rails_hear_each_others_port(hear: Hear) -> None:
    heard = hear(lldp_swapped=["rail2", "rail5"])
    assert (heard["rdma2"], heard["rdma5"]) == ([("leaf-r1", "Ethernet6")], [("leaf-r1", "Ethernet3")])
    assert heard["rdma3"] == [("leaf-r1", "Ethernet4")]


@pytest.mark.parametrize("key", ["lldp_silent", "nics_down", "nics_missing"])
def test_silent_rail_hears_nobody(hear: Hear, key: str) -> None:
    assert set(hear(**{key: ["rail4"]})) == {f"rdma{rail}" for rail in range(8) if rail != 4}


def test_one_neighbour_and_none_are_read_too(hear: Hear) -> None:
    rails = [f"rail{rail['rail']}" for rail in RAILS]
    assert hear(lldp_silent=rails[1:]) == {"rdma0": [("leaf-r1", "Ethernet1")]}
    assert hear(lldp_silent=rails) == {}


@pytest.mark.parametrize("fault", [{"lldp_swapped": ["rail2"]}, {"lldp_silent": ["rail9"]}])
def test_fault_that_cannot_be_shown_is_refused(fault: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="lldp_"):
        declared("gpu-01", None, fault)


@pytest.mark.parametrize(
    "names",
    [{}, {"persistent_names": True}, {"extra_nic": True}, {"persistent_names": True, "extra_nic": True}],
    ids=["kernel", "udev", "shifted", "shifted udev"],
)
def test_cables_of_rails_are_known_whatever_the_system_calls_their_interfaces(
    judged: Callable[..., list[Finding]], names: dict[str, bool]
) -> None:
    assert [(each.subject, each.verdict) for each in judged(**names)] == [
        (f"nic rail{rail}", PASS) for rail in range(8)
    ]
    crossed = {each.subject for each in judged(**names, lldp_swapped=["rail2", "rail5"]) if each.verdict == FAIL}
    assert crossed == {"nic rail2", "nic rail5"}


def test_rail_whose_nic_is_gone_is_not_known_and_no_other_takes_its_place(judged: Callable[..., list[Finding]]) -> None:
    found = judged(extra_nic=True, nics_missing=["rail3"])
    (unknown,) = [each for each in found if each.verdict != PASS]
    assert (unknown.subject, unknown.verdict) == ("nic rail3", INCOMPLETE)
    assert "gpu-01: rail 3 has no network interface at 0000:5e:00.0, network interfaces of this host:" in unknown.reason


def test_names_that_cannot_be_read_are_a_reason_and_no_failed_task(
    judged: Callable[..., list[Finding]], host_place: Path
) -> None:
    (host_place / "root/sys/bus/pci/devices/0000:1a:00.0/net/two words").mkdir()
    found = judged()
    assert {each.verdict for each in found} == {INCOMPLETE}
    assert "gpu-01: names of network interfaces: line is '/sys/bus/pci/devices/0000:1a:00.0/net/two" in found[0].reason


def test_other_arguments_are_refused(host_place: Path, tool: Callable[..., Any]) -> None:
    assert tool("lldpctl", "-f", "xml").returncode == 2

"""Simulated lldpctl: the layout of a recorded one, the plan's neighbours, and its faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab
import lab_files
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.lldp import parse_lldp
from lab_state import RAILS, StateError, declared

Hear = Callable[..., dict[str, list[tuple[str, str]]]]
PLACED = [{**rail, "switch": "leaf-r1", "port": f"Ethernet{number}"} for number, rail in enumerate(RAILS, 1)]


@pytest.fixture
def show(host_place: Path, tool: Callable[..., Any]) -> Callable[..., str]:
    """What lldpctl prints on the host gpu-01, whose rails are plugged into leaf-r1."""

    def shown(**faults: Any) -> str:
        state = declared("gpu-01", None, faults, rails=PLACED)
        (host_place / "state.json").write_text(json.dumps(state), encoding="utf-8")
        lab.install_tools(host_place, state["tool_faults"])
        lab_files.write_files(host_place, state)
        text: str = tool("lldpctl", "-f", "json").stdout.decode()
        return text

    return shown


@pytest.fixture
def hear(show: Callable[..., str]) -> Hear:
    """The neighbours by interface."""

    def heard(**faults: Any) -> dict[str, list[tuple[str, str]]]:
        found = parse_lldp(show(**faults))
        return {name: [(each.system, each.ports[0]) for each in neighbours] for name, neighbours in found.items()}

    return heard


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
    heard = hear(lldp_swapped=["mlx5_2", "mlx5_5"])
    assert (heard["rdma2"], heard["rdma5"]) == ([("leaf-r1", "Ethernet6")], [("leaf-r1", "Ethernet3")])
    assert heard["rdma3"] == [("leaf-r1", "Ethernet4")]


@pytest.mark.parametrize("key", ["lldp_silent", "nics_down", "nics_missing"])
def test_silent_rail_hears_nobody(hear: Hear, key: str) -> None:
    assert set(hear(**{key: ["mlx5_4"]})) == {f"rdma{rail}" for rail in range(8) if rail != 4}


def test_one_neighbour_and_none_are_read_too(hear: Hear) -> None:
    devices = [rail["device"] for rail in RAILS]
    assert hear(lldp_silent=devices[1:]) == {"rdma0": [("leaf-r1", "Ethernet1")]}
    assert hear(lldp_silent=devices) == {}


@pytest.mark.parametrize("fault", [{"lldp_swapped": ["mlx5_2"]}, {"lldp_silent": ["mlx5_9"]}])
def test_fault_that_cannot_be_shown_is_refused(fault: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="lldp_"):
        declared("gpu-01", None, fault)


def test_other_arguments_are_refused(host_place: Path, tool: Callable[..., Any]) -> None:
    assert tool("lldpctl", "-f", "xml").returncode == 2

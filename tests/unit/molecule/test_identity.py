"""Each lab host is a machine of its own: no two show the same identifier, and what is exchanged shows another one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lab  # found beside conftest.py's ROOT
import lab_files
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import collect
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.judging import fingerprint, identity
from ansible_collections.muster.cluster.plugins.module_utils.judging.identity import Machine, claims_of, same_machine
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from lab_state import declared

from tests.typed import typed

EXPECT = typed(expectations_of("lab_h100", {}, "lab"))
STAND_INS = registry.STAND_INS["preflight"]
# Of the machine below, which the lab does not simulate.
UNASKED = ["nccl", "pytorch", "storage_client"]
HARDWARE = {STAND_INS.get(name, name) for name in (*fingerprint.PROBES, *identity.PROBES)} - {"mounts", "nccl"}


class Counting(LocalHost):
    """A host that counts which tools it ran."""

    def __init__(self, place: Path) -> None:
        super().__init__(f"{place}/bin:/usr/bin:/bin", str(place / "root"))
        self.runs: Counter[str] = Counter()

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        self.runs[argv[0]] += 1
        return super().run(argv, timeout_seconds)


def asked(place: Path, name: str, **faults: Any) -> Machine:
    """Return what a lab host of this name says of itself."""
    state = declared(name, None, faults)
    place.mkdir(exist_ok=True)
    (place / "state.json").write_text(json.dumps(state), encoding="utf-8")
    lab.install_tools(place, state)
    lab_files.write_files(place, state)
    outputs = collect(Counting(place), [registry.PROBES[probe] for probe in sorted(HARDWARE)], EXPECT)
    values = registry.judge_stage("preflight", outputs, EXPECT).values
    return Machine(identity.identity_of(values, EXPECT), fingerprint.fingerprint_of(values, EXPECT))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return asked(tmp_path_factory.mktemp("one") / "gpu-01", "gpu-01")


def test_two_hosts_have_no_identifier_in_common(first: Machine, tmp_path: Path) -> None:
    second = asked(tmp_path / "gpu-02", "gpu-02")
    kinds = Counter(kind for kind, _ in claims_of(*first))
    assert kinds == {"board_uuid": 1, "board_serial": 1, "bmc_mac": 1, "gpu": 8, "nic": 8, "dimm": 32, "drive": 8}
    assert not claims_of(*first) & claims_of(*second)
    assert same_machine(first, second).same is False
    assert first.fingerprint["cables"] != second.fingerprint["cables"]
    assert [name for name in fingerprint.COMPONENTS if first.fingerprint[name] is None] == UNASKED


def test_another_board_in_the_host_is_told_and_the_host_is_the_same(first: Machine, tmp_path: Path) -> None:
    board = {"uuid": "4c4c4544-0053-5210-8038-c8c04f583034", "serial": "BRD7", "bmc_mac": "7c:c2:55:ff:00:01"}
    found = asked(tmp_path / "gpu-01", "gpu-01", board=board, dimm_values={"A3": {"serial": "80CE0123"}})
    assert same_machine(first, found) == (True, "other board; other BMC")
    changed = {name for name, value in found.fingerprint.items() if value != first.fingerprint[name]}
    assert changed == {"board", "dimms"}
    assert found.identity["bmc_mac"] == "7c:c2:55:ff:00:01"


def test_names_and_numbers_of_devices_are_no_part_of_a_machine(first: Machine, tmp_path: Path) -> None:
    for names in ({"persistent_names": True}, {"extra_nic": True}):
        found = asked(tmp_path / "gpu-01", "gpu-01", **names)
        assert (found.fingerprint, claims_of(*found)) == (first.fingerprint, claims_of(*first))


def test_board_of_which_its_maker_says_nothing_is_no_identifier(tmp_path: Path) -> None:
    board = {"uuid": "03000200-0400-0500-0006-000700080009", "serial": "Default string"}
    found = asked(tmp_path / "gpu-01", "gpu-01", board=board)
    assert (found.identity["board_uuid"], found.identity["board_serial"]) == (None, None)


def test_identity_costs_a_preflight_so_many_runs_of_tools(host_place: Path) -> None:
    host = Counting(host_place)
    collect(host, [registry.PROBES[name] for name in registry.probes_of("preflight")], EXPECT)
    # systemctl is asked for the fabric manager's unit, uname for the host's name beside the kernel's release, and
    # mlxlink whether it is there.
    added = {"dmidecode": 2, "ipmitool": 2, "mlxlink": 9, "nv-fabricmanager": 1, "systemctl": 1, "uname": 2, "ps": 1}
    assert {tool: host.runs[tool] for tool in added} == added
    # The daemon is asked where it runs, and else for its version.
    assert host.runs["scontrol"] + host.runs["slurmd"] == 1


def test_bmc_tells_its_network_in_the_lines_of_ipmitool(tool: Callable[..., Any]) -> None:
    lines = tool("ipmitool", "lan", "print").stdout.decode().splitlines()
    assert all(line[24:26] == ": " for line in lines)
    assert [line for line in lines if line.startswith("MAC Address ")] == [
        "MAC Address             : 7c:c2:55:09:5b:e0"
    ]


def test_mlxlink_shows_counters_where_they_are_asked_for(tool: Callable[..., Any]) -> None:
    def sections(*arguments: str) -> set[str]:
        return set(json.loads(tool("mlxlink", "-d", "0000:1a:00.0", *arguments, "--json").stdout)["result"]["output"])

    assert "Module Info" in sections("-m") and "Physical Counters and BER Info" not in sections("-m")
    assert sections("-m", "-c") - sections("-m") == {"Physical Counters and BER Info"}

"""Registers that lockdown keeps from being written are named where they are not right already."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.secure_boot import LOCKDOWN
from ansible_collections.muster.cluster.plugins.module_utils.readiness import registers

from tests.fake_host import FakeHost
from tests.typed import RAILS_FABRIC, typed
from tests.unit.module_utils.conftest import HEALTHY

LSPCI = (HEALTHY / "lspci.txt").read_text(encoding="utf-8")
DECLARED = {"max_read_request_bytes": 4096, "relaxed_ordering": True, "acs_enabled": False}
NOTHING = dict.fromkeys(DECLARED)
LOCKED = Output("none [integrity] confidentiality\n")
WAYS = "set it in the host's firmware, declare null in pcie of the class, or switch Secure Boot off"


def lacks(expect: dict[str, Any], text: str = LSPCI, lockdown: Output | None = LOCKED, **pcie: Any) -> list[str]:
    gpu = {**expect["gpu"], "count": 1, "parts": [{"slot": "SXM1", "address": "0000:0b:00.0"}]}
    declared = {"fabric": RAILS_FABRIC, "pcie": {**expect["pcie"], **DECLARED, **pcie}, "gpu": gpu, "affinity": None}
    outputs = {"lspci": Output(text)} if text else {"lspci": Output(rc=None, error="lspci: not found")}
    if lockdown is not None:
        outputs[LOCKDOWN] = lockdown
    return registers.lacks(FakeHost(outputs), typed({**expect, **declared}))


def test_what_is_set_already_needs_no_writing(expect: dict[str, Any]) -> None:
    assert lacks(expect) == []


@pytest.mark.parametrize(
    ("pcie", "what"),
    [
        ({"max_read_request_bytes": 512}, "pcie: rail 0 (0000:1a:00.0): reads of 512 B in place of 4096 B; rail 1"),
        ({"relaxed_ordering": False}, "pcie: rail 0 (0000:1a:00.0): relaxed ordering off; rail 1"),
    ],
)
def test_what_would_have_to_be_written(expect: dict[str, Any], pcie: dict[str, Any], what: str) -> None:
    (told,) = lacks(expect, **pcie)
    assert told.startswith(what) and told.endswith(WAYS) and "lockdown (integrity" in told
    assert lacks(expect, lockdown=None, **pcie) == []
    assert lacks(expect, lockdown=Output("[none] integrity confidentiality\n"), **pcie) == []


def test_access_control_above_gpus_and_rails(expect: dict[str, Any]) -> None:
    on = LSPCI.replace("ACSCtl:\tSrcValid- TransBlk- ReqRedir-", "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+", 1)
    assert "bridge 0000:00:01.0: access control off (SrcValid, ReqRedir on): the kernel's" in lacks(expect, on)[0]
    assert lacks(expect, on, acs_enabled=None) == []


def test_host_without_lspci_is_told_all_the_same(expect: dict[str, Any]) -> None:
    (told,) = lacks(expect, "")
    assert told.startswith("pcie: whether it is set as declared cannot be told (lspci: ") and told.endswith(WAYS)
    assert lacks(expect, "", **NOTHING) == []


def test_lockdown_that_cannot_be_read_is_no_pass(expect: dict[str, Any]) -> None:
    (told,) = lacks(expect, lockdown=Output("integrity\n"), max_read_request_bytes=512)
    assert "whether the kernel refuses writes to PCIe registers cannot be told" in told


def test_class_without_a_fabric_sets_no_registers(expect: dict[str, Any]) -> None:
    host = FakeHost({LOCKDOWN: LOCKED})
    pcie = {**expect["pcie"], **DECLARED}
    assert registers.lacks(host, typed({**expect, "pcie": pcie, "fabric": None})) == []
    assert registers.lacks(host, typed({**expect, "pcie": None, "fabric": RAILS_FABRIC})) == []

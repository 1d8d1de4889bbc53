"""The NVLink subnet manager of a host that has to run one, and what it lacks where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nvlink_subnet_manager
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvlsm import SubnetManager
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

from tests.typed import typed

RUNS = SubnetManager(("Ssl",), installed=True, module=True)
NICS = {"0000:05:00.0": True, "0000:1a:00.0": False}
NONE = {"0000:05:00.0": False, "0000:1a:00.0": False}
UNREAD = {"0000:05:00.0": None, "0000:1a:00.0": False}


@pytest.fixture
def expect(expect):
    """A class whose fabric manager starts a subnet manager."""
    return {**expect, "nvlink": {**expect["nvlink"], "subnet_manager": True}}


def judged(expect, found: SubnetManager, nics: dict[str, bool | None]) -> Finding:
    (finding,) = nvlink_subnet_manager.decide({"nvlsm": found, "nvswitch_nics": nics}, typed(expect))
    assert finding.subject == "host"
    return finding


def test_it_is_owed_by_class(expect) -> None:
    assert nvlink_subnet_manager.subjects(typed(expect)) == ["host"]
    for other in ({"nvlink": {**expect["nvlink"], "subnet_manager": False}}, {"nvlink": None}, {"gpu": None}):
        assert nvlink_subnet_manager.subjects(typed({**expect, **other})) == []


@pytest.mark.parametrize("state", ["R", "Ss", "Ssl", "D", "I", "Ssl+"])
@pytest.mark.parametrize("nics", [NICS, {**NICS, "0000:06:00.0": None}])
def test_running_one_passes(expect, state: str, nics) -> None:
    finding = judged(expect, replace(RUNS, states=(state,)), nics)
    assert (finding.verdict, finding.measured) == ("pass", "nvlsm runs, NICs that manage NVSwitches: 1")


@pytest.mark.parametrize(
    ("changes", "nics", "why"),
    [
        ({"states": ()}, NICS, "no process nvlsm runs: restart nvidia-fabricmanager.service"),
        ({"states": (), "installed": False}, NICS, "nvlsm is not installed (/opt/nvidia/nvlsm/sbin/nvlsm)"),
        ({"states": ("Z", "Ts")}, NICS, "no process nvlsm runs, the states of those there are Z, Ts"),
        ({"module": False}, NICS, "kernel module ib_umad is not loaded"),
        ({"states": (), "module": False}, UNREAD, "kernel module ib_umad is not loaded; no process nvlsm runs"),
        ({}, NONE, "none of 2 NICs manages NVSwitches"),
        ({}, {}, "none of 0 NICs manages NVSwitches"),
        ({"states": ()}, NONE, "none of 2 NICs manages NVSwitches (VPD with SW_MNG); no process nvlsm runs"),
    ],
)
def test_what_is_missing_is_named(expect, changes, nics, why: str) -> None:
    finding = judged(expect, replace(RUNS, **changes), nics)
    assert (finding.verdict, finding.action) == ("fail", "investigate")
    assert finding.reason.startswith(why)


def test_unread_nics_are_no_managers(expect) -> None:
    finding = judged(expect, RUNS, UNREAD)
    assert finding.verdict == "incomplete"
    assert finding.reason == "whether a NIC manages NVSwitches could not be read of 0000:05:00.0"

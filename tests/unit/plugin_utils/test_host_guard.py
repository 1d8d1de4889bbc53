"""Which hosts roles may configure."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.running_system import RunningSystem
from ansible_collections.muster.cluster.plugins.plugin_utils.control.host_guard import refusal

CONTROL = RunningSystem("boot-a", "machine-a", "1:2")
DEBIAN = {"id": "debian", "release": "12", "name": "Debian GNU/Linux"}
ROCKY = {"id": "rocky", "release": "9.4", "name": "Rocky Linux"}
NODE = {"boot_id": "boot-b", "machine_id": "machine-b", "root_id": "1:2", "system": DEBIAN, "changed": False}


def test_declared_host_that_is_another_machine_may_be_configured() -> None:
    assert refusal("gpu-01", True, NODE, CONTROL) == ""


@pytest.mark.parametrize(
    ("declared", "answer", "said"),
    [
        pytest.param(False, NODE, "no host of the fleet", id="not declared"),
        pytest.param(True, None, "has not said in this run", id="not asked"),
        pytest.param(True, {"skipped": True, "changed": False}, "has not said in this run", id="skipped"),
        pytest.param(True, {"unreachable": True, "msg": "no route"}, "has not said in this run", id="unreachable"),
        pytest.param(True, {"failed": True, "msg": "no python"}, "has not said in this run", id="failed"),
        pytest.param(
            True, {**NODE, "system": {**DEBIAN, "release": "11"}}, "expected one of Debian 12", id="old system"
        ),
        pytest.param(
            True, {key: NODE[key] for key in NODE if key != "system"}, "has not said in this run", id="no system"
        ),
        pytest.param(
            True, {**CONTROL.to_dict(), "system": DEBIAN}, "is the control machine itself", id="the control machine"
        ),
        pytest.param(True, {**NODE, "boot_id": ""}, "may be the control machine", id="no boot id"),
    ],
)
def test_every_other_host_is_refused_with_the_reason(declared: bool, answer: dict | None, said: str) -> None:
    refused = refusal("gpu-01", declared, answer, CONTROL)
    assert refused.startswith("gpu-01 ") and said in refused


@pytest.mark.parametrize(("host", "said"), [("", "the control process is a container"), ("podman", "")])
def test_machine_below_a_control_process_in_a_container_is_refused(host: str, said: str) -> None:
    """Another container of that machine may be configured, as the lab's are."""
    answer = {"boot_id": "boot-a", "machine_id": "machine-b", "root_id": "7:7", "container": host, "system": DEBIAN}
    refused = refusal("gpu-01", True, answer, RunningSystem("boot-a", "", "1:2", "docker"))
    assert bool(refused) is bool(said) and said in refused


def test_control_machine_that_does_not_know_itself_configures_nothing() -> None:
    assert "may be the control machine" in refusal("gpu-01", True, NODE, RunningSystem())


@pytest.mark.parametrize(
    ("role", "said"),
    [
        ("muster.cluster.host_base", ""),
        (
            "muster.cluster.slurm",
            "role slurm does not know Rocky Linux 9.4, expected one of Debian 12, Debian 13, Ubuntu",
        ),
        ("muster.cluster.subnet_manager", "role subnet_manager does not know Rocky Linux 9.4"),
        # A role of a site knows its systems itself.
        ("slurm", ""),
        ("", ""),
    ],
)
def test_role_configures_no_host_whose_system_it_does_not_know(role: str, said: str) -> None:
    refused = refusal("gpu-01", True, {**NODE, "system": ROCKY}, CONTROL, role)
    assert bool(refused) is bool(said) and said in refused
    assert refusal("gpu-01", True, NODE, CONTROL, role) == ""

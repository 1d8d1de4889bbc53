"""Which hosts roles may configure: declared ones that have said in this run that they are not the control machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.running_system import RunningSystem


def refusal(host: str, declared: bool, answer: Mapping[str, Any] | None, control: RunningSystem) -> str:
    """Return why a host may not be configured, empty if it may.

    ``answer`` is the result of module system_info for this host, None where it was not asked in this run.
    """
    if not declared:
        return f"{host} is no host of the fleet (it has no variable muster_node); roles configure declared hosts only"
    if not answer or "boot_id" not in answer:
        return (
            f"{host} has not said in this run which machine it is: the task muster.cluster.system_info, registered as "
            "muster_system, has to come before the role, and --start-at-task and --tags must not leave it out"
        )
    system = RunningSystem.from_dict(answer)
    if system.runs(control):
        return f"{host} is the machine on which the control process is a container. Run Muster on another machine"
    if not system.may_be(control):
        return ""
    if not (system.boot_id and control.boot_id):
        return f"{host} may be the control machine: the boot id (/proc/sys/kernel/random/boot_id) of one is unreadable"
    return (
        f"{host} is the control machine itself: same boot, and same root file system or /etc/machine-id. Correct the "
        "host's address, or run Muster on a machine that is no host of the fleet"
    )

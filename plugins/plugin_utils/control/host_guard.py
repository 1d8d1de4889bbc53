"""Which hosts roles may configure: declared ones of known systems that are not the control machine, as they said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host import systems
from ansible_collections.muster.cluster.plugins.module_utils.host.running_system import RunningSystem

COLLECTION = "muster.cluster."


def refusal(host: str, declared: bool, answer: Mapping[str, Any] | None, control: RunningSystem, role: str = "") -> str:
    """Return why a host may not be configured, empty if it may.

    ``answer`` is the result of module system_info for this host, None where it was not asked in this run. ``role`` is
    the full name of the role that asks, empty outside of one; of roles of a site nothing is known.
    """
    if not declared:
        return f"{host} is no host of the fleet (it has no variable muster_node); roles configure declared hosts only"
    if not answer or "boot_id" not in answer or "system" not in answer:
        return (
            f"{host} has not said in this run which machine it is: the task muster.cluster.system_info, registered as "
            "muster_system, has to come before the role, and --start-at-task and --tags must not leave it out"
        )
    system = RunningSystem.from_dict(answer)
    if system.runs(control):
        return f"{host} is the machine on which the control process is a container. Run Muster on another machine"
    if not system.may_be(control):
        roles = [role.removeprefix(COLLECTION)] if role.startswith(COLLECTION) else []
        unknown = systems.refusal(answer["system"], roles)
        return f"{host} cannot be configured: {unknown}" if unknown else ""
    if not (system.boot_id and control.boot_id):
        return f"{host} may be the control machine: the boot id (/proc/sys/kernel/random/boot_id) of one is unreadable"
    return (
        f"{host} is the control machine itself: same boot, and same root file system or /etc/machine-id. Correct the "
        "host's address, or run Muster on a machine that is no host of the fleet"
    )

"""Action plugin switch_audit: asks the fleet's switches whether they are what the fleet declares, and changes none."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.finding import PASS, VERDICTS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.declared import ROCE
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.audit import Asking, Audited, audit
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.judging import QUESTIONS
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.plan import SwitchPlan, plans_of
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.session import Limits, Login

ARGUMENTS: dict[str, Any] = {
    "fleet": {"type": "dict", "required": True},
    "switches": {"type": "list", "elements": "str", "default": []},
    "user": {"type": "str", "required": True},
    "password": {"type": "str", "no_log": True},
    "key_file": {"type": "path", "no_log": False},
    "known_hosts": {"type": "path", "default": "~/.ssh/known_hosts"},
    "accept_unknown_host_keys": {"type": "bool", "default": False},
    "port": {"type": "int", "default": 22},
    "parallel": {"type": "int", "default": 32},
    "connect_seconds": {"type": "float", "default": 10},
    "command_seconds": {"type": "float", "default": 60},
    "switch_seconds": {"type": "float", "default": 300},
    "leave_out": {"type": "list", "elements": "str", "choices": list(QUESTIONS), "default": []},
    "dest": {"type": "path", "required": True},
}


def chosen(plans: Mapping[str, SwitchPlan], names: Sequence[str]) -> tuple[list[SwitchPlan], list[str]]:
    """Return the switches to ask, and those that nobody can ask as they have no address. Raises AnsibleActionFail."""
    if unknown := sorted(set(names) - set(plans)):
        raise AnsibleActionFail(f"switch_audit: {', '.join(unknown)} is no switch of fabric.switches")
    wanted = [plans[name] for name in dict.fromkeys(names or plans)]
    asked = [plan for plan in wanted if plan.switch.address]
    if not asked:
        raise AnsibleActionFail("switch_audit: no switch has an address in fabric.switches, nobody to ask")
    return asked, [plan.switch.name for plan in wanted if not plan.switch.address]


def report_of(fleet: Fleet, results: Sequence[Audited], silent: Sequence[str], given: Mapping[str, Any]) -> Any:
    """Return the report as plain data; ``silent`` are the switches that were not asked."""
    return {
        "cluster": fleet.cluster,
        "verdict": worst(result.verdict for result in results),
        "questions": {name: text for name, text in QUESTIONS.items() if name not in given["leave_out"]},
        "left_out": sorted(given["leave_out"]),
        "ecn_judged": bool(fleet.fabric.dcqcn),
        "not_asked": list(silent),
        "switches": {result.name: result.to_dict() for result in results},
    }


class ActionModule(LocalAction):
    """Asks the switches from the control machine; needs no connection of Ansible's."""

    arguments = ARGUMENTS

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the number of switches by verdict; the task fails unless every one passes."""
        try:
            fleet = Fleet.from_variables(given["fleet"])
        except FleetError as exc:
            raise AnsibleActionFail(f"switch_audit: {exc}") from exc
        if fleet.fabric.kind != ROCE:
            raise AnsibleActionFail(f"switch_audit: fabric.kind is {fleet.fabric.kind}, expected {ROCE}")
        if given["parallel"] < 1:
            raise AnsibleActionFail(f"switch_audit: parallel is {given['parallel']}, expected at least 1")
        plans, silent = chosen(plans_of(fleet), given["switches"])
        login = Login(
            str(given["user"]),
            None if given["password"] is None else str(given["password"]),
            given["key_file"],
            given["known_hosts"],
            given["accept_unknown_host_keys"],
            given["port"],
        )
        limits = Limits(*(given[f"{what}_seconds"] for what in ("connect", "command", "switch")))
        display = Display()
        asking = Asking(login, limits, given["parallel"], given["leave_out"])
        results = audit(plans, asking, display.display)
        for name in silent:
            display.display(f"{name}: not asked, as it has no address in fabric.switches")
        taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        report = {"taken": taken, **report_of(fleet, results, silent, given)}
        file = Path(given["dest"]).absolute()
        self.write({file: json.dumps(report, indent=2) + "\n"})
        verdicts = Counter(each.verdict for each in results)
        counts = {verdict: verdicts[verdict] for verdict in VERDICTS}
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        return {
            "failed": report["verdict"] != PASS,
            "msg": f"{said} of {len(results)} switches asked; report in {file}",
            "verdicts": counts,
            "not_asked": silent,
            "report_file": str(file),
        }

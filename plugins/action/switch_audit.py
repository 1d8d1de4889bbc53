"""Action plugin switch_audit: asks the fleet's switches whether they are what the fleet declares, and changes none."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, VERDICTS
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_audit import Asking, audit, report_of
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_choice import chosen
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_judging import QUESTIONS
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_session import Limits, Login


class ActionModule(LocalAction):
    """Asks the switches from the control machine; needs no connection of Ansible's."""

    arguments: ClassVar[dict[str, Any]] = {
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

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the number of switches by verdict; the task fails unless every one passes."""
        fleet = Fleet.from_variables(given["fleet"])
        plans, silent = chosen(fleet, given["switches"])
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
        report = {"taken": taken, **report_of(fleet, results, silent, given["leave_out"])}
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

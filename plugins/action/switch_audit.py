"""Action plugin switch_audit: asks the fleet's switches whether they are what the fleet declares, and changes none."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction, show
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_audit import Asking, report_of
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
        keys = ("user", "password", "key_file", "known_hosts", "accept_unknown_host_keys", "port")
        asking = Asking(
            Login(*(given[key] for key in keys)),
            Limits(*(given[f"{what}_seconds"] for what in ("connect", "command", "switch"))),
            given["parallel"],
            given["leave_out"],
        )
        report = report_of(Fleet.from_variables(given["fleet"]), given["switches"], asking, show)
        file = Path(given["dest"]).absolute()
        self.write({file: json.dumps(report.to_dict(time.time()), indent=2) + "\n"})
        return {
            "failed": report.verdict != PASS,
            "msg": f"{report.said()}; report in {file}",
            "verdicts": report.counts,
            "not_asked": list(report.silent),
            "report_file": str(file),
        }

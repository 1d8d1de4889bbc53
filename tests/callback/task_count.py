"""Callback plugin that counts the tasks evaluated on each host."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: task_count
type: aggregate
short_description: Counts the tasks evaluated on each host, by role
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes how many tasks a run evaluated on each host in each role, skipped ones counted, and how long each play took.
  - A play costs tasks times hosts; this is the figure to hold against a budget of tasks per node.
  - Tasks outside a role count under the name of their play. A loop counts once, whatever its length. Those with
    C(run_once) count as V(once for all hosts).
  - The file is JSON with the keys C(hosts) (host, role, tasks), C(changed) (host, tasks that changed something) and
    C(plays) (a list of name and seconds).
requirements:
  - Name it in C(ANSIBLE_CALLBACKS_ENABLED) or C(callbacks_enabled).
options:
  file:
    description:
      - File to write when the run ends. Nothing is written without it.
      - Written whole or not at all; a run that is killed leaves what was there.
    type: path
    env:
      - name: MUSTER_TASK_COUNT_FILE
    ini:
      - section: callback_task_count
        key: file
"""

EXAMPLES = r"""
# MUSTER_TASK_COUNT_FILE=build/tasks.json ANSIBLE_CALLBACK_PLUGINS=tests/callback ANSIBLE_CALLBACKS_ENABLED=task_count \
#   ansible-playbook -i inventory/lab playbooks/site.yml
"""

HANDLERS = "handlers"
# With run_once the first host of a play answers for all of them: what it costs does not grow with the fleet.
ONCE = "once for all hosts"


class CallbackModule(CallbackBase):
    """Counts results, since each evaluated task gives exactly one per host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_count"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._hosts: dict[str, dict[str, int]] = {}
        self._changed: dict[str, int] = {}
        self._plays: list[dict[str, Any]] = []
        self._play = ""
        self._play_started: float | None = None

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Begin to time the play."""
        self._end_play()
        self._play = play.get_name().strip()
        self._play_started = time.monotonic()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Count a task that was ok or changed something."""
        self._count(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Count a skipped task: deciding to skip costs a turn of the play on every host."""
        self._count(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Count a failed task, its failure ignored or not."""
        self._count(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Count the task that found the host gone."""
        self._count(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write the file."""
        self._end_play()
        path = self.get_option("file")
        if not path:
            return
        # ``changed`` comes from the run's own recap, so that the two cannot disagree.
        for host in stats.processed:
            self._hosts.setdefault(host, {})
            self._changed[host] = stats.changed.get(host, 0)
        counted = {"hosts": self._hosts, "changed": self._changed, "plays": self._plays}
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.{os.getpid()}")
            part.write_text(json.dumps(counted, indent=2, sort_keys=True) + "\n", encoding="utf-8")
            part.replace(target)
        except OSError as exc:
            self._display.warning(f"task_count: cannot write {target}: {exc.strerror or exc}")

    def _count(self, result: Any) -> None:
        # ansible-core 2.19 gave these their public names; the old ones are on their way out.
        role = result.task._role
        step = role.get_name(include_role_fqcn=False) if role is not None else self._play
        if isinstance(result.task, Handler):
            # They run where something changed, on a first run above all; the roles' own counts stay comparable.
            step = HANDLERS
        elif result.task.run_once:
            step = ONCE
        steps = self._hosts.setdefault(result.host.get_name(), {})
        steps[step] = steps.get(step, 0) + 1

    def _end_play(self) -> None:
        if self._play_started is not None:
            seconds = round(time.monotonic() - self._play_started, 3)
            self._plays.append({"name": self._play, "seconds": seconds})
        self._play_started = None

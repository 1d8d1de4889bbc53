"""Action plugin system_info: asks a host which running system it is, over a connection of this run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import MusterAction


class ActionModule(MusterAction):
    """Have the host prove its host key again, then ask."""

    arguments: ClassVar[dict[str, Any]] = {"roles": {"type": "list", "elements": "str", "default": []}}

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ids of the host's boot and installation, and its system."""
        # ControlPersist outlives a run: over the connection of an earlier one no host key would be looked at. A host
        # that was asked in this run has shown its key in this run.
        if self._connection.transport == "ssh" and "muster_system" not in self._task_vars:
            self._connection.reset()
        return self.execute("system_info", dict(given))

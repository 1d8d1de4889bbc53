"""Action plugin record: evidence into the ledger at once, so that a run which dies later loses none of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.admission.recording import RECORDED, record
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import LedgerError


class ActionModule(LocalAction):
    """Record evidence."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "stage": {"type": "str", "required": True, "choices": list(RECORDED)},
        "evidence": {"type": "dict", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was recorded and what was refused."""
        evidence = given["evidence"]
        try:
            return record(Fleet.from_variables(given["fleet"]), given["stage"], evidence, time.time(), self.check)
        except LedgerError as exc:
            refused = [{"node": host, "id": "", "reason": str(exc)} for host in evidence]
            return {"failed": True, "msg": f"record: {exc}", "refused": refused}

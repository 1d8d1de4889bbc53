"""Action plugin fabric_rounds: every rail of every node against other nodes, in rounds."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage_task import ARGUMENTS, CampaignAction
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.fabric_stage import FabricRounds


class ActionModule(CampaignAction):
    """Run fabric rounds from the host that the task is delegated to."""

    module = "fabric_round"
    work_of = FabricRounds
    arguments: ClassVar[dict[str, Any]] = {**ARGUMENTS, "cabling": {"type": "dict", "default": {}}}

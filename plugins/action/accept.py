"""Action plugin accept: acceptance collectives between nodes."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage_task import ARGUMENTS, CampaignAction
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_stage import Acceptance


class ActionModule(CampaignAction):
    """Run acceptance from the host that the task is delegated to."""

    module = "collective_round"
    work_of = Acceptance
    arguments: ClassVar[dict[str, Any]] = {
        **ARGUMENTS,
        "partner_wait_seconds": {"type": "int", "default": 600},
        "baselines": {"type": "list", "elements": "str", "default": []},
    }

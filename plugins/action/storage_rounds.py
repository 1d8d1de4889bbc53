"""Action plugin storage_rounds: all nodes under test save a checkpoint to shared storage, as a job would."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage_task import ARGUMENTS, CampaignAction
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.storage_stage import StorageRounds


class ActionModule(CampaignAction):
    """Run storage rounds from the host that the task is delegated to."""

    module = "storage_round"
    work_of = StorageRounds
    arguments: ClassVar[dict[str, Any]] = {
        **ARGUMENTS,
        "port": {"type": "int", "default": 27300},
        "round_seconds": {"type": "int", "default": 900},
    }

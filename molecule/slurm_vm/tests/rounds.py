"""How a round starts its job on the node, by the product's own words."""

from __future__ import annotations

import os
import shlex

from ansible_collections.muster.cluster.plugins.module_utils.collectives.round_secret import VARIABLE, new_secret
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import Codec, RoundJob
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import Job
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import ACCEPTANCE_PARTITION
from machines import NODE

GROUP = (NODE,)
RANKS = 2


def command(codec: Codec, gpus: int) -> str:
    """Return the command of a round's job, as the round's module would run it."""
    job = Job(f"muster-round-vm-{os.urandom(3).hex()}", GROUP, {}, 29400)
    words = RoundJob(ACCEPTANCE_PARTITION, gpus, 60, codec).argv(job)
    return f"cd / && {VARIABLE}={new_secret()} runuser -u muster -- {shlex.join(words)}"

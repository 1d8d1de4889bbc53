"""For a Slurm that the site sets up itself: what its slurm.conf has to say, and what it is held against."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import fold
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import NO_LEDGER, GateFile
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import Partition as GatePartition
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import defaults
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.generic_resources import slurm_gpus
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_files import (
    GATE_FILE,
    Cluster,
    hook_settings,
    members_by_class,
    muster_lines,
    resources_of,
    settings_lines,
)

# Keys that the gate and the hooks need, of those that Muster's own slurm.conf has.
_KEYS = ("AuthType", "EnforcePartLimits", "ReturnToService", "SchedulerParameters")


def site_files_of(cluster: Cluster) -> dict[str, str]:
    """Return the lines for the site's own slurm.conf, and the gate's file as it has to be at first, by file name."""
    known = defaults()["slurm_conf"]
    settings = {key: known[key] for key in _KEYS} | hook_settings(cluster)
    if cluster.scheduler.hooks.prolog:
        settings["PrologFlags"] = "Alloc"
    lines = [
        "# Lines for the slurm.conf of your own. A list that you have keeps its other words.",
        f"# StateSaveLocation has to be {cluster.scheduler.state_directory}.",
        *settings_lines(settings),
        "",
        *_node_comments(cluster),
        *muster_lines(cluster),
    ]
    partitions = tuple(
        GatePartition.from_params({"name": each.name, "default": each.default, "parameters": each.parameters})
        for each in cluster.scheduler.partitions
    )
    return {"slurm.conf": "\n".join(lines) + "\n", GATE_FILE: GateFile(NO_LEDGER, 0, partitions).render()}


def site_needs_of(cluster: Cluster) -> dict[str, Any]:
    """Return the options of module slurm_site_info that follow from the fleet: all but ``pmix`` and ``uid``."""
    scheduler, hooks = cluster.scheduler, cluster.scheduler.hooks
    gpus = {
        name: sum(each.count for each in slurm_gpus(resources_of(cluster, name))) for name in members_by_class(cluster)
    }
    return {
        "nodes": {member.name: gpus[member.hardware_class] for member in cluster.members},
        "partitions": {each.name: dict(each.parameters) for each in scheduler.partitions},
        "release": scheduler.version,
        "state_directory": scheduler.state_directory,
        "controllers": len(cluster.controllers),
        "hooks": [name for name in ("health", "prolog", "epilog") if getattr(hooks, name)],
    }


def _node_comments(cluster: Cluster) -> list[str]:
    """Return as comments what the NodeName lines have to say of generic resources: the rest is the site's."""
    return [
        f"# In the NodeName line of {fold(member.name for member in members)}: Gres={','.join(resources)}"
        for name, members in members_by_class(cluster).items()
        if (resources := resources_of(cluster, name))
    ]

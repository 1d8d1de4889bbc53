"""What a real Slurm of each system prints of its set-up is read, and what is wrong with it is told."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.slurm import site_slurm
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import parse_partitions
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_output import (
    parse_config,
    parse_configured_nodes,
    parse_partition_words,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.site_slurm import Wanted

from tests.contracts.systems import System

ASKED = (
    (["scontrol", "show", "config"], "root"),
    (["scontrol", "show", "partition", "--all", "--oneliner"], "root"),
    (["scontrol", "show", "node", "--all", "--oneliner"], "root"),
)


def test_a_real_slurm_is_read(system: System) -> None:
    config, partition, node = (answer.stdout for answer in system.answers(ASKED, cluster=True))
    settings, words = parse_config(config), parse_partition_words(partition)
    release = site_slurm.release_of(settings["SLURM_VERSION"])
    wanted = Wanted(
        release=release,
        nodes={"gpu-01": 8, "gpu-02": 8},
        partitions={"batch": {}},
        hooks=tuple(site_slurm.HOOKS),
        state_directory=settings["StateSaveLocation"],
        controllers=1,
        pmix=False,
        uid=990,
    )
    assert site_slurm.release_lacks(settings, wanted) == []
    # The cluster of the tests takes nodes for larger than they are, has no hooks, and no exclusive partition.
    (wrong,) = site_slurm.settings_lack(settings, wanted)
    assert wrong.startswith("SlurmdParameters: is config_overrides")
    told = [line.partition(":")[0] for line in site_slurm.hooks_lack(settings, wanted.hooks)]
    assert set(told) >= {"HealthCheckProgram", "HealthCheckInterval", "Prolog", "Epilog", "PrologFlags"}
    assert not any("not told" in line for line in site_slurm.partition_lacks(words["acceptance"], 2))
    nodes = parse_configured_nodes(node)
    assert site_slurm.nodes_lack(nodes, parse_partitions(partition)["acceptance"], release, wanted) == {}

"""A real slurmctld reads the blocks that Muster writes for racks of one NVLink domain each.

Where the table of releases says that there are none, slurmctld does not start with them; nor where it says that blocks
have no sizes and one rack has a tray fewer.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_packages import release_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import no_blocks
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.slurm_versions import has_key, lacking, releases
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_topology import Member, block_lines

from tests.contracts.slurm_cluster import SLURM_CONF
from tests.contracts.systems import Answer, NoSystem, System

# Trays in each rack of two pods: GB200 NVL72 has 18.
WHOLE, ONE_LESS = (18, 18, 18, 18), (18, 18, 18, 17)
FOLDED = ["gpu-[01-18]", "gpu-[19-36]", "gpu-[37-54]"]
SHOW = (["scontrol", "show", "topology"], "root")


def members(trays: tuple[int, ...]) -> list[Member]:
    """Return the trays of racks, two of which are a pod."""
    racks = [rack for rack, count in enumerate(trays) for _ in range(count)]
    return [
        Member(f"gpu-{number:02}", "192.0.2.1", "gb200_nvl72", f"p{rack // 2}", f"r{rack}")
        for number, rack in enumerate(racks, 1)
    ]


def known(system: System) -> str:
    """Return the system's release of Slurm; skips the test where a fleet file may not declare it."""
    release = release_of(system.versions["slurmctld"])
    if release not in releases():
        pytest.skip(f"{system.name} has Slurm {release}, which Muster does not set up")
    return release


def shown(system: System, trays: tuple[int, ...]) -> Answer:
    """Return what a cluster of these racks says of its topology."""
    nodes = members(trays)
    sizes = has_key(release_of(system.versions["slurmctld"]), "topology.conf", "BlockSizes")
    # The first two nodes of the cluster run; the others are declared.
    conf = SLURM_CONF.replace("NodeName=gpu-03", f"NodeName=gpu-[03-{len(nodes)}]")
    files = {
        "/etc/slurm/slurm.conf": f"{conf}TopologyPlugin=topology/block\n",
        "/etc/slurm/topology.conf": "".join(f"{line}\n" for line in block_lines(nodes, sizes)),
    }
    (answer,) = system.answers([SHOW], cluster=True, files=files)
    return answer


def blocks_of(said: Answer) -> list[tuple[str, str]]:
    """Return nodes and size of each block, "" for a size that is not told."""
    assert said.rc == 0, said.text
    return re.findall(r"^BlockName=\S+ .*?Nodes=(\S+)(?: BlockSize=(\d+))?", said.stdout, re.MULTILINE)


def test_racks_are_blocks_and_pods_are_blocks_of_them(system: System) -> None:
    release = known(system)
    if lacking(release, "slurm.conf", "TopologyPlugin", "topology/block"):
        with pytest.raises(NoSystem, match="slurmctld ended"):
            shown(system, WHOLE)
        return
    said, sized = shown(system, WHOLE), has_key(release, "topology.conf", "BlockSizes")
    assert blocks_of(said) == [(nodes, "18" if sized else "") for nodes in (*FOLDED, "gpu-[55-72]")]
    pods = re.findall(r"^AggregatedBlock=.*?Nodes=(\S+)", said.stdout, re.MULTILINE)
    assert pods == (["gpu-[01-36]", "gpu-[37-72]"] if sized else [])


def test_rack_with_a_tray_fewer_is_a_block_where_it_is_one_by_default(system: System) -> None:
    if no_blocks(known(system)):
        with pytest.raises(NoSystem, match="slurmctld ended"):
            shown(system, ONE_LESS)
        return
    assert blocks_of(shown(system, ONE_LESS)) == [(nodes, "17") for nodes in (*FOLDED, "gpu-[55-71]")]

"""A real slurmd that finds its GPUs by ``AutoDetect=nvml``, and what Muster makes of one that finds too few.

Only Debian 13 has the plugin for the Slurm that it has.
"""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.slurm import drain_reason
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import NodeState, parse_nodes
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_packages import gpu_plugin_fault, release_of
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_plan import refused_registrations
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import GateInfo
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.generic_resources import slurm_gpus
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.slurm_versions import lacking, releases
from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_gres import gpu_lines

from tests.contracts import gpus
from tests.contracts.systems import Answer, System

NODE = "gpu-01"
# The cores of the cluster's two sockets (slurm_cluster.py).
SOCKETS = ("0-3", "4-7")
FEWER = "gres/gpu count reported lower than configured (7 < 8)"
JOB = (["srun", "--immediate=1", f"--nodelist={NODE}", "--gres=gpu:2", "printenv", "CUDA_VISIBLE_DEVICES"], "alice")
# slurmd of a node ($1), again if it runs, on other GPUs ($2), until its line at the controller has a text ($3).
START = r"""
cp "/opt/muster/$2" /opt/muster/gpus
pid=/run/slurmd.$1.pid
if test -e $pid; then kill "$(cat $pid)"; fi
while test -e $pid; do sleep 0.05; done
slurmd -N "$1"
for attempt in $(seq 200); do
    scontrol show node "$1" --oneliner | grep -Eq "$3" && exit
    sleep 0.05
done
exit 1
"""


def beside(text: str, cores: tuple[str, str] = SOCKETS) -> str:
    """Return GPUs of which the first four are beside the first of these cores, the others beside the second."""
    numbers = sorted({int(line.split("\t")[0]) for line in text.splitlines() if line[0].isdigit()})
    affinities = [f"{number}\tcpu_affinity\t{cores[number >= 4]}\n" for number in numbers]
    # The first line of a name counts.
    return "".join(affinities) + text


STATES = {
    "well": beside(gpus.text()),
    "missing": beside(gpus.text(gpus_missing=["SXM3"])),
    "no_handle": beside(gpus.text(gpus_lost=["SXM3"])),
    "lost": beside(gpus.text(gpus_lost_listed=["SXM3"])),
    "half_a_socket": beside(gpus.text(), ("0-1", "4-5")),
}


def show(node: str = NODE) -> tuple[list[str], str]:
    """Return the command that Muster asks a node's line with."""
    return ["scontrol", "show", "node", node, "--oneliner"], "root"


def start(state: str, until: str, node: str = NODE) -> tuple[list[str], str]:
    """Return the command that starts slurmd on these GPUs, and succeeds when the node's line matches."""
    return ["sh", "-c", START, "start", node, state, until], "root"


@pytest.fixture(scope="module")
def cluster(system: System) -> System:
    if why := gpu_plugin_fault("nvml", system.root):
        pytest.skip(f"{system.name}: {why}")
    return system


def ask(cluster: System, *asked: tuple[list[str], str]) -> list[Answer]:
    """Return the answers of a cluster whose gres.conf is Muster's, and whose GPUs are well at first."""
    (line,) = gpu_lines("nvml", slurm_gpus(["gpu:8"]), None, 8)
    states = {f"/opt/muster/{name}": text for name, text in STATES.items()}
    files = {"/etc/slurm/gres.conf": f"NodeName=gpu-[01-03] {line}\n", "/opt/muster/gpus": STATES["well"], **states}
    return cluster.answers(asked, cluster=True, files=files)


def told(answer: Answer) -> NodeState:
    """Return what the controller says of its node, as Muster reads it."""
    (node,) = parse_nodes(answer.stdout).values()
    return node


def refused(node: NodeState) -> dict[str, str]:
    """Return what Muster finds of the node's registration."""
    return refused_registrations(GateInfo(None, 0, {}, nodes={NODE: asdict(node)}))


def test_plugin_is_found_where_the_distribution_has_it(system: System) -> None:
    assert bool(gpu_plugin_fault("nvml", system.root)) == (system.suite != "trixie")


@pytest.mark.parametrize("kind", ["nvidia", "nrt"])
def test_plugins_without_a_library_are_in_the_releases_that_the_table_says(system: System, kind: str) -> None:
    release = release_of(system.versions["slurmctld"])
    if release not in releases():
        pytest.skip(f"{system.name} has Slurm {release}, which Muster does not set up")
    absent = bool(lacking(release, "gres.conf", "AutoDetect", kind))
    assert bool(gpu_plugin_fault(kind, system.root)) == absent


def test_eight_gpus_are_registered_with_their_cores_and_a_job_sees_its_two(cluster: System) -> None:
    shown, job, found = ask(cluster, show(), JOB, (["slurmd", "-N", NODE, "-G"], "root"))
    assert re.search(r" Gres=gpu:8\(S:0-1\) .*gres/gpu=8 ", shown.stdout)
    assert refused(told(shown)) == {}
    assert (job.rc, job.stdout.strip()) == (0, "0,1")
    devices = re.findall(r"File=(\S+) Cores=(\S+)", found.text)
    assert devices == [(f"/dev/nvidia{index}", SOCKETS[index >= 4]) for index in range(8)]


@pytest.mark.parametrize("state", ["missing", "no_handle", "lost"])
def test_node_that_finds_a_gpu_too_few_gets_no_jobs_and_is_refused_by_name(cluster: System, state: str) -> None:
    restarted, shown, job = ask(cluster, start(state, "INVALID_REG"), show(), JOB)
    assert restarted.rc == 0, restarted.text
    node = told(shown)
    assert (node.kept_off, node.registered, node.reason) == (True, False, FEWER)
    assert refused(node) == {NODE: f"it registered with less than slurm.conf declares ({FEWER})"}
    assert job.rc == 1 and "Required node not available (down, drained or reserved)" in job.text


def test_node_that_finds_all_again_is_still_drained_for_its_registration(cluster: System) -> None:
    wrong, right, shown = ask(cluster, start("lost", "INVALID_REG"), start("well", "State=IDLE.DRAIN "), show())
    assert (wrong.rc, right.rc) == (0, 0), right.text
    node = told(shown)
    assert (node.drained, node.registered) == (True, True)
    assert drain_reason.for_registration(node.reason, node.by)


def test_gpus_beside_half_a_socket_make_a_registration_that_is_refused(cluster: System) -> None:
    # A node that registers for the first time: later the controller does not look.
    began, shown = ask(cluster, start("half_a_socket", "INVALID_REG", "gpu-03"), show("gpu-03"))
    assert began.rc == 0, began.text
    node = told(shown)
    assert node.kept_off and "doesn't match socket boundaries. (Socket 0 is cores 0-3)" in refused(node)[NODE]

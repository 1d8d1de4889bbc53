"""The GPUs that slurmd registers: all of them, or the node gets no jobs until somebody has looked."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import node_gpus
from ansible_collections.muster.cluster.plugins.module_utils.slurm import drain_reason
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_plan import refused_registrations
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import GateInfo
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import (
    ACCEPTANCE_PARTITION,
    EXPLICIT,
)
from machines import CONTROLLER, FLEET, NODE, ask, idle, on, shown, wait_for

FEWER = "gres/gpu count reported lower than configured (1 < 2)"


@contextmanager
def one_gpu_less() -> Iterator[None]:
    """Slurmd finds one GPU: by its configuration, or by NVML, which has lost the other."""
    host, file, known = CONTROLLER, "/etc/slurm/gres.conf", "scontrol reconfigure"
    change = f"sed -i /nvidia1/d {file}"
    if FLEET.scheduler.gres != EXPLICIT:
        host, file, known = NODE, node_gpus.FILE, "systemctl restart slurmd"
        change = f"printf %s {shlex.quote(node_gpus.text(gpus_missing=['SXM2']))} >{file}"
    on(host, f"cp -p {file} /root/kept && {change} && {known}")
    try:
        yield
    finally:
        on(host, f"cp -p /root/kept {file} && {known}")


def job(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a job on a GPU of the node as Muster's own user, for whom no gate is closed."""
    words = ["srun", f"--partition={ACCEPTANCE_PARTITION}", f"--nodelist={NODE}", "--gres=gpu:1", *options, "true"]
    return ask(CONTROLLER, f"cd / && runuser -u muster -- {shlex.join(words)}")


def test_all_gpus_are_registered_with_the_sockets_beside_them() -> None:
    wait_for("an idle node", idle)
    assert " Gres=gpu:2(S:0-1) " in on(CONTROLLER, f"scontrol show node {NODE} --oneliner")


def test_node_that_finds_a_gpu_too_few_gets_no_jobs_and_is_refused_by_name() -> None:
    with one_gpu_less():
        wait_for("a registration that is refused", lambda: not shown().registered)
        refused, kept_off = shown(), job("--immediate=5")
    assert refused.drained and FEWER in refused.reason, refused
    (said,) = refused_registrations(GateInfo(None, 0, {}, nodes={NODE: asdict(refused)})).items()
    assert said == (NODE, f"it registered with less than slurm.conf declares ({refused.reason})")
    assert kept_off.returncode and "Required node not available" in kept_off.stderr, kept_off
    wait_for("a registration that is right", lambda: shown().registered)
    # What is left is for whoever has looked at the node.
    left = shown()
    assert left.drained and drain_reason.for_registration(left.reason, left.by), left
    on(CONTROLLER, f"scontrol update NodeName={NODE} State=RESUME")
    wait_for("an idle node", idle)
    taken = job()
    assert taken.returncode == 0, taken

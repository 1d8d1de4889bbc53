"""What the modules that run a round through Slurm have in common: their arguments, jobs, and how a round is run."""

from __future__ import annotations

import pwd
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ..collectives.round_secret import VARIABLE, new_secret
from .round_job import Codec, RoundJob
from .slurm_round import Job, Slurm, SlurmError, job_name, run_round

# Groups are disjoint in nodes, yet share ports only so far: rank 0 of a group may listen where no earlier job of its
# node still does.
PORTS = 100


def arguments(timeout_seconds: int, deadline_seconds: int, **own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a round module's argument specification, with its own arguments among it."""
    return {
        "campaign": {"type": "str", "required": True},
        "number": {"type": "int", "required": True},
        "groups": {"type": "list", "elements": "list", "required": True},
        "environment": {"type": "dict", "default": {}},
        "port": {"type": "int", "required": True},
        "gpus_per_node": {"type": "int", "required": True},
        "partition": {"type": "str", "default": "acceptance"},
        "user": {"type": "str", "default": "muster"},
        "executable": {"type": "str", "default": "/usr/libexec/muster/muster"},
        "start_seconds": {"type": "int", "default": 30},
        "timeout_seconds": {"type": "int", "default": timeout_seconds},
        "deadline_seconds": {"type": "int", "default": deadline_seconds},
        **own,
    }


def jobs_of(given: Mapping[str, Any], addresses: Mapping[str, str], ports: int = 1) -> list[Job]:
    """Return one job for each group; ``ports``: how many different ones the groups listen at, from ``port`` on."""
    attempt = uuid.uuid4().hex[:8]
    return [
        Job(
            name=job_name(given["campaign"], given["number"], index, attempt),
            group=tuple(group),
            addresses=addresses,
            port=given["port"] + index % ports,
        )
        for index, group in enumerate(given["groups"])
    ]


def run_job(module: Any, codec: Codec, addresses: Mapping[str, str]) -> None:
    """Run a round whose jobs all do one thing, and leave the module with its observations."""
    given = module.params
    work = RoundJob(given["partition"], given["gpus_per_node"], given["deadline_seconds"], codec)
    # A group has its nodes to itself, so that all of them can use the same ports.
    jobs = jobs_of(given, addresses)
    run(module, lambda slurm: run_round(slurm, jobs, work, given["start_seconds"]))


def run(module: Any, runner: Callable[[Slurm], list[dict[str, Any]]]) -> None:
    """Run a round and leave the module with its observations; what a group does never fails it.

    ``module`` is an AnsibleModule with the arguments above.
    """
    given = module.params
    for tool in ("srun", "sinfo", "squeue", "scancel"):
        module.get_bin_path(tool, required=True)
    try:
        pwd.getpwnam(given["user"])
    except KeyError:
        module.fail_json(msg=f"user {given['user']} does not exist here; the round's jobs run as that user")
    if module.check_mode:
        module.exit_json(changed=False, observations=[], cancelled=[])
    # All that srun starts has its environment.
    environment = {**{key: str(value) for key, value in given["environment"].items()}, VARIABLE: new_secret()}
    try:
        slurm = Slurm(given["user"], given["partition"], environment)
        cancelled = slurm.cancel(given["campaign"])
        observations = runner(slurm)
    except SlurmError as exc:
        module.fail_json(msg=f"Slurm did not answer: {exc}")
    module.exit_json(changed=False, observations=observations, cancelled=cancelled)

"""The jobs that Slurm runs on this very host: what a load must not meet."""

from __future__ import annotations

from collections.abc import Iterable

from ..host.host import Host
from ..host.waiting import poll, retry
from .scontrol_output import NodeJob, SlurmGateError
from .slurm_controller import Controller

POLL_SECONDS = 2.0


def _daemons(host: Host) -> set[str]:
    names = {host.read(path).stdout.strip() for path in host.paths("/proc/[0-9]*/comm")}
    # Debian's programs are called slurmd-wlm, with slurmd as a link.
    return {name.removesuffix("-wlm") for name in names}


def serves_slurm(host: Host) -> bool:
    """Return whether slurmd or a job's step runs on the host."""
    return not _daemons(host).isdisjoint({"slurmd", "slurmstepd"})


def jobs_here(host: Host, node: str) -> list[NodeJob]:
    """Return the jobs on this host, whose name in Slurm is ``node``; none where neither slurmd nor a step runs.

    Raises SlurmGateError where Slurm does not say, or names no job though a step of one runs here.
    """
    if not serves_slurm(host):
        return []
    jobs = Controller(host).jobs_on(node)
    if not jobs and "slurmstepd" in _daemons(host):
        raise SlurmGateError(f"squeue names no job on {node}, and the step of one runs here")
    return jobs


def keep_jobs_off(host: Host, node: str, reason: str, wait_seconds: float, check: bool) -> tuple[bool, list[NodeJob]]:
    """Drain this host and wait for its jobs; return whether the drain is new, and the jobs that are left.

    Somebody's drain stays as it is. With ``check`` nothing is drained and nobody waits. Raises SlurmGateError.
    """
    if not serves_slurm(host):
        return False, []
    controller = Controller(host)
    drains = not controller.node(node).drained

    def left() -> list[NodeJob]:
        # A step may take a moment longer than its job.
        return retry(lambda: jobs_here(host, node), SlurmGateError, 2 * POLL_SECONDS, POLL_SECONDS)

    if check:
        return drains, left()
    if drains:
        controller.drain(node, reason)
    return drains, poll(left, lambda jobs: not jobs, wait_seconds, POLL_SECONDS)


def listed(jobs: Iterable[NodeJob]) -> str:
    """Return the jobs as people read them: ``jobs 12 (uid 1000), 14 (uid 1001)``."""
    names = [f"{job.id} (uid {job.uid})" for job in jobs]
    return f"{'job' if len(names) == 1 else 'jobs'} {', '.join(names)}"

"""The running slurmctld, asked and told through scontrol."""

from __future__ import annotations

from collections.abc import Sequence

from ..host.host import Host, Output
from ..host.host_lists import batches, fold
from .scontrol_output import (
    Job,
    LivePartition,
    NoAnswer,
    NodeJob,
    NodeState,
    Reservation,
    SlurmGateError,
    parse_jobs,
    parse_node_jobs,
    parse_nodes,
    parse_partitions,
    parse_reservations,
)
from .site_output import ConfiguredNode, parse_config, parse_configured_nodes, parse_partition_words

# Linux takes 128 KiB in one argument (MAX_ARG_STRLEN); with room for the words before it.
ARGUMENT_BYTES = 100 * 1024
# Scontrol prints local time, in which an hour comes twice when clocks are set back, and in a form that may be chosen.
TIMES = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}


class Controller:
    """The running slurmctld, asked through scontrol. Every method raises NoAnswer or SlurmGateError."""

    def __init__(self, host: Host, timeout_seconds: float = 60) -> None:
        self.host = host
        self.timeout_seconds = timeout_seconds

    def partitions(self) -> dict[str, LivePartition]:
        """Return the partitions by name."""
        return parse_partitions(self._scontrol("show", "partition", "--all", "--oneliner"))

    def reservations(self) -> dict[str, Reservation]:
        """Return the reservations by name, those to come among them."""
        return parse_reservations(self._scontrol("show", "reservation", "--oneliner"))

    def nodes(self) -> dict[str, NodeState]:
        """Return the nodes by name."""
        return parse_nodes(self._scontrol("show", "node", "--all", "--oneliner"))

    def settings(self) -> dict[str, str]:
        """Return the settings that slurmctld has, by key of slurm.conf."""
        return parse_config(self._scontrol("show", "config"))

    def partition_words(self) -> dict[str, dict[str, str]]:
        """Return all that is printed of each partition, by name and key."""
        return parse_partition_words(self._scontrol("show", "partition", "--all", "--oneliner"))

    def configured_nodes(self) -> dict[str, ConfiguredNode]:
        """Return what the nodes are configured to have, by name."""
        return parse_configured_nodes(self._scontrol("show", "node", "--all", "--oneliner"))

    def node(self, name: str) -> NodeState:
        """Return one node; raises SlurmGateError also where Slurm has no such node or its line cannot be read."""
        found = parse_nodes(self._scontrol("show", "node", name, "--oneliner"))
        if name not in found:
            raise SlurmGateError(f"scontrol show node {name}: said {', '.join(found) or 'nothing'}, expected {name}")
        if not found[name].readable:
            raise SlurmGateError(f"scontrol show node {name}: {found[name].reason}")
        return found[name]

    def set_nodes(self, partition: str, nodes: Sequence[str]) -> None:
        """Make the partition list these nodes; an empty value makes it list none."""
        self._scontrol("update", f"PartitionName={partition}", f"Nodes={fold(nodes)}")

    def reconfigure(self) -> None:
        """Make the controller read its files again."""
        self._scontrol("reconfigure")

    def drain(self, node: str, reason: str) -> None:
        """Keep new jobs off a node."""
        self._scontrol("update", f"NodeName={node}", "State=DRAIN", f"Reason={reason or 'drained'}")

    def resume(self, *nodes: str) -> None:
        """Let jobs on nodes again, also after a reboot that Slurm did not ask for.

        Raises SlurmGateError where Slurm refused one of them. Those that it took before that one are resumed then, and
        those after it are not.
        """
        for batch in batches(nodes, ARGUMENT_BYTES):
            self._scontrol("update", f"NodeName={fold(batch)}", "State=RESUME")

    def jobs(self) -> list[Job]:
        """Return the jobs that are on nodes."""
        return parse_jobs(self._squeue("--states=RUNNING,SUSPENDED,CONFIGURING", "--format=%A|%P|%N"))

    def jobs_on(self, node: str) -> list[NodeJob]:
        """Return the jobs on one node, those too that are just leaving it."""
        said = self._squeue(f"--nodelist={node}", "--states=all", "--format=%A|%U|%T")
        return [job for job in parse_node_jobs(said) if not job.over]

    def _squeue(self, *arguments: str) -> str:
        self._ping()
        argv = ["squeue", "--noheader", *arguments, "--all"]
        return self._answer(argv, self.host.run(argv, self.timeout_seconds))

    def end(self, job: str) -> None:
        """Put a job back into the queue, or cancel it where it cannot be started again."""
        try:
            self._scontrol("requeue", job)
        except NoAnswer:
            raise
        except SlurmGateError:
            argv = ["scancel", job]
            self._answer(argv, self.host.run(argv, self.timeout_seconds))

    def _scontrol(self, *arguments: str) -> str:
        self._ping()
        argv = ["scontrol", *arguments]
        return self._answer(argv, self.host.run(argv, self.timeout_seconds))

    def _ping(self) -> None:
        # scontrol asks a controller that is gone again and again; ping tells at once.
        ping = self.host.run(["scontrol", "ping"], self.timeout_seconds)
        if ping.rc != 0:
            raise NoAnswer(f"slurmctld does not answer: {_said(ping.error, ping.stdout, ping.stderr)}")

    @staticmethod
    def _answer(argv: Sequence[str], output: Output) -> str:
        command = " ".join(argv)
        if output.rc is None or output.timed_out:
            raise NoAnswer(f"{command}: {output.error}")
        if output.rc != 0:
            raise SlurmGateError(f"{command}: {_said(output.error, output.stderr, output.stdout)}")
        return output.stdout


def _said(*texts: str) -> str:
    return next((text.strip().splitlines()[0] for text in texts if text.strip()), "no message")

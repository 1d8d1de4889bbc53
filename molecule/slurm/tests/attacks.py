"""What an ordinary user tries in order to run on a node that is closed to users."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cluster import LOGIN, OTHER_USER, USER, job, node_state, on, ssh, wait_for, wait_for_job

# Longer than any answer takes on a busy machine; what waits for a node that does not open is given up then.
SECONDS = 25


@dataclass(frozen=True)
class Attack:
    """One try, typed on the login host; ``{node}`` is the closed node, ``{wrap}`` and ``{run}`` leave a trace on it.

    What would leave none if it were obeyed has to be ``refused`` by its exit status.
    """

    name: str
    command: str
    refused: bool = False


# The cluster's configuration as a user would like it.
OWN = (
    "own=$(mktemp -d); cp /etc/slurm/*.conf $own; sed -i '/^SlurmUser=/d' $own/slurm.conf;"
    " printf 'SlurmUser=%s\\nPartitionName=mine Nodes={node} Default=YES\\n' $(id -un) >>$own/slurm.conf;"
    " export SLURM_CONF=$own/slurm.conf; "
)
# A token that says that it is root's and not signed.
FORGED = (
    'part() {{ printf %s "$1" | base64 --wrap=0 | tr +/ -_ | tr -d =; }};'
    ' export SLURM_JWT=$(part \'{{"alg":"none","typ":"JWT"}}\')'
    '.$(part \'{{"exp":4102444800,"sun":"root"}}\').; '
)
# What is quoted once more finds the job there.
WRAP = "export WRAP={wrap}; "

ATTACKS = (
    Attack("sbatch names the node", "sbatch --nodelist={node} --wrap={wrap}"),
    Attack("sbatch names node and partition", "sbatch --partition=interactive --nodelist={node} --wrap={wrap}"),
    Attack("sbatch names Muster's partition", "sbatch --partition=acceptance --nodelist={node} --wrap={wrap}"),
    Attack("sbatch names several partitions", "sbatch --partition=batch,interactive,acceptance --wrap={wrap}"),
    Attack("sbatch asks for all nodes", "sbatch --nodes=3 --wrap={wrap}"),
    Attack("sbatch leaves out the others", "sbatch --exclude=gpu-01,gpu-02 --wrap={wrap}"),
    Attack("sbatch sends an array", "sbatch --array=1-4 --nodelist={node} --wrap={wrap}"),
    Attack("sbatch names another account", "sbatch --account=operations --nodelist={node} --wrap={wrap}"),
    Attack("sbatch names a reservation", "sbatch --reservation=acceptance --nodelist={node} --wrap={wrap}"),
    Attack("sbatch takes another user's name", "sbatch --uid=muster --partition=acceptance --wrap={wrap}"),
    Attack("sbatch takes another group", "sbatch --gid=muster --partition=acceptance --wrap={wrap}"),
    Attack("sg takes Muster's group", WRAP + "sg muster -c 'sbatch --partition=acceptance --wrap=\"$WRAP\"'"),
    Attack("newgrp takes it", WRAP + "echo 'sbatch --partition=acceptance --wrap=\"$WRAP\"' | newgrp muster"),
    Attack("su takes Muster's name", WRAP + "su -m muster -c 'sbatch --partition=acceptance --wrap=\"$WRAP\"'"),
    Attack("sudo takes Muster's name", "sudo -n -u muster sbatch --partition=acceptance --wrap={wrap}"),
    Attack("sudo takes root's name", "sudo -n sbatch --partition=acceptance --nodelist={node} --wrap={wrap}"),
    Attack("sbatch shows its own token", "export $(scontrol token) && sbatch --partition=acceptance --wrap={wrap}"),
    Attack("sbatch shows a forged token", FORGED + "sbatch --partition=acceptance --nodelist={node} --wrap={wrap}"),
    Attack("scontrol makes another's token", "scontrol token username=muster | grep SLURM_JWT", refused=True),
    Attack("srun names the node", "srun --immediate=5 --nodelist={node} {run}"),
    Attack("srun names Muster's partition", "srun --immediate=5 --partition=acceptance --nodelist={node} {run}"),
    Attack("srun runs without an allocation", "srun --no-allocate --nodelist={node} {run}"),
    Attack("srun reads its own configuration", OWN + "srun --immediate=5 --partition=mine --nodelist={node} {run}"),
    Attack("srun does so without an allocation", OWN + "srun --no-allocate --nodelist={node} {run}"),
    Attack("srun's second component names the node", "srun --nodes=1 {run} : --nodelist={node} {run}"),
    Attack("srun's second component names Muster's partition", "srun --nodes=1 {run} : --partition=acceptance {run}"),
    Attack("salloc names the node", "salloc --immediate=5 --nodelist={node} srun {run}"),
    Attack("salloc names Muster's partition", "salloc --immediate=5 --partition=acceptance srun {run}"),
    Attack("a step leaves its allocation", "salloc --immediate=15 --nodes=1 srun --nodelist={node} {run}"),
    Attack("scontrol opens the partition", "scontrol update PartitionName=batch Nodes=ALL", refused=True),
    Attack(
        "scontrol opens Muster's partition", "scontrol update PartitionName=acceptance AllowGroups=ALL", refused=True
    ),
    Attack("scontrol makes a partition", "scontrol create PartitionName=mine Nodes={node}", refused=True),
    Attack(
        "scontrol reserves the node",
        "scontrol create reservation user=alice starttime=now duration=5 nodes={node}",
        refused=True,
    ),
    Attack(
        "strigger has a program run",
        "program=$(mktemp) && printf '#!/bin/sh\\n%s\\n' {wrap} >$program && chmod 755 $program"
        " && strigger --set --idle --node={node} --program=$program",
        refused=True,
    ),
    Attack("the gate is written", "echo 'PartitionName=mine Nodes={node}' >>/etc/slurm/muster_partitions.conf", True),
    Attack(
        "a queued job is moved",
        "number=$(sbatch --parsable --hold --wrap={wrap}) && scontrol update JobId=$number Partition=acceptance;"
        " scontrol update JobId=$number ReqNodeList={node}; scontrol release $number",
    ),
    Attack(
        "a job that ran is requeued there",
        "number=$(sbatch --parsable --requeue --wrap={wrap}) && sleep 8; scontrol requeue $number;"
        " scontrol update JobId=$number Partition=acceptance; scontrol update JobId=$number ReqNodeList={node}",
    ),
    Attack(
        "a task of an array is requeued there",
        'number=$(sbatch --parsable --requeue --array=1-2 --wrap={wrap}) && sleep 8; scontrol requeue "$number"_1;'
        ' scontrol update JobId="$number"_1 ReqNodeList={node}; scontrol release "$number"_1',
    ),
    Attack("scrontab names the node", "printf '#SCRON --nodelist={node}\\n* * * * * %s\\n' {wrap} | scrontab -"),
)

# While a job of Muster's, {job}, has the closed node to itself, so that the others cannot.
INTO_JOBS = (
    Attack("srun enters Muster's job", "srun --jobid={job} --overlap {run}"),
    Attack("srun enters it by Muster's name", "srun --jobid={job} --overlap --uid=muster {run}"),
    Attack("scontrol hands the job over", "scontrol update JobId={job} UserID=alice", refused=True),
    Attack("scancel ends the job", "scancel {job}"),
)

# What a user types on a node where a job runs, to run there when it is closed. Each has to be refused.
COMEBACKS = (
    Attack("crontab", "echo '* * * * * touch /tmp/again' | crontab -"),
    Attack("at", "echo touch /tmp/again | at now + 1 minute"),
    Attack("batch", "echo touch /tmp/again | batch"),
    Attack("loginctl lets the user linger", "loginctl enable-linger"),
    Attack("loginctl lets another linger", f"loginctl enable-linger {OTHER_USER}"),
    Attack("systemd runs it later", "systemd-run --on-active=60 touch /tmp/again"),
)


@contextmanager
def muster_at_work(node: str) -> Iterator[str]:
    """A job of Muster's own runs on the node, as in a round of tests."""
    words = ["sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--partition=acceptance"]
    command = shlex.join([*words, f"--nodelist={node}", "--wrap=sleep 600"])
    number = on(LOGIN, f"runuser -u muster -- {command}").strip()
    try:
        wait_for_job(number, "RUNNING")
        yield number
    finally:
        ssh(LOGIN, f"scancel {number}")
    wait_for(f"{node} free", lambda: node_state(node).startswith("idle"))


def attack(node: str, trace: str) -> None:
    """Do all of them at once, and ssh; ``trace`` is a file that whatever runs writes on the host where it runs.

    Raises AssertionError if what had to be refused was obeyed, or ssh let the user in.
    """
    answers = _attack(ATTACKS, node, trace)
    with muster_at_work(node) as number:
        answers |= _attack(INTO_JOBS, node, trace, number)
        assert job(number)["JobState"] == "RUNNING", "Muster's job was ended"
    every = (*ATTACKS, *INTO_JOBS)
    obeyed = [each.name for each in every if each.refused and answers[each.name].endswith("status 0")]
    assert not obeyed, {name: answers[name] for name in obeyed}
    came_in = ssh(node, f"hostname >>{trace}", USER)
    assert came_in.returncode != 0, f"ssh {USER}@{node} was let in"


def _attack(attacks: Sequence[Attack], node: str, trace: str, number: str = "") -> dict[str, str]:
    """Return what each was answered, ended by its exit status."""
    body = f"hostname >>{trace}; sleep 2"
    filled = {"node": node, "job": number, "wrap": shlex.quote(body), "run": f"sh -c {shlex.quote(body)}"}
    lines = ["cd /tmp"]
    for place, each in enumerate(attacks):
        command = shlex.quote(each.command.format(**filled).replace("sbatch ", "sbatch --output=/dev/null "))
        lines.append(f"(timeout {SECONDS} sh -c {command} >{trace}-{place} 2>&1; echo status $? >>{trace}-{place}) &")
    told = ssh(LOGIN, "\n".join([*lines, "wait", f"tail -n +1 {trace}-*; rm {trace}-*"]), USER)
    answers = {}
    for block in told.stdout.split("==> ")[1:]:
        name, _, said = block.partition(" <==\n")
        answers[attacks[int(name.rpartition("-")[2])].name] = said.strip()
    assert set(answers) == {each.name for each in attacks}, f"not all was tried: {told.stdout}{told.stderr}"
    return answers

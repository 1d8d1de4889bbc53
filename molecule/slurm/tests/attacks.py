"""What an ordinary user tries in order to run on a node that is closed to users."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from cluster import LOGIN, USER, ssh

# Longer than any answer takes on a busy machine; what waits for a node that does not open is given up then.
SECONDS = 25


@dataclass(frozen=True)
class Attack:
    """One try, typed on the login host; ``{node}`` is the closed node, ``{wrap}`` and ``{run}`` leave a trace on it."""

    name: str
    command: str


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
    Attack("srun names the node", "srun --immediate=5 --nodelist={node} {run}"),
    Attack("srun names Muster's partition", "srun --immediate=5 --partition=acceptance --nodelist={node} {run}"),
    Attack("srun runs without an allocation", "srun --no-allocate --nodelist={node} {run}"),
    Attack("salloc names the node", "salloc --immediate=5 --nodelist={node} srun {run}"),
    Attack("salloc names Muster's partition", "salloc --immediate=5 --partition=acceptance srun {run}"),
    Attack("a step leaves its allocation", "salloc --immediate=15 --nodes=1 srun --nodelist={node} {run}"),
    Attack("scontrol opens the partition", "scontrol update PartitionName=batch Nodes=ALL && srun -w {node} {run}"),
    Attack("scontrol opens Muster's partition", "scontrol update PartitionName=acceptance AllowGroups=ALL"),
    Attack("scontrol makes a partition", "scontrol create PartitionName=mine Nodes={node} && srun -p mine {run}"),
    Attack(
        "scontrol reserves the node", "scontrol create reservation user=alice starttime=now duration=5 nodes={node}"
    ),
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
    Attack(
        "srun enters the jobs of others",
        "for number in $(squeue --all --noheader --nodelist={node} --format=%A); do"
        " srun --jobid=$number --overlap {run}; sattach $number.0; done; false",
    ),
    Attack("scrontab names the node", "printf '#SCRON --nodelist={node}\\n* * * * * %s\\n' {wrap} | scrontab -"),
)


def attack(node: str, trace: str) -> None:
    """Do all of them at once, and ssh; ``trace`` is a file that whatever runs writes on the host where it runs.

    Raises AssertionError if a command that only root may give was obeyed, or ssh let the user in.
    """
    body = f"hostname >>{trace}; sleep 2"
    filled = {"node": node, "wrap": shlex.quote(body), "run": f"sh -c {shlex.quote(body)}"}
    lines = ["cd /tmp"]
    for number, each in enumerate(ATTACKS):
        command = shlex.quote(each.command.format(**filled).replace("sbatch ", "sbatch --output=/dev/null "))
        lines.append(f"(timeout {SECONDS} sh -c {command} >{trace}-{number} 2>&1; echo status $? >>{trace}-{number}) &")
    told = ssh(LOGIN, "\n".join([*lines, "wait", f"tail -n +1 {trace}-*"]), USER)
    answers = {}
    for block in told.stdout.split("==> ")[1:]:
        name, _, said = block.partition(" <==\n")
        answers[ATTACKS[int(name.rpartition("-")[2])].name] = said.strip()
    assert set(answers) == {each.name for each in ATTACKS}, f"not all was tried: {told.stdout}{told.stderr}"
    obeyed = [name for name, said in answers.items() if name.startswith("scontrol ") and said.endswith("status 0")]
    assert not obeyed, {name: answers[name] for name in obeyed}
    came_in = ssh(node, f"hostname >>{trace}", USER)
    assert came_in.returncode != 0, f"ssh {USER}@{node} was let in"

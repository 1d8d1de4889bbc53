"""A slurmctld of one release with a node and a login host of another one: real daemons do what the table says.

What a pair has to do is asked of ``pair_fault`` alone. slurmctld sends a node away that is outside of the window, and
logs why. What slurmd logs depends on its release, and may be nothing until slurmctld looks for the node.
"""

from __future__ import annotations

import re
from itertools import permutations

from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import parse_nodes
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_packages import release_of
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_releases import RELEASES, pair_fault

from tests.contracts import page
from tests.contracts.slurm_cluster import LOGS, OTHER, OTHER_NODE
from tests.contracts.systems import Answer, System, on_other

SHOW = ["scontrol", "show", "node", OTHER_NODE, "--oneliner"]
LOGGED = ["cat", f"{LOGS}/slurmctld"], "root"
LOGGED_BY_NODE = ["cat", f"{OTHER}{LOGS}/slurmd"], "root"
# Who runs a job tells its release.
JOB = ["srun", "--immediate=10", f"--nodelist={OTHER_NODE}", "slurmd", "-V"]
JOB_ON_FIRST = ["srun", "--immediate=10", "--nodelist=gpu-01", "slurmd", "-V"]
BATCH_JOB = ["sbatch", f"--nodelist={OTHER_NODE}", "--output=/tmp/said", "--wrap=slurmd -V"]
# What the node prints of a batch job is in a file of the login host, which is the same one here.
SAID = ["timeout", "20", "sh", "-c", "until test -s /tmp/said; do sleep 0.1; done; cat /tmp/said"]
SINFO = ["sinfo", "--noheader", f"--nodes={OTHER_NODE}", "--format=%T"]
# As slurmctld logs the number of a release that it does not know yet, and of one that it knows no more.
PROTOCOL = "Invalid Protocol Version ([0-9]+) from|protocol_version ([0-9]+) not supported"


def until(state: str, logged: str = "") -> tuple[list[str], str]:
    """Return the command that waits for a node's state at the controller, and for a text in slurmctld's log."""
    shown, told = f"{' '.join(SHOW)} | grep -q ' State={state} '", f"grep -Eq '{logged}' {LOGS}/slurmctld"
    return ["timeout", "30", "sh", "-c", f"until {shown} && {told}; do sleep 0.1; done"], "root"


def protocol(release: str) -> int:
    """Return the number of a release's protocol: 36 * 256 is 20.11's, one up each release (slurm_protocol_common.h)."""
    return (36 + RELEASES.index(release) - RELEASES.index("20.11")) * 256


def version(answer: Answer) -> str:
    """Return the version that a node has told the controller, "" where it never registered."""
    found = re.search(r" Version=(\S+) ", answer.stdout)
    return found[1] if found else ""


def assert_serves(controller: System, other: System) -> None:
    """Hold that the node registers, and that jobs run on it from either release, and from the other one elsewhere."""
    questions = [(SHOW, "root"), on_other(SHOW, "alice"), on_other(SINFO, "alice"), (JOB, "alice")]
    questions += [on_other(argv, "alice") for argv in (JOB, BATCH_JOB, SAID, JOB_ON_FIRST)]
    registered, *answers, logged, by_node = controller.answers(
        [until("IDLE"), *questions, LOGGED, LOGGED_BY_NODE], cluster=True, other=other
    )
    assert registered.rc == 0, logged.text + by_node.text
    assert [answer.rc for answer in answers] == [0] * len(questions), answers
    shown, shown_there, listed, job, job_there, _batch, said, on_first = answers
    assert release_of(version(shown)) == release_of(other.versions["slurmd"])
    for each in (shown, shown_there):
        node = parse_nodes(each.stdout)[OTHER_NODE]
        assert (node.state, node.registered, node.kept_off) == ("IDLE", True, False)
    assert listed.stdout.split() == ["idle"]
    assert [each.stdout.strip() for each in (job, job_there, said)] == [f"slurm-wlm {version(shown)}"] * 3
    assert release_of(on_first.stdout.split()[1]) == release_of(controller.versions["slurmd"])


def assert_refuses(controller: System, other: System) -> None:
    """Hold that slurmctld sends the node away for its protocol and gives it up, and that nobody submits a job there."""
    questions = [(SHOW, "root"), *(on_other(argv, "alice") for argv in (SINFO, JOB, BATCH_JOB))]
    refused, shown, listed, job, batch, logged, by_node = controller.answers(
        [until("UNKNOWN+NOT_RESPONDING", PROTOCOL), *questions, LOGGED, LOGGED_BY_NODE], cluster=True, other=other
    )
    assert refused.rc == 0, shown.text + logged.text + by_node.text
    numbers = {int(newer or older) for newer, older in re.findall(PROTOCOL, logged.text)}
    assert numbers == {protocol(release_of(other.versions["slurmd"]))}
    assert (parse_nodes(shown.stdout)[OTHER_NODE].state, version(shown)) == ("UNKNOWN+NOT_RESPONDING", "")
    assert (listed.rc, job.rc, batch.rc) == (1, 1, 1)
    assert "slurm_load_partitions: " in listed.text
    assert "Unable to allocate resources: " in job.text
    assert "Batch job submission failed: " in batch.text


def test_node_registers_and_runs_jobs_where_the_table_says_so_and_nowhere_else(pair: tuple[System, System]) -> None:
    controller, other = pair
    why = pair_fault(release_of(controller.versions["slurmctld"]), release_of(other.versions["slurmd"]))
    (assert_refuses if why else assert_serves)(controller, other)


def test_systems_make_pairs_inside_of_the_window_and_on_both_sides_of_it() -> None:
    seen = page.seen()["scontrol"]["versions"]
    pairs = permutations(map(release_of, seen.values()), 2)
    found = {(bool(pair_fault(controller, other)), controller < other) for controller, other in pairs}
    assert found == {(False, False), (True, False), (True, True)}

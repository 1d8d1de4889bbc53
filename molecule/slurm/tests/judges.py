"""Whether users ran on a node: by accounting, and by the trace that whatever ran left on the node itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from attacks import ATTACKS, INTO_JOBS, attack
from cluster import (
    LOGIN,
    OTHER_USER,
    USER,
    accounted,
    answering,
    expand,
    now,
    on,
    open_nodes,
    ssh,
    submit,
    wait_for,
    wait_for_job,
)

from tests.figures import BENCH, add_figures

_SECONDS: list[int] = []


def count(seconds: int) -> None:
    """Write down what all attacks so far had of nodes that are closed, by Slurm's own accounting."""
    _SECONDS.append(seconds)
    figures = {
        "attacks": {
            "value": len(ATTACKS) + len(INTO_JOBS) + 1,
            "unit": f"ways to run on a closed node, tried {2 * len(_SECONDS)} times",
        },
        "attack_seconds_run": {"value": sum(_SECONDS), "unit": "s on closed nodes, by accounting"},
    }
    add_figures({name: {**figure, "of": "molecule test -s slurm"} for name, figure in figures.items()}, BENCH)


class Watch:
    """Sees what ordinary users run on one node, from when it is made."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.trace = f"/tmp/trace-{uuid.uuid4().hex[:8]}"
        self.since = now()
        # Root's login must work, or that a user's does not would prove nothing.
        on(node, "true")

    def attack(self) -> None:
        """Try everything an ordinary user can think of."""
        attack(self.node, self.trace)

    def judge(self) -> None:
        """Fail unless no user had a second of the node, by all that can know.

        A job submitted last, and seen to its end by accounting, shows that the scheduler has looked at all that was
        queued before it, and that accounting would have told.
        """
        last = submit(f"hostname >>{self.trace}; sleep 2", "--nodes=1")
        ended = wait_for_job(last, "COMPLETED")
        assert self.node not in open_nodes()
        rows = wait_for(f"job {last} in accounting", lambda: self._told(last))
        # What had begun before may go on.
        began = [row for row in rows if row.user in (USER, OTHER_USER) and row.start >= self.since and row.seconds]
        ran = [row for row in began if self.node in expand(row.nodes)]
        count(sum(row.seconds for row in ran))
        assert not ran, f"ran on {self.node}: {began}"
        found = ssh(self.node, f"cat {self.trace}")
        assert found.returncode == 1, f"left its trace on {self.node}: {found.stdout}"
        assert on(ended["NodeList"], f"cat {self.trace}").split(), "a job that ran left no trace"

    def _told(self, last: str) -> list:
        rows = accounted(self.since)
        return rows if any(row.number == last and row.state == "COMPLETED" and row.seconds for row in rows) else []

    def forget(self) -> None:
        """Take away what still waits."""
        ssh(LOGIN, f"scancel --user={USER}; scancel --user={OTHER_USER}")


@contextmanager
def nothing_runs_on(node: str) -> Iterator[Watch]:
    """Attack a node, let happen what the block does, attack it again, and fail if a user ran there at any time."""
    watch = Watch(node)
    try:
        watch.attack()
        yield watch
        wait_for("a controller", answering)
        watch.attack()
        watch.judge()
    finally:
        watch.forget()

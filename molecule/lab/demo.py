"""The whole chain on the container lab: declared hosts, some with faults, to admitted nodes and reasons for the others.

Status 0 when every node ends as inventory/lab says it must (``lab_expected``), 1 when something differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence  # noqa: E402
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import (  # noqa: E402
    Verdict,
    verdict_rows,
    verdicts_from,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_table import (  # noqa: E402
    PLAIN_WIDTH,
    verdict_table,
)
from lab_inventory import InventoryError, read_inventory  # noqa: E402
from lab_tasks import counting, tasks_per_node  # noqa: E402

INVENTORY = "inventory/lab"
BUILD = ROOT / "build" / "demo"
SSH_CONFIG = ROOT / "build" / "lab" / "ssh_config"
USER = "alice"
# Tasks evaluated per compute node in a full run: a play costs tasks x hosts (a known rival: 799).
TASK_BUDGET = {"host_base": 4, "rdma": 5, "roce": 5, "nccl": 3, "slurm": 7, "burn_in": 4}
TASK_BUDGET_IN_ALL = 55
JOB_SECONDS = 120
SECOND_RUN = "Run site.yml again"


class DemoError(Exception):
    """A step that could not be done; the text says which and why."""


@dataclass(frozen=True)
class Expected:
    """How a node must end. ``part`` is the one that its failed finding names, if it must fail."""

    state: str
    stage: str
    part: str = ""
    action: str = ""


@dataclass(frozen=True)
class Site:
    """What the lab's inventory says: the fleet, and how each compute node must end."""

    fleet: Mapping[str, Any]
    expected: Mapping[str, Expected]

    @property
    def controller(self) -> str:
        return str(self.fleet["controller"])

    @property
    def partition(self) -> str:
        return next(str(one["name"]) for one in self.fleet["scheduler"]["partitions"] if one.get("default"))

    def ending(self, *states: str) -> list[str]:
        """Return the nodes that must end in one of the states."""
        return sorted(node for node, expected in self.expected.items() if expected.state in states)

    @property
    def status(self) -> int:
        """Return the exit status that site.yml must end with."""
        return 0 if len(self.ending("admitted", "spare")) == len(self.expected) else 2


@dataclass
class Steps:
    """Says what is being done, and how long each step took."""

    began: float = field(default_factory=time.monotonic)
    done: list[tuple[str, float]] = field(default_factory=list)

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        print(f"\n==> {name}", flush=True)
        began = time.monotonic()
        try:
            yield
        finally:
            self.done.append((name, time.monotonic() - began))
            print(f"<== {name}: {self.done[-1][1]:.1f} s", flush=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def site_of(inventory: Mapping[str, Any]) -> Site:
    """Return what ``ansible-inventory --list`` says of the lab; raises DemoError naming what is missing."""
    hosts = inventory["_meta"]["hostvars"]
    fleet = next((values["muster_fleet"] for values in hosts.values() if "muster_fleet" in values), None)
    if fleet is None:
        raise DemoError(f"{INVENTORY}: no host has muster_fleet")
    expected = {}
    for name in sorted(inventory["compute"]["hosts"]):
        if "lab_expected" not in hosts[name]:
            raise DemoError(f"{INVENTORY}: {name} has no lab_expected (state, stage)")
        expected[name] = Expected(**hosts[name]["lab_expected"])
    return Site(fleet, expected)


def differences(
    site: Site, verdicts: Sequence[Verdict], evidence: Mapping[str, Sequence[Evidence]], since: float
) -> list[str]:
    """Return in what the outcome is not the expected one; ``since`` is when the run began."""
    got = {verdict.node: verdict for verdict in verdicts}
    found = [f"{node}: a verdict, expected none" for node in sorted(set(got) - set(site.expected))]
    for node, expected in site.expected.items():
        if node not in got:
            found.append(f"{node}: no verdict, expected {expected.state}")
            continue
        found += [f"{node}: {text}" for text in _wrong(got[node], expected)]
        if expected.state == "rejected":
            later = _stages_after(site, expected.stage)
            reached = {record.stage for record in evidence.get(node, ()) if record.started >= since} & set(later)
            found += [f"{node}: has evidence of {stage}, expected none" for stage in sorted(reached)]
    return found


def _stages_after(site: Site, stage: str) -> list[str]:
    stages = list(site.fleet["policy"]["stages"])
    return stages[stages.index(stage) + 1 :] if stage in stages else []


def _wrong(verdict: Verdict, expected: Expected) -> Iterator[str]:
    if (verdict.state, verdict.stage) != (expected.state, expected.stage):
        yield f"{verdict.state} in {verdict.stage}, expected {expected.state} in {expected.stage}"
    if expected.state == "admitted":
        if not verdict.findings:
            yield "no findings, expected all that its class asks for"
        yield from (
            f"{finding.check} on {finding.subject} is {finding.verdict}, expected all to pass"
            for finding in verdict.findings
            if finding.verdict != PASS
        )
    if not expected.part:
        return
    failed = [finding for finding in verdict.findings if finding.verdict == FAIL]
    about = [finding for finding in failed if finding.subject == expected.part]
    if not about:
        yield f"no failed finding on {expected.part}"
    if about and any(finding.measured is None or finding.expected is None for finding in about):
        yield f"a failed finding on {expected.part} lacks measured or expected"
    if about and expected.action and expected.action not in {finding.action for finding in about}:
        yield f"{expected.part}: action {about[0].action}, expected {expected.action}"
    yield from (
        f"blames {finding.subject} ({finding.check}), expected {expected.part} alone"
        for finding in failed
        if finding.subject not in (expected.part, "host")
    )


class Demo:
    """Runs the steps; what differs from the expected outcome is gathered, not fatal."""

    def __init__(self) -> None:
        self.step = Steps()
        self.wrong: list[str] = []
        self.site = Site({}, {})
        self.result: dict[str, Any] = {}

    def run(self, second_run: bool) -> int:
        """Do it all and return the exit status."""
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / "demo.json").unlink(missing_ok=True)
        with self.step("Bring the lab up"):
            must(call([sys.executable, ROOT / "molecule/lab/lab.py", "--inventory", INVENTORY, "up"]), "lab.py up")
            self.site = site_of(read_inventory(INVENTORY))
        if not self._has_ledger():
            with self.step("Create the ledger"):
                must(playbook("ledger_create.yml"), "playbooks/ledger_create.yml")
        self._converge("Take the declared hosts to their verdicts (site.yml)", "tasks.json")
        if second_run:
            self._second_run()
        with self.step("Run a job as an ordinary user"):
            self._try_as_user()
        self._conclude()
        return 1 if self.wrong else 0

    def _has_ledger(self) -> bool:
        named = self.site.fleet["ledger"]
        try:
            Ledger.open(named["url"], named["id"], read_only=True)
        except LedgerError as exc:
            if "no such file" in str(exc):
                return False
            raise DemoError(str(exc)) from exc
        return True

    def _converge(self, name: str, counts: str) -> dict[str, Any]:
        """Run site.yml, compare the outcome, and return what it evaluated."""
        since = time.time()
        for stale in ("verdicts.json", "report.html", counts):
            (BUILD / stale).unlink(missing_ok=True)
        with self.step(name):
            status = playbook(
                "site.yml",
                "--extra-vars",
                f"report_directory={BUILD.relative_to(ROOT)}",
                **counting(BUILD / counts),
            )
        if status != self.site.status:
            self.wrong.append(f"site.yml: status {status}, expected {self.site.status}")
        try:
            verdicts = verdicts_from(json.loads((BUILD / "verdicts.json").read_text(encoding="utf-8")))
            counted: dict[str, Any] = json.loads((BUILD / counts).read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise DemoError(f"site.yml ended with status {status} and left no usable result: {exc}") from exc
        if not (BUILD / "report.html").exists():
            self.wrong.append("site.yml: wrote no report.html")
        self.wrong += differences(self.site, verdicts, self._evidence(), since)
        self.result.setdefault("tasks", counted)
        self.verdicts = verdicts
        return counted

    def _evidence(self) -> dict[str, list[Evidence]]:
        named = self.site.fleet["ledger"]
        with Ledger.open(named["url"], named["id"], read_only=True).reading() as ledger:
            records = ledger.records(self.site.fleet["policy"]["stages"], self.site.expected)
        return {node: [record.evidence for record in found] for node, found in records.items()}

    def _second_run(self) -> None:
        """Nothing changed on the hosts: nothing is changed, the rejected are tested again, the admitted are not."""
        since = time.time()
        counted = self._converge(SECOND_RUN, "tasks_second.json")
        changed = {host: number for host, number in counted["changed"].items() if number}
        self.result["second_run_changed"] = sum(changed.values())
        self.wrong += [f"second run: changed={number} on {host}, expected 0" for host, number in changed.items()]
        for node, records in self._evidence().items():
            fresh = {record.stage for record in records if record.started >= since}
            expected = self.site.expected[node]
            if expected.state == "rejected" and expected.stage not in fresh:
                self.wrong.append(f"second run: {node} was not tested again in {expected.stage}")
            if expected.state == "admitted" and "burn_in" in fresh:
                self.wrong.append(f"second run: {node} was burned in again, expected its evidence to be still valid")

    def _try_as_user(self) -> None:
        admitted, rejected = self.site.ending("admitted"), self.site.ending("rejected")
        job = ["sbatch", "--parsable", "--wait", f"--nodes={len(admitted)}", f"--partition={self.site.partition}"]
        job += ["--time=2", f"--output=/home/{USER}/demo-%j.out", "--wrap", "srun hostname"]
        done = ssh(USER, self.site.controller, job)
        print(f"{USER}@{self.site.controller}$ {shlex.join(job)}\n{done.stdout}{done.stderr}".rstrip())
        if done.returncode or not done.stdout.split():
            self.wrong.append(
                f"sbatch as {USER}: status {done.returncode}, {done.stderr.strip()!r}, expected it to run"
            )
        else:
            number = done.stdout.split()[0].partition(";")[0]
            # The batch script runs, and writes, on the first node of the job.
            ran = sorted(ssh("root", admitted[0], ["cat", f"/home/{USER}/demo-{number}.out"]).stdout.split())
            print(f"ran on {', '.join(ran) or 'no node'}")
            if ran != admitted:
                self.wrong.append(f"sbatch as {USER}: ran on {ran}, expected {admitted}")
        refused = [["sbatch", "--parsable", "--partition=acceptance", "--wrap", "true"]]
        refused += [["sbatch", "--parsable", f"--nodelist={node}", "--wrap", "true"] for node in rejected]
        for command in refused:
            self._must_be_refused(self.site.controller, command, "sbatch: error:")
        for node in rejected:
            # A host that lets nobody in proves nothing.
            if ssh("root", node, ["true"]).returncode:
                self.wrong.append(f"ssh root@{node} does not work")
            self._must_be_refused(node, ["true"], "")

    def _must_be_refused(self, host: str, command: list[str], by: str) -> None:
        done = ssh(USER, host, command)
        refused = done.returncode != 0 and by in done.stderr
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{USER}@{host}$ {shlex.join(command)}: {'refused' if refused else 'NOT refused'}: {said}")
        if not refused:
            self.wrong.append(f"{USER} on {host}: {shlex.join(command)} was not refused: {said}")
        if done.returncode == 0 and command[0] == "sbatch":
            ssh(USER, host, ["scancel", done.stdout.strip().partition(";")[0]])

    def _conclude(self) -> None:
        terminal = sys.stdout.isatty()
        width = os.get_terminal_size().columns if terminal else PLAIN_WIDTH
        print(f"\n{verdict_table(verdict_rows(self.verdicts), width, terminal)}\n")
        steps = tasks_per_node(self.result["tasks"], list(self.site.expected))
        print("Tasks evaluated per compute node, skipped ones counted:")
        for step, tasks, most in [
            *((step, tasks, TASK_BUDGET.get(step)) for step, tasks in steps.items()),
            ("in all", sum(steps.values()), TASK_BUDGET_IN_ALL),
        ]:
            print(f"  {tasks:4}  {step}" + (f", at most {most} allowed" if most else ""))
            if most and tasks > most:
                self.wrong.append(f"tasks of {step}: {tasks}, at most {most} allowed")
        print()
        print("Seconds per step:")
        for name, seconds in self.step.done:
            print(f"  {seconds:6.1f}  {name}")
        print(f"  {self.step.seconds:6.1f}  in all\n")
        config, demo = SSH_CONFIG.relative_to(ROOT), BUILD.relative_to(ROOT)
        first = self.site.ending("admitted")[:1] or list(self.site.expected)[:1]
        print("Look around:")
        print(f"  ssh -F {config} {self.site.controller} sinfo --Node --long")
        print(f"  ssh -F {config} {first[0]}                  # as root; {USER}@ is the ordinary user")
        print(f"  {demo}/report.html, {demo}/verdicts.json")
        print("  make lab-down                        # removes every trace\n")
        self.result |= {
            "seconds": round(self.step.seconds, 1),
            "steps": [{"name": name, "seconds": round(seconds, 1)} for name, seconds in self.step.done],
            "tasks_per_compute_node": steps,
            "differences": self.wrong,
        }
        (BUILD / "demo.json").write_text(json.dumps(self.result, indent=2) + "\n", encoding="utf-8")
        for text in self.wrong:
            print(f"DIFFERS: {text}")
        print("The outcome is not the expected one." if self.wrong else "The outcome is the expected one.")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of what is started: this Python's own tools first, Ansible's own files in build/."""
    inherited = {"ANSIBLE_HOME": str(ROOT / "build" / "ansible"), **os.environ}
    return inherited | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | more


def call(argv: Sequence[str | Path], **more: str) -> int:
    """Run a program that speaks to the terminal itself, and return its status."""
    return subprocess.run([str(word) for word in argv], cwd=ROOT, env=environment(**more), check=False).returncode


def playbook(name: str, *arguments: str, **more: str) -> int:
    """Run one of the project's playbooks on the lab and return its status."""
    return call(["ansible-playbook", "-i", INVENTORY, f"playbooks/{name}", *arguments], **more)


def must(status: int, what: str) -> None:
    """Raise DemoError unless a step went well."""
    if status:
        raise DemoError(f"{what} ended with status {status}")


def ssh(user: str, host: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command on a lab host; a host that does not answer in time gives status 255."""
    argv = ["ssh", "-F", str(SSH_CONFIG), "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-l", user, host]
    argv.append(shlex.join(command))
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=JOB_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 255, "", f"no end within {JOB_SECONDS} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--second-run", action="store_true", help="run site.yml again, which must change nothing")
    arguments = parser.parse_args()
    # The fleet file's ledger is relative to the project.
    os.chdir(ROOT)
    return Demo().run(arguments.second_run)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (DemoError, InventoryError, LedgerError) as error:
        sys.exit(f"demo: {error}")

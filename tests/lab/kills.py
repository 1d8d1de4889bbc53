"""Kills runs of the chain at the n-th effect that they have outside of themselves, and looks at what is left.

An effect is a rename, an fsync, a connection or a started program of the control process or of its children. strace
counts them from outside; the kill falls behind the n-th, n drawn by a seed: on the control process alone, whose
workers may live on for a moment, or on all that descend from it, as when the machine is lost. After each kill no node
may be open that the ledger does not admit, or that it admits with a GPU that was never burned in. The next run has new
work to do, and is killed too; a run that is not killed follows on each BATCH, and must leave what it would have left
without them. The log has what fell when, and on which code; each can be tried again alone, by its number.

    PYTHONPATH=collections:. python -m tests.lab.kills --kills 100       # goes on where build/kills.jsonl ends
    PYTHONPATH=collections:. python -m tests.lab.kills --only 17
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.figures import write_figures

from .conftest import GATE, LEDGER, ROOT, Lab, descendants

from lab import install_needed  # isort: skip -- found on the path that conftest sets

SEED = 15
LOG = ROOT / "build/kills.jsonl"
EFFECTS = ("rename", "renameat", "renameat2", "fsync", "fdatasync", "connect", "execve")
NODES = tuple(f"gpu-0{number}" for number in range(1, 5))
# gpu-03 has lost a GPU; all others are sound.
SICK = "gpu-03"
# How long workers of a killed control process may go on with what they had begun.
SETTLED_SECONDS = 20.0
RUN_SECONDS = 1200.0
BATCH = 5
CLOSE_MANY = ("-e", "admit_allow_mass_close=true")


@dataclass(frozen=True)
class Kill:
    """Behind which effect a kill falls; ``whole`` also ends the children of the control process."""

    number: int
    effect: int
    whole: bool


@dataclass(frozen=True)
class State:
    """What a run leaves: ledger's states, gate file without its generation, live partitions, newest evidence."""

    states: Mapping[str, str]
    gate: str
    live: Mapping[str, str]
    evidence: Mapping[str, list[list[str]]]


def drawn(seed: int, number: int, effects: int) -> Kill:
    """Return the kill with this number; ``effects`` is how many a whole run has."""
    draw = random.Random(f"{seed}/{number}")
    return Kill(number, draw.randrange(1, effects + 1), draw.random() < 0.5)


class Traced:
    """A run whose effects are counted, and which is killed behind the one that ``kill`` names."""

    def __init__(self, lab: Lab, kill: Kill | None, playbook: str = "site") -> None:
        install_needed({"strace": "strace"})
        self.kill = kill
        self.effects = 0
        self.fell = False
        # Of the killed run, those that it had started.
        self.workers: list[int] = []
        self.started = threading.Event()
        self.place = tempfile.TemporaryDirectory(prefix="muster-kills-")
        pipe = Path(self.place.name) / "effects"
        os.mkfifo(pipe)
        self.reader = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self.reader.start()
        # Started by the run, not the other way round: ssh's masters outlive it, and strace stays with them.
        trace = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-e", "signal=none", "-e", f"trace={','.join(EFFECTS)}"]
        self.process, self.log = lab.start(playbook, *CLOSE_MANY, before=[*trace, "-o", str(pipe)])
        self.started.set()

    def _read(self, pipe: Path) -> None:
        with pipe.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                process, _, call = line.partition(" ")
                if "resumed>" in call.partition("(")[0] or not process.isdecimal():
                    continue
                self.effects += 1
                if self.kill and self.effects == self.kill.effect and self.started.wait(60):
                    # What comes after the end is of ssh's masters, and the number may be another process's then.
                    self.fell = self.process.poll() is None
                    self.workers = descendants(self.process.pid) if self.fell else []
                    self.process.kill()
                    for worker in self.workers if self.kill.whole else ():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(worker, signal.SIGKILL)

    def ended(self) -> int:
        """Wait for the end and return the exit status."""
        status = self.process.wait(timeout=RUN_SECONDS)
        # What it did last has to come through the pipe, which stays open.
        self.reader.join(1)
        self.place.cleanup()
        return status


@dataclass(frozen=True)
class Work:
    """What a run has to prove anew: the GPU that came into a node, and when (seconds since the epoch)."""

    node: str
    serial: str
    since: float


def work_for(lab: Lab, number: int) -> Work:
    """Give the next run something to do in each stage: another kernel on all nodes, another GPU in one.

    No part is exchanged under a burn-in that a killed run has left, which would not pass then.
    """
    for node in NODES:
        lab.wait(lambda node=node: lab.burn_in(node).get("status") != "running", f"the burn-in of {node} ends", every=1)
    work = Work(NODES[number % 2], f"16509{number:08}", time.time())
    for node in NODES:
        more = {"gpu_serials": {"SXM3": work.serial}} if node == work.node else {}
        lab.set(node, kernel=f"6.1.0-{number}-amd64", **more)
    return work


def wrongly_open(lab: Lab, work: Work | None = None) -> set[str]:
    """Return the nodes that users reach, by a partition or a reservation, and that are not admitted, or wrongly so.

    The node of ``work`` is open until a run has seen its new GPU; once it was admitted anew, that was burned in.
    """
    admitted = {name for (name,) in lab.query("select name from node where state = 'admitted'")} - {SICK}
    if work and lab.query("select 1 from node where name = ? and since > ?", work.node, work.since):
        tested = lab.query(
            "select fingerprint from evidence where node = ? and stage = 'burn_in' and finished > ? order by seq desc",
            *(work.node, work.since),
        )
        admitted -= set() if tested and work.serial in str(tested[0][0]) else {work.node}
    # Everything that is not Muster's own partition.
    shown = lab.ssh("ctl", "sinfo -h -N -o '%P %N' | grep -v '^acceptance' | awk '{print $2}'").stdout.split()
    kept = lab.ssh("ctl", "scontrol show reservation --oneliner | grep -o 'Nodes=[^ ]*' || true").stdout.split()
    reserved = [
        name
        for each in kept
        for name in lab.ssh("ctl", f"scontrol show hostnames {each.partition('=')[2]}").stdout.split()
    ]
    return {*shown, *reserved} - admitted


def state_of(lab: Lab) -> State:
    """Return what the last run left."""
    states = dict(lab.query("select name, state from node"))
    newest = lab.query(
        "select node, stage, findings from evidence where seq in (select max(seq) from evidence group by node, stage)"
    )
    evidence = {
        f"{node}/{stage}": sorted({(each["check"], each["subject"], each["verdict"]) for each in json.loads(findings)})
        for node, stage, findings in newest
    }
    gate = lab.ssh("ctl", f"grep -v '^#' {GATE}").stdout
    live = lab.ssh("ctl", "sinfo -h -N -o '%P %N' | sort; scontrol show reservation --oneliner").stdout
    return State(
        states,
        gate,
        {"partitions and reservations": live},
        {key: [list(each) for each in found] for key, found in sorted(evidence.items())},
    )


def killed(lab: Lab, kill: Kill, work: Work | None = None, playbook: str = "site") -> dict[str, Any]:
    """Run and kill, and return the line for the log: how it went, and who was open and not admitted."""
    run = Traced(lab, kill, playbook)
    run.ended()
    wrong = wrongly_open(lab, work)
    end = time.monotonic() + SETTLED_SECONDS
    while time.monotonic() < end and any(Path(f"/proc/{worker}").exists() for worker in run.workers):
        time.sleep(1)
        wrong |= wrongly_open(lab, work)
    # What a worker had begun on the controller may come to its end without it.
    wrong |= wrongly_open(lab, work)
    told = {"seed": SEED, "tree": tree(), "fell": run.fell, "effects": run.effects}
    return {**asdict(kill), **told, "wrong_open": sorted(wrong)}


def left_wrong(lab: Lab, expected: State) -> dict[str, Any]:
    """Run to the end, and return what is otherwise than an uninterrupted run leaves it, and who is wrongly open."""
    lab.play("site", *CLOSE_MANY)
    left = asdict(state_of(lab))
    found = {key: left[key] for key, value in asdict(expected).items() if left[key] != value}
    return found | ({"wrong_open": sorted(wrong)} if (wrong := wrongly_open(lab)) else {})


def measured(lab: Lab) -> tuple[int, State]:
    """Return how many effects an uninterrupted run has, and what it leaves."""
    work_for(lab, 0)
    run = Traced(lab, None)
    status = run.ended()
    left = state_of(lab)
    if left.states != {**dict.fromkeys(NODES, "admitted"), SICK: "rejected"}:
        raise SystemExit(f"the uninterrupted run ended with {status} and {left.states}: see {run.log}")
    return run.effects, left


def tree() -> str:
    """Return what names the code that is killed: its folders' trees in git, "changed" where not all is committed."""
    parts = ("plugins", "playbooks", "roles")
    git = ("git", "-C", str(ROOT))
    if subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *parts], check=False).returncode:
        return "changed"
    asked = [*git, "rev-parse", *(f"HEAD:{part}" for part in parts)]
    return ",".join(word[:12] for word in subprocess.check_output(asked, text=True).split())


def read_log() -> list[dict[str, Any]]:
    """Return the kills that were tried with this seed; each says on which code."""
    lines = LOG.read_text(encoding="utf-8").splitlines() if LOG.exists() else []
    return [entry for line in lines if (entry := json.loads(line))["seed"] == SEED]


def counted(log: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many kills there were and how many left something wrong; one behind the end of its run is none.

    What is wrong at the end of a batch counts once.
    """
    fell = [entry for entry in log if entry["fell"]]
    return {
        "kills": len(fell),
        "kills_wrong_open": sum(bool(entry["wrong_open"]) for entry in fell),
        "kills_wrong_end": sum(bool(entry.get("wrong_end")) for entry in log),
    }


def main() -> int:
    """Try the kills that the log does not have; return 1 if one of them left something wrong."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="how many in all, with those of the log")
    parser.add_argument("--only", type=int, help="run one again by its number; nothing is logged")
    parser.add_argument("--bench", type=Path, help="file for the figures")
    options = parser.parse_args()
    log = read_log()
    with tempfile.TemporaryDirectory(prefix="muster-kills-") as scratch:
        lab = Lab(Path(scratch))
        if options.only is not None or counted(log)["kills"] < options.kills:
            if LEDGER.exists():
                # Kills that were interrupted left their own GPUs behind.
                lab.command("up")
                lab.play("site", *CLOSE_MANY)
            subprocess.run([sys.executable, "molecule/lab/demo.py"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            lab.set("gpu-04", network_mbps=None)
            effects, expected = measured(lab)
        if options.only is not None:
            known = next((entry for entry in log if entry["number"] == options.only), None)
            kill = Kill(known["number"], known["effect"], known["whole"]) if known else None
            entry = killed(lab, kill or drawn(SEED, options.only, effects), work_for(lab, options.only))
            entry["wrong_end"] = left_wrong(lab, expected)
            print(json.dumps(entry, indent=2))
            return int(bool(entry["wrong_open"] or entry["wrong_end"]))
        while counted(log)["kills"] < options.kills:
            first = max((entry["number"] for entry in log), default=0) + 1
            batch = []
            for number in range(first, first + min(BATCH, options.kills - counted(log)["kills"])):
                work = work_for(lab, number)
                batch.append(entry := killed(lab, drawn(SEED, number, effects), work))
                said = entry["wrong_open"] or ("ok" if entry["fell"] else "the run had ended")
                print(f"kill {number} behind effect {entry['effect']} of {effects}: {said}", flush=True)
            batch[-1]["wrong_end"] = left_wrong(lab, expected)
            log += batch
            LOG.parent.mkdir(parents=True, exist_ok=True)
            with LOG.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in batch)
    found = counted(log)
    if options.bench:
        codes = len({entry["tree"] for entry in log if entry["fell"]})
        unit = f"kills of the chain on the lab, seed {SEED}, on {codes} states of the code"
        write_figures({name: {"value": value, "unit": unit} for name, value in found.items()}, options.bench)
    return int(bool(found["kills_wrong_open"] or found["kills_wrong_end"]))


if __name__ == "__main__":
    sys.exit(main())

"""What the planner, the ledger and the report cost together for a recorded campaign of 3,072 nodes.

    PYTHONPATH=collections:. python -m tests.isolation.scale --bench FILE

The fleet is the documented one of 3,072 hosts with eight rails. Another process makes up what its rounds would have
recorded, as the JSON that the controller's module prints. This one reads it as Ansible does, plans, writes the ledger,
concludes, keeps the evidence and makes the page, all of it once: its processor time counts, that of loading programs
too, and its memory at the peak.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ansible_collections.muster.cluster.plugins.action.accept import ActionModule
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import Runtime, prove
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet as Declared
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import LedgerAddress
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_stage import Acceptance
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_report import report_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Verdict

from tests.figures import write_figures
from tests.typed import typed

from .campaign import ROOT
from .fleet import Fleet, Spec, as_json, expectations

FLEET = ROOT / "inventory/example_roce/roce.fleet.yml"
SPEC = Spec(3072, "five_slow_10", 0.01, rack=2, pod=192)
SEED = 7
FINGERPRINT = {"gpu_serials": "1", "gpu_vbios": "1", "gpu_driver": "1", "kernel": "6.1", "nccl": "1"}
VERSIONS = {"torch": "2.6.0", "nccl": "2.26.2"}
# What may be needed: seconds of one core, and 1 GB.
SECONDS, MEBIBYTES = 60, 10**9 // 2**20


def recorded(pipe: Connection, spec: Spec, names: Sequence[str], road: Mapping[str, Any]) -> None:
    """Answer each plan with what the round's module prints about it; None ends it and gives who is bad."""
    fleet = Fleet(spec, SEED)
    bad = [names[fleet.index[node]] for node in fleet.truth.bad]
    fleet.nodes, fleet.index = list(names), {node: at for at, node in enumerate(names)}
    while (plan := pipe.recv()) is not None:
        items = [as_json(item) for item in fleet.run(plan)]
        for item in items:
            item.update(stalls=[], links={})
            item["ranks"] = [
                {"node": node, "rank": 0, "error": "", "phase": "end", "versions": VERSIONS, "transport": road}
                for node in item["group"]
                for _ in range(spec.rails)
            ]
        pipe.send_bytes(json.dumps({"changed": False, "observations": items, "cancelled": []}).encode())
    pipe.send(bad)


class Accept(ActionModule):
    """The action as it is, with another process that plays each round for a controller."""

    def __init__(self, spec: Spec, fleet: Declared, nodes: Sequence[str]) -> None:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=recorded, args=(other, spec, nodes, road_of(fleet)), daemon=True)
        self._process.start()
        # Where that one dies, this one must not wait for it.
        other.close()
        self._connection = SimpleNamespace(
            exec_command=lambda *_, **__: (0, self._pipe.recv_bytes(), b""),
            get_option=lambda _: "root",
            **{"transport": "pipe", "become": None, "allow_executable": False},
        )
        self._task_vars: dict[str, Any] = {}
        self._used_interpreter = None
        # Modelled, so that no budget runs out on a busy machine.
        clock = iter(range(10**6, 2 * 10**6))
        self.means = Runtime(self._run_round, lambda _: None, lambda: float(next(clock)))

    def _execute_module(self, module_args: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        self._pipe.send({key: module_args[key] for key in ("groups", "program")})
        return self._parse_returned_data(self._low_level_execute_command(self.module), "legacy")

    def bad(self) -> list[str]:
        """Return who is bad, and end the other process."""
        self._pipe.send(None)
        found: list[str] = self._pipe.recv()
        self._process.join()
        return sorted(found)


def declared(place: Path, spec: Spec) -> Declared:
    """Return the fleet with a ledger of its own, and the expectations that fit what is made up."""
    fleet = Declared.load(FLEET)
    nodes = fleet.nodes
    if spec.hosts != SPEC.hosts:
        # They share the addresses of one host, as nobody calls them up.
        like = next(node for node in fleet.nodes if node.role == "compute")
        nodes = tuple(replace(like, name=node, **where) for node, where in Fleet(spec, SEED).places().items())
    ledger = LedgerAddress(f"sqlite:///{place}/ledger.sqlite", fleet.ledger.id)
    Ledger.create(ledger.url, ledger.id, fleet.cluster)
    made_up = expectations(spec)
    classes = {
        name: typed({**expect, "collective": {**expect["collective"], **made_up}})
        for name, expect in fleet.variables()["classes"].items()
    }
    return replace(fleet, nodes=nodes, classes=classes, ledger=ledger)


def road_of(fleet: Declared) -> dict[str, Any]:
    """Return what NCCL's log says on a rank that goes the declared road."""
    (nic,) = (each.nic for each in fleet.classes.values() if each.nic)
    rails = {rail.name: f"mlx5_{number}" for number, rail in enumerate(nic.rails)}
    devices = dict.fromkeys(rails.values(), "RoCE")
    roads: dict[str, Any] = {"networks": ["IB"], "direct": {"IB": 4}, "staged": {}, "without_gpu_direct": []}
    return {"devices": devices, **roads, "nvls": True, "complete": True, "version": "2.26.2", "rails": rails}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the campaign, print what it cost and write it down; 1 where that is too much or a verdict is wrong."""
    parser = argparse.ArgumentParser(prog="scale", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bench", type=Path, help="the file for the figures of the bench")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        found = measured(Path(name))
    figures = {
        "scale_3072_seconds": {"value": found["seconds"], "unit": "s of processor time: plan, ledger and page"},
        "scale_3072_peak_mib": {"value": found["mebibytes"], "unit": "MiB"},
    }
    print(f"{found['rounds']} rounds; planning and recording {found['campaign']} s, page {found['page']} s")
    if options.bench:
        write_figures(figures, options.bench)
    if found["rejected"] != found["bad"]:
        print(f"MISSED rejected are {found['rejected']}, expected {found['bad']}")
        return 1
    if found["seconds"] > SECONDS or found["mebibytes"] > MEBIBYTES:
        print(f"MISSED expected at most {SECONDS} s and {MEBIBYTES} MiB")
        return 1
    return 0


def played(fleet: Declared, spec: Spec) -> tuple[dict[str, Any], list[str]]:
    """Bring a campaign of such a fleet to its conclusion; return the action's result and who is bad."""
    sys.path += [each for each in (str(ROOT), str(ROOT / "collections")) if each not in sys.path]
    nodes = sorted(fleet.compute)
    seen = {
        node: [Evidence(f"pre-{node}", node, "preflight", 1.0, 2.0, "b", FINGERPRINT, "d").to_dict()] for node in nodes
    }
    action = Accept(spec, fleet, nodes)
    return prove(Request(fleet, nodes, evidence=seen), Acceptance, action.means), action.bad()


def growth(spec: Spec) -> int:
    """Return the MiB by which a process grows at the most: one that plays a campaign, or reads the record of it."""
    with tempfile.TemporaryDirectory() as name:
        fleet = declared(Path(name), spec)
        before = _mebibytes("VmRSS")
        result, bad = played(fleet, spec)
        grown = _mebibytes("VmHWM") - before
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            again = fresh.submit(growth_of_reading, fleet.ledger, result["campaigns"][0]["rounds"]).result()
    assert sorted(node for node, verdict in result["campaigns"][0]["verdicts"].items() if verdict == FAIL) == bad
    return max(grown, again)


def growth_of_reading(ledger: LedgerAddress, rounds: int) -> int:
    """Return the MiB by which this process grows when it reads all rounds of a ledger, as a run that goes on does."""
    before = _mebibytes("VmRSS")
    with Ledger.open(ledger.url, ledger.id).reading() as reader:
        # And what ended the campaign.
        assert len(reader.rounds()) == rounds + 1
    return _mebibytes("VmHWM") - before


def _mebibytes(what: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split(f"{what}:")[1].split()[0]) // 1024


def measured(place: Path) -> dict[str, Any]:
    """Bring the campaign to its conclusion, make the page, and return what that cost and who is rejected."""
    fleet = declared(place, SPEC)
    result, bad = played(fleet, SPEC)
    # In a play each has a process of its own.
    gc.collect()
    campaign = time.process_time()
    evidence = [Evidence.from_dict(item) for items in result["evidence"].values() for item in items]
    judged = {item.node: worst(finding.verdict for finding in item.findings) for item in evidence}
    states = {PASS: "admitted", FAIL: "rejected"}
    verdicts = [
        Verdict(item.node, states.get(judged[item.node], "held"), item.stage, item.findings) for item in evidence
    ]
    page = report_of(verdicts, fleet, time.time(), print).page
    assert page.count("<svg") > 10
    seconds = time.process_time()
    return {
        "rounds": result["campaigns"][0]["rounds"],
        "bad": bad,
        "rejected": sorted(node for node, verdict in judged.items() if verdict == FAIL),
        "campaign": round(campaign, 1),
        "page": round(seconds - campaign, 1),
        "seconds": round(seconds, 1),
        "mebibytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


if __name__ == "__main__":
    sys.exit(main())

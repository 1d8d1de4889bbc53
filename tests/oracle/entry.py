"""All that the oracle takes from the product, as plain data. What moves or changes its signature changes here alone."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from unittest.mock import patch

from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import unpack_spec
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    PROBES,
    STAGE_CHECKS,
    STAND_INS,
    STRESS_CHECKS,
    STRESSES,
    judge_stage,
    judge_stress,
    probes_of,
    required,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import split
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import expand
from ansible_collections.muster.cluster.plugins.module_utils.host.kernel_parameters import declared_parameters
from ansible_collections.muster.cluster.plugins.module_utils.judging import fingerprint
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.fabric_test import Request as RailRequest
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.fabric_test import steps_of
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import argv_of
from ansible_collections.muster.cluster.plugins.module_utils.rounds.collective_phases import CollectiveRequest, steps
from ansible_collections.muster.cluster.plugins.module_utils.rounds.fabric_job import FabricCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import Codec, RoundJob
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import Job
from ansible_collections.muster.cluster.plugins.module_utils.rounds.storage_job import StorageCodec
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import plan_of
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import NothingToProve
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import next_round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_stage import Acceptance
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.fabric_stage import FabricRounds
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.storage_stage import StorageRounds
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_sheets import sheets_of

from tests.fleets import collectives
from tests.placed import PLACED

PACKAGE = "ansible_collections.muster.cluster.plugins"
STAGES = tuple(STAGE_CHECKS)
STRESS_NAMES = tuple(STRESS_CHECKS)
MOST_ROUNDS = 48
PROOFS = ("fabric", "storage", "acceptance")


def plain(value: Any) -> Any:
    """Return JSON data as it comes back from a file."""
    return json.loads(json.dumps(value))


# What checks say.


def finding(given: Finding) -> dict[str, Any]:
    """Return a finding without its prose; ``digest.value`` makes identifiers and numbers of its values."""
    return {
        "check": given.check,
        "subject": given.subject,
        "verdict": given.verdict,
        "action": given.action,
        "measured": given.measured,
        "expected": given.expected,
        "unit": given.unit,
    }


def expectations(hardware_class: str) -> dict[str, Any]:
    """Return what a shipped class expects; that of a board with the places of the test host."""
    return expectations_of(hardware_class, PLACED, "oracle")


def classes() -> list[str]:
    """Return the names of the shipped classes."""
    return sorted(shipped_classes())


def owed(stage: str, expect: Mapping[str, Any], stresses: Sequence[str] = ()) -> list[list[str]] | str:
    """Return the pairs of check and part on which a stage owes a finding, or what kind of error says that it cannot."""
    try:
        return [list(pair) for pair in required(stage, read_expectations(expect), stresses)]
    except (KeyError, TypeError, ValueError) as exc:
        return type(exc).__name__


def _output(text: str) -> Output:
    return Output(text)


def stage_findings(stage: str, texts: Mapping[str, str], expect: Mapping[str, Any], loaded: bool) -> dict[str, Any]:
    """Return what a stage finds in its probes' outputs, and the host's fingerprint by component."""
    asked = {*probes_of(stage), *STAND_INS.get(stage, {}).values()}
    outputs = {name: _output(text) for name, text in texts.items() if name in asked}
    found = judge_stage(stage, outputs, read_expectations(expect), loaded=loaded)
    return {
        "probes": sorted(probes_of(stage)),
        "findings": [finding(each) for each in found.findings],
        "fingerprint": fingerprint.fingerprint_of(found.values, read_expectations(expect)),
    }


def stress_findings(name: str, texts: Mapping[str, str], expect: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is concluded from a stress' output and those of the probes that its checks also read."""
    outputs = {each: _output(text) for each, text in texts.items()}
    return [finding(each) for each in judge_stress(name, outputs, read_expectations(expect)).findings]


# What is run on a host.


class _Recorder:
    """A healthy host that answers from the headings of its saved outputs and keeps what was asked of it."""

    tool_seconds = 0.0

    def __init__(self, answers: Mapping[str, Any], files: Mapping[str, str]) -> None:
        self.answers, self.files = answers, files
        self.asked: list[dict[str, Any]] = []

    def questions(self) -> list[dict[str, Any]]:
        """Return what was asked; the order is no conclusion."""
        return sorted(self.asked, key=lambda each: json.dumps(each, sort_keys=True))

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        # A program that is handed over as text is code, which may change.
        words = ["a program" if "\n" in word else word for word in argv]
        self.asked.append({"run": words, "seconds": timeout_seconds})
        found: Output = self.answers.get(" ".join(argv), Output(""))
        return found

    def read(self, path: str) -> Output:
        self.asked.append({"read": path})
        found: Output = self.answers.get(path) or Output(self.files.get(path, ""))
        return found

    def paths(self, *patterns: str) -> list[str]:
        self.asked.append({"paths": sorted(patterns)})
        return sorted(path for path in self.answers if any(PurePosixPath(path).match(each) for each in patterns))


@contextmanager
def _clock_at_rest() -> Iterator[None]:
    """Let no time pass: what is left of a limit that several tools share would depend on the moment."""
    with patch("time.monotonic", return_value=0.0), patch("time.sleep"):
        yield


@functools.cache
def _answers(texts: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Return outputs by heading; of the names of rails, which have none, those of the files that tell them."""
    named = [line.partition(" ") for line in dict(texts).get("rail_names", "").splitlines()]
    answers = {heading: output for _, text in texts for heading, output in split(text).items()}
    return {**answers, **{path: Output(text) for path, _, text in named}}


def probes() -> list[str]:
    """Return the names of all probes."""
    return sorted(PROBES)


def probe_asks(name: str, texts: Mapping[str, str], files: Mapping[str, str], expect: Mapping[str, Any]) -> Any:
    """Return what a probe runs and reads on a host."""
    host = _Recorder(_answers(tuple(sorted(texts.items()))), files)
    with _clock_at_rest():
        PROBES[name].collect(host, read_expectations(expect))
    return host.questions()


def stress_asks(
    name: str, texts: Mapping[str, str], files: Mapping[str, str], expect: Mapping[str, Any], settings: Any
) -> Any:
    """Return what a stress of a minute runs and reads on a host."""
    host = _Recorder(_answers(tuple(sorted(texts.items()))), files)
    with _clock_at_rest():
        STRESSES[name].collect(host, read_expectations(expect), 60.0, read(STRESSES[name].SETTINGS, settings))
    return host.questions()


# What follows from a fleet file.


def fleet(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the fleet of a fleet file, for the functions below, and the variable ``muster_fleet``.

    The path of a ledger depends on where the checkout lies and is left out.
    """
    read = Fleet.load(path)
    variables = plain({**read.variables(), "nodes": read.node_variables()})
    scheme, _, name = variables["ledger"]["url"].rpartition("/")
    if scheme.startswith("sqlite:"):
        variables["ledger"]["url"] = f"sqlite:////{name}"
    return read, variables


def lookup(name: str, /, *terms: Any, **options: Any) -> Any:
    """Return what a lookup plugin gives, as a template asks for it."""
    plugin = importlib.import_module(f"{PACKAGE}.lookup.{name}").LookupModule()
    # Ansible's loader would read the options' definitions; all of them are given here.
    plugin.set_options = lambda **_: None
    plugin.get_option = options.get
    return plain(plugin.run(list(terms), {}, **options))


def kernel_parameters(expect: Mapping[str, Any]) -> list[str]:
    """Return the words that a class wants on the kernel's command line."""
    return list(declared_parameters(read_expectations(expect)))


def switch_sheets(read: Any) -> Iterable[tuple[str, str]]:
    """Yield name and text of the switches' hand-over sheets."""
    return sheets_of(read)


def cabling(read: Any) -> str:
    """Return the cabling plan as CSV."""
    return plan_of(read).to_csv()


# What a proof starts as jobs.


def first_round(stage: str, muster_fleet: Mapping[str, Any], nodes: Sequence[str], hardware_class: str) -> Any:
    """Return the first round of a stage (kind, groups) and the arguments of its module; a word where there is none."""
    work_of: Any = {"fabric": FabricRounds, "storage": StorageRounds, "acceptance": Acceptance}[stage]
    fleet = Fleet.from_variables(muster_fleet)
    request = Request(fleet, nodes)
    cohort = Cohort(hardware_class, tuple(nodes), (), {}, fleet.classes[hardware_class])
    try:
        work = work_of(request, cohort)
    except NothingToProve:
        return "nothing to prove"
    step = work.next_round([])
    if isinstance(step, Conclusion):
        return conclusion(step)
    return {
        "round": {"number": step.number, "kind": step.kind, "groups": plain(step.groups)},
        "arguments": plain(work.arguments(step, work.round_seconds(step))),
    }


def job_argv(stage: str, arguments: Mapping[str, Any], groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the argv of a round's jobs, each step of each group, from the arguments of its module."""
    given = {
        "partition": "acceptance",
        "executable": "/usr/libexec/muster/muster",
        "deadline_seconds": 300,
        "timeout_seconds": 60,
        "groups": groups,
        **arguments,
    }
    jobs = [
        Job(f"oracle-{index}", tuple(group), given.get("addresses", {}), given["port"] + index)
        for index, group in enumerate(groups)
    ]
    program, timeout = given["executable"], given["timeout_seconds"]
    if stage == "fabric":
        codecs: list[Codec] = [FabricCodec(program, given["nodes"], given["test"], timeout)]
    else:
        codecs = [StorageCodec(program, given["test"], timeout)] if stage == "storage" else []
    place = given["partition"], given["gpus_per_node"], given["deadline_seconds"]
    works = [(RoundJob(*place, codec), jobs) for codec in codecs]
    works = works or [(step.work, list(step.jobs)) for step in steps(CollectiveRequest.of(given), jobs)]
    return [_readable(work.argv(job), job) for work, parts in works for job in parts]


def _readable(argv: Sequence[str], job: Job) -> list[str]:
    """Return the argv with what is packed in ``--spec`` as JSON, and the node list unfolded in the job's order."""
    at = next(index for index, word in enumerate(argv) if word.startswith("--nodelist="))
    assert sorted(expand(argv[at].partition("=")[2])) == sorted(job.group)
    argv = [*argv[:at], f"--nodelist={','.join(job.group)}", *argv[at + 1 :]]
    mark = "--spec="
    parts = [word[len(mark) :] for word in argv if word.startswith(mark)]
    if not parts:
        return list(argv)
    spec = json.loads(parts[0]) if parts[0].startswith("{") else unpack_spec(parts)
    return [*(word for word in argv if not word.startswith(mark)), mark + json.dumps(spec, sort_keys=True)]


def rail_argv(arguments: Mapping[str, Any], group: Sequence[str]) -> list[list[str]]:
    """Return the argv of both ends of each perftest in a fabric round's group, step by step."""
    spec = {**arguments["test"], "nodes": {node: arguments["nodes"][node] for node in group}}
    request = RailRequest.read(spec, arguments["port"], arguments["timeout_seconds"], arguments["deadline_seconds"])
    first, second = (*group, None)[:2]
    gid = 3 if spec["roce"] else None
    found = []
    for number, step in enumerate(steps_of(request, first, second)):
        for test in step:
            address = request.nodes[test.server]["address"]
            found += [[str(number), test.phase, *argv_of(test, test.rail, gid, end)] for end in (None, address)]
    return found


# What acceptance concludes.


def conclusion(given: Conclusion) -> dict[str, Any]:
    """Return a conclusion without its prose."""
    return {
        "findings": {node: [finding(each) for each in found] for node, found in given.findings.items()},
        "held": sorted(given.held),
        "doubted": sorted(given.doubted),
        "remarks": len(given.remarks),
    }


def acceptance(
    nodes: Sequence[str],
    partners: Sequence[str],
    collective: Mapping[str, Any],
    places: Mapping[str, Any],
    run: Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Play a campaign against ``run``, which gives what a round's plan shows; return the plans and the conclusion."""
    settings = Settings.of(collectives(collective), places)
    seen: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    plans: list[dict[str, Any]] = []
    while len(plans) <= MOST_ROUNDS:
        step = next_round(nodes, partners, seen, settings)
        if isinstance(step, Conclusion):
            return plans, conclusion(step)
        plan = {"kind": step.kind, "groups": [list(group) for group in step.groups], "program": dict(step.program)}
        plans.append({"number": step.number, **plan})
        seen += [(step.number, plan, item) for item in run(plan)]
    raise AssertionError(f"no conclusion after {MOST_ROUNDS} rounds")

"""What the oracle holds, by area: the cases, each with its content without prose."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..fuzz.cases import expect as healthy_expect
from ..fuzz.cases import findings as judged_host
from ..fuzz.mutation import ALL, ended, mutated
from ..fuzz.sick import SICK, VARIANTS, Sick, healthy, known
from ..isolation.fleet import FAULTS, Fleet, Spec, as_json
from ..isolation.fleet import expectations as collective
from ..recorded.judged import RECORDED, ROWS, findings_of
from ..recorded.row import Row
from . import digest, entry
from .written import Case

ROOT = Path(__file__).resolve().parents[2]
# Of a large fleet so many hosts have their files rendered: the first, the last, and others that a seed chooses.
SAMPLE = 12
# Sheets and tables beyond this many are held by their digests, so that a case can be shown.
SHOWN_FILES = SHOWN_NODES = 8
FUZZ_EACH = 12


def _counts(found: Sequence[Mapping[str, Any]]) -> str:
    """Return how many findings have each verdict."""
    counts = Counter(each["verdict"] for each in found)
    return ", ".join(f"{verdict} {counts[verdict]}" for verdict in sorted(counts)) or "nothing"


# Recordings that stand in no table of tests/recorded are judged as others of their kind are.
LIKE = {
    "fabric-manager/": "fabric-manager/fm-error-lines.log",
    "ib/ibstat": "ib/ibstat-a100-9x200.txt",
    "kernel/": "kernel/dmesg-boot-xe9680-h100-mlx5.log",
    "mlxlink/": "mlxlink/mlxlink-json-400g-dr4.json",
    "nccl-tests/": "nccl-tests/a100x8-allreduce-new-columns.txt",
    "nvidia-smi/qx": "nvidia-smi/qx-a10g.xml",
    "nvlink/": "nvidia-smi/nvlink-status-h100.txt",
}
LOG = {"interface": "redfish", "log": {"since": None, "correctable_ecc_events": 1}}
LOG["redfish"] = {"address": "192.0.2.1", "netrc": "/etc/muster/bmc", "certificate": None, "documents": ["/redfish/v1"]}
LOG |= dict.fromkeys(("sensors", "power_supplies", "inlet", "airflow"))


def untabled(recorded: Path) -> Iterator[Row]:
    """Yield how a recording that stands in no table of tests/recorded is judged, where another of its kind tells it."""
    tabled = {row.file: row for row in reversed(ROWS)}
    for path in sorted(recorded.rglob("*")):
        file = path.relative_to(recorded).as_posix()
        like = next((other for start, other in LIKE.items() if file.startswith(start)), None)
        if not path.is_file() or file in tabled:
            continue
        if like:
            yield replace(tabled[like], file=file, why="")
        elif file.startswith("redfish/") and "log" in file.lower().replace("iml", "log"):
            yield Row(file, "redfish", ("bmc_log",), "", {"bmc": LOG})


def recorded(place: Path = RECORDED) -> Iterator[Case]:
    """What real machines printed, row by row of tests/recorded, and what stands in none of its tables."""
    times: Counter[str] = Counter()
    for row in [*sorted(ROWS, key=lambda row: row.file), *untabled(place)]:
        if not (place / row.file).exists():
            continue
        first, *others = row.checks
        name = f"{row.file} {first}" + (f"+{len(others)}" if others else "")
        times[name] += 1
        found = digest.findings(entry.finding(each) for each in findings_of(row, place))
        yield Case(name + (f" #{times[name]}" if times[name] > 1 else ""), found, _counts(found))


def _observed(fleet: Fleet, nodes: Sequence[str], partners: Sequence[str], listed: bool) -> tuple[Any, Any, Any]:
    """Return plans, conclusion and digests of the observations of a campaign between some of a fleet's nodes."""
    inputs: list[str] = []

    def run(plan: Mapping[str, Any]) -> list[Any]:
        items = [as_json(item) for item in fleet.run(plan)] if listed else fleet.run(plan)
        inputs.append(digest.sha(items if listed else [as_json(item) for item in items]))
        return items

    return *entry.acceptance(nodes, partners, collective(fleet.spec), fleet.places(), run), inputs


def _played(name: str, fleet: Fleet, alone: int = 0, listed: bool = False) -> Case:
    nodes, partners = (fleet.nodes[:alone], fleet.nodes[alone:]) if alone else (fleet.nodes, [])
    plans, concluded, inputs = _observed(fleet, nodes, partners, listed)
    by_node = {node: digest.findings(found) for node, found in concluded["findings"].items()}
    worst = {
        node: next((v for v in ("fail", "incomplete") if v in {each["verdict"] for each in found}), "pass")
        for node, found in by_node.items()
    }
    rounds = [{**plan, "program": digest.sha(plan["program"])} for plan in plans]
    identified = {
        "rounds": rounds,
        "findings": {
            node: [[each[key] for key in ("check", "subject", "verdict", "action")] for each in found]
            for node, found in by_node.items()
        },
        "held": concluded["held"],
        "doubted": concluded["doubted"],
    }
    bad = sorted(node for node, verdict in worst.items() if verdict == "fail")
    told = "; ".join(
        (
            "+".join(plan["kind"] for plan in plans),
            _counts([{"verdict": each} for each in worst.values()]),
            f"rejected {','.join(bad) if len(bad) <= SHOWN_NODES else len(bad)}",
            f"held {len(concluded['held'])}",
            f"identified {digest.sha(identified)}",
        )
    )
    content = {"rounds": rounds, **concluded, "findings": by_node}
    return Case(name, content, told, inputs)


def fleets() -> Iterator[Case]:
    """What acceptance concludes about simulated fleets."""
    for hosts, seeds in ((8, (1, 2)), (32, (1, 2)), (232, (1,))):
        for fault in FAULTS:
            for seed in seeds:
                yield _played(f"{hosts} hosts {fault} seed {seed}", Fleet(Spec.usual(hosts, fault, 0.01), seed))
    for fault in ("clean", "one_slow_10", "hang", "wrong_data"):
        spec = Spec.usual(8, fault, 0.01)
        yield _played(f"8 hosts {fault} seed 3 as JSON lists", Fleet(spec, 3), listed=True)
        yield _played(f"8 hosts {fault} seed 4 one with partners", Fleet(spec, 4), alone=1)
        yield _played(f"8 hosts {fault} seed 5 three with partners", Fleet(spec, 5), alone=3)
    for hosts in (32, 232):
        fleet = Fleet(Spec.usual(hosts, "clean", 0.01), 6)
        fleet.speed[:, random.Random(6).sample(range(hosts), round(hosts * 0.33))] = 0.88
        yield _played(f"{hosts} hosts a third 12 % slow seed 6", fleet)
    fleet = Fleet(Spec.usual(32, "clean", 0.01), 7)
    fleet.speed[:] = 0.85
    yield _played("32 hosts all 15 % slow seed 7", fleet)


def _row_name(row: Sick) -> str:
    place = digest.sha([row.old, row.new])[:6]
    return f"{row.check} by {row.probe} {place}" + (f" ({row.variant})" if row.variant else "")


def fuzz() -> Iterator[Case]:
    """What is said of sick outputs that went wrong on the way; a row's cases depend on no other row."""
    for row in sorted(SICK, key=_row_name):
        said, inputs = [], []
        for number in range(FUZZ_EACH):
            rng = random.Random(f"{row.check} {row.probe} {row.old} {row.new} {row.variant} {number}")
            text, mutations = mutated(rng, row.text(), ALL, row.place()) if number else (row.text(), "none")
            output, end = ended(rng, text) if number else ended(random.Random(0), text)
            found = judged_host(row.check, {row.probe: output}, row.variant)
            said.append({"how": mutations + end, "findings": digest.findings(map(entry.finding, found))})
            inputs.append(digest.sha([output.stdout, output.stderr, output.rc, output.timed_out]))
        told = _counts([each for one in said for each in one["findings"]])
        yield Case(_row_name(row), said, told, inputs)


def classes() -> Iterator[Case]:
    """What the shipped hardware classes expect, and the findings that each stage owes of them."""
    for name in entry.classes():
        expect = entry.expectations(name)
        yield Case(f"{name} expectations", expect)
        yield Case(f"{name} kernel parameters", entry.kernel_parameters(expect))
        for stage in (*entry.STAGES, *entry.PROOFS):
            stresses = entry.STRESS_NAMES if stage == "burn_in" else ()
            owed = entry.owed(stage, expect, stresses)
            yield Case(f"{name} owed in {stage}", owed, owed if isinstance(owed, str) else f"{len(owed)} pairs")


# The host on which a probe asks anything at all, where that is another one.
ASKED_OF = {"mounts": "storage", "local_drives": "storage", "redfish": "redfish"}


def healthy_host() -> Iterator[Case]:
    """What is said of the healthy host by stage, and what probes and stresses run and read on it."""
    for variant in VARIANTS:
        expect, suffix = healthy_expect(variant), f" ({variant})" if variant else ""
        texts = {name: healthy(name, variant) for name in known()}
        for stage in entry.STAGES:
            for loaded in (False, True) if stage == "burn_in" else (False,):
                found = entry.stage_findings(stage, texts, expect, loaded)
                said = digest.findings(found["findings"])
                yield Case(f"stage {stage}{' loaded' * loaded}{suffix}", {**found, "findings": said}, _counts(said))
        for name in entry.STRESS_NAMES:
            said = digest.findings(entry.stress_findings(name, texts, expect))
            yield Case(f"stress {name}{suffix}", said, _counts(said))
    texts = {name: healthy(name) for name in known()}
    files = {"/proc/meminfo": healthy("meminfo")}
    for name in entry.probes():
        variant = ASKED_OF.get(name, "")
        expect = {**healthy_expect(variant), "tools": {"path": "/usr/bin", "root": "/"}}
        asked = entry.probe_asks(name, texts, files, expect)
        yield Case(f"asked by probe {name}", asked, f"{len(asked)} in all")
    expect = healthy_expect()
    for name in entry.STRESS_NAMES:
        settings: dict[str, Any] = {"level": 3} if name == "dcgm_diag" else {}
        asked = entry.stress_asks(name, texts, files, expect, settings)
        yield Case(f"asked by stress {name}", asked, f"{len(asked)} in all")


def _fleet_files() -> list[Path]:
    return sorted([*ROOT.glob("inventory/*/*.fleet.yml"), *ROOT.glob("molecule/*/inventory/*.fleet.yml")])


def _files(texts: Mapping[str, str]) -> Any:
    kept = {name: digest.text_of(name, text) for name, text in texts.items()}
    return kept if len(kept) <= SHOWN_FILES else {name: digest.sha(each) for name, each in kept.items()}


def _sampled(names: Sequence[str]) -> list[str]:
    if len(names) <= SAMPLE:
        return list(names)
    return sorted({names[0], names[-1], *random.Random("oracle").sample(sorted(names), SAMPLE - 2)})


def _host_files(fleet: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return what is rendered for one compute node from its fleet's variables."""
    node = fleet["nodes"][host]
    expect, fabric = fleet["classes"][node["hardware_class"]], fleet["fabric"]
    variables = entry.lookup("nccl_variables", node, fabric=fabric, expect=expect)
    found: dict[str, Any] = {"nccl": {each["name"]: each["value"] for each in variables}}
    for network in ("networkd", "networkmanager"):
        if fabric["kind"] == "roce":
            ports = entry.lookup("roce_ports", node=node, fabric=fabric, expect=expect)
            rendered = entry.lookup("roce_files", ports, network=network)[0]
            found["ports"] = ports
        elif fabric["kind"] == "infiniband":
            given = {
                "places": expect["nic"]["rails"],
                "ipoib": fabric.get("ipoib") or None,
                "mtu_bytes": fabric["mtu_bytes"],
                "partitions": fabric.get("partitions") or [],
            }
            rendered = entry.lookup("infiniband_files", node["rails"], name=host, network=network, **given)[0]
        else:
            return found
        files = [{**each, "content": digest.text_of(each["path"], each["content"])} for each in rendered["files"]]
        found[network] = {**rendered, "files": files}
    return found


def inventories() -> Iterator[Case]:
    """What follows from the example fleets: expectations, rendered files, jobs."""
    for path in _fleet_files():
        read, fleet = entry.fleet(path)
        name = path.parent.name if path.parts[-3] == "inventory" else path.parts[-3]
        nodes = fleet["nodes"]
        yield Case(f"{name} fleet", {key: each for key, each in fleet.items() if key not in ("nodes", "classes")})
        yield Case(f"{name} nodes", nodes, f"{len(nodes)} hosts")
        compute = [host for host, node in nodes.items() if node["role"] == "compute"]
        for hardware_class, expect in sorted(fleet["classes"].items()):
            yield Case(f"{name} class {hardware_class}", expect)
            yield Case(f"{name} kernel parameters {hardware_class}", entry.kernel_parameters(expect))
            members = [host for host in compute if nodes[host]["hardware_class"] == hardware_class]
            yield from _jobs(f"{name} {hardware_class}", fleet, members, hardware_class)
        for file in entry.lookup("slurm_files", fleet)[0]:
            yield Case(f"{name} slurm {file['name']}", digest.text_of(file["name"], file["content"]))
        for host, node in nodes.items():
            if node["role"] == "storage":
                yield Case(f"{name} exports of {host}", entry.lookup("storage_exports", host=host, fleet=fleet))
        if fleet["fabric"]["kind"] == "roce":
            sheets = dict(entry.switch_sheets(read))
            yield Case(f"{name} switch sheets", _files(sheets), f"{len(sheets)} files")
        plan = entry.cabling(read).splitlines()
        yield Case(f"{name} cabling plan", plan, f"{len(plan)} lines")
        yield Case(f"{name} queue pairs", [digest.numbers(line) for line in entry.lookup("queue_pair_table", fleet)])
        for host in _sampled(compute):
            yield Case(f"{name} host {host}", _host_files(fleet, host))


def _jobs(name: str, fleet: Mapping[str, Any], members: Sequence[str], hardware_class: str) -> Iterator[Case]:
    """Yield what the first round of each proof starts among the first eight nodes of a class."""
    for stage in entry.PROOFS:
        first = entry.first_round(stage, fleet, members[:8], hardware_class)
        if isinstance(first, str) or "round" not in first:
            yield Case(f"{name} jobs of {stage}", first, first if isinstance(first, str) else "")
            continue
        arguments, groups = first["arguments"], first["round"]["groups"]
        argv = entry.job_argv(stage, arguments, groups)
        yield Case(f"{name} jobs of {stage}", {**first, "argv": argv}, f"{len(argv)} jobs")
        if stage == "fabric":
            for group in (members[:1], members[:2]):
                argv = [entry.job_argv(stage, arguments, [group]), entry.rail_argv(arguments, group)]
                yield Case(f"{name} perftest of {len(group)}", argv, f"{len(argv[1])} commands")


def jobs() -> Iterator[Case]:
    """The argv of each round of a campaign, by what runs the collectives: torch, nccl-tests, with and without image."""
    fleet = Fleet(Spec.usual(8, "one_slow_10", 0.01), 1)
    plans, _, _ = _observed(fleet, fleet.nodes, [], False)
    for driver in ("torch", "nccl_tests"):
        for container in (None, "registry.example/nccl:1"):
            for backend in ("gloo", "nccl"):
                own = {"driver": driver, "container": container, "backend": backend}
                for plan in plans:
                    given = {
                        "collective": {**own, "container_python": "/usr/bin/python3", "ranks_per_node": 8},
                        "python": "/opt/muster/pytorch/bin/python3",
                        "program": entry.plain(plan["program"]),
                        "addresses": {node: f"192.0.2.{number}" for number, node in enumerate(fleet.nodes, 1)},
                        "port": 29400,
                        "gpus_per_node": 8,
                    }
                    image = "in an image" if container else "on hosts"
                    argv = entry.job_argv("acceptance", given, plan["groups"])
                    name = f"{driver} {backend} {image} round {plan['number']} {plan['kind']}"
                    yield Case(name, argv, f"{len(argv)} jobs")


AREAS: dict[str, Callable[[], Iterator[Case]]] = {
    "classes": classes,
    "fleets": fleets,
    "fuzz": fuzz,
    "healthy": healthy_host,
    "inventories": inventories,
    "jobs": jobs,
    "recorded": recorded,
}

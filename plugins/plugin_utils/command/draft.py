"""``muster draft``: a fleet file with a hardware class that is learned from good hosts."""

from __future__ import annotations

import argparse
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.collecting.class_names import outputs_for
from ansible_collections.muster.cluster.plugins.module_utils.commands.judge_command import status_of
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import line_of, rejudged
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build, version_of
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import DraftedClass, draft_class
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.fleet_file import (
    Declared,
    check_new,
    fleet_text,
    put_fleet,
    remarks_on,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.network import network_of
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.over_ssh import Ssh
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.sources import Source, read_sources
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import ETHERNET
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import SUFFIXES, Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    placed_classes,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import PatternError, expand

from .dispatch import Answer, CommandError

NO_RAILS = "none"
# The option that says what stands at a key of the fleet file.
_OPTIONS = {
    "cluster": "--cluster",
    "nodes[0].name": "--nodes",
    "nodes[0].address": "--address",
    "nodes[0].racks.name": "--racks",
    "nodes[0].rails.addresses": "--rail-addresses",
    "hosts[0].name": "--controller",
    "hosts[0].address": "--controller",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the hosts, and what no host can tell."""
    sources = "archive of muster collect, or [USER@]HOST to collect it over SSH; root@10.1.16.[1-4] stands for four"
    rails = f"PCI addresses of the rails' NICs in the order of the rails, where hosts do not tell; {NO_RAILS}"
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help=sources)
    parser.add_argument("--nodes", required=True, metavar="PATTERN", help="names of all nodes, such as gpu-[01-16]")
    parser.add_argument("--address", required=True, help="address of the first node; the others follow one by one")
    parser.add_argument("--controller", required=True, metavar="NAME=ADDRESS", help="host of Slurm's controller")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.fleet.yml", help="a new file")
    parser.add_argument("--cluster", metavar="NAME", help="name of the cluster, by default that of the file")
    parser.add_argument("--class", dest="name", metavar="NAME", help="name of the class, by default the product's")
    parser.add_argument("--extends", choices=shipped_classes(), help="class of the floors, by default the nearest")
    parser.add_argument("--rails", metavar="ADDRESS,...", help=rails)
    parser.add_argument("--rail-addresses", metavar="PATTERN", help="RoCE: the first node's, as 172.[16-23].0.1/16")
    parser.add_argument("--racks", metavar="PATTERN", help="GB200: names of the racks, which nodes fill in order")
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="configuration of OpenSSH")
    parser.add_argument("--become", action="store_true", help="over SSH: become root by sudo, without a password")
    parser.epilog = "Exit status: 0 every host passes, 1 something failed, 2 incomplete, undecided or wrong input."


def run(options: argparse.Namespace) -> Answer:
    """Write the fleet file, judge the hosts by its class. Raises CommandError, DraftError, FleetError and OSError."""
    declared = _declared(options)
    sources = read_sources(options.sources, build, Ssh(options.ssh_config, become=options.become), Path())
    try:
        return _drafted(options, declared, sources)
    except MusterError as exc:
        kept = [str(source.archive) for source in sources if source.name != str(source.archive)]
        if not kept:
            raise
        raise CommandError(f"{exc}; what was collected is kept: {', '.join(kept)}") from exc


def _drafted(options: argparse.Namespace, declared: Declared, sources: Sequence[Source]) -> Answer:
    hosts = [source.collected for source in sources]
    drafted = draft_class(hosts, options.extends, _rails(options.rails))
    name = options.name or _name_of(drafted)
    overrides = {name: {"extends": drafted.extends, **drafted.values}}
    expect = read_expectations(expectations_of(name, overrides, str(options.output)))
    network = network_of(hosts, expect, declared.nodes)
    text = fleet_text(declared, expect, drafted, network, _origin(sources))
    with _by_option():
        put_fleet(text, options.output)
    findings = {host.host: rejudged(outputs_for(host, expect), expect) for host in hosts}
    return _answer(options.output, name, drafted, sources, findings)


def _rails(given: str | None) -> list[str] | None:
    return None if given is None else [] if given == NO_RAILS else given.split(",")


def _declared(options: argparse.Namespace) -> Declared:
    """Return what the operator declares, before a host is asked. Raises CommandError and DraftError."""
    path: Path = options.output
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), None)
    if suffix is None:
        raise CommandError(f"--output: found {path}, expected a name that ends in {' or '.join(SUFFIXES)}")
    if not next(each for each in path.absolute().parents if each.exists()).is_dir():
        raise CommandError(f"--output: found a file above {path}, expected directories")
    check_new(path)
    if options.name in shipped_classes():
        raise CommandError(f"--class: found {options.name!r}, which comes with Muster, expected another name")
    if options.name is not None and not re.fullmatch("[a-z][a-z0-9_]*", options.name):
        raise CommandError(f"--class: found {options.name!r}, expected lower-case letters, digits and underscores")
    controller, equals, address = options.controller.partition("=")
    if not equals:
        raise CommandError(f"--controller: found {options.controller!r}, expected NAME=ADDRESS, such as ctl=10.1.0.10")
    declared = Declared(
        cluster=options.cluster or path.name.removesuffix(suffix),
        nodes=options.nodes,
        address=options.address,
        controller=controller,
        controller_address=address,
        rail_addresses=options.rail_addresses,
        ledger_id=str(uuid.uuid4()),
        racks=options.racks,
    )
    try:
        expand(options.rail_addresses or "")
    except PatternError as exc:
        raise CommandError(f"--rail-addresses: {exc}") from exc
    with _by_option():
        # A class that is known and no rails: all else is what the operator says.
        Fleet.from_data(declared.document(placed_classes()[0], {}, {"kind": ETHERNET}), str(path))
    return declared


@contextmanager
def _by_option() -> Iterator[None]:
    """Say a fault of the fleet as one of the option that it comes from."""
    try:
        yield
    except FleetError as exc:
        if exc.key not in _OPTIONS:
            raise
        raise CommandError(f"{_OPTIONS[exc.key]}: found {exc.found}, expected {exc.expected}") from exc


def _name_of(drafted: DraftedClass) -> str:
    """Return what the class is called by product and GPU, such as ``poweredge_xe9680_h100``."""
    product = (drafted.values.get("firmware") or {}).get("system_product") or ""
    words = re.findall(r"[a-z0-9]+", product.lower())
    gpu = drafted.extends.rpartition("_")[2]
    name = "_".join([*words, *([] if gpu in words else [gpu])])
    return name if words and name not in shipped_classes() else "ours"


def _origin(sources: Sequence[Source]) -> str:
    hosts = ", ".join(source.collected.host for source in sources)
    return f"Drafted by Muster {version_of()} on {datetime.now(UTC):%Y-%m-%d} from {hosts}. Read it before it is used."


def _answer(
    path: Path,
    name: str,
    drafted: DraftedClass,
    sources: Sequence[Source],
    findings: Mapping[str, Sequence[Finding]],
) -> Answer:
    verdicts = {host: worst(each.verdict for each in found) for host, found in findings.items()}
    bad = {host: [each for each in found if each.verdict != PASS] for host, found in findings.items()}
    command = f"ansible-inventory -i {path} --graph"
    lines = [f"{path}: class {name}, which extends {drafted.extends}"]
    if len(sources) == 1:
        lines.append("One host alone: what differs between hosts of this kind was not seen.")
    for heading, each in remarks_on(drafted).items():
        lines += [f"{heading}:", *(f"  {line}" for line in each)]
    for source in sources:
        host = source.collected.host
        asked = "" if source.name == str(source.archive) else f"{source.name}, "
        lines += [f"{host} ({asked}{source.archive}): {verdicts[host]}", *(f"  {line_of(each)}" for each in bad[host])]
    data = {
        "file": str(path),
        "class": name,
        "extends": drafted.extends,
        "differences": drafted.differences,
        "declared": drafted.chosen,
        "unseen": drafted.unseen,
        "unread": drafted.unread,
        "notes": list(drafted.notes),
        "weaker": list(drafted.weaker),
        "floors": list(drafted.floors),
        "archives": {source.collected.host: str(source.archive) for source in sources},
        "verdicts": verdicts,
        "findings": {host: [each.to_dict() for each in found] for host, found in bad.items()},
        "next": command,
    }
    undecided = drafted.differences.keys() - drafted.chosen.keys()
    verdict = worst([*verdicts.values(), INCOMPLETE if undecided else PASS])
    return Answer("\n".join([*lines, f"next: {command}"]), data, status_of(verdict))

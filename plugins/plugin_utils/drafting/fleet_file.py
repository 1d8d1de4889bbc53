"""The fleet file of a draft: what is declared, the class that hosts showed, and as comments what to look at."""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import new_file
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import one_line
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import DraftedClass
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.network import Network
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import ETHERNET, INFINIBAND, ROCE
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import PLUGIN, Fleet, display_path

_WIDTH = 120
_KINDS = {"Ethernet": ROCE, "InfiniBand": INFINIBAND}


@dataclass(frozen=True)
class Declared:
    """What no host can tell: names and addresses. ``nodes``, ``racks`` and ``rail_addresses`` are patterns."""

    cluster: str
    nodes: str
    address: str
    controller: str
    controller_address: str
    rail_addresses: str | None
    ledger_id: str
    racks: str | None = None

    def document(
        self, hardware_class: str, rails: Mapping[str, Any], fabric: Mapping[str, Any], in_rack: int | None = None
    ) -> dict[str, Any]:
        """Return the fleet, section by section, without classes of its own; ``in_rack``: nodes of each rack."""
        block: dict[str, Any] = {"name": self.nodes, "hardware_class": hardware_class, "address": self.address}
        if in_rack:
            block["racks"] = {"name": self.racks, "nodes_each": in_rack}
        return {
            "plugin": PLUGIN,
            "cluster": self.cluster,
            "hosts": [{"name": self.controller, "role": "controller", "address": self.controller_address}],
            "nodes": [{**block, **({"rails": dict(rails)} if rails else {})}],
            "fabric": dict(fabric),
            "scheduler": {"partitions": [{"name": "batch", "default": True}]},
            # Not in the directory of the fleet file, which Ansible may be given as a whole.
            "ledger": {"url": f"sqlite:///../ledger/{self.cluster}.sqlite", "id": self.ledger_id},
        }


def fleet_text(declared: Declared, expect: Expectations, drafted: DraftedClass, network: Network, origin: str) -> str:
    """Return the text of a whole fleet file; ``origin`` is its first line.

    Its only class is the drafted one, of which ``expect`` is. Raises DraftError for rails of which the kind or the
    addresses are not known, and for racks that are not.
    """
    rails, fabric = _rails_and_fabric(declared, expect, drafted, network)
    sections = declared.document(expect.class_, rails, fabric, _in_rack(declared, expect))
    sections["hardware_classes"] = {expect.class_: {"extends": drafted.extends, **drafted.values}}

    def text(key: str) -> str:
        return _yaml({key: sections[key]})

    return "\n".join(
        [
            comment([origin]) + _yaml({key: sections[key] for key in ("plugin", "cluster")}, flow=False),
            text("hosts"),
            text("nodes") + comment([] if "switches" in fabric else _of_cables(network)),
            comment(_of_class(drafted)) + text("hardware_classes"),
            comment([_of_interfaces(network)]) + text("fabric"),
            text("scheduler"),
            text("ledger"),
        ]
    )


def _in_rack(declared: Declared, expect: Expectations) -> int | None:
    """Return how many nodes a rack has; None for a class that does not say."""
    domain = expect.nvlink.domain if expect.nvlink else None
    if domain is None:
        if declared.racks:
            found, expected = f"found {declared.racks}", "none, as the hosts' GPUs are in no NVLink domain of a rack"
            raise DraftError(f"--racks: {found}, expected {expected}")
        return None
    if not declared.racks:
        expected = f"names of racks of {domain.hosts} nodes, which are NVLink domains, such as rack-[1-8]"
        raise DraftError(f"--racks: found none, expected {expected}")
    return domain.hosts


def _rails_and_fabric(
    declared: Declared, expect: Expectations, drafted: DraftedClass, network: Network
) -> tuple[dict[str, Any], dict[str, Any]]:
    if expect.nic is None:
        return {}, {"kind": ETHERNET}
    link_layer = drafted.link_layer or expect.nic.link_layer
    if link_layer is None:
        why = drafted.unseen.get("nic.link_layer", "hosts do not agree")
        raise DraftError(f"nic.link_layer of the rails: {one_line(why)}, expected Ethernet or InfiniBand on every host")
    fabric: dict[str, Any] = {"kind": _KINDS[link_layer]}
    if drafted.speed_gbps:
        fabric["speed_gbps"] = int(drafted.speed_gbps)
    rails: dict[str, Any] = {}
    if link_layer == "Ethernet":
        if not declared.rail_addresses:
            expected = "the first node's address on each rail, such as 172.[16-23].0.1/16"
            raise DraftError(f"--rail-addresses: found none, and rails that are Ethernet, expected {expected}")
        rails["addresses"] = declared.rail_addresses
    if network.block and network.system:
        rails |= network.block
        fabric["switches"] = [{"name": network.block["switches"]["name"], "tier": "leaf", "system": network.system}]
    return rails, fabric


def put_fleet(text: str, path: Path) -> Fleet:
    """Write a new fleet file, once it was read back as a fleet, and return the fleet.

    Raises DraftError where there is such a file already, FleetError for a text that declares no fleet, OSError.
    """
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as trial:
        trial.write(text)
        trial.flush()
        fleet = Fleet.from_data(read_yaml(Path(trial.name), display_path(path)), display_path(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with new_file(path, 0o666) as file:
            file.write(text.encode())
    except FileExistsError:
        check_new(path)
    return fleet


def check_new(path: Path) -> None:
    """Raise DraftError for a file that is there: it is somebody's work."""
    if os.path.lexists(path):
        raise DraftError(f"{path}: exists, expected the name of a new file")


def remarks_on(drafted: DraftedClass) -> dict[str, list[str]]:
    """Return what an operator has to know of a drafted class, by heading; a heading without lines is left out."""
    differences = [
        f"{key}: {', '.join(f'{host} {value}' for host, value in hosts.items())}; "
        + (f"declared: {drafted.chosen[key]}" if key in drafted.chosen else f"as {drafted.extends} has it")
        for key, hosts in drafted.differences.items()
    ]
    remarks = {
        "Different from host to host": differences,
        f"Not read on these hosts, as {drafted.extends} has it here": _by_reason(drafted.unseen),
        "Not read on all hosts, as the others have it here": _by_reason(drafted.unread),
        "To be looked at": list(drafted.notes),
        f"Less than {drafted.extends} asks, as these hosts show it": list(drafted.weaker),
        f"From {drafted.extends}, not measured here": [", ".join(drafted.floors)] if drafted.floors else [],
    }
    return {heading: [one_line(line) for line in lines] for heading, lines in remarks.items() if lines}


def _by_reason(reasons: Mapping[str, str]) -> list[str]:
    keys: dict[str, list[str]] = {}
    for key, why in reasons.items():
        keys.setdefault(why, []).append(key)
    return [f"{', '.join(of)}: {why}" for why, of in keys.items()]


def comment(lines: Iterable[str]) -> str:
    """Return lines, indented as they are, as a comment of YAML; nothing that a host printed can end it."""
    wrapped = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip(" "))]
        wrapped += textwrap.wrap(
            one_line(line),
            _WIDTH - len("# "),
            initial_indent=indent,
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "".join(f"# {line}\n" for line in wrapped)


def _of_class(drafted: DraftedClass) -> list[str]:
    lines = []
    for heading, remarks in remarks_on(drafted).items():
        lines += [f"{heading}:", *(f"  {remark}" for remark in remarks)]
    return lines


def _of_cables(network: Network) -> list[str]:
    """Return the cables that hosts saw; without the switches' own data they cannot be declared."""
    known = [
        f"  {host} {rail}: {f'{cable.switch} {cable.port}' if cable else 'unknown'}"
        for host, cables in network.cables.items()
        if any(cables.values())
        for rail, cable in cables.items()
    ]
    if not known:
        return []
    lines = ["Cables as hosts saw them, to be declared with fabric.switches (docs/fabric.md):", *known]
    if network.block:
        lines += ["These keys of rails give them:", *(f"  {line}" for line in _yaml(network.block).splitlines())]
    return lines


def _of_interfaces(network: Network) -> str:
    names = ", ".join(network.interfaces) or "none known"
    return f"socket_interface (bootstrap of collectives) is not declared; up on every host beside the rails: {names}"


class _Dumper(yaml.SafeDumper):
    """YAML as the example inventories have it: lists indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _yaml(data: Mapping[str, Any], flow: bool | None = None) -> str:
    """Return data as YAML, its keys in the order given; parts without parts of their own in braces."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=False, default_flow_style=flow
    )
    return text

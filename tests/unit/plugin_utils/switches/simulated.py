"""Simulated switches: they take a configuration in the words of their system and print what its commands show.

The layouts follow real outputs where there are some, else the manuals; nothing here uses what reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass
class Wire:
    """What a port sees and counts: neighbours as (system, port id, description), errors, discards, storms."""

    neighbours: list[tuple[str, str, str]] = field(default_factory=list)
    errors: int = 0
    discards: int = 0
    storms: int = 0


Wires = Mapping[str, Wire]


def table(names: Sequence[str], rows: Sequence[Sequence[Any]], left: bool = False) -> str:
    """Return a table as SONiC's command line draws it: two spaces between columns, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(names, *cells, strict=True)]
    rule = "  ".join("-" * width for width in widths)

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            f"{cell:<{width}}" if left else f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)
        )

    return "\n".join([line(names), rule, *map(line, cells)]) + "\n"


def _blocks(config: str) -> dict[str, list[str]]:
    """Return the top lines of an EOS configuration, each with the lines below it."""
    found: dict[str, list[str]] = {}
    below: list[str] = []
    for line in config.splitlines():
        if line.strip() and not line.lstrip().startswith("!"):
            if line.startswith(" "):
                below.append(line.strip())
            else:
                below = found.setdefault(line, [])
    return found


def eos(config: str, wires: Wires) -> dict[str, str]:
    """Return what an EOS switch prints."""
    blocks = _blocks(config)
    interfaces: dict[str, Any] = {}
    neighbours: dict[str, Any] = {}
    stuck: dict[str, Any] = {}
    pfc, trust = ["Port          Enabled  Priorities  Active  Note", "----"], []
    for port, wire in wires.items():
        own = blocks.get(f"interface {port}", [])
        profiles = [line.split()[1] for line in own if line.startswith("service-profile ")]
        lines = [line for name in profiles for line in blocks.get(f"qos profile {name}", [])] + own
        mtu = next((int(line.split()[1]) for line in own if line.startswith("mtu ")), 1500)
        interfaces[port] = {
            "name": port,
            "mtu": mtu,
            "interfaceCounters": {
                "totalInErrors": wire.errors,
                "totalOutErrors": 0,
                "inDiscards": 0,
                "outDiscards": wire.discards,
                "inputErrorsDetail": {"fcsErrors": wire.errors, "symbolErrors": 0, "rxPause": 7},
            },
        }
        neighbours[port] = {
            "lldpNeighborInfo": [
                {
                    "systemName": system,
                    "neighborInterfaceInfo": {"interfaceId": f'"{name}"', "interfaceDescription": description},
                }
                for system, name, description in wire.neighbours
            ]
        }
        if wire.storms:
            stuck[port] = {"txQueues": {"3": {"stuckCount": wire.storms, "recoveryCount": wire.storms}}}
        short = port.replace("Ethernet", "Et")
        drops = [line.split()[2] for line in lines if line.startswith("priority-flow-control priority ")]
        on = "Yes" if "priority-flow-control on" in lines else "No"
        pfc.append(f"{short:<14}{on:<9}{' '.join(drops):<12}{on:<8}DCBX disabled")
        routed = "no switchport" in own
        trust.append(f"{port:<16}{'DSCP' if routed or 'qos trust dscp' in lines else 'COS':<18}DEFAULT")
    classes = [int(dscp / 8) for dscp in range(64)]
    for line in blocks:
        words = line.split()
        if words[:3] == ["qos", "map", "dscp"]:
            classes[int(words[3])] = int(words[6])
    tens = [classes[low : low + 10] for low in range(0, 64, 10)]
    rows = [f"     {number} :    " + "  ".join(map(str, row)) for number, row in enumerate(tens)]
    maps = [
        "   Number of Traffic Classes supported: 8",
        "   Dscp-tc map:",
        "     d1 :  d2 0  1  2  3  4  5  6  7  8  9",
    ]
    maps += ["     --------------------------------------", *rows, "", "   Tc-queue map:", "     tc: 0 1 2", ""]
    head = ["Port                       Trust Mode", "                Operational       Configured", "-" * 60]
    return {
        "show running-config": config,
        "show interfaces | json": json.dumps({"interfaces": interfaces}, indent=4),
        "show lldp neighbors detail | json": json.dumps({"lldpNeighbors": neighbours}, indent=4),
        "show qos maps": "\n".join(maps),
        "show priority-flow-control": "\n".join(pfc) + "\n",
        "show qos interfaces trust": "\n".join([*head, *trust]) + "\n",
        "show priority-flow-control counters watchdog | json": json.dumps({"interfaces": stuck}),
    }


def sonic(config: str, wires: Wires) -> dict[str, str]:
    """Return what a SONiC switch prints."""
    database = json.loads("\n".join(line for line in config.splitlines() if not line.startswith("#")))
    mtus = {port: row["mtu"] for port, row in database.setdefault("PORT", {}).items() if "mtu" in row}
    database["DEVICE_METADATA"] = {"localhost": {"hostname": "tor", "type": "LeafRouter"}}
    status = [
        [port, "1,2", "400G", mtus.get(port, "9100"), "rs", f"etp{number}", "routed", "up", "up", "OSFP", "off"]
        for number, port in enumerate(wires)
    ]
    lanes = ("Interface", "Lanes", "Speed", "MTU", "FEC", "Alias", "Vlan", "Oper", "Admin", "Type", "Asym PFC")
    counted = [
        [
            port,
            "U",
            "1,000",
            "0 B/s",
            "0%",
            wire.errors,
            0,
            "N/A",
            "2,000",
            "0 B/s",
            "0%",
            0,
            f"{wire.discards:,}",
            "N/A",
        ]
        for port, wire in wires.items()
    ]
    counters = ("IFACE", "STATE", "RX_OK", "RX_BPS", "RX_UTIL", "RX_ERR", "RX_DRP", "RX_OVR")
    counters += ("TX_OK", "TX_BPS", "TX_UTIL", "TX_ERR", "TX_DRP", "TX_OVR")
    heard = [
        [port, system, name, "BR", description]
        for port, wire in wires.items()
        for system, name, description in wire.neighbours
    ]
    lldp = table(("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr"), heard, left=True)
    storms = [
        [f"{port}:3", "N/A", f"{wire.storms}/{wire.storms}", "1/0", "1/0", "1/0", "1/0"]
        for port, wire in wires.items()
        if wire.storms
    ]
    watchdog = ("QUEUE", "STATUS", "STORM DETECTED/RESTORED", "TX OK/DROP", "RX OK/DROP")
    watchdog += ("TX LAST OK/DROP", "RX LAST OK/DROP")
    return {
        "show runningconfiguration all": json.dumps(database, indent=4),
        "show interfaces status": table(lanes, status),
        "show interfaces counters": table(counters, counted),
        "show lldp table": "Capability codes: (R) Router, (B) Bridge, (O) Other\n"
        + lldp
        + "-" * 50
        + f"\nTotal entries displayed:  {len(heard)}\n",
        "show pfcwd stats": table(watchdog, storms),
    }


def cumulus(config: str, wires: Wires) -> dict[str, str]:
    """Return what a Cumulus switch prints, with its defaults below what is configured."""
    tree = yaml.safe_load(config)[0]["set"]
    defaults: dict[str, Any] = {
        "interface": {port: {"link": {"mtu": 9216}, "qos": {"pfc": {"profile": "default-global"}}} for port in wires},
        "qos": {
            "congestion-control": {"default-global": {"traffic-class": {"0": _marking()}}},
            "egress-queue-mapping": {
                "default-global": {"switch-priority": {str(each): {"traffic-class": each} for each in range(8)}}
            },
            "mapping": {"default-global": {"port-default-sp": 0, "trust": "l2"}},
            "pfc": {},
            "roce": {"enable": "off"},
        },
        "system": {"forwarding": {"ecmp-hash": {"gtp-teid": "off", "ingress-interface": "off", "source-ip": "on"}}},
    }
    _lay(defaults, tree)
    interfaces = {
        port: {
            "link": {
                "mtu": defaults["interface"][port]["link"]["mtu"],
                "oper-status": "up",
                "stats": {"in-drops": 0, "in-errors": wire.errors, "out-drops": wire.discards, "out-errors": 0},
            },
            "type": "swp",
        }
        for port, wire in wires.items()
    }
    lldp = {
        port: {
            "lldp": {
                "neighbor": {
                    system: {"chassis": {"system-name": system}, "port": {"name": name, "description": description}}
                    for system, name, description in wire.neighbours
                }
            }
        }
        for port, wire in wires.items()
    }
    answers = {
        "nv config show --all -o json": json.dumps([{"header": {"model": "vx"}}, {"set": defaults}], indent=2),
        "nv show interface -o json": json.dumps({"eth0": {"type": "eth"}, **interfaces}, indent=2),
        "nv show interface lldp -o json": json.dumps(lldp, indent=2),
        "nv show qos roce -o json": "{}",
    }
    for port, wire in wires.items():
        status = {str(each): {"status": "OK", "deadlock-count": wire.storms if each == 3 else 0} for each in range(8)}
        answers[f"nv show interface {port} qos pfc-watchdog -o json"] = json.dumps({"status": status})
    return answers


def _marking() -> dict[str, Any]:
    return {"ecn": "enable", "min-threshold": 150000, "max-threshold": 1500000, "probability": 100, "red": "disable"}


def _lay(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _lay(base[key], value)
        else:
            base[key] = value


SWITCHES: dict[str, Callable[[str, Wires], dict[str, str]]] = {"eos": eos, "sonic": sonic, "cumulus": cumulus}

"""SONiC: what is asked of a switch and what its answers mean.

The configuration is the running CONFIG_DB, in which SONiC keeps every map and profile by name; tables are those of its
command line as recorded. ``show pfcwd stats`` follows SONiC's own tests (format unverified).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.switches.printed_tables import numbers, ruled_table
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import (
    QUEUE_PAIR,
    Answers,
    Ecn,
    Neighbour,
    OutputError,
    PortState,
    SwitchState,
    need,
    read_or_unknown,
)

COMMANDS = {
    "config": "show runningconfiguration all",
    "counters": "show interfaces counters",
    "lldp": "show lldp table",
    "status": "show interfaces status",
    "storms": "show pfcwd stats",
}
PORT_COMMANDS: dict[str, str] = {}
PREPARE: tuple[str, ...] = ()

_HASH_FIELDS = {
    "SRC_IP": "source address",
    "DST_IP": "destination address",
    "L4_SRC_PORT": "source port",
    "L4_DST_PORT": "destination port",
    "RDMA_BTH_DEST_QP": QUEUE_PAIR,
}
Row = Mapping[str, str]


def read(answers: Answers, ports: Iterable[str]) -> SwitchState:
    """Return the state of a switch as its answers tell it."""
    parsed: dict[str, Any] = {
        "config": read_or_unknown(lambda: _config(answers.data("config")), COMMANDS["config"]),
        "status": read_or_unknown(lambda: _by(answers, "status", "Interface"), COMMANDS["status"]),
        "counters": read_or_unknown(lambda: _by(answers, "counters", "IFACE"), COMMANDS["counters"]),
        "lldp": read_or_unknown(lambda: _lldp(answers.text("lldp")), COMMANDS["lldp"]),
        "storms": read_or_unknown(lambda: ruled_table(answers.text("storms"), COMMANDS["storms"]), COMMANDS["storms"]),
    }
    return SwitchState(
        ecmp=read_or_unknown(lambda: _ecmp(need(parsed["config"])), COMMANDS["config"]),
        ports={port: _port(port, parsed) for port in ports},
    )


def _port(port: str, parsed: Mapping[str, Any]) -> PortState:
    def of(name: str, reading: Any) -> Any:
        return read_or_unknown(lambda: reading(need(parsed[name])), COMMANDS[name])

    return PortState(
        exists=of("status", lambda rows: port in rows),
        mtu_bytes=of("status", lambda rows: int(rows[port]["MTU"])),
        pfc=of("config", lambda config: _pfc(config, port)),
        watchdog=of("config", lambda config: _watchdog(config.get("PFC_WD", {}).get(port, {}))),
        trust_dscp=of("config", lambda config: bool(_bound(config, port, "dscp_to_tc_map"))),
        classes=of("config", lambda config: _classes(config, port)),
        ecn=of("config", lambda config: _ecn(config, port)),
        headroom=of("config", lambda config: _headroom(config, port)),
        addresses=of("config", lambda config: _addresses(config, port)),
        neighbours=of("lldp", lambda rows: _neighbours(rows, port)),
        errors=of("counters", lambda rows: _counted(rows[port], "RX_ERR", "TX_ERR")),
        discards=of("counters", lambda rows: _counted(rows[port], "RX_DRP", "TX_DRP")),
        storms=of("storms", lambda rows: _storms(rows, port)),
    )


def _config(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping) or "PORT" not in data:
        raise OutputError(f"{COMMANDS['config']}: no table PORT")
    return data


def _by(answers: Answers, name: str, key: str) -> dict[str, Row]:
    rows = ruled_table(answers.text(name), COMMANDS[name])
    return {row[key]: row for row in rows}


def _named(reference: str) -> str:
    """Return the name in a reference; releases before 202106 write ``[TABLE|NAME]``."""
    return reference.strip("[]").rpartition("|")[2]


def _bound(config: Mapping[str, Any], port: str, kind: str) -> Mapping[str, str]:
    """Return the map that is bound to a port, or to all of them, as empty where none is."""
    tables = {
        "dscp_to_tc_map": "DSCP_TO_TC_MAP",
        "tc_to_queue_map": "TC_TO_QUEUE_MAP",
        "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
        "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    }
    bindings = config.get("PORT_QOS_MAP", {})
    reference = bindings.get(port, {}).get(kind) or bindings.get("global", {}).get(kind)
    if not reference:
        return {}
    known: Mapping[str, Mapping[str, str]] = config.get(tables[kind], {})
    if _named(reference) not in known:
        raise OutputError(f"{COMMANDS['config']}: {tables[kind]} {_named(reference)} is not there")
    return known[_named(reference)]


def _of_port(config: Mapping[str, Any], table: str, port: str) -> list[tuple[frozenset[int], Mapping[str, str]]]:
    """Return the rows of a table with keys such as ``Ethernet0|3-4``."""
    found = []
    for key, row in config.get(table, {}).items():
        name, _, range_ = key.partition("|")
        if port in name.split(","):
            found.append((numbers(range_), row))
    return found


def _pfc(config: Mapping[str, Any], port: str) -> frozenset[int]:
    enabled = config.get("PORT_QOS_MAP", {}).get(port, {}).get("pfc_enable", "")
    queues = _bound(config, port, "pfc_to_queue_map")
    # A pause that stops another queue than the priority's own stops nothing of it.
    return frozenset(each for each in (numbers(enabled) if enabled else ()) if queues.get(str(each)) == str(each))


def _watchdog(row: Mapping[str, str]) -> bool:
    return row.get("action") in ("drop", "forward", "alert") and int(row.get("detection_time", 0)) > 0


def _classes(config: Mapping[str, Any], port: str) -> dict[int, str]:
    queues = _bound(config, port, "tc_to_queue_map")
    found = {}
    for dscp, traffic_class in _bound(config, port, "dscp_to_tc_map").items():
        queue = queues.get(traffic_class, "none")
        found[int(dscp)] = traffic_class if queue == traffic_class else f"{traffic_class} in queue {queue}"
    return found


def _ecn(config: Mapping[str, Any], port: str) -> dict[int, Ecn]:
    profiles = config.get("WRED_PROFILE", {})
    found = {}
    for queues, row in _of_port(config, "QUEUE", port):
        if name := _named(row.get("wred_profile", "")):
            profile = profiles[name]
            # RoCE packets are green unless something polices them.
            if profile.get("ecn") in ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red"):
                mark = Ecn(int(profile["green_min_threshold"]), int(profile["green_max_threshold"]))
                found.update(dict.fromkeys(queues, mark))
    return found


def _headroom(config: Mapping[str, Any], port: str) -> frozenset[int]:
    """Return the traffic classes whose priority group has a lossless buffer; NULL lets SONiC calculate one."""
    lossless: set[int] = set()
    for groups, row in _of_port(config, "BUFFER_PG", port):
        name = _named(row.get("profile", ""))
        if name == "NULL" or int(config.get("BUFFER_PROFILE", {}).get(name, {}).get("xoff", 0)) > 0:
            lossless |= groups
    groups_of = _bound(config, port, "tc_to_pg_map")
    return frozenset(int(each) for each, group in groups_of.items() if int(group) in lossless)


def _addresses(config: Mapping[str, Any], port: str) -> frozenset[str]:
    keys = (key.partition("|") for key in config.get("INTERFACE", {}))
    return frozenset(address for name, _, address in keys if name == port and address)


def _lldp(text: str) -> list[dict[str, str]]:
    rows = ruled_table(text, COMMANDS["lldp"])
    total = re.search(r"^Total entries displayed:\s*(\d+)\s*$", text, re.MULTILINE)
    if total is None or int(total[1]) != len(rows):
        says = f"{total[1]} entries announced" if total else "no total at its end"
        raise OutputError(f"{COMMANDS['lldp']}: cut short, {len(rows)} rows and {says}")
    return rows


def _neighbours(rows: Sequence[Row], port: str) -> tuple[Neighbour, ...]:
    return tuple(
        Neighbour(row["RemoteDevice"], tuple(name for name in (row["RemotePortID"], row["RemotePortDescr"]) if name))
        for row in rows
        if row["LocalPort"] == port
    )


def _counted(row: Row, *names: str) -> dict[str, int]:
    if missing := [name for name in names if row[name] == "N/A"]:
        raise OutputError(f"{COMMANDS['counters']}: {', '.join(missing)} is N/A")
    return {name: int(row[name].replace(",", "")) for name in names}


def _storms(rows: Sequence[Row], port: str) -> int:
    """Return how often the watchdog found a storm: ``DETECTED/RESTORED`` of each queue that ever had one."""
    return sum(int(row["STORM DETECTED/RESTORED"].split("/")[0]) for row in rows if row["QUEUE"].split(":")[0] == port)


def _ecmp(config: Mapping[str, Any]) -> frozenset[str]:
    fields = config.get("SWITCH_HASH", {}).get("GLOBAL", {}).get("ecmp_hash")
    if not fields:
        raise OutputError(f"{COMMANDS['config']}: no SWITCH_HASH, so that the ASIC's own default holds")
    named = fields.split(",") if isinstance(fields, str) else fields
    return frozenset(_HASH_FIELDS.get(name, name) for name in named)

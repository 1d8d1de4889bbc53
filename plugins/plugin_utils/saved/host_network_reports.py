"""What a host says of its network, as people save it: ethtool, mlnx_qos, show_gids, show_counters, ``ip -j``.

Formats: ethtool's manual and sources (cmis.c, qsfp.c, sfpdiag.c), the kernel's mlx5 counters document
(Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst), NVIDIA's mlnx-tools. Totals have no time:
what may only grow slowly is a reason to look, no fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import (
    fault,
    sound,
    unheld,
    unread,
    watch,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.text_sections import sections

NAME = "ethtool, mlnx_qos, show_gids or ip -j"
_CHECK = "host_network"

_SETTINGS = re.compile(r"^Settings for (\S+):\s*$", re.MULTILINE)
_FEC = re.compile(r"^FEC parameters for (\S+):[ \t]*$", re.MULTILINE)
_MODULE = re.compile(r"^\s*Identifier +: 0x[0-9a-f]{2} \(", re.MULTILINE)
_STATISTICS = re.compile(r"^(?:NIC statistics:$|\s*[rt]x_(?:vport_|bytes|packets)\w*: \d+$)", re.MULTILINE)
_QOS = re.compile(r"^PFC configuration:\s*\n\s*priority((?: +\d)+)\s*\n\s*enabled((?: +[01])+)\s*$", re.MULTILINE)
_GIDS = re.compile(r"^DEV\s+PORT\s+INDEX\s+GID\b", re.MULTILINE)
_GID = re.compile(r"^(\w+)\s+(\d+)\s+\d+\s+[0-9a-f:]{39}\s+(?:(\d+\.\d+\.\d+\.\d+)\s+)?(v[12])\b", re.MULTILINE)
_COUNTERS = re.compile(r"^Port \d+ (?:hw )?counters:\s*$", re.MULTILINE)
_COUNT = re.compile(r"^\s*(\w+): (\d+)\s*$", re.MULTILINE)
_MODE = re.compile(r"\b(\d+)base")
_FIELD = re.compile(r"^\s*([^:\n]+?)\s*:\s*(\S.*?)\s*$", re.MULTILINE)
_FLAG = re.compile(r"(high|low) (alarm|warning)(?! threshold)|\bfault\b|loss of (?:signal|lock)", re.IGNORECASE)
_LIMIT = re.compile(r"(.+) (high|low) alarm threshold")
_FIRST = re.compile(r"[^/]*?(-?\d+(?:\.\d+)?)")
# cmis.c of ethtool: a module's own state, and why it is in fault.
_STATE = re.compile(r"^\s*Module State +: \S+ \((\w+)\)\s*$", re.MULTILINE)
_CAUSE = re.compile(r"^\s*Module Fault Cause +: \S+ \((.*)\)\s*$", re.MULTILINE)
# The value for which ethtool has another name than for its limits.
_VALUES = {
    "receiver signal average optical power": "laser rx power",
    "rcvr signal avg optical power": "laser rx power",
    "transmit avg optical power": "laser output power",
    "laser tx bias current": "laser bias current",
}
# Below this there is no light at all: nothing is connected, or the other end is off. That is none of the module's.
_DARK_DBM = -30.0
# Counters of the module and of what error correction left: none of them counts on a sound port.
_BROKEN = re.compile(r"module_(?:bad_shorted|bus_stuck|high_temp)|rx_(?:uncorrectable|fec_uncorrectable)\w*")
# What a port's own errors are counted by: one of them has to be shown before nothing is wrong.
_OF_THE_PORT = re.compile(
    r"[rt]x_errors(?:_phy)?|link_down_events_phy|rx_(?:crc|symbol|pcs_symbol|undersize|fragments|jabbers)_?err\w*"
    r"|rx_crc_errors\w*|[rt]x_discards_phy"
)
# What else drivers call what went wrong; each has names of its own.
_ERRORS = re.compile(
    r"\w*(?:err|crc|discard|drop|timeout|stall|storm|integrity|overflow|oob|out_of_buffer|recover|rearm|link_down)\w*"
)
# Raw errors of a lane, which are corrected, and what a program of XDP drops on purpose.
_HARMLESS = re.compile(r"rx_err_lane_\d+_phy|\w*corrected\w*|\w*xdp\w*")
# Of the counters of an RDMA port: packets that were lost, and requests that failed for it.
_LOST = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err")
_FAILED = ("req_cqe_error", "resp_cqe_error", "req_remote_access_errors", "resp_remote_access_errors")
_IP = re.compile(r'\A\s*\[.*?"ifname"\s*:', re.DOTALL)


def recognises(text: str) -> bool:
    """Return whether one of these tools printed this."""
    return any(mark.search(text) for mark in (_SETTINGS, _FEC, _MODULE, _STATISTICS, _QOS, _GIDS, _COUNTERS, _IP))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return faults of interfaces, modules and RDMA ports, and what of them says that nothing is wrong."""
    judges = (
        (_IP, _of_ip),
        (_SETTINGS, _of_settings),
        (_FEC, _of_fec),
        (_MODULE, _of_module),
        (_QOS, _of_qos),
        (_GIDS, _of_gids),
        (_COUNTERS, _of_counters),
        (_STATISTICS, _of_statistics),
    )
    # Several may be saved in one.
    found = [finding for mark, judge in judges if mark.search(text) for finding in judge(text, expect)]
    return found or [unread(_CHECK, "host", "no output of ethtool, mlnx_qos, show_gids, show_counters or ip -j")]


def _of_settings(text: str, expect: Expectations | None) -> Iterator[Finding]:
    parts = _SETTINGS.split(text)
    wanted = {end.interface: float(end.speed_gbps) for end in expect.nic.frontend} if expect and expect.nic else {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        said = dict(_FIELD.findall(body))
        speed, link = re.match(r"(\d+)Mb/s", said.get("Speed", "")), said.get("Link detected", "")
        possible = re.search(r"Supported link modes:(.*?)(?:\n\s*[A-Z][^\n]*:|\Z)", body, re.DOTALL)
        most = max(map(int, _MODE.findall(possible[1])), default=0) if possible else 0
        if link.startswith("no"):
            yield fault(_CHECK, name, f"no link: {link}", link, "yes")
        elif link != "yes" or not speed:
            yield unread(_CHECK, name, f"Link detected {link!r}, Speed {said.get('Speed')!r}")
        elif said.get("Duplex") == "Half":
            yield fault(_CHECK, name, "half duplex", "Half", "Full")
        elif int(speed[1]) < wanted.get(name, 0) * 1000:
            yield fault(_CHECK, name, "slower than the class' interface", f"{speed[0]}", wanted[name])
        elif int(speed[1]) == most or name in wanted:
            yield sound(_CHECK, name, speed[0])
        else:
            yield unheld(_CHECK, name)


def _of_fec(text: str, _: Expectations | None) -> Iterator[Finding]:
    for mark, body in sections(_FEC, text):
        active = re.search(r"^Active FEC encodings?: *(.*?)\s*$", body, re.MULTILINE)
        if active is None or active[1].lower() in ("", "off", "none", "auto"):
            said = (
                f"error correction is {active[1] if active else 'not told'}: from 50 Gb/s a lane on there must be one"
            )
            yield unread(_CHECK, mark[1], said)
        else:
            yield unheld(_CHECK, mark[1])


def _of_module(text: str, _: Expectations | None) -> Iterator[Finding]:
    fields = [(key, value) for key, value in _FIELD.findall(text)]
    limits = {m.group(1, 2): _number(value) for key, value in fields if (m := _LIMIT.fullmatch(key.lower()))}
    faults, dark = _readings(fields, limits)
    odd: list[str] = []
    for key, value in _flags_set(fields):
        if not (dark and re.search(r"rx power low|rx loss", key, re.IGNORECASE)):
            warning = re.search("(?:high|low) warning", key, re.IGNORECASE)
            (odd if warning else faults).append(f"{key}: {value}")
    state, cause = _STATE.search(text), _CAUSE.search(text)
    if cause or (state and state[1] == "ModuleFault"):
        faults.append(f"the module is in fault{f': {cause[1]}' if cause else ''}")
    elif state and state[1] != "ModuleReady":
        odd.append(f"the module is in state {state[1]}")
    told = [key for key, _ in fields if _FLAG.search(key)] or limits
    for why in faults:
        yield fault(_CHECK, "module", why)
    if not faults and dark:
        yield watch(_CHECK, "module", "no light is received: nothing is connected, or the other end is off")
    elif not faults and odd:
        yield watch(_CHECK, "module", "; ".join(odd[:5]))
    elif not faults:
        yield sound(_CHECK, "module") if told else unread(_CHECK, "module", "it tells no alarm and no limit")


_Fields = list[tuple[str, str]]


def _readings(fields: _Fields, limits: dict[Any, float | None]) -> tuple[list[str], bool]:
    """Return the readings outside their own alarm limits, and whether no light is received."""
    faults: list[str] = []
    dark = False
    for key, value in fields:
        name, channel, _rest = key.lower().partition("(")
        stem = _VALUES.get(name.strip(), name.strip())
        reading, where = _number(value), f" ({_rest}" if channel else ""
        high, low = limits.get((stem, "high")), limits.get((stem, "low"))
        dbm = re.search(r"(-?(?:\d+\.\d+|inf)) dBm", value)
        if stem == "laser rx power" and dbm and float(dbm[1]) <= _DARK_DBM:
            dark = True
        elif reading is not None and high is not None and reading > high:
            faults.append(f"{stem}{where} {value}, alarm above {high:g}")
        elif reading is not None and low is not None and reading < low:
            faults.append(f"{stem}{where} {value}, alarm below {low:g}")
    return faults, dark


def _flags_set(fields: _Fields) -> Iterator[tuple[str, str]]:
    for key, value in fields:
        if re.search(r"implemented|supported|threshold", key, re.IGNORECASE) or not _FLAG.search(key):
            continue
        if re.search(r"\b(?:on|yes)\b", value, re.IGNORECASE):
            yield key, value


def _of_qos(text: str, expect: Expectations | None) -> Iterator[Finding]:
    port = expect.fabric.port if expect and expect.fabric else None
    for match in _QOS.finditer(text):
        on = [int(number) for number, one in zip(match[1].split(), match[2].split(), strict=False) if one == "1"]
        trust = re.search(r"^Priority trust state: (\w+)", text, re.MULTILINE)
        if port is None:
            yield unheld(_CHECK, "port")
        elif sorted(port.lossless_priorities) != on:
            yield fault(_CHECK, "port", "PFC is on for other priorities than the class'", str(on))
        elif trust and trust[1] != "dscp":
            yield fault(_CHECK, "port", "priorities are not taken from DSCP", trust[1], "dscp")
        else:
            yield sound(_CHECK, "port", f"PFC on {on}")


def _of_gids(text: str, expect: Expectations | None) -> Iterator[Finding]:
    ports: dict[str, list[tuple[str, str]]] = {}
    for device, port, address, version in _GID.findall(text):
        ports.setdefault(f"{device} port {port}", []).append((address, version))
    if not ports:
        yield unread(_CHECK, "host", "no GID in the table")
    kind = expect.fabric.kind if expect and expect.fabric else None
    for name, gids in ports.items():
        if any(address and version == "v2" for address, version in gids):
            yield sound(_CHECK, name)
        elif any(version == "v2" for _, version in gids) or kind == "roce":
            yield fault(_CHECK, name, "no RoCE v2 GID with an IPv4 address: its interface has none, or is not there")
        elif kind == "infiniband":
            yield sound(_CHECK, name)
        else:
            yield unread(_CHECK, name, "no RoCE v2 GID: an InfiniBand port has none, a RoCE port is of no use without")


def _of_counters(text: str, _: Expectations | None) -> Iterator[Finding]:
    counts = _counts(text)
    failed = [f"{name} {counts[name]}" for name in (*_LOST, *_FAILED) if counts.get(name)]
    if failed:
        why = f"{', '.join(failed)}: loss on the way, but a total tells no rate; read it twice under load"
        yield unread(_CHECK, "RDMA port", why)
    elif any(name in counts for name in _LOST):
        yield sound(_CHECK, "RDMA port")
    else:
        yield unread(_CHECK, "RDMA port", "no counter of lost packets is shown")


def _of_statistics(text: str, _: Expectations | None) -> Iterator[Finding]:
    counts = _counts(text)
    broken = [f"{name} {count}" for name, count in counts.items() if count and _BROKEN.fullmatch(name)]
    errors = [
        f"{name} {count}"
        for name, count in counts.items()
        if count and _ERRORS.fullmatch(name) and not _HARMLESS.fullmatch(name)
    ]
    if broken:
        yield fault(_CHECK, "interface", ", ".join(broken))
    elif errors:
        yield watch(_CHECK, "interface", f"{', '.join(errors[:5])} since the driver began: does it grow?")
    elif any(_OF_THE_PORT.fullmatch(name) or _BROKEN.fullmatch(name) for name in counts):
        yield sound(_CHECK, "interface")
    else:
        yield unread(_CHECK, "interface", "no counter of errors is shown")


def _of_ip(text: str, _: Expectations | None) -> Iterator[Finding]:
    try:
        links = json.loads(text)
    except (ValueError, RecursionError) as exc:
        yield unread(_CHECK, "host", f"not JSON: {exc}")
        return
    for link in links if isinstance(links, list) else []:
        if not isinstance(link, dict) or not isinstance(link.get("ifname"), str):
            yield unread(_CHECK, "host", "an interface without a name")
            continue
        told = link.get("flags")
        flags = told if isinstance(told, list) else []
        if _slave(link).get("mii_status") == "DOWN":
            yield fault(_CHECK, link["ifname"], f"down in {link.get('master', 'its bond')}", "DOWN", "UP")
        elif "UP" in flags and "NO-CARRIER" in flags:
            yield fault(_CHECK, link["ifname"], "switched on, but no carrier", link.get("operstate"), "UP")
        elif link["ifname"] != "lo":
            yield unheld(_CHECK, link["ifname"])


def _slave(link: dict[str, Any]) -> dict[str, Any]:
    info = link.get("linkinfo")
    data = info.get("info_slave_data") if isinstance(info, dict) else None
    return data if isinstance(data, dict) else {}


def _counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in _COUNT.findall(text)}


def _number(value: str) -> float | None:
    match = _FIRST.match(value)
    return float(match[1]) if match else None

"""What infiniband-diags print, as people save it: ibnetdiscover, iblinkinfo in both forms, ibqueryerrors, perfquery.

Formats: the tools' manuals and sources (linux-rdma/rdma-core, infiniband-diags). Which port is cabled to which is the
plan's to say; a port without a peer is no fault here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.infiniband_tools import (
    LANE_GBPS,
    parse_ibnetdiscover,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.link_quality import COUNTER_ENDS, LIMITS
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import UnreadableError
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import (
    fault,
    sound,
    unheld,
    unread,
    watch,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.text_sections import sections

NAME = "infiniband-diags"
_CHECK = "infiniband"

_DISCOVERED = re.compile(
    r'^(?:# Topology file: generated on|vendid=0x|(?:Switch|Ca|Rt)\s+\d+ "[SHR]-[0-9a-f]{16}"'
    r"|(?:CA|SW|RT) +\d+ +\d+ 0x[0-9a-f]{16} \d+x \S+)",
    re.MULTILINE,
)
_LINK = re.compile(
    r"==\( *(?:(?P<width>\d+X|undefined[^)]*\)|\?+)? *(?P<speed>[\d.]+) Gbps[^A-Z]*(?:\(FDR10\))? *)?"
    r"(?P<state>Down|Init\w*|Armed|Active)/ *(?P<physical>[\w ]+?)\)"
)
_PORT = re.compile(r'^\s*(?:0x(?P<guid>[0-9a-f]+) (?:"\s*(?P<line>[^"]*?)\s*")?)?\s*\d+ +(?P<port>\d+)\[')
_NODE = re.compile(r"^(?:CA|Switch|Router): (?:0x[0-9a-f]+ )?(.*?):\s*$")
_PEER = re.compile(r'==> +(?:0x[0-9a-f]+ +)?\d+ +(\d+)\[[ \d]*\] "([^"]*)"')
_COULD_BE = re.compile(r"\( *(Could be [^)]*?) *\)")
_ERRORS = re.compile(
    r'^(?:Errors for (?:0x[0-9a-f]+ )?"|## Summary: \d+ nodes checked|\s*GUID 0x[0-9a-f]+ port (?:\d+|ALL): *\[)',
    re.MULTILINE,
)
_ERRORS_OF = re.compile(r'^Errors for (?:0x[0-9a-f]+ )?"(.*)"')
_ERRORS_PORT = re.compile(r"^\s*GUID 0x[0-9a-f]+ port (\d+|ALL):(.*)$")
_COUNT = re.compile(r"\[(\w+) == (\d+)")
_LINK_INFO = re.compile(r"^\s*Link info:.*\n?", re.MULTILINE)
_BAD_NODES = re.compile(r"^## Summary: (\d+) nodes checked, (\d+) bad nodes found", re.MULTILINE)
_HELD_BACK = re.compile(r"^## Thresholds: *(\S.*)$", re.MULTILINE)
_SILENT = re.compile(r"^## +(\d+) PMA query failures", re.MULTILINE)
_QUERIED = re.compile(
    r"^# Port\w*(?: extended)?(?: counters|ErrorDetails counters)?.*: Lid (\d+) port (\d+)", re.MULTILINE
)
_QUERY_HEAD = re.compile(r"^# (?:Port|Pma)\w*[ \w]*: Lid (\d+) port (\d+).*$", re.MULTILINE)
_VALUE = re.compile(r"^(\w+):\.+(\w+)\s*$", re.MULTILINE)
# perfquery's own short names, and the parts of PortRcvErrors, under the names of ibqueryerrors.
_CALLED = {
    "SymbolErrors": "SymbolErrorCounter",
    "LinkRecovers": "LinkErrorRecoveryCounter",
    "LinkDowned": "LinkDownedCounter",
    "RcvErrors": "PortRcvErrors",
    "RcvRemotePhysErrors": "PortRcvRemotePhysicalErrors",
    "LinkIntegrityErrors": "LocalLinkIntegrityErrors",
    "PortLocalPhysicalErrors": "PortRcvErrors",
    "PortMalformedPktErrors": "PortRcvErrors",
    "PortBufferOverrunErrors": "PortRcvErrors",
}
# Errors without a limit are congestion's or a peer's, not a cable's: to be looked at. These are none at all.
_NO_ERRORS = re.compile(
    r"\w*(?:Data|Pkts|Octets|Wait|Select2?|RelayErrors|Marking|Correct(?:able|ed)\w*)|Port(?:Uni|Multi)cast\w*|CapMask"
)
# A port in one of these trains or recovers; Polling is one without a peer, Disabled one that somebody switched off.
_TRAINING = ("PortConfigurationTraining", "LinkErrorRecovery", "PhyTest", "Phy Test")


def recognises(text: str) -> bool:
    """Return whether one of infiniband-diags printed this."""
    return any(mark.search(text) for mark in (_DISCOVERED, _LINK, _ERRORS, _QUERY_HEAD))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return faults of links and ports, and what of them says that nothing is wrong."""
    # Several may be saved in one. Lines of links are ibqueryerrors' own where it is asked to report ports.
    links = _LINK_INFO.sub("", text)
    found = _of_links(links, expect) if _LINK.search(links) else []
    found += _of_errors(text) if _ERRORS.search(text) else []
    found += _of_queries(text) if _QUERY_HEAD.search(text) else []
    return found or _of_topology(text, expect)


def _of_topology(text: str, expect: Expectations | None) -> list[Finding]:
    try:
        ports = parse_ibnetdiscover(text)
    except UnreadableError as exc:
        return [unread(_CHECK, "fabric", str(exc))]
    links = [port for port in ports if port.peer]
    if not links:
        return [fault(_CHECK, port.own.node, "its port sees no fabric: no link at all") for port in ports[:1]]
    found = []
    for port in links:
        width, name = port.width, f"{port.own.node} port {port.own.port}"
        if width == "1x":
            found.append(fault(_CHECK, name, "one lane only", f"{width} {port.speed}"))
        elif (wanted := _wanted(expect)) and port.own.kind == "CA" and width[:-1].isdigit():
            gbps = int(width[:-1]) * LANE_GBPS.get(port.speed, 0)
            if 0 < gbps < wanted:
                found.append(fault(_CHECK, name, "slower than the class' rails", f"{width} {port.speed}", wanted))
    return found or [unheld(_CHECK, "fabric")]


def _wanted(expect: Expectations | None) -> float | None:
    """Return the class' speed of a rail in Gb/s, where its rails are InfiniBand."""
    rails = expect.nic if expect and expect.fabric and expect.fabric.kind == "infiniband" else None
    return float(rails.speed_gbps) if rails else None


def _of_links(text: str, expect: Expectations | None) -> list[Finding]:
    found: list[Finding] = []
    node, seen, active = "a node", 0, 0
    wanted = _wanted(expect)
    for line in text.split("\n"):
        if head := _NODE.match(line):
            node = head[1].strip()
        if not (link := _LINK.search(line)):
            if "==(" in line:
                found.append(unread(_CHECK, node, f"a line is none of iblinkinfo's: {line.strip()[:80]}"))
            continue
        seen += 1
        port = _PORT.match(line)
        name = f"{(port['line'] if port else None) or node} port {port['port'] if port else '?'}"
        state, physical = link["state"], link["physical"].strip()
        active += state == "Active"
        shown = f"{state}/{physical} {link['width'] or ''} {link['speed'] or ''}".strip()
        peer = _PEER.search(line)
        if could := _COULD_BE.search(line):
            found.append(fault(_CHECK, name, f"below what both ends can: {could[1]}", shown))
        elif state in ("Initialize", "Init", "Armed"):
            found.append(fault(_CHECK, name, "linked, but no subnet manager made it active", shown, "Active/LinkUp"))
        elif physical in _TRAINING or (state == "Active" and physical != "LinkUp"):
            found.append(fault(_CHECK, name, f"the link does not come up: {physical}", shown, "Active/LinkUp"))
        elif state == "Down" and peer:
            found.append(fault(_CHECK, name, f"down, cabled to {peer[2]} port {peer[1]}", shown, "Active/LinkUp"))
        elif state == "Active" and link["width"] == "1X":
            found.append(fault(_CHECK, name, "one lane only", shown))
        elif wanted and state == "Active" and _host_end(line, node) and _gbps(link) < wanted:
            found.append(fault(_CHECK, name, "slower than the class' rails", shown, wanted))
    if not seen:
        return [*found, unread(_CHECK, "fabric", "no port is told")]
    if not active and not found:
        found.append(fault(_CHECK, "fabric", "no link is active", 0, "Active/LinkUp"))
    return found or [unheld(_CHECK, "fabric")]


def _host_end(line: str, node: str) -> bool:
    return not line.lstrip()[:2].isdigit() and "Aggregation Node" not in line and "Aggregation Node" not in node


def _gbps(link: re.Match[str]) -> float:
    lanes = int(link["width"][:-1]) if link["width"] and link["width"].endswith("X") else 0
    # What a lane carries of what it signals: 25 of 25.78125, 50 of 53.125.
    signalled = float(link["speed"] or 0)
    carried = max((rate for rate in LANE_GBPS.values() if rate <= signalled), default=0.0)
    return lanes * carried


def _over(counters: Mapping[str, int]) -> str:
    # What FEC could not mend is lost as what symbol errors spoil.
    left = LIMITS["SymbolErrorCounter"]
    limits = {**{name: left for name in counters if "Uncorrectable" in name}, **LIMITS}
    told = [(name, count, limits[name]) for name, count in counters.items() if name in limits]
    return ", ".join(
        f"{name} {'at least ' if count in COUNTER_ENDS else ''}{count} (limit {limit})"
        for name, count, limit in told
        if count > limit
    )


def _others(counters: Mapping[str, int]) -> str:
    """Return what was counted of errors that have no limit."""
    return ", ".join(
        f"{name} {count}"
        for name, count in counters.items()
        if count and name not in LIMITS and not _NO_ERRORS.fullmatch(name)
    )


def _of_errors(text: str) -> list[Finding]:
    found, node, strange = [], "a node", ""
    lines = [line for line in text.split("\n") if line.strip()]
    for at, line in enumerate(lines):
        if head := _ERRORS_OF.match(line):
            node = head[1]
        elif match := _ERRORS_PORT.match(line):
            # "ALL" adds up the lines that follow it, where they were not cut away.
            if match[1] == "ALL" and _ERRORS_PORT.match((lines[at + 1 :] or [""])[0]):
                continue
            counters = {name: int(count) for name, count in _COUNT.findall(match[2])}
            if over := _over(counters):
                found.append(fault(_CHECK, f"{node} port {match[1]}", f"errors since last cleared: {over}"))
            elif others := _others(counters):
                found.append(watch(_CHECK, f"{node} port {match[1]}", f"counted since last cleared: {others}"))
        elif line.strip() and not re.match(r"\s*(?:##|Link info:)", line):
            strange = strange or f"a line is none of ibqueryerrors': {line.strip()[:80]}"
    summary, held, silent = _BAD_NODES.search(text), _HELD_BACK.search(text), _SILENT.search(text)
    if summary is None:
        strange = strange or "cut short, its summary is missing"
    elif held:
        strange = strange or f"counts up to thresholds were held back: {held[1].strip()[:80]}"
    elif silent and int(silent[1]):
        strange = strange or f"{silent[1]} nodes did not answer"
    if strange:
        found.append(unread(_CHECK, "fabric", strange))
    return found or [sound(_CHECK, "fabric", "no counter over its limit")]


def _of_queries(text: str) -> list[Finding]:
    found = []
    for mark, body in sections(_QUERY_HEAD, text):
        name = f"lid {mark[1]} port {mark[2]}"
        told = {_CALLED.get(key, key): value for key, value in _VALUE.findall(body)}
        counters = {key: int(value) for key, value in told.items() if key in LIMITS and value.isdigit()}
        every = {key: int(value) for key, value in told.items() if value.isdigit()}
        owed = () if "Details" in mark[0] else LIMITS
        if over := _over(every):
            found.append(fault(_CHECK, name, f"errors since last cleared: {over}"))
        elif not counters or (missing := [key for key in owed if key not in counters]):
            why = f"not told: {', '.join(missing)}" if counters else "no counter of errors"
            found.append(unread(_CHECK, name, f"cut short, {why}"))
        elif any(counters.values()):
            said = ", ".join(f"{key} {count}" for key, count in counters.items() if count)
            found.append(watch(_CHECK, name, f"within the limits: {said}", said))
        elif others := _others(every):
            found.append(watch(_CHECK, name, f"counted since last cleared: {others}"))
        else:
            found.append(sound(_CHECK, name, "no errors"))
    return found

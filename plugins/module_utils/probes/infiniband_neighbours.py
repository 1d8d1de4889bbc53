"""``smpquery`` of each InfiniBand port: which switch and port is at the other end of its cable. Needs root.

A directed route of one hop asks the other end alone, and needs no subnet manager. Format: smpquery(8) of
infiniband-diags 44. A switch does not answer where its subnet manager protects what is read by an M_Key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..host.nvswitch_nics import managing_devices
from ..words.expectations import Expectations
from .lldp import Neighbour

NAME = "infiniband_neighbours"
# The tool was run on a simulated fabric only (tests/infiniband).
FORMAT_UNVERIFIED = True
# A silent port costs smpquery three tries of a second.
TIMEOUT_SECONDS = 10.0

# The ports of one card are devices of their own, each with a port 1.
_LINK_LAYERS = "/sys/class/infiniband/*/ports/1/link_layer"
# The path of one hop that leaves by port 1.
_OTHER_END = "0,1"
_QUESTIONS = ("nodedesc", "nodeinfo")
_FIELD = re.compile(r"(\w[\w ]*):\.*(.*)")
# "MF0;su1-leaf1:MQM9790/U1": what a managed switch calls itself; a chip of a director says /L01/U1 or /S01/U1.
_MANAGED = re.compile(r"MF0;([^:]+):[^/]*(?:/([LS]\d+))?/U\d+")


def collect(host: Host, expect: Expectations) -> Output:
    """Ask the other end of port 1 of every RDMA device, unless it is an Ethernet port or an NVSwitch is there."""
    replies = {}
    managing = managing_devices(host)
    for path in host.paths(_LINK_LAYERS):
        device = path.split("/")[4]
        if device in managing or host.read(path).stdout.strip() == "Ethernet":
            continue
        for question in _QUESTIONS:
            argv = ("smpquery", "-C", device, "-P", "1", "-D", question, _OTHER_END)
            replies[f"{device} {question}"] = host.run(argv, TIMEOUT_SECONDS)
    return blocks.listed(replies)


def parse(output: Output) -> dict[str, Neighbour]:
    """Return the switch at the other end by RDMA device; the port goes by its number.

    A device whose other end did not answer or is no switch is left out. Raises Unreadable where that is so of all.
    """
    require_success(output)
    if not blocks.is_listed(output.stdout) or not output.stdout.endswith("\n"):
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected a whole list of replies of smpquery")
    replies = blocks.split(output.stdout)
    found: dict[str, Neighbour] = {}
    unread: list[str] = []
    for device in dict.fromkeys(name.partition(" ")[0] for name in replies):
        try:
            found[device] = _neighbour(*(_fields(f"{device} {question}", replies) for question in _QUESTIONS))
        except Unreadable as exc:
            unread.append(str(exc))
    if unread and not found:
        raise Unreadable("; ".join(unread))
    return found


def switch_name(description: str) -> str:
    """Return a switch's name from its node description: ``leaf-1`` of ``MF0;leaf-1:MQM9700/U1``.

    A chip of a director switch has its board's name behind that of the switch. Any other description is the name.
    """
    match = _MANAGED.fullmatch(description)
    return description if match is None else "-".join(part for part in match.groups() if part)


def _fields(name: str, replies: Mapping[str, Output]) -> dict[str, str]:
    """Return the fields of a reply by name."""
    reply = replies.get(name, Output(rc=None, error="missing"))
    if reply.error or reply.rc != 0:
        raise Unreadable(f"{name}: {reply.error or f'exit status {reply.rc}: {reply.stderr or reply.stdout.strip()}'}")
    return {match[1]: match[2] for match in map(_FIELD.fullmatch, reply.stdout.splitlines()) if match}


def _neighbour(description: Mapping[str, str], information: Mapping[str, str]) -> Neighbour:
    kind, port = information.get("NodeType"), information.get("LocalPort", "")
    name = switch_name(description.get("Node Description", ""))
    if kind != "Switch" or not name or not re.fullmatch("[0-9]{1,3}", port):
        found = f"NodeType {kind!r}, Node Description {name!r}, LocalPort {port!r}"
        raise Unreadable(f"{found}, expected a switch with its name and the number of its port")
    return Neighbour(name, (port,))

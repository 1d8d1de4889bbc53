"""OpenSM: what the installed version knows, what it makes of a configuration, and what the running manager says.

OpenSM starts with whatever it can read: an unknown key, a value of the wrong kind and an unknown routing engine are
lines in a log, and the fabric is routed otherwise than declared. So a configuration is loaded by ``opensm -F FILE -c
DUMP``, which sets nothing up and writes down what was understood; that has to be what was meant.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..host.host import Host
from ..host.nvswitch_nics import managing_devices
from ..words.errors import MusterError
from .infiniband_rails import FULL_MEMBER

MASTER, STANDBY = "MASTER", "STANDBY"
# Not an engine: it keeps OpenSM from routing by minhop where the declared engines fail.
NO_FALLBACK = "no_fallback"


_DUMP_SECONDS = 30.0
_QUERY_SECONDS = 10.0
_ENGINES = re.compile(r"Supported engines:((?:[^\n]*,\s*\n)*[^\n]*)")
_SMINFO = re.compile(
    r"sm lid (\d+) sm guid (0x[0-9a-fA-F]+), activity count \d+ priority (\d+) state \d+ SMINFO_(\w+)$", re.MULTILINE
)
_RECORD = re.compile(r"^SMInfoRecord dump:$.*?^\s+LID\.+(\d+)$.*?^\s+SMState\.+\d+$", re.MULTILINE | re.DOTALL)
_LINK_STATE = re.compile(r"^LinkState:\.+(\w+)$", re.MULTILINE)
_PKEYS = re.compile(r"^ *\d+: ((?:0x[0-9a-fA-F]{4} ?)+)$", re.MULTILINE)
_PKEYS_END = re.compile(r"^(\d+) pkeys capacity for this port$", re.MULTILINE)


class OpensmError(MusterError):
    """OpenSM or a port of the host is not as it has to be; the text says what, found and expected."""


@dataclass(frozen=True)
class Dump:
    """A configuration as OpenSM writes it down: value by key, and the names of the routing engines it has."""

    values: Mapping[str, str]
    engines: frozenset[str]


@dataclass(frozen=True)
class Port:
    """An InfiniBand port of the host; ``guid`` is what OpenSM binds to, such as ``0x946dae0300112233``."""

    device: str
    number: str
    guid: str

    def __str__(self) -> str:
        return f"{self.device} port {self.number}"


@dataclass(frozen=True)
class Manager:
    """A subnet manager by its own answer; ``state`` is ``MASTER``, ``STANDBY``, ``DISCOVER`` or ``NOTACTIVE``."""

    lid: int
    guid: str
    priority: int
    state: str

    def __str__(self) -> str:
        return f"{self.guid} (LID {self.lid}, priority {self.priority}, {self.state})"


@dataclass(frozen=True)
class Answers:
    """What a host's manager, its port and the fabric say; None where there was no answer, or no whole one.

    ``leader`` is the manager whose LID the last sweep put into the port, ``managers`` are all that the leader knows
    of, each by its own answer.
    """

    own: Manager | None
    link_state: str | None
    pkeys: list[int] | None
    leader: Manager | None
    managers: list[Manager | None] | None


def parse_dump(text: str) -> Dump:
    """Return what ``opensm -c`` wrote; raises OpensmError where keys or engines are not to be found in it."""
    values = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key and not key.startswith("#"):
            values[key] = value.strip()
    match = _ENGINES.search(text)
    engines = frozenset(re.findall(r"[A-Za-z0-9][\w-]*", match.group(1))) if match else frozenset()
    if "routing_engine" not in values or not engines:
        raise OpensmError(f"opensm -c wrote {len(values)} keys and {len(engines)} routing engines, expected both")
    return Dump(values, engines)


def unknown(settings: Mapping[str, str], version: Dump) -> list[str]:
    """Return what the installed version lacks of the settings, as sentences; nothing where it has all of it."""
    found = [f"no key {key!r}" for key in sorted(settings) if key not in version.values]
    for engine in settings.get("routing_engine", "").split(","):
        if engine and engine != NO_FALLBACK and engine not in version.engines:
            found.append(f"no routing engine {engine!r}, expected one of {', '.join(sorted(version.engines))}")
    return found


def misread(settings: Mapping[str, str], loaded: Dump) -> list[str]:
    """Return the settings that OpenSM understood otherwise than they were meant."""
    return [
        f"{key} is {loaded.values.get(key)!r} to opensm, expected {value!r}"
        for key, value in sorted(settings.items())
        if not _same(loaded.values.get(key), value)
    ]


def _same(read: str | None, meant: str) -> bool:
    if read is None:
        return False
    try:
        return int(read, 0) == int(meant, 0)
    except ValueError:
        return read == meant


def render(settings: Mapping[str, str]) -> str:
    """Return the configuration file; what it does not say is OpenSM's default."""
    lines = ["# Written by Muster (subnet_manager); edits are lost."]
    return "\n".join([*lines, *(f"{key} {value}" for key, value in sorted(settings.items()))]) + "\n"


def prove(host: Host, program: str, settings: Mapping[str, str]) -> None:
    """Let the installed OpenSM load the settings without running; raises OpensmError unless it takes every one."""
    with tempfile.TemporaryDirectory(prefix="muster-opensm-") as name:
        # Without a file of its own it would load that of the running manager.
        version = _dump(host, program, "", Path(name))
        if lacks := unknown(settings, version):
            raise OpensmError(f"the installed {program} has {'; '.join(lacks)}")
        if wrong := misread(settings, _dump(host, program, render(settings), Path(name))):
            raise OpensmError(f"the installed {program} misreads its configuration: {'; '.join(wrong)}")


def _dump(host: Host, program: str, text: str, directory: Path) -> Dump:
    staged, dump = directory / "staged.conf", directory / "dump.conf"
    staged.write_text(text, encoding="utf-8")
    dump.unlink() if dump.exists() else None
    argv = [program, "-F", str(staged), "-c", str(dump)]
    answer = host.run(argv, _DUMP_SECONDS)
    if answer.rc != 0 or not dump.exists():
        said = answer.error or (answer.stderr or answer.stdout).strip()[-300:]
        raise OpensmError(f"{' '.join(argv)} gave {answer.rc}, expected 0 and a dump: {said}")
    return parse_dump(dump.read_text(encoding="utf-8", errors="replace"))


def infiniband_ports(host: Host) -> list[Port]:
    """Return the host's ports of an InfiniBand fabric; a port that manages NVSwitches is none, and has a manager.

    Source: sysfs; the GUID is the GID's lower half.
    """
    found = []
    managing = managing_devices(host)
    for path in host.paths("/sys/class/infiniband/*/ports/*/link_layer"):
        if path.split("/")[4] in managing or host.read(path).stdout.strip() != "InfiniBand":
            continue
        gid = host.read(path.replace("/link_layer", "/gids/0")).stdout.strip().replace(":", "")
        device, number = path.split("/")[4], path.split("/")[6]
        if not re.fullmatch(r"[0-9a-fA-F]{32}", gid) or int(gid[16:], 16) == 0:
            raise OpensmError(f"{device} port {number} has GID {gid!r}, expected one with the port's GUID")
        found.append(Port(device, number, f"0x{gid[16:].lower()}"))
    return found


def port_of(ports: Iterable[Port], device: str) -> Port:
    """Return the port to bind to: that of ``device``, or the only one where that is empty. Raises OpensmError."""
    ports = list(ports)
    named = [port for port in ports if device in ("", port.device)]
    if len(named) == 1:
        return named[0]
    there = ", ".join(map(str, ports)) or "none"
    wanted = f"one port of {device}" if device else "one, or the device to take"
    raise OpensmError(f"InfiniBand ports of this host: {there}; expected {wanted}")


def parse_sminfo(text: str) -> Manager | None:
    """Return the manager that ``sminfo`` tells of, None where it tells of none."""
    match = _SMINFO.search(text)
    return Manager(int(match.group(1)), match.group(2), int(match.group(3)), match.group(4)) if match else None


def parse_pkeys(text: str) -> list[int] | None:
    """Return a port's table of P_Keys in order, trailing empty places left out; None where it is not whole."""
    end = _PKEYS_END.search(text)
    table = [int(key, 16) for line in _PKEYS.findall(text) for key in line.split()]
    if not end or len(table) < int(end.group(1)):
        return None
    while table and not table[-1]:
        table.pop()
    return table


def parse_manager_lids(text: str) -> list[int] | None:
    """Return the LIDs of the managers in ``saquery SMIR``; None where there is none, or a record is not whole."""
    lids = [int(lid) for lid in _RECORD.findall(text)]
    return lids if lids and len(lids) == text.count("SMInfoRecord dump:") else None


def ask(host: Host, port: Port) -> Answers:
    """Ask the manager on the host's own port, the port, and every manager of the fabric. Changes nothing."""
    link = _LINK_STATE.search(_said(host, port, "smpquery", "-D", "portinfo", "0"))
    lids = parse_manager_lids(_said(host, port, "saquery", "SMIR"))
    return Answers(
        parse_sminfo(_said(host, port, "sminfo", "-D", "0")),
        link.group(1) if link else None,
        parse_pkeys(_said(host, port, "smpquery", "-D", "pkeys", "0")),
        parse_sminfo(_said(host, port, "sminfo")),
        None if lids is None else [parse_sminfo(_said(host, port, "sminfo", str(lid))) for lid in lids],
    )


def _said(host: Host, port: Port, tool: str, *words: str) -> str:
    """Return what a tool said over the port, nothing where it failed."""
    answer = host.run([tool, "-C", port.device, "-P", port.number, *words], _QUERY_SECONDS)
    return answer.stdout if answer.rc == 0 else ""


def not_ready(answers: Answers, priority: int, partitions: Iterable[int]) -> str:
    """Return what is lacking, as a sentence; empty where this manager leads or stands by, and exactly one leads."""
    manager, pkeys = answers.own, answers.pkeys
    if manager is None or manager.state not in (MASTER, STANDBY):
        return f"the subnet manager is {manager.state if manager else 'silent'}, expected {MASTER} or {STANDBY}"
    if manager.priority != priority:
        return f"the subnet manager has priority {manager.priority}, expected {priority}"
    if why := _led(manager, answers):
        return why
    if answers.link_state != "Active":
        return f"the port's link is {answers.link_state}, expected Active"
    if pkeys is None:
        return "the port's table of P_Keys could not be read"
    if absent := [f"{key:#06x}" for key in partitions if key | FULL_MEMBER not in pkeys]:
        return f"the port is no full member of {', '.join(absent)}; its table is {[f'{key:#06x}' for key in pkeys]}"
    return ""


def _led(own: Manager, answers: Answers) -> str:
    """Return why not one manager leads, as the ports were told: one may say that it leads, and not sweep."""
    leader, managers = answers.leader, answers.managers
    if leader is None or leader.state != MASTER:
        found = leader or "none that answers"
        return f"the subnet manager is {own.state}, and the port was given that of {found}, expected {MASTER}"
    if (own.state == MASTER) is not (own.guid == leader.guid):
        return f"the subnet manager is {own.state}, and the port was given that of {leader}"
    if own.state == STANDBY and leader.priority < own.priority:
        return f"the subnet manager stands by with priority {own.priority}, and {leader} leads"
    if managers is None or None in managers or own.guid not in [each.guid for each in managers if each]:
        return f"the managers that {leader} knows of did not all answer, this one among them"
    if len(leading := [each for each in managers if each and each.state == MASTER]) != 1:
        return f"{len(leading)} subnet managers lead, expected one: {', '.join(map(str, leading))}"
    return ""

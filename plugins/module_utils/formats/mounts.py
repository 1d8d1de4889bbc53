"""Mounts of storage tiers: what is mounted, how it differs from what is declared, and the units that mount it.

Formats: proc_pid_mountinfo(5), systemd.mount(5), systemd.unit(5) ("String escaping for inclusion in unit names"). What
the kernel shows of clients that are not Linux' own: VAST's in its fs/nfs/super.c (nfs_show_portgroup), BeeGFS' in
client_module/source/app/config/MountConfig.c, WEKA's in "Mount filesystems" of its documentation.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..host.host import Output, Unreadable
from ..words import expectations

MARK = "# Written by Muster (checkpoint_storage); edits are lost."
LOCAL, NFS, LUSTRE, WEKA, BEEGFS, EXISTING = "local", "nfs", "lustre", "weka", "beegfs", "existing"
# Options that the kernel shows as they were asked for; others a server may change (sizes), or only mount(8) reads.
_COMPARED = (
    *("vers", "proto", "nconnect", "port", "hard", "soft", "ro", "noatime"),
    *("spread_reads", "spread_writes"),
    *("readcache", "writecache", "forcedirect"),
    "cfgFile",
)
# Addresses that VAST's client takes for one mount (include/linux/sunrpc/clnt.h, RPC_MAX_PORTS).
PORTS_LIMIT = 2048
_PORTS = "remoteports="
_MANAGEMENT = "sysMgmtdHost="
# What has to run before a mount: WEKA's agent, whose helper mounts; BeeGFS 7's helper daemon, which BeeGFS 8 has not.
_DAEMONS = {WEKA: "weka-agent.service", BEEGFS: "beegfs-helperd.service"}
# WEKA's client joins its cluster at the first mount; 180 s are its documentation's example.
_TIMEOUT_SECONDS = {WEKA: 180}
_OPPOSITE = {"hard": "soft", "soft": "hard", "ro": "rw"}
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One mounted file system; ``device`` is its number as MAJOR:MINOR, ``options`` are the mount's and its own."""

    path: str
    filesystem: str
    source: str
    device: str
    options: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        """Whether the mount or the file system takes no writes."""
        return "ro" in self.options


def mounts_of(output: Output) -> list[Mount]:
    """Return what ``/proc/self/mountinfo`` lists; raises Unreadable."""
    if output.rc != 0:
        raise Unreadable(f"mountinfo: {output.error or 'not read'}")
    lines = output.stdout.splitlines()
    if not lines or not output.stdout.endswith("\n"):
        raise Unreadable("mountinfo is empty or cut off, expected whole lines")
    return [_mount(line) for line in lines]


def _mount(line: str) -> Mount:
    before, separator, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if not separator or len(fields) < 6 or len(rest) < 3:
        raise Unreadable(f"mountinfo: line {line[:80]!r}, expected ten fields and a separator")
    path, source = (_ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text) for text in (fields[4], rest[1]))
    return Mount(path, rest[0], source, fields[2], (*fields[5].split(","), *rest[2].split(",")))


def mounted_at(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Return what is mounted at a path, None where nothing is: the last one hides those before it."""
    found = [each for each in mounts if each.path == path]
    return found[-1] if found else None


def identity_difference(wanted: expectations.Mount, found: Mount) -> str:
    """Return how another file system is mounted than the declared one, "" where it is that one."""
    if found.filesystem != wanted.filesystem:
        return f"file system is {found.filesystem}, expected {wanted.filesystem}"
    # All mounts of BeeGFS have one source: whose file system it is says the management service.
    managed = _management(wanted.options)
    if wanted.kind == BEEGFS and _management(found.options) != managed:
        return f"management service is {_management(found.options) or 'not shown'}, expected {managed}"
    if wanted.source is None:
        return ""
    source, shown = str(wanted.source).rstrip("/"), found.source.rstrip("/")
    # By which of its servers WEKA is shown is the agent's affair.
    if wanted.kind == WEKA and shown.rpartition("/")[2] == source.rpartition("/")[2]:
        return ""
    return "" if shown == source else f"source is {found.source}, expected {wanted.source}"


def _management(options: Iterable[str]) -> str:
    return next((option[len(_MANAGEMENT) :] for option in options if option.startswith(_MANAGEMENT)), "")


def addresses_of(ports: str) -> frozenset[str]:
    """Return the addresses of a text such as ``10.0.0.1-10.0.0.8~10.0.1.1``, as VAST's client takes and shows them.

    Raises ValueError.
    """
    found: set[str] = set()
    for part in ports.split("~"):
        first, _, last = part.partition("-")
        low, high = ipaddress.ip_address(first), ipaddress.ip_address(last or first)
        if low.version != high.version or not 0 <= int(high) - int(low) < PORTS_LIMIT:
            raise ValueError(ports)
        kind = type(low)
        found |= {str(kind(number)) for number in range(int(low), int(high) + 1)}
    return frozenset(found)


def missing_ports(wanted: expectations.Mount, found: Mount) -> tuple[int, list[str]]:
    """Return how many addresses are declared for the connections of a mount, and those that it does not have."""
    declared = _ports_in(wanted.options)
    return len(declared), sorted(declared - _ports_in(found.options), key=lambda text: int(ipaddress.ip_address(text)))


def _ports_in(options: Iterable[str]) -> frozenset[str]:
    texts = [option[len(_PORTS) :] for option in options if option.startswith(_PORTS)]
    try:
        return addresses_of(texts[0]) if texts else frozenset()
    except ValueError:
        # A name for whatever DNS says: none of the declared ones is sure to be among them.
        return frozenset()


def difference(wanted: expectations.Mount, found: Mount, device: str = "") -> str:
    """Return how a mount differs from the declared one, its options too, "" where it does not.

    ``device`` is the number of the file system's own device, where the declaration names none.
    """
    if wrong := identity_difference(wanted, found):
        return wrong
    if device and found.device != device:
        return f"device is {found.device} ({found.source}), expected {device}"
    declared, missing = missing_ports(wanted, found)
    if missing:
        return f"remoteports lack {len(missing)} of {declared} addresses, {missing[0]} first"
    for option in wanted.options:
        name, _, value = option.partition("=")
        if name not in _COMPARED:
            continue
        shown = [each for each in found.options if each.partition("=")[0] == name]
        # Version 4 is what a server made of it: 4.1 or 4.2.
        if value and any(_same(name, value, each.partition("=")[2]) for each in shown):
            continue
        if value and not shown:
            # One connection and the usual port are not shown.
            if name == "nconnect" and value == "1":
                continue
            return f"option {name} is not there, expected {option}"
        if value:
            return f"option is {shown[0]}, expected {option}"
        if option not in found.options:
            other = _OPPOSITE.get(option)
            return f"option is {other if other in found.options else 'without ' + option}, expected {option}"
    return ""


def _same(name: str, wanted: str, shown: str) -> bool:
    return shown == wanted or (name == "vers" and shown.startswith(f"{wanted}."))


def array_name(mount: expectations.Mount) -> str:
    """Return the name of the array below a node's own file system."""
    return str(mount.tier) if mount.numa_node is None else f"{mount.tier}-numa{mount.numa_node}"


def unit_name(path: str) -> str:
    """Return the name of the unit that systemd has for a mount at ``path``."""
    escaped = "".join(
        "-" if character == "/" else character if re.fullmatch(r"[A-Za-z0-9:_.]", character) else _escaped(character)
        for character in path.strip("/")
    )
    return f"{_escaped('.') + escaped[1:] if escaped.startswith('.') else escaped}.mount"


def _escaped(character: str) -> str:
    return f"\\x{ord(character):02x}"


def mount_unit(wanted: expectations.Mount, source: str) -> str:
    """Return the unit of one mount. Nothing waits for it but what says so itself: a lost disk must not stop a boot."""
    daemon = _DAEMONS.get(wanted.kind)
    # systemd does not know these file systems as ones of the network.
    options = ",".join(["nofail", *(["_netdev"] if daemon else []), *wanted.options])
    # A daemon that is not installed keeps nothing from being mounted.
    order = f"Wants={daemon}\nAfter={daemon}\n" if daemon else ""
    return (
        f"{MARK}\n[Unit]\nDescription=Storage tier {wanted.tier}\n{order}\n"
        f"[Mount]\nWhat={source}\nWhere={wanted.path}\nType={wanted.filesystem.replace('nfs4', 'nfs')}\n"
        f"Options={options}\nTimeoutSec={_TIMEOUT_SECONDS.get(wanted.kind, 90)}\n"
    )


def drop_in(units: Sequence[str]) -> str:
    """Return the drop-in that has a service wait for the mounts, and start without those that do not come."""
    return f"{MARK}\n[Unit]\nWants={' '.join(units)}\nAfter={' '.join(units)}\n"


def keeper_unit(units: Sequence[str]) -> str:
    """Return the service that mounts at boot, and goes on trying until a server that was away is back."""
    return (
        f"{MARK}\n[Unit]\nDescription=Mounts of the storage tiers\nWants=network-online.target\n"
        "After=network-online.target\n\n"
        # With its arguments quoted: systemd would take the backslash of an escaped name for one of its own.
        f"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/systemctl start "
        f"{' '.join(unit.replace(chr(92), chr(92) * 2) for unit in units)}\n"
        "Restart=on-failure\nRestartSec=30\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def lustre_unit(parameters: Mapping[str, Any], units: Sequence[str]) -> str:
    """Return the service that sets Lustre's client after every mount: what it is told is forgotten at unmount."""
    settings = " ".join(f"{name}={value}" for name, value in parameters.items())
    return (
        f"{MARK}\n[Unit]\nDescription=Settings of the Lustre client\nAfter={' '.join(units)}\n"
        f"PartOf={' '.join(units)}\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
        f"ExecStart=/usr/sbin/lctl set_param {settings}\n\n[Install]\nWantedBy={' '.join(units)}\n"
    )


def modprobe_file(parameters: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file that gives kernel modules their parameters when they are loaded."""
    lines = [
        f"options {module} {' '.join(f'{name}={value}' for name, value in values.items())}"
        for module, values in parameters.items()
        if values
    ]
    return "\n".join([MARK, *lines, ""])

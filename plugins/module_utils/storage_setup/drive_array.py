"""RAID0 and XFS over NVMe drives: what is on the drives now, and what has to be done or must not be touched.

Formats and names: mdadm(8) (``--examine --export``), wipefs(8) (``--json``), Linux' ``/sys/block/*/{holders,md}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..formats.mounts import mounts_of
from ..formats.nvme import Drive, DrivesWanted, assigned
from ..host.host import Host, Output, Unreadable
from ..probes import nvme_sysfs
from ..words.errors import MusterError

LEVEL = "raid0"
PREFIX = "muster-"
FILE_SYSTEM = "xfs"
_MEMBER = "linux_raid_member"
_SECONDS = 60.0
# It discards the whole of every drive first.
_FORMAT_SECONDS = 900.0


class ArrayError(MusterError):
    """Drives that are not as declared, or hold what must not be lost: says which, what was found and expected."""


@dataclass(frozen=True)
class Member:
    """What a drive says of the array that it belongs to."""

    uuid: str
    name: str
    level: str
    devices: int


@dataclass(frozen=True)
class Disk:
    """One drive: its block device, what is on it (signatures, partitions), who uses it, and where it is mounted."""

    device: str
    who: str
    contents: tuple[str, ...] = ()
    member: Member | None = None
    holders: tuple[str, ...] = ()
    mounted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What has to be done to the drives. ``device`` is the array's where it runs, "" where it is yet to come."""

    erase: tuple[Disk, ...] = ()
    stop: tuple[str, ...] = ()
    create: bool = False
    assemble: str = ""
    device: str = ""

    @property
    def changes(self) -> bool:
        """Whether anything has to be done."""
        return bool(self.erase or self.stop or self.create or self.assemble)


# --- parse -------------------------------------------------------------------------------------------------------


def parse_signatures(output: Output, device: str) -> tuple[str, ...]:
    """Return the types of what ``wipefs --json`` found, each once; raises ArrayError."""
    if output.rc != 0:
        raise ArrayError(f"{device}: wipefs: {output.error or output.stderr.strip() or f'exit status {output.rc}'}")
    if not output.stdout.strip():
        return ()
    try:
        found = [str(item["type"]) for item in json.loads(output.stdout)["signatures"]]
    except (ValueError, KeyError, TypeError) as exc:
        raise ArrayError(f"{device}: wipefs printed {output.stdout[:60]!r}, expected signatures as JSON") from exc
    return tuple(dict.fromkeys(found))


def parse_member(output: Output, device: str) -> Member:
    """Return what ``mdadm --examine --export`` says of a member; raises ArrayError."""
    fields = dict(line.split("=", 1) for line in output.stdout.splitlines() if "=" in line)
    try:
        # A name may stand behind that of the host that made the array.
        name = fields.get("MD_NAME", "").rpartition(":")[2]
        return Member(fields["MD_UUID"], name, fields["MD_LEVEL"], int(fields["MD_DEVICES"]))
    except (KeyError, ValueError) as exc:
        said = output.error or output.stderr.strip() or output.stdout[:60]
        raise ArrayError(f"{device}: mdadm --examine said {said!r}, expected MD_UUID, MD_LEVEL and MD_DEVICES") from exc


# --- decide ------------------------------------------------------------------------------------------------------


def plan(name: str, disks: Sequence[Disk], erase: bool) -> Plan:
    """Return what makes the array ``name`` of exactly these drives.

    An array of that name over all of them is kept. Raises ArrayError where anything else is on one of them, unless
    ``erase`` allows to lose it, and in any case where it is in use.
    """
    own = {disk.member.uuid for disk in disks if disk.member and _is_ours(disk.member, name, len(disks))}
    if len(own) == 1 and all(disk.member and disk.member.uuid in own for disk in disks):
        holders = {disk.holders for disk in disks}
        if len(holders) != 1:
            used = ", ".join(f"{disk.who} by {', '.join(disk.holders) or 'nobody'}" for disk in disks)
            raise ArrayError(f"array {name}: its drives are used differently ({used}), expected all by one array")
        (users,) = holders
        if len(users) > 1:
            raise ArrayError(f"array {name}: its drives are used by {', '.join(users)}, expected one array")
        return Plan(device=f"/dev/{users[0]}") if users else Plan(assemble=own.pop())
    busy = [disk for disk in disks if disk.contents or disk.holders or disk.mounted]
    if not busy:
        return Plan(create=True)
    mounted = [f"{disk.who} at {', '.join(disk.mounted)}" for disk in disks if disk.mounted]
    if mounted:
        raise ArrayError(f"array {name}: mounted: {'; '.join(mounted)}; expected drives that nobody uses")
    if not erase:
        found = "; ".join(f"{disk.who} holds {_held(disk)}" for disk in busy)
        blank = len(disks) - len(busy)
        beside = f" ({blank} of {len(disks)} drives blank)" if blank else ""
        raise ArrayError(
            f"array {name}: {found}{beside}; expected blank drives: nothing was changed, and "
            "checkpoint_storage_erase: true would lose what is there"
        )
    users = tuple(sorted({holder for disk in disks for holder in disk.holders}))
    foreign = [holder for holder in users if not holder.startswith("md")]
    if foreign:
        raise ArrayError(f"array {name}: used by {', '.join(foreign)}; expected drives that nobody uses")
    return Plan(erase=tuple(busy), stop=users, create=True)


def _is_ours(member: Member, name: str, devices: int) -> bool:
    return (member.name, member.level, member.devices) == (PREFIX + name, LEVEL, devices)


def _held(disk: Disk) -> str:
    member = disk.member
    array = f"of array {member.name or member.uuid} with {member.devices} drives" if member else ""
    what = [f"{each} {array}" if each == _MEMBER and array else each for each in disk.contents]
    return ", ".join([*what, *(f"what {holder} uses" for holder in disk.holders)])


def must_format(name: str, signatures: Sequence[str], erase: bool) -> bool:
    """Return whether the array needs a file system. Raises ArrayError where it holds another one that must stay."""
    if tuple(signatures) == (FILE_SYSTEM,):
        return False
    if signatures and not erase:
        raise ArrayError(
            f"array {name}: holds {', '.join(signatures)}, expected {FILE_SYSTEM} or nothing: nothing was changed, "
            "and checkpoint_storage_erase: true would lose what is there"
        )
    return True


def chosen(drives: Sequence[Drive], wanted: DrivesWanted, numa_nodes: Mapping[str, int]) -> list[Drive]:
    """Return the drives of one array: those of the class, or of one of its NUMA nodes. Raises ArrayError.

    ``numa_nodes`` says by controller where each lies.
    """
    found = assigned(drives, wanted)
    if len(found) != wanted.count:
        there = ", ".join(f"{drive.address} ({drive.model})" for drive in drives) or "none"
        declared = ", ".join(wanted.addresses or ()) or wanted.model or "any model"
        raise ArrayError(f"{len(found)} of {wanted.count} NVMe drives found; there: {there}; expected: {declared}")
    node = wanted.numa_node
    taken = [drive for drive in found.values() if node is None or numa_nodes.get(drive.controller) == node]
    if not taken:
        raise ArrayError(f"no NVMe drive on NUMA node {node}, expected at least one: leave out per_numa_node")
    for drive in taken:
        if drive.namespace is None:
            raise ArrayError(f"{drive.controller} at {drive.address} has no namespace, expected one")
    return taken


# --- run ---------------------------------------------------------------------------------------------------------


def disks_of(host: Host, wanted: DrivesWanted) -> list[Disk]:
    """Return the drives of one array with all that is on them. Raises ArrayError."""
    try:
        drives = nvme_sysfs.parse(nvme_sysfs.collect(host))
    except Unreadable as exc:
        raise ArrayError(f"NVMe drives: {exc}; expected {wanted.count} drives") from exc
    nodes = {drive.controller: _numa_node(host, drive.controller) for drive in drives}
    mounted = {each.device: each.path for each in mounts_of(host.read("/proc/self/mountinfo"))}
    return [_disk(host, drive, mounted) for drive in chosen(drives, wanted, nodes)]


def _numa_node(host: Host, controller: str) -> int:
    text = host.read(f"/sys/class/nvme/{controller}/device/numa_node").stdout.strip()
    return int(text) if text.isascii() and text.isdigit() else -1


def _disk(host: Host, drive: Drive, mounted: Mapping[str, str]) -> Disk:
    name = str(drive.namespace)
    device = f"/dev/{name}"
    signatures = signatures_of(host, device)
    partitions = [path.split("/")[-2] for path in host.paths(f"/sys/class/block/{name}/{name}p*/partition")]
    holders = sorted(path.split("/")[-1] for path in host.paths(f"/sys/class/block/{name}/holders/*"))
    numbers = {each: host.read(f"/sys/class/block/{each}/dev").stdout.strip() for each in (name, *partitions, *holders)}
    member = None
    if _MEMBER in signatures:
        member = parse_member(host.run(("mdadm", "--examine", "--export", device), _SECONDS), device)
    return Disk(
        device,
        f"{name} at {drive.address} (serial {drive.serial or 'unread'})",
        (*signatures, *(f"partition {each}" for each in partitions)),
        member,
        tuple(holders),
        tuple(mounted[number] for number in numbers.values() if number in mounted),
    )


def signatures_of(host: Host, device: str) -> tuple[str, ...]:
    """Return the types of the signatures on a block device. Raises ArrayError."""
    return parse_signatures(host.run(("wipefs", "--json", "--no-act", device), _SECONDS), device)


def must(host: Host, *argv: str, seconds: float = _SECONDS) -> str:
    """Run a tool that has to work, and return what it printed. Raises ArrayError."""
    output = host.run(argv, seconds)
    if output.rc != 0:
        raise ArrayError(f"{' '.join(argv)}: {output.error or output.stderr.strip() or f'exit status {output.rc}'}")
    return output.stdout


def carry_out(host: Host, name: str, disks: Sequence[Disk], steps: Plan) -> str:
    """Do what the plan says and return the array's device. Raises ArrayError."""
    for holder in steps.stop:
        must(host, "mdadm", "--stop", f"/dev/{holder}")
    for disk in steps.erase:
        partitions = [f"/dev/{each.split()[-1]}" for each in disk.contents if each.startswith("partition ")]
        must(host, "wipefs", "--all", "--force", *partitions, disk.device)
    link, devices = f"/dev/md/{PREFIX}{name}", [disk.device for disk in disks]
    if steps.create:
        command = ["mdadm", "--create", link, "--run", f"--level={LEVEL}", f"--raid-devices={len(devices)}"]
        # Of any host: one that is named anew still finds its array. One drive is an array only by force.
        command += [f"--name={PREFIX}{name}", "--homehost=any", "--metadata=1.2"]
        must(host, *command, *(["--force"] if len(devices) == 1 else []), *devices)
    elif steps.assemble:
        must(host, "mdadm", "--assemble", link, f"--uuid={steps.assemble}", *devices)
    must(host, "udevadm", "settle", "--timeout=30")
    users = {
        path.split("/")[-1]
        for device in devices
        for path in host.paths(f"/sys/class/block/{device.split('/')[-1]}/holders/*")
    }
    if len(users) != 1:
        raise ArrayError(f"array {name}: its drives are used by {', '.join(sorted(users)) or 'nobody'}, expected one")
    return f"/dev/{users.pop()}"


def make_file_system(host: Host, device: str) -> None:
    """Make the file system of an array, over whatever was there. Raises ArrayError."""
    must(host, "mkfs.xfs", "-q", "-f", device, seconds=_FORMAT_SECONDS)
    must(host, "udevadm", "settle", "--timeout=30")


def uuid_of(host: Host, device: str) -> str:
    """Return the UUID of the file system on a device. Raises ArrayError."""
    uuid = must(host, "blkid", "--probe", "--match-tag=UUID", "--output=value", device).strip()
    if not uuid:
        raise ArrayError(f"{device}: no UUID of a file system")
    return uuid

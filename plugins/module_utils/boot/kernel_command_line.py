"""The kernel's command line at the boot loader: a drop-in of grub's, whether the kernel has it yet, and reboots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..host.host import Host, Unreadable
from ..host.kernel_parameters import PLAIN, missing
from ..probes import boot_loader, cmdline
from ..words.errors import MusterError

DROP_IN = "/etc/default/grub.d/90-muster.cfg"
UPDATE = "update-grub"
# Who declares the parameters: Muster by a drop-in of grub's, or a person by grubby, where each kernel's entry is a file
# of its own (Boot Loader Specification) that an upgrade of the kernel copies.
GRUB, GRUBBY = "grub", "grubby"
# Of the last reboot that was made; a thing for which there was one already has to be cleared in another way.
RECORD = "/var/lib/muster/reboot.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# It looks for other systems on every disk.
UPDATE_SECONDS = 600.0


class BootError(MusterError):
    """A boot loader that cannot be read or set."""


@dataclass(frozen=True)
class Reboot:
    """A reboot that was asked for: the boot that it was to end, and what waited for it."""

    boot_id: str
    pending: tuple[str, ...]

    def to_json(self) -> str:
        """Return the text of the record."""
        return json.dumps(asdict(self), indent=1) + "\n"


def drop_in_text(parameters: Sequence[str]) -> str:
    """Return the drop-in, which grub's scripts source; raises BootError for what a shell would not take as it is."""
    if odd := [word for word in parameters if not PLAIN.fullmatch(word)]:
        raise BootError(f"found {odd[0]!r}, expected a parameter of letters, digits and _.,:=@/+-")
    words = " ".join(parameters)
    # The other variable of this kind is left out of the entry for recovery.
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"\n' if words else ""
    return f"# Written by Muster (boot); edits are lost.\n{line}"


def loaded_later(host: Host, parameters: Sequence[str]) -> list[str]:
    """Return the parameters that some kernel of the boot loader's would be started without; raises BootError."""
    try:
        kernels = boot_loader.parse(boot_loader.collect(host))
    except Unreadable as exc:
        raise BootError(str(exc)) from exc
    return [word for word in parameters if any(missing([word], words) for words in kernels)]


def waiting(host: Host, parameters: Sequence[str]) -> list[str]:
    """Return the parameters that the kernel that runs was started without; raises BootError."""
    output = host.read(cmdline.PATH)
    try:
        if output.rc != 0:
            raise Unreadable(output.error)
        return missing(parameters, cmdline.parse(output))
    except Unreadable as exc:
        raise BootError(str(exc)) from exc


def by_grubby(lacking: Sequence[str]) -> str:
    """Return what is lacking, and the command that declares it."""
    words = " ".join(lacking)
    return (
        f'the kernel was started without {words}: run grubby --update-kernel=ALL --args="{words}" on the host and '
        "reboot it; the entries of its boot loader are not Muster's"
    )


def update(host: Host) -> None:
    """Let grub write its configuration; raises BootError."""
    output = host.run([UPDATE], UPDATE_SECONDS)
    if output.rc != 0:
        raise BootError(f"{UPDATE}: {output.error or output.stderr.strip()[-300:] or f'exit status {output.rc}'}")


def boot_id(host: Host) -> str:
    """Return the id of this boot; raises BootError."""
    output = host.read(BOOT_ID)
    if output.rc != 0 or not output.stdout.strip():
        raise BootError(output.error or f"{BOOT_ID} is empty")
    return output.stdout.strip()


def last_reboot(host: Host) -> Reboot | None:
    """Return the last reboot that was asked for, None where there was none; raises BootError."""
    if not host.paths(RECORD):
        return None
    output = host.read(RECORD)
    try:
        data = json.loads(output.stdout)
        return Reboot(str(data["boot_id"]), tuple(map(str, data["pending"])))
    except (ValueError, KeyError, TypeError) as exc:
        raise BootError(f"{RECORD}: found {output.stdout[:60]!r}, expected boot_id and pending: remove it") from exc


def uncleared(pending: Sequence[str], last: Reboot | None, boot: str) -> list[str]:
    """Return what still waits although the last reboot, which came before this boot, was for it."""
    return [what for what in pending if last and last.boot_id != boot and what in last.pending]

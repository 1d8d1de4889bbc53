"""Bringing a host's storage tiers to what is declared: units, mounts, kernel modules' parameters, stripes."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..formats.mounts import (
    EXISTING,
    LOCAL,
    LUSTRE,
    MARK,
    Mount,
    array_name,
    difference,
    drop_in,
    keeper_unit,
    lustre_unit,
    missing_ports,
    modprobe_file,
    mount_unit,
    mounted_at,
    mounts_of,
    unit_name,
)
from ..host.host import LocalHost
from ..host.own_directory import fault_of
from ..host.systemd import Systemd, SystemdError
from ..host.whole_files import replace_file
from ..words import expectations

UNITS = "/etc/systemd/system"
KEEPER = "muster-storage.service"
SETTINGS = "muster-lustre.service"
MODPROBE = "/etc/modprobe.d/muster-storage.conf"
# Configuration of clients, and the secrets beside it, which a module for secrets writes.
CLIENTS, SECRETS = "/etc/beegfs/muster-*.conf", "/etc/beegfs/muster-*.auth"
# As VAST's documentation tells its client from Linux' own ("Detecting running version").
SUNRPC, VAST = "/sys/module/sunrpc", "/sys/module/sunrpc/parameters/nfs_bundle_version"
# Who runs stage storage.
USER = "muster"
_LOOK_SECONDS = 20.0
# A unit's own time limit is 180 s at most.
_SECONDS = 210.0


@dataclass(frozen=True)
class Wish:
    """What a host is to have.

    ``uuids`` are those of its own file systems, None where one is yet to come; ``client_files`` are texts by path.
    """

    mounts: Sequence[expectations.Mount]
    uuids: Mapping[str, str]
    services: Sequence[str]
    kernel_modules: Mapping[str, Mapping[str, Any]]
    lustre_parameters: Mapping[str, Any]
    mode: str
    allow_remount: bool
    test_directory: str
    client_files: Mapping[str, str]


@dataclass
class Outcome:
    """What was done, what waits for an operator, and what is wrong; texts as they are shown."""

    changes: list[str] = field(default_factory=list)
    differences: list[dict[str, str]] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def files_of(wish: Wish) -> dict[str, str]:
    """Return the files by path; none where nothing is declared."""
    if not wish.mounts:
        return {}
    made = [each for each in wish.mounts if each.kind != EXISTING]
    names = [unit_name(each.path) for each in made]
    files = {
        f"{UNITS}/{name}": mount_unit(each, _source(each, wish.uuids))
        for name, each in zip(names, made)
        if _source(each, wish.uuids)
    }
    if names:
        files[f"{UNITS}/{KEEPER}"] = keeper_unit(names)
    lustre = [unit_name(each.path) for each in made if each.kind == LUSTRE]
    if lustre and wish.lustre_parameters:
        files[f"{UNITS}/{SETTINGS}"] = lustre_unit(wish.lustre_parameters, lustre)
    for service in wish.services:
        path = f"{UNITS}/{service}.d/50-muster-storage.conf"
        files[path] = drop_in([unit_name(each.path) for each in wish.mounts])
    if any(wish.kernel_modules.values()):
        files[MODPROBE] = modprobe_file(wish.kernel_modules)
    return {**files, **wish.client_files}


def _source(mount: expectations.Mount, uuids: Mapping[str, str]) -> str:
    """Return what is mounted, "" where its UUID is not known yet."""
    if mount.kind != LOCAL:
        return str(mount.source)
    uuid = uuids.get(array_name(mount))
    return f"/dev/disk/by-uuid/{uuid}" if uuid else ""


class Applier:
    """One run on one host; ``check`` only says what would be done."""

    def __init__(self, host: LocalHost, wish: Wish, check: bool) -> None:
        self.host, self.wish, self.check = host, wish, check
        self.outcome = Outcome()
        self.systemd = Systemd(host, _SECONDS)
        self.written: list[str] = []

    def run(self) -> Outcome:
        """Do what is missing and return what that was."""
        wanted = files_of(self.wish)
        stale = [path for path in self._ours() if path not in wanted]
        for path in stale:
            self._leave(path)
        self._leave_secrets(wanted)
        self.written = written = [path for path in sorted(wanted) if self._write(path, wanted[path])]
        if any(path.startswith(UNITS) for path in (*written, *stale)):
            self._systemctl("daemon-reload")
        self._enable(wanted)
        self._set_modules()
        for mount in self.wish.mounts:
            self._apply_mount(mount)
        if f"{UNITS}/{SETTINGS}" in wanted:
            self._set_lustre(f"{UNITS}/{SETTINGS}" in written)
        for mount in self.wish.mounts:
            if self.wish.test_directory and mount.path == str(Path(self.wish.test_directory).parent):
                self._claim(mount)
        return self.outcome

    # --- files ---

    def _place(self, path: str) -> Path:
        return Path(self.host.root, path.lstrip("/"))

    def _ours(self) -> list[str]:
        patterns = (f"{UNITS}/*.mount", f"{UNITS}/muster-*.service", f"{UNITS}/*.service.d/50-muster-storage.conf")
        paths = self.host.paths(*patterns, MODPROBE, CLIENTS)
        return [path for path in paths if self.host.read(path).stdout.startswith(MARK)]

    def _leave_secrets(self, wanted: Mapping[str, str]) -> None:
        """Remove secrets that no declared client reads any more, without reading them."""
        for path in self.host.paths(SECRETS):
            if not any(path in text for text in wanted.values()):
                self._changed(path, "", "")
                if not self.check:
                    self._place(path).unlink()

    def _write(self, path: str, text: str) -> bool:
        before = self.host.read(path)
        if before.rc == 0 and before.stdout == text:
            return False
        self._changed(path, before.stdout, text)
        if not self.check:
            replace_file(self._place(path), text, 0o644)
        return True

    def _leave(self, path: str) -> None:
        """Take back a file of an earlier declaration; what is mounted stays until it may be unmounted."""
        unit = path.rpartition("/")[2]
        self._changed(path, self.host.read(path).stdout, "")
        if unit.endswith(".service"):
            self._systemctl("disable", unit)
        if unit.endswith(".mount"):
            if self.wish.allow_remount:
                self._systemctl("stop", unit)
            elif any(unit_name(each.path) == unit for each in self._mounts()):
                self.outcome.pending.append(f"{unit} is declared no more and stays mounted until the next boot")
        if not self.check:
            self._place(path).unlink()

    def _changed(self, what: str, before: str, after: str) -> None:
        self.outcome.changes.append(what)
        self.outcome.differences.append({"before_header": what, "before": before, "after_header": what, "after": after})

    # --- systemd ---

    def _systemctl(self, *words: str) -> bool:
        if self.check:
            return True
        try:
            self.systemd.do(*words)
        except SystemdError as exc:
            self.outcome.problems.append(str(exc))
            return False
        return True

    def _enable(self, wanted: Mapping[str, str]) -> None:
        for unit in (KEEPER, SETTINGS):
            if f"{UNITS}/{unit}" in wanted and not self.host.paths(f"{UNITS}/*.wants/{unit}"):
                self._changed(f"{unit} enabled", "", "")
                self._systemctl("enable", unit)

    # --- kernel modules ---

    def _set_modules(self) -> None:
        """Give loaded modules their parameters; those that are not loaded yet read the file."""
        for module, values in (self.wish.kernel_modules if self.wish.mounts else {}).items():
            for name, value in values.items():
                path = f"/sys/module/{module}/parameters/{name}"
                now = self.host.read(path)
                if now.rc != 0 or now.stdout.strip() == str(value):
                    continue
                try:
                    if not os.access(self._place(path), os.W_OK) or not self._place(path).stat().st_mode & 0o200:
                        what = f"{module}.{name} is {now.stdout.strip()}, {value} from the next boot"
                        self.outcome.pending.append(what)
                        continue
                    self._changed(path, now.stdout, f"{value}\n")
                    if not self.check:
                        self._place(path).write_text(str(value), encoding="ascii")
                except OSError as exc:
                    self.outcome.problems.append(f"{module}.{name}: {exc.strerror}, expected it to take {value}")

    def _set_lustre(self, changed: bool) -> None:
        if changed or not self.systemd.is_active(SETTINGS):
            if not changed:
                self._changed(f"{SETTINGS} started", "", "")
            self._systemctl("restart", SETTINGS)

    # --- mounts ---

    def _mounts(self) -> list[Mount]:
        return mounts_of(self.host.read("/proc/self/mountinfo"))

    def _state(self, mount: expectations.Mount) -> tuple[Mount | None, str]:
        found = mounted_at(mount.path, self._mounts())
        if found is None:
            return None, f"nothing is mounted at {mount.path}, expected {mount.filesystem}"
        return found, difference(mount, found, self._device(mount))

    def _device(self, mount: expectations.Mount) -> str:
        source = _source(mount, self.wish.uuids) if mount.kind == LOCAL else ""
        link = self._place(source)
        name = Path(os.readlink(link)).name if source and link.is_symlink() else ""  # noqa: PTH115 -- text
        return self.host.read(f"/sys/class/block/{name}/dev").stdout.strip() if name else ""

    def _apply_mount(self, mount: expectations.Mount) -> None:
        """Mount what is not, as it is declared, and hold the result against the declaration."""
        name, unit = f"tier {mount.tier}", unit_name(mount.path)
        found, why = self._state(mount)
        if found is not None and not why:
            why = self._outdated(mount)
        if mount.kind == EXISTING:
            if why:
                self.outcome.problems.append(f"{name}: {why}; it is mounted by somebody else")
            return
        if found is None and (fault := self._wrong_client(mount)):
            self.outcome.problems.append(f"{name}: {fault}")
            return
        if found is None:
            self._changed(f"{mount.path} mounted", "", "")
            if self.check or not self._systemctl("start", unit):
                return
        elif why and not self.wish.allow_remount:
            self.outcome.pending.append(f"{name}: {why}: from the next boot, or with checkpoint_storage_allow_remount")
            return
        elif why:
            self._changed(f"{mount.path} mounted again ({why})", "", "")
            if self.check or not (self._systemctl("stop", unit) and self._systemctl("start", unit)):
                return
        found, why = self._state(mount)
        if why:
            self.outcome.problems.append(f"{name}: {why}")
        elif mount.kind == LOCAL and self.wish.mode:
            self._set_mode(mount.path)
        elif mount.kind == LUSTRE:
            self._set_stripe(mount)

    def _outdated(self, mount: expectations.Mount) -> str:
        """Return which file has changed that a client reads when it mounts, "" where none has."""
        changed = [path for path in self.written if f"cfgFile={path}" in mount.options]
        return f"{changed[0]} has changed" if changed else ""

    def _wrong_client(self, mount: expectations.Mount) -> str:
        """Return why the NFS client that is loaded cannot mount this, "" where it can or none is loaded yet."""
        declared, _ = missing_ports(mount, Mount("", "", "", "", ()))
        if not declared or not self.host.paths(SUNRPC) or self.host.read(VAST).rc == 0:
            return ""
        return "Linux' own NFS client is loaded, which knows no remoteports: reboot after VAST's client is installed"

    def _claim(self, mount: expectations.Mount) -> None:
        """Make the directory of stage storage as its user, for whom root is nobody on many servers.

        One of somebody else stops no node here: any user could stop them all. The stage refuses it.
        """
        if mounted_at(mount.path, self._mounts()) is None:
            return
        path = self.wish.test_directory
        why = self._claimed(path, str(self._place(path)))
        if why:
            self.outcome.pending.append(f"tier {mount.tier}: {why}")

    def _claimed(self, path: str, place: str) -> str:
        """Make the directory if it is missing, and return why it is not its user's, "" if it is."""
        # By tools, which can be given up: a server that is gone never lets go of who asks it.
        look = ("stat", "--format=%u %f", place)
        found = self.host.run(look, _LOOK_SECONDS)
        if found.rc == 1:
            if self.check:
                self._changed(path, "", f"directory of {USER}\n")
                return ""
            made = self.host.run(("runuser", "-u", USER, "--", "mkdir", "--mode=0700", place), _LOOK_SECONDS)
            # Another node may have been first.
            found = self.host.run(look, _LOOK_SECONDS)
            if found.rc != 0:
                return f"{path}: {made.error or made.stderr.strip()}"
            if made.rc == 0:
                self._changed(path, "", f"directory of {USER}\n")
        if found.rc != 0:
            return f"{path}: {found.error or found.stderr.strip()}"
        uid, mode = found.stdout.split()
        try:
            return fault_of(path, int(uid), int(mode, 16), pwd.getpwnam(USER).pw_uid)
        except KeyError:
            return f"{path}: this host has no user {USER}"

    def _set_mode(self, path: str) -> None:
        place, mode = self._place(path), int(self.wish.mode, 8)
        now = place.stat().st_mode & 0o7777
        if now != mode:
            self._changed(path, f"mode {now:04o}\n", f"mode {mode:04o}\n")
            if not self.check:
                place.chmod(mode)

    def _set_stripe(self, mount: expectations.Mount) -> None:
        path, count = mount.path, str(mount.stripe_count)
        now = self.host.run(("lfs", "getstripe", "--directory", "--stripe-count", path), _SECONDS)
        if now.rc != 0:
            why = now.error or now.stderr.strip()
            self.outcome.problems.append(f"tier {mount.tier}: lfs getstripe {path}: {why}")
        elif now.stdout.strip() != count:
            self._changed(path, f"stripe count {now.stdout.strip()}\n", f"stripe count {count}\n")
            if not self.check:
                done = self.host.run(("lfs", "setstripe", "--stripe-count", count, path), _SECONDS)
                if done.rc != 0:
                    why = done.error or done.stderr.strip()
                    self.outcome.problems.append(f"tier {mount.tier}: lfs setstripe {path}: {why}")

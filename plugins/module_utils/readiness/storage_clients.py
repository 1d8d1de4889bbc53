"""Can the declared storage tiers be mounted: is each client there or to come, can it be built, is its secret given?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..host.host import Host, Unreadable

# The helpers of mount(8) that the clients bring: mount.lustre(8), "weka mount" of WEKA's documentation, and BeeGFS'
# client_module/build/dist/sbin/mount.beegfs. That one came with version 8; version 7 is known by its configuration.
_HELPERS = {"lustre": "mount.lustre", "weka": "mount.wekafs", "beegfs": "mount.beegfs"}
_BESIDE = {"beegfs": ("/etc/beegfs/beegfs-client.conf",)}
# Packages that build kernel modules on the host, and those that bring what it is built from, by Debian's and Red Hat's
# names. beegfs-client builds its module when its service starts, without DKMS.
_BUILT = ("*-dkms", "beegfs-client")
_HEADERS = ("linux-headers-*", "kernel-devel*")
_RELEASE = "/proc/sys/kernel/osrelease"


def built_packages(tiers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the clients' packages that build kernel modules on the host."""
    return [name for name in _packages(tiers) if _is_one(name, _BUILT)]


def lacks(
    here: Host, tiers: Sequence[Mapping[str, Any]], secrets: Collection[str], others: Collection[str]
) -> list[str]:
    """Return what is missing to mount the tiers; raises Unreadable.

    ``tiers`` are the fleet's as plain data, ``secrets`` the names of those that a secret is given for, ``others`` the
    packages that are installed before the clients'.
    """
    wrong = []
    for tier in tiers:
        name, helper = tier["name"], _HELPERS.get(tier["kind"])
        places = (f"/usr/sbin/{helper}", f"/sbin/{helper}", *_BESIDE.get(tier["kind"], ()))
        if helper and not tier.get("client") and not here.paths(*places):
            wrong.append(f"tier {name}: {helper} is not there, expected client.packages that bring it")
        if tier["kind"] == "beegfs" and tier.get("authentication") and name not in secrets:
            way = "or authentication: false, with which every host of the network is a client"
            wrong.append(
                f"checkpoint_storage_secrets: nothing for tier {name}, expected its connAuthFile in base64 {way}"
            )
    built = built_packages(tiers)
    if built and not any(_is_one(package, _HEADERS) for package in (*_packages(tiers), *others)):
        release = here.read(_RELEASE)
        if release.rc != 0:
            raise Unreadable(release.error or f"{_RELEASE} could not be read")
        place = f"/lib/modules/{release.stdout.strip()}/build"
        if not here.paths(place):
            headers = f"the headers of the running kernel ({place}), or a package of them in client.packages"
            wrong.append(f"{', '.join(built)}: built on the host, expected {headers}")
    return wrong


def _packages(tiers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for tier in tiers:
        for package in (tier.get("client") or {}).get("packages", ()):
            yield package.partition("=")[0]


def _is_one(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

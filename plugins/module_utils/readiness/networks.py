"""Do other network files take the rails' interfaces from Muster's? networkd applies the first file that matches.

The order and the matches: systemd.network(5), systemd 252. Files of all directories are sorted by name together; of
files of one name the one in /etc counts, then /run. netplan writes ``/run/systemd/network/10-netplan-NAME.network``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..host.host import Host, Unreadable
from ..host.rail_names import read_names
from ..words.expectations import Expectations, Rail, stated

DIRECTORIES = tuple(f"{place}/systemd/network" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib"))
NETPLAN = ("/etc/netplan/*.yaml", "/run/netplan/*.yaml", "/usr/lib/netplan/*.yaml")
# The files of roles roce and infiniband (plugin_utils/fabric).
OWN = {"roce": "50-muster-{}.network", "infiniband": "51-muster-ib-{}.network"}
_OURS = re.compile(r"(50-muster|41-muster-ib|51-muster-ib)-.*\.network", re.ASCII)
_ADDRESSES = ("MACAddress", "PermanentMACAddress")
# Of wireless interfaces alone.
_WIRELESS = ("WLANInterfaceType", "SSID", "BSSID")
# Linux, include/uapi/linux/if_arp.h.
_TYPES = {"1": "ether", "32": "infiniband"}


@dataclass(frozen=True)
class Link:
    """A rail's interface, and what a file may match it by; what could not be read is None."""

    rail: Rail
    name: str
    mac: str | None
    facts: Mapping[str, str | None]


def lacks(host: Host, here: Host, expect: Expectations, rails: Collection[int]) -> list[str]:
    """Return the files that come first; raises Unreadable.

    ``rails`` are the numbers of those whose network is networkd's to set up, as declared. ``here`` is the host itself,
    under no other root. A rail that has no interface yet is the rails' roles to name.
    """
    if not rails:
        return []
    links = list(_links(host, expect, rails))
    own = OWN[stated(expect.fabric).kind]
    wrong = []
    for name, path in sorted(_files(here).items()):
        if _OURS.fullmatch(name):
            continue
        taken = [link for link in links if name < own.format(link.rail.name)]
        taken = [link for link in taken if matches(_read(here, path), link)] if taken else []
        if taken:
            which = ", ".join(f"{link.name} ({link.rail.name})" for link in taken)
            wrong.append(
                f"networkd: {path} comes before {own.format(taken[0].rail.name)} and takes {which}: "
                f"{_way(here, name, taken)}"
            )
    return wrong


def matches(text: str, link: Link) -> bool:
    """Return whether networkd may apply a file of this text to the link.

    What is not told by sysfs (a condition on the kernel, a udev property) counts as met. A file without a match is
    ignored by networkd.
    """
    section = _match_section(text)
    for key, words in section.items():
        if key in _ADDRESSES:
            if link.mac is not None and link.mac not in map(_hexadecimal, words):
                return False
        elif key in _WIRELESS or (key in link.facts and not _globs(words, link.facts[key])):
            return False
    return bool(section)


def _globs(words: Sequence[str], value: str | None) -> bool:
    """Return whether a list of globs takes the value; those after a ``!`` are what it must not be."""
    if value is None:
        return True
    if any(fnmatchcase(value, word[1:]) for word in words if word.startswith("!")):
        return False
    positive = [word for word in words if not word.startswith("!")]
    return not positive or any(fnmatchcase(value, word) for word in positive)


def _match_section(text: str) -> dict[str, list[str]]:
    """Return the keys of [Match], each with its words; ``!`` before a list stands before each of its words."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in map(str.strip, text.replace("\\\n", " ").splitlines()):
        if line.startswith(("#", ";")):
            continue
        if line.startswith("["):
            section = line
        elif section == "[Match]" and "=" in line:
            key, _, value = (part.strip() for part in line.partition("="))
            mark = "!" if value.startswith("!") else ""
            words = [mark + word.strip("\"'") for word in value[len(mark) :].split()]
            # An empty value takes back what was given before.
            found[key] = found.get(key, []) + words if words else []
    return {key: words for key, words in found.items() if words}


def _links(host: Host, expect: Expectations, rails: Collection[int]) -> Iterator[Link]:
    names = read_names(host)
    for rail in stated(expect.nic).rails:
        for name in names.interfaces.get(rail.address, ()) if rail.rail in rails else ():
            place = f"/sys/class/net/{name}"
            driver = re.search(r"^DRIVER=(.+)$", host.read(f"{place}/device/uevent").stdout, re.MULTILINE)
            mac = host.read(f"{place}/address")
            facts = {
                "Name": name,
                "Path": f"pci-{rail.address}",
                "Driver": driver.group(1) if driver else None,
                "Type": _TYPES.get(host.read(f"{place}/type").stdout.strip()),
                # Only interfaces in software have one.
                "Kind": "",
            }
            yield Link(rail, name, _hexadecimal(mac.stdout) if mac.rc == 0 else None, facts)


def _hexadecimal(address: str) -> str:
    return re.sub("[^0-9a-f]", "", address.lower())


def _files(here: Host) -> dict[str, str]:
    """Return the path that counts of each file, by its name."""
    files: dict[str, str] = {}
    for directory in DIRECTORIES:
        for path in here.paths(f"{directory}/*.network"):
            files.setdefault(path.rpartition("/")[2], path)
    return files


def _read(here: Host, path: str) -> str:
    output = here.read(path)
    if output.rc != 0:
        raise Unreadable(output.error or f"{path} could not be read")
    return output.stdout


def _way(here: Host, name: str, links: Sequence[Link]) -> str:
    if not name.startswith("10-netplan-"):
        return "remove it, or have its [Match] leave them out"
    texts = {path: here.read(path).stdout for path in here.paths(*NETPLAN)}
    words = [link.name for link in links]
    plans = [path for path, text in texts.items() if any(word in text for word in words)] or sorted(texts)
    return f"take them out of {', '.join(plans) or 'netplan'}, and run netplan apply"

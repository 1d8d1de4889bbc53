"""How links are named to nodes: a network interface by its name, a rail by a word from which each looks it up.

What a host calls a rail's device and interface is its own affair; ``rail0=0000:18:00.0`` says which is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

from ..host.host import Host
from ..host.rail_names import read_names
from ..words.expectations import Rail

GLOO_SOCKETS = "GLOO_SOCKET_IFNAME"


def link_word(rail: Rail) -> str:
    """Return the word for a rail: ``rail0=0000:18:00.0``."""
    return f"{rail.name}={rail.address}"


def link_words(names: Iterable[str], rails: Iterable[Rail]) -> list[str]:
    """Return the words for what is declared by name: interfaces as they are, and rails (``rail0``)."""
    words = {rail.name: link_word(rail) for rail in rails}
    return [words.get(name, name) for name in names]


def link_name(word: str) -> str:
    """Return under which name a node tells of the link: ``rail0``, or the interface."""
    return word.partition("=")[0]


def interface_of(word: str, host: Host) -> str:
    """Return the network interface that is meant on this host, the word itself where that is not one."""
    address = word.partition("=")[2]
    found = read_names(host).interfaces.get(address, ()) if address else ()
    return found[0] if len(found) == 1 else word


def name_sockets(environment: MutableMapping[str, str], host: Host) -> None:
    """Put what this host calls them in the place of words in the variable that tells Gloo its interfaces."""
    if words := environment.get(GLOO_SOCKETS):
        environment[GLOO_SOCKETS] = ",".join(interface_of(word, host) for word in words.split(","))

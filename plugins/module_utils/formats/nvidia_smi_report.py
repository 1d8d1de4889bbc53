"""What ``nvidia-smi -q`` prints, as text or as XML, read into one tree.

Text (``-q``, ``-q -d ECC,POWER``) nests by indentation, and a line with a value may have lines below it (``HW
Slowdown`` holds ``HW Thermal Slowdown``, ``Process ID`` the process' name). XML (``-q -x``) nests by element. Both
become nodes whose names are written alike: small letters, ``_`` between words.

Format: NVIDIA's nvsmi_device DTD, versions 10 to 12, and the text of drivers 450 to 590.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

from ..host.host import Unreadable

# What stands in the fields of a GPU that the driver does not reach any more, and of one that works again once reset.
LOST, RESET = "gpu is lost", "gpu requires reset"
# And of one whose board has lost the store of its own identity and history.
INFOROM_FIELD = "corrupted inforom"
# What a driver prints for a field that it does not have, or could not read. Not every word that NVML has for an error
# is one: the fabric's status is such an error (Insufficient Resources), and tells something.
_UNKNOWN = (
    *("", "n/a", "err!", "unknown error", "not supported", "not available", "no data", LOST, RESET),
    *("insufficient permissions", "function not found", INFOROM_FIELD),
    "requested functionality has been deprecated",
)
# What stands where a product or a driver has no such sensor; any other text in the place of a number is an error.
_NOT_THERE = (
    *("", "n/a", "not supported", "not available", "requested functionality has been deprecated"),
    *("insufficient permissions", "function not found"),
)
# Below them stand names that users give.
_PROCESSES = ("processes", "accounted_processes")
# A user's process may have characters in its name that XML has no place for: nvidia-smi 535 to 580 prints them.
_PROCESS = re.compile("<process_name>[^<]*</process_name>")
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HEADING = "NVSMI LOG"
_GPU = re.compile(r"GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")


@dataclass
class Node:
    """One line or element: its name, the text beside it (None for a heading), and what is nested in it."""

    name: str
    text: str | None = None
    children: list[Node] = field(default_factory=list)

    def all(self, path: str) -> Iterator[Node]:
        """Yield every node at ``path`` (names joined by "/")."""
        name, _, rest = path.partition("/")
        for child in self.children:
            if child.name == name:
                yield from child.all(rest) if rest else (child,)

    def value(self, *paths: str) -> str | None:
        """Return the text at the first of the paths that has one.

        None when no path has one, when the driver says that it could not be read, and when one path gives two different
        texts: then a heading between them got lost, and nobody knows which is meant.
        """
        for path in paths:
            texts = {known(node.text) for node in self.all(path)} - {None}
            if texts:
                return texts.pop() if len(texts) == 1 else None
        return None

    def error(self, *paths: str) -> str | None:
        """Return what the driver says instead of a number at the first of the paths that it has, None for none.

        That a product has no such sensor (``N/A``) is no error: ``Unknown Error``, ``ERR!`` and ``GPU is lost`` are.
        """
        texts = [node.text for path in paths for node in self.all(path) if _bare(node.text) not in _NOT_THERE]
        first = (texts[0] or "").strip() if texts else ""
        return first if first and not re.match(r"-?[0-9]", first) else None

    def number(self, unit: str, *paths: str) -> float | None:
        """Return the number at the first of the paths that has one; None unless it stands with just this unit."""
        match = re.fullmatch(r"(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(.*)", self.value(*paths) or "")
        return float(match.group(1)) if match and match.group(2) == unit else None

    def count(self, *paths: str, unit: str = "") -> int | None:
        """Return the whole number of at least 0 at the first of the paths that has one."""
        # 20.000 may be twenty thousand, written as in another country.
        match = re.fullmatch(r"([0-9]{1,15})\s*(.*)", self.value(*paths) or "")
        return int(match.group(1)) if match and match.group(2) == unit else None

    def says(self, words: str) -> bool:
        """Return whether a value in it, at any depth, is just these words (in small letters)."""
        nodes = [self]
        while nodes:
            node = nodes.pop()
            if _bare(node.text) == words:
                return True
            nodes += [child for child in node.children if child.name not in _PROCESSES]
        return False

    def flag(self, yes: str, no: str, *paths: str) -> bool | None:
        """Return whether the text is ``yes``; None when it is neither that nor ``no``."""
        return {yes.lower(): True, no.lower(): False}.get((self.value(*paths) or "").lower())


def known(text: str | None) -> str | None:
    """Return the text of a field, None for what stands there when the driver does not know."""
    return None if _bare(text) in _UNKNOWN else (text or "").strip()


def _bare(text: str | None) -> str:
    return (text or "").strip().strip("[]").lower()


def read(text: str) -> tuple[Node, list[Node]]:
    """Return what the report says of the host, and its GPUs (each with the PCI address as its text).

    Raises Unreadable when the text is no such report.
    """
    if text.lstrip().startswith("<"):
        return _from_xml(text)
    return _from_text(text)


def _named(name: str) -> str:
    # "SRAM Uncorrectable SEC-DED" is sram_uncorrectable_secded in the XML.
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"[.-]", "", name.lower())).strip("_")


def _from_xml(text: str) -> tuple[Node, list[Node]]:
    try:
        root = ElementTree.fromstring(_PROCESS.sub(lambda name: _NO_XML.sub("\ufffd", name.group()), text))
        host = _element(root)
    except (ElementTree.ParseError, ValueError, RecursionError) as exc:
        raise Unreadable(f"not XML: {exc}; begins with {text[:60]!r}") from exc
    if root.tag != "nvidia_smi_log":
        raise Unreadable(f"XML root is {root.tag!r}, expected 'nvidia_smi_log'")
    gpus = []
    for element in root.findall("gpu"):
        gpu = _element(element)
        gpu.text = element.get("id") or element.findtext("pci/pci_bus_id") or ""
        gpus.append(gpu)
    host.children = [node for node in host.children if node.name != "gpu"]
    return host, gpus


def _element(element: ElementTree.Element) -> Node:
    text = (element.text or "").strip()
    children = [_element(child) for child in element]
    return Node(_named(element.tag), None if children and not text else text, children)


def _from_text(text: str) -> tuple[Node, list[Node]]:
    # A line without its end was cut off, and with it perhaps the end of its number.
    lines = text.expandtabs(4).replace("\r", "").split("\n")[:-1]
    host, gpus = Node("host"), []
    open_nodes: list[tuple[int, Node]] = [(-1, host)]
    for line in lines:
        found = _GPU.fullmatch(line.strip()) if line[:1] == "G" else None
        if found:
            gpus.append(Node("gpu", found.group(1)))
            open_nodes = [(-1, gpus[-1])]
            continue
        told = line.lstrip(" ")
        if not told or told[0].isspace() or _HEADING in line:
            continue
        name, colon, beside = told.partition(" :")
        indent, name = len(line) - len(told), name.rstrip(" ")
        value = (beside[1:] if beside[:1] == " " else beside) if colon else None
        while open_nodes[-1][0] >= indent:
            open_nodes.pop()
        node = Node(_named(name), value)
        open_nodes[-1][1].children.append(node)
        open_nodes.append((indent, node))
    if not gpus and host.value("attached_gpus") is None:
        raise Unreadable(f"neither XML nor the text of nvidia-smi -q; begins with {text[:60]!r}")
    return host, gpus

"""``nvidia-smi -q -x``: the GPUs the driver can talk to.

Format: NVIDIA's nvsmi_device DTD, versions 11 and 12 (drivers 515 to 590). Fields a driver does not know read ``N/A``,
fields it could not read ``ERR!`` or ``Unknown Error``: both become None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from ..examine import Unreadable
from ..expectations import pci_address
from ..host import Host, Output

NAME = "nvidia_smi"
ARGV = ("nvidia-smi", "-q", "-x")
# Without the persistence daemon the driver initialises every GPU first: tens of seconds on eight of them.
TIMEOUT_SECONDS = 60.0

_UNKNOWN = (
    "",
    "n/a",
    "[n/a]",
    "err!",
    "unknown error",
    "[unknown error]",
    "gpu requires reset",
    "[gpu requires reset]",
)
# "Unable to determine the device handle for GPU0000:91:00.0: GPU is lost.  Reboot the system to recover this GPU"
# Older drivers put a blank before the address, newer ones the index: "GPU1: 0000:34:00.0: Unknown Error".
_LOST = re.compile(r"Unable to determine the device handle for (?:GPU|gpu) ?(?:\d{1,2}: )?([0-9a-fA-F:.]+?):? ")


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi describes it; a field it does not give is None."""

    address: str
    model: str | None
    memory_mib: int | None
    serial: str | None
    uuid: str | None
    vbios: str | None
    module_id: str | None


@dataclass(frozen=True)
class Gpus:
    """All GPUs of the host; ``lost`` are addresses the driver knows and cannot reach. With one lost, nothing is said of
    the GPUs that are not listed."""

    driver: str | None
    gpus: tuple[Gpu, ...]
    lost: tuple[str, ...] = ()


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Gpus:
    """Return the GPUs; raises Unreadable when the text does not describe all of them."""
    lost = _lost(output.stdout + "\n" + output.stderr)
    if lost:
        return Gpus(driver=None, gpus=(), lost=lost)
    if output.rc != 0:
        text = (output.stderr or output.stdout).strip().splitlines()
        raise Unreadable(f"exit status {output.rc}: {text[0][:200] if text else 'no message'}")
    root = _tree(output.stdout)
    gpus = tuple(_gpu(node) for node in root.findall("gpu"))
    attached = root.findtext("attached_gpus", "").strip()
    if attached != str(len(gpus)):
        raise Unreadable(f"says {attached or 'nothing'} of attached GPUs and describes {len(gpus)}, expected the same")
    addresses = [gpu.address for gpu in gpus]
    if len(set(addresses)) != len(addresses):
        raise Unreadable("describes one PCI address twice")
    return Gpus(driver=_known(root.findtext("driver_version")), gpus=gpus)


def _lost(text: str) -> tuple[str, ...]:
    found = (pci_address(match.group(1).rstrip(":")) for match in _LOST.finditer(text))
    return tuple(sorted({address for address in found if address}))


def _tree(text: str) -> ElementTree.Element:
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as exc:
        raise Unreadable(f"not XML: {exc}; begins with {text[:60]!r}") from exc
    if root.tag != "nvidia_smi_log":
        raise Unreadable(f"XML root is {root.tag!r}, expected 'nvidia_smi_log'")
    return root


def _gpu(node: ElementTree.Element) -> Gpu:
    address = pci_address(node.get("id") or node.findtext("pci/pci_bus_id") or "")
    if address is None:
        raise Unreadable(f"a GPU has the PCI address {node.get('id')!r}, expected a form such as 00000000:1B:00.0")
    memory = re.fullmatch(r"(\d+) MiB", (node.findtext("fb_memory_usage/total") or "").strip())
    return Gpu(
        address=address,
        model=_known(node.findtext("product_name")),
        memory_mib=int(memory.group(1)) if memory else None,
        serial=_known(node.findtext("serial")),
        uuid=_known(node.findtext("uuid")),
        vbios=_known(node.findtext("vbios_version")),
        # Drivers before 550 call it gpu_module_id.
        module_id=_known(node.findtext("platformInfo/module_id")) or _known(node.findtext("gpu_module_id")),
    )


def _known(text: str | None) -> str | None:
    value = (text or "").strip()
    return None if value.lower() in _UNKNOWN else value

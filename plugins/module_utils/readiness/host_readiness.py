"""All that a host lacks for what its class and its fleet declare, asked before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..host.host import Host, Unreadable
from ..words.expectations import Expectations
from . import governor, networks, perftest_to_come, places, rdma_software, registers, signed_modules
from .rdma_software import RdmaSoftware


@dataclass(frozen=True)
class Declared:
    """What the fleet declares for a host beside its class.

    ``rails`` are the numbers of those that networkd sets up, ``tools`` the names of ``gpu_stack_tools``. ``shipped``
    has the PCI addresses under ``gpus`` and ``rails`` of each class that comes with Muster and has them.
    """

    rails: Sequence[int]
    tools: Sequence[str]
    rdma: RdmaSoftware
    shipped: Mapping[str, Mapping[str, Sequence[str]]]


def lacking(host: Host, here: Host, expect: Expectations, declared: Declared) -> list[str]:
    """Return everything that the host lacks, in the order of the questions; what cannot be read is lacking too.

    Nothing is changed. ``host`` reads under the class' ``tools.root``, ``here`` is the host itself: its kernel and
    its network files.
    """
    doca = expect.fabric is not None and declared.rdma.doca
    questions: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("places", lambda: places.lacks(host, expect, declared.shipped)),
        ("rdma", lambda: rdma_software.lacks(here, expect, declared.rdma)),
        ("Secure Boot", lambda: signed_modules.lacks(host, here, expect, doca)),
        ("pcie", lambda: registers.lacks(host, expect)),
        ("cpu.governor", lambda: governor.lacks(host, expect)),
        ("networkd", lambda: networks.lacks(host, here, expect, declared.rails)),
        ("perftest", lambda: perftest_to_come.lacks(host, expect, declared.tools, doca)),
    )
    found = []
    for name, question in questions:
        try:
            found += question()
        except Unreadable as exc:
            found.append(f"{name}: {exc}")
    return found

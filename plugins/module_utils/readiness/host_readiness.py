"""All that a host lacks for what its class and its fleet declare, asked before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..host.host import Host, Unreadable
from ..words.expectations import Expectations
from . import (
    governor,
    networks,
    perftest_to_come,
    places,
    pytorch_to_come,
    rdma_software,
    registers,
    signed_modules,
    storage_clients,
)
from .rdma_software import RdmaSoftware


@dataclass(frozen=True)
class Declared:
    """What the fleet declares for a host beside its class.

    ``rails`` are the numbers of those that networkd sets up, ``tools`` the names of ``gpu_stack_tools``. ``shipped``
    has the PCI addresses under ``gpus`` and ``rails`` of each class that comes with Muster and has them. ``tiers`` are
    the storage tiers as plain data, ``secrets`` the names of those that a secret is given for. ``pytorch`` is
    ``gpu_stack_pytorch``.
    """

    rails: Sequence[int]
    tools: Sequence[str]
    rdma: RdmaSoftware
    shipped: Mapping[str, Mapping[str, Sequence[str]]]
    tiers: Sequence[Mapping[str, Any]] = ()
    secrets: Sequence[str] = ()
    pytorch: Mapping[str, Any] = field(default_factory=dict)


def lacking(host: Host, here: Host, expect: Expectations, declared: Declared) -> list[str]:
    """Return everything that the host lacks, in the order of the questions; what cannot be read is lacking too.

    Nothing is changed. ``host`` reads under the class' ``tools.root``, ``here`` is the host itself: its kernel and
    its network files.
    """
    doca = expect.fabric is not None and declared.rdma.doca
    clients = storage_clients.built_packages(declared.tiers)
    before = [package.name for package in expect.gpu_stack.packages] if expect.gpu_stack else []
    questions: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("places", lambda: places.lacks(host, expect, declared.shipped)),
        ("rdma", lambda: rdma_software.lacks(here, expect, declared.rdma)),
        ("Secure Boot", lambda: signed_modules.lacks(host, here, expect, doca, clients)),
        ("pcie", lambda: registers.lacks(host, expect)),
        ("cpu.governor", lambda: governor.lacks(host, expect)),
        ("networkd", lambda: networks.lacks(host, here, expect, declared.rails)),
        ("perftest", lambda: perftest_to_come.lacks(host, expect, declared.tools, doca)),
        ("pytorch", lambda: pytorch_to_come.lacks(here, expect, declared.pytorch)),
        ("storage", lambda: storage_clients.lacks(here, declared.tiers, declared.secrets, before)),
    )
    found = []
    for name, question in questions:
        try:
            found += question()
        except Unreadable as exc:
            found.append(f"{name}: {exc}")
    return found

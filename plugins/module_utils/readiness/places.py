"""Does the host have GPUs and NICs where its class has them?

One that is missing is burn-in's to name. Where none is at its place and others are elsewhere, the class is another
machine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..host.host import Host
from ..host.pci_functions import DISPLAY, MELLANOX, NETWORK, NVIDIA, functions
from ..words.expectations import Expectations


def lacks(host: Host, expect: Expectations, shipped: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    """Return that the class does not fit, and which shipped one does.

    ``shipped`` has the PCI addresses under ``gpus`` and ``rails`` of each class that comes with Muster and has them.
    """
    gpus, nics = functions(host, NVIDIA, DISPLAY), functions(host, MELLANOX, NETWORK)
    wanted_gpus = [part.address for part in expect.gpu.parts] if expect.gpu else []
    wanted_rails = [rail.address for rail in expect.nic.rails] if expect.nic else []
    wrong = []
    if gpus and wanted_gpus and not gpus.intersection(wanted_gpus):
        wrong.append(f"GPUs at {_listed(gpus)}, expected at {_listed(wanted_gpus)}")
    # Of any vendor: rails need not be NVIDIA's.
    if nics and wanted_rails and not functions(host, "", NETWORK).intersection(wanted_rails):
        wrong.append(f"NICs at {_listed(nics)}, expected rails at {_listed(wanted_rails)}")
    if not wrong:
        return []
    fitting = [
        name
        for name, places in sorted(shipped.items())
        if gpus == set(places["gpus"]) and nics.issuperset(places["rails"])
    ]
    way = (
        f"class {' or '.join(fitting)} has these places" if fitting else "declare gpu.parts and nic.rails of this host"
    )
    return [f"class {expect.class_} does not fit: found {'; '.join(wrong)}; {way}"]


def _listed(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses))

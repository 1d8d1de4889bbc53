"""NICs that manage the NVSwitches of a host's GPU board, and lead to no other host.

With NVLink 5 an NVSwitch is no PCI device of the host: functions of a ConnectX-7 on the board manage it, and look like
any rail's NIC. Their vital product data (VPD) tells them: it holds ``SW_MNG`` (NVIDIA's nvidia-fabricmanager-start.sh
580.178.04, which starts the NVLink subnet manager on one of them).
"""

from __future__ import annotations

from .host import Host
from .pci_functions import MELLANOX, NETWORK, functions
from .rail_names import read_names

_MARK = "SW_MNG"


def managers(host: Host) -> dict[str, bool | None]:
    """Return of each NIC by its PCI address whether it manages NVSwitches; None: its VPD could not be read.

    A function without VPD, as a virtual one, manages none. Nothing else of the VPD is kept: it has serial numbers.
    """
    candidates = functions(host, MELLANOX, NETWORK)
    nics = sorted(functions(host, "", NETWORK))
    return {address: _manages(host, address) if address in candidates else False for address in nics}


def managing_devices(host: Host) -> frozenset[str]:
    """Return the RDMA devices of the NICs that manage NVSwitches."""
    found = [address for address, manages in managers(host).items() if manages]
    names = read_names(host).devices if found else {}
    return frozenset(name for address in found for name in names.get(address, ()))


def _manages(host: Host, address: str) -> bool | None:
    for path in host.paths(f"/sys/bus/pci/devices/{address}/vpd"):
        output = host.read(path)
        return _MARK in output.stdout if output.rc == 0 else None
    return False
